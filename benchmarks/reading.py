"""Photographs into batches, and into judged batches, against plain Pillow and the forward passes alone.

    python -m benchmarks.reading --json FILE [--images 4000] [--judged 320] [--only reading,judging,memory]

The photographs are the 80 of FOIBLE_DATA/photos, repeated. Where the same cores decode and judge, they do one after the
other, so judging cannot reach 0.9 of the slower where the quicker takes more than a tenth of the time: a network much
smaller than this one fails that bar by arithmetic. The row beside it is against both in turn, which is what
a CPU can do at best. Sides are measured in turn and the best of each counts; a ratio of judging to forward passes above
1 is impossible and says that something else was running.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from benchmarks.common import Row, arguments, report
from foible.basket import Basket
from foible.basket.judging import batch_size, judged
from foible.data import open_data, stream
from foible.data.places import data_folder
from foible.networks import zoo
from foible.processes import cores, one_thread
from foible.views import View

CHUNK = 20  # files to a task of the baseline's pools


def photographs() -> list[Path]:
    home = data_folder()
    found = sorted((home / "photos").glob("*/*")) if home else []
    if not found:
        raise SystemExit("set FOIBLE_DATA to a folder with photos/ in it, one folder a class")
    return found


def repeated(files: Sequence[Path], count: int, folder: Path) -> str:
    """A folder of `count` links to the files, one folder a class as before; its spec."""
    for number in range(count):
        file = files[number % len(files)]
        link = folder / file.parent.name / f"{number:07d}{file.suffix}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file.resolve())
    return f"folder:{folder}"


def pillow(files: Sequence[str], size: int) -> int:
    """What anyone would write: decode, RGB, and with a size crop and resize to it. Bytes, so that it must be done."""
    done = 0
    for file in files:
        with Image.open(file) as opened:
            image = opened.convert("RGB")
            if size:
                image = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
                done += np.asarray(image).nbytes
    return done


def pillow_rate(files: Sequence[Path], count: int, size: int) -> float:
    """Images a second on all cores, by threads or by processes: whichever is faster."""
    every = [str(files[k % len(files)]) for k in range(count)]
    chunks = [every[k : k + CHUNK] for k in range(0, count, CHUNK)]
    pools: list[Executor] = [ThreadPoolExecutor(cores()), ProcessPoolExecutor(cores(), get_context("spawn"))]
    best = 0.0
    for pool in pools:
        with pool:
            list(pool.map(pillow, chunks[: 2 * cores()], [size] * 2 * cores()))  # processes start, files are cached
            best = max(best, count / seconds(lambda pool=pool: list(pool.map(pillow, chunks, [size] * len(chunks)))))
    return best


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def reading(files: Sequence[Path], spec: str, count: int, size: int, repeats: int) -> Row:
    data = open_data(spec, quiet=True)

    def ours() -> None:
        assert sum(len(batch.index) for batch in stream(data, [View((size, size))])) == count

    peers, own = [], []
    for _ in range(repeats):
        peers.append(pillow_rate(files, count, size))
        own.append(count / seconds(ours))
    rate, peer = max(own), max(peers)
    return Row(f"reading {count:,} photographs into batches of {size}×{size}", rate, peer,
               "Pillow, decode and resize on all cores", rate / peer, 0.9, "images/s")  # fmt: skip


def forward_rate(basket: Basket, count: int, size: int, batch: int) -> float:
    """Images a second of the forward passes alone: on a CPU one thread a core, each with whole batches."""
    network = basket.network(basket.names[0])
    images = torch.rand(batch, 3, size, size, device=basket.device)

    @torch.no_grad()
    def forward(_: int) -> None:
        if basket.device.type == "cpu":
            torch.set_num_threads(1)
        network(images).cpu()

    workers = cores() if basket.device.type == "cpu" else 1
    with one_thread(), ThreadPoolExecutor(workers) as pool:
        list(pool.map(forward, range(workers)))
        passes = max(workers, count // batch)
        return passes * batch / seconds(lambda: list(pool.map(forward, range(passes))))


def judging(files: Sequence[Path], spec: str, count: int, network: str, size: int, repeats: int) -> list[Row]:
    data = open_data(spec, quiet=True)
    torch.manual_seed(0)
    module = zoo.build(network, (3, size, size), len(data.classes))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    basket = Basket({"one": module}, classes=data.classes, preprocess="inside", device=device)
    view = View((size, size))
    index = torch.arange(count)
    batch = batch_size(data, [view], basket.device.type)

    def ours() -> None:
        seen = judged(basket, data, index=index, canvas=view, native=False)
        assert sum(len(part.index) for part in seen) == count

    decodes, resized, forwards, own = [], [], [], []
    for _ in range(repeats):
        decodes.append(pillow_rate(files, count, 0))
        resized.append(pillow_rate(files, count, size))
        forwards.append(forward_rate(basket, count, size, batch))
        own.append(count / seconds(ours))
    rate = max(own)
    what = f"judging {count:,} photographs with {network} at {size}×{size}, {device}"
    rates = {"Pillow, decode alone on all cores": max(decodes), "the forward passes alone": max(forwards)}
    slower = min(rates, key=rates.__getitem__)
    both = ", ".join(f"{name} {value:.0f}/s" for name, value in rates.items())
    rows = [Row(what, rate, rates[slower], f"the slower of: {both}", rate / rates[slower], 0.9, "images/s")]
    if basket.device.type == "cpu":
        floor = 1 / (1 / max(resized) + 1 / max(forwards))
        rows.append(Row(what, rate, floor, "Pillow's decode and resize, then the forward passes, on the same cores",
                        rate / floor, 0.9, "images/s"))  # fmt: skip
    return rows


def _memory_part(spec: str, size: int, send: Any) -> None:
    """Read all of it in a process of its own; sends the peak of resident memory in MiB (Linux)."""
    data = open_data(spec, quiet=True)
    for _ in stream(data, [View((size, size))]):
        pass
    status = Path("/proc/self/status").read_text()
    send.send(next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")))


def memory(files: Sequence[Path], count: int, size: int, scratch: Path) -> Row:
    peaks = []
    for images in (count, 4 * count):
        spec = repeated(files, images, scratch / f"memory {images}")
        receive, send = get_context("spawn").Pipe(duplex=False)
        process = get_context("spawn").Process(target=_memory_part, args=(spec, size, send))
        process.start()
        send.close()
        peaks.append(receive.recv())
        process.join()
    small, large = peaks
    return Row(f"peak memory of reading {4 * count:,} photographs", large, small, f"{count:,} photographs",
               large / small, 1.1, "MiB", at_most=True)  # fmt: skip


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--judged", type=int, default=320)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--network", default="resnet:20")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="reading,judging,memory")
    options = parser.parse_args()
    wanted = set(options.only.split(","))
    files = photographs()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        spec = repeated(files, max(options.images, options.judged), scratch / "photos")
        if "reading" in wanted:
            rows.append(reading(files, spec, max(options.images, options.judged), options.size, options.repeats))
        if "judging" in wanted:
            rows += judging(files, spec, options.judged, options.network, options.size, options.repeats)
        if "memory" in wanted and os.path.exists("/proc/self/status"):  # noqa: PTH110
            rows.append(memory(files, options.images // 4, options.size, scratch))
    report(rows, options.json)


if __name__ == "__main__":
    main()
