"""Ranking a pool in bounded memory: four times the images, the same peak.

    python -m benchmarks.pool --json FILE [--images 5000] [--size 32]

The images are made here, each of its own, in a folder of PNG files; the networks are two-layer perceptrons with fresh
weights, which dissent often, so that there is much to rank. Each side runs in a process of its own.
"""

from __future__ import annotations

import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import Row, arguments, report
from foible.basket import Basket
from foible.images import encode_pngs
from foible.networks import zoo
from foible.networks.preprocess import Preprocess
from foible.recipes.rank.recipe import rank, read_summary

CLASSES = tuple(f"class {k}" for k in range(10))


def made(folder: Path, count: int, size: int) -> str:
    """A folder of smooth random images; its spec."""
    folder.mkdir()
    drawn = np.random.default_rng(0)
    for start in range(0, count, 1000):
        rough = torch.from_numpy(drawn.random((min(1000, count - start), 3, 5, 5), np.float32))
        smooth = torch.nn.functional.interpolate(rough, (size, size), mode="bicubic").clamp(0, 1)
        for number, png in enumerate(encode_pngs((smooth * 255).to(torch.uint8).numpy()), start):
            (folder / f"{number:07d}.png").write_bytes(png)
    return f"folder:{folder}"


def _part(spec: str, out: Path, size: int, send: Any) -> None:
    """Rank all of it; sends the peak of resident memory in MiB (Linux) and how many images dissent."""
    torch.manual_seed(0)
    networks = {f"network {k}": zoo.build("mlp:20", (3, size, size), len(CLASSES)) for k in range(3)}
    strong = Preprocess((0.5,) * 3, (0.05,) * 3)  # so that answers come from the image, not from the biases
    basket = Basket(networks, classes=CLASSES, preprocess=strong, shape=(3, size, size))
    rank(basket, spec, out=out, canvas=str(size), top=200, unit=1000, quiet=True)
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    send.send((peak, sum(row["dissent"] for row in read_summary(out)["suspects"])))


def memory(count: int, size: int, scratch: Path) -> Row:
    peaks, dissents = [], []
    for images in (count, 4 * count):
        spec = made(scratch / f"pool {images}", images, size)
        receive, send = get_context("spawn").Pipe(duplex=False)
        process = get_context("spawn").Process(target=_part, args=(spec, scratch / f"run {images}", size, send))
        process.start()
        send.close()
        peak, dissent = receive.recv()
        process.join()
        peaks.append(peak)
        dissents.append(dissent)
    assert dissents[1] > 2 * dissents[0] > 0  # there was more to rank
    small, large = peaks
    return Row(f"peak memory of ranking {4 * count:,} images, {dissents[1]:,} of which dissent", large, small,
               f"{count:,} images", large / small, 1.1, "MiB", at_most=True)  # fmt: skip


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--size", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report([memory(options.images, options.size, Path(name))], options.json)


if __name__ == "__main__":
    main()
