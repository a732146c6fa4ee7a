"""The hunt against the paper's loop, its own floor, and itself at ten times the size.

    python -m benchmarks.hunt --json FILE [--trials 8000] [--only speed,efficiency,resnet,growth]

Ratios of one run on one machine: absolute times mean little elsewhere.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.common import Row, arguments, report
from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.images import to_floats
from foible.processes import one_thread
from foible.randomness import integers
from foible.recipes.hunt.recipe import hunt
from foible.recipes.train.train import train
from foible.search import Trials
from foible.spaces import Affine
from foible.spaces.affine import warp

MLPS = ("mlp:10", "mlp:20", "mlp:30", "mlp:40", "mlp:50")
CONFIDENCE = 0.9
SEARCH_ALONE = {"shrink": False, "realism": "none"}  # what a find is asked afterwards is not part of these ratios


def data_spec() -> str:
    """MNIST where it is at hand, else the bundled digits (the table says which)."""
    try:
        load("mnist", quiet=True)
    except UserError:
        return "digits"
    return "mnist"


def some_trials(basket: Basket, data: Dataset, count: int) -> Trials:
    right = (basket.predict(data.images).argmax(2) == data.labels).all(0).nonzero()[:, 0]
    lanes = torch.arange(count)
    index = right[integers(0, lanes, stream="hunt.seeds", high=len(right), count=1)[:, 0]]
    return Trials(lanes, data.images[index], data.labels[index])


@torch.no_grad()
def papers_loop(basket: Basket, trials: Trials, suspect: str, seconds: float, patience: int = 250) -> tuple[int, float]:
    """Paper 1's procedure as anyone would write it: one candidate of one trial at a time; (candidates, seconds).

    The peers are asked first, as the paper has it. Networks are plain modules; the transform is torch's own
    affine_grid and grid_sample.
    """
    networks = {name: basket.network(name) for name in basket.names}
    peers = basket.peers(suspect)
    generator = torch.Generator().manual_seed(0)
    tried, started = 0, time.perf_counter()
    for seed_image, aim_tensor in zip(trials.seeds, trials.aims, strict=True):
        aim, image = int(aim_tensor), to_floats(seed_image)[None]
        theta = torch.eye(3)
        held = float(networks[suspect](image).softmax(1)[0, aim])
        stale = 0
        while stale < patience:
            move = small_affine(torch.rand(6, generator=generator), image.shape[-1])
            candidate_theta = theta @ move
            grid = torch.nn.functional.affine_grid(candidate_theta[None, :2], list(image.shape), align_corners=False)
            candidate = torch.nn.functional.grid_sample(image, grid, align_corners=False)
            tried += 1
            stale += 1
            agree = True
            for name in peers:
                answer = networks[name](candidate).softmax(1)[0]
                agree &= int(answer.argmax()) == aim and float(answer[aim]) >= CONFIDENCE
            answer = networks[suspect](candidate).softmax(1)[0]
            if agree and float(answer[aim]) < held:
                theta, held, stale = candidate_theta, float(answer[aim]), 0
                if int(answer.argmax()) != aim:
                    break
        if time.perf_counter() - started > seconds:
            break
    return tried, time.perf_counter() - started


def small_affine(uniforms: Tensor, size: int) -> Tensor:
    """(3, 3), from output to input, in units of half the image."""
    top = Affine().matrix_of(uniforms[None])[0]
    top[:, 2] *= 2 / size
    return torch.cat([top, torch.tensor([[0.0, 0.0, 1.0]])])


def speed(basket_folder: Path, spec: str, trials: int, workers: int, scratch: Path) -> Row:
    """Inferences a second, all five networks a candidate on both sides, as the paper counts."""
    basket = Basket.open(basket_folder)
    data = load(spec, quiet=True)
    suspect = basket.names[0]
    with one_thread():
        tried, seconds = papers_loop(basket, some_trials(basket, data, 400), suspect, seconds=25)
    started = time.perf_counter()
    hunt(
        basket_folder, spec, suspect=suspect, trials=trials, peer_confidence=CONFIDENCE, out=scratch / "speed",
        workers=workers, unit=trials // workers, quiet=True, **SEARCH_ALONE,
    )  # fmt: skip
    ours = time.perf_counter() - started
    candidates = _candidates(scratch / "speed")
    k = len(basket)
    peer_rate, our_rate = k * tried / seconds, k * candidates / ours
    return Row(f"hunt of {trials:,} trials, five MLPs on {spec}, {workers} workers", our_rate, peer_rate,
               "the paper's loop, one trial at a time", our_rate / peer_rate, 60, "inferences/s")  # fmt: skip


def _candidates(run: Path) -> int:
    import pyarrow.compute as pc

    from foible.findings import read_shard, shard_files

    return sum(pc.sum(read_shard(file, ["candidates"]).column("candidates")).as_py() for file in shard_files(run))


def one_by_one() -> Any:
    """No lane looks ahead: what is recorded then is what a search needs, and not what it throws away."""
    return mock.patch("foible.search.climb.hill_climb.steps_ahead", return_value=1)


class _RecordingBasket(Basket):
    """A basket that notes every batch, so that the same work can be done again with nothing around it."""

    log: list[tuple[str, int, tuple[str, ...]]]

    @classmethod
    def of(cls, basket: Basket) -> _RecordingBasket:
        recording = cls.__new__(cls)
        recording.__dict__.update(basket.__dict__)
        recording.log = []
        return recording

    def judge(self, images: Tensor, names: Sequence[str] | None = None, precision: Any = "float32") -> Tensor:
        self.log.append(("judge", max(len(images), 16), tuple(self.names if names is None else names)))
        return super().judge(images, names, precision)

    def judge_views(self, images: Mapping[str, Tensor]) -> Tensor:
        self.log.append(("judge", max(16, *(len(view) for view in images.values())), tuple(images)))
        return super().judge_views(images)


class _RecordedSpace(Affine):
    log: list[tuple[str, int, tuple[str, ...]]] = []  # noqa: RUF012 (replaced before use)

    def render(self, points: Any) -> Tensor:
        self.log.append(("warp", len(points.image), ()))
        return super().render(points)


@torch.no_grad()
def efficiency(
    basket: Basket, data: Dataset, name: str, bar: float, repeats: int, scratch: Path, **options: Any
) -> Row:
    """Forward passes and warps alone, same numbers and batch sizes, against the whole of `hunt`, shards included.

    One process, one thread, in processor time; the best of a few repeats on both sides, taken in turn.
    """
    recording = _RecordingBasket.of(basket)
    _RecordedSpace.log = recording.log
    settings = {"suspect": basket.names[0], "quiet": True, "workers": 1, **SEARCH_ALONE, **options}
    with one_by_one():
        hunt(recording, data, space=_RecordedSpace(), out=scratch / f"recorded {name}", **settings)
    largest = max(size for _, size, _ in recording.log)
    images = to_floats(data.images[:largest]).repeat(1 + largest // len(data), 1, 1, 1)[:largest].contiguous()
    matrix = Affine().matrix_of(torch.rand(largest, 6))
    wholes, floors = [], []
    with one_thread():
        for repeat in range(repeats):
            started = time.process_time()
            hunt(basket, data, out=scratch / f"{name} {repeat}", **settings)
            wholes.append(time.process_time() - started)
            started = time.process_time()
            shown = images
            for kind, size, names in recording.log:
                if kind == "warp":
                    shown = warp(images[:size], matrix[:size])
                else:
                    for network in names:
                        basket.network(network)((shown if len(shown) >= size else images)[:size])
            floors.append(time.process_time() - started)
    whole, floor = min(wholes), min(floors)
    return Row(f"efficiency, {name}", whole, floor, "its forward passes and warps alone", floor / whole, bar, "s")


def _memory() -> float:
    """MiB of the highest peak so far of this process or any of its children (Linux; elsewhere 0)."""
    peaks = [0]
    with suppress(OSError):
        tasks = Path("/proc/self/task").iterdir()
        for pid in ("self", *(child for task in tasks for child in (task / "children").read_text().split())):
            with suppress(OSError):  # a child may just have ended
                status = Path(f"/proc/{pid}/status").read_text()
                peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks) / 1024


def _growth_part(folder: str, spec: str, trials: int, out: str, workers: int, send: Any) -> None:
    """One hunt in a process of its own; its peak is sampled, because ru_maxrss is inherited from the parent."""
    peak, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], _memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    hunt(folder, spec, suspect="mlp-10", trials=trials, peer_confidence=CONFIDENCE, out=out, workers=workers, unit=500,
         quiet=True, **SEARCH_ALONE)  # fmt: skip
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    send.send((seconds, peak[0]))


def growth(basket_folder: Path, spec: str, base: int, workers: int, scratch: Path) -> list[Row]:
    """Ten times the trials: time, and peak memory of the largest process."""
    measured = []
    for index, trials in enumerate((base, 10 * base)):
        receive, send = get_context("spawn").Pipe(duplex=False)
        arguments_ = (str(basket_folder), spec, trials, str(scratch / f"growth{index}"), workers, send)
        process = get_context("spawn").Process(target=_growth_part, args=arguments_)
        process.start()
        measured.append(receive.recv())
        process.join()
    (small, small_memory), (large, large_memory) = measured
    return [
        Row(f"time of {10 * base:,} trials", large, small, f"{base:,} trials", large / small, 10.2, "s", at_most=True),
        Row(f"peak memory of {10 * base:,} trials", large_memory, small_memory, f"{base:,} trials",
            large_memory / small_memory, 1.1, "MiB", at_most=True),
    ]  # fmt: skip


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=40_000)
    parser.add_argument("--growth-base", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="speed,efficiency,resnet,growth")
    options = parser.parse_args()
    wanted = set(options.only.split(","))
    spec = data_spec()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        train(list(MLPS), spec, out=scratch / "mlps")
        if "speed" in wanted:
            rows.append(speed(scratch / "mlps", spec, options.trials, options.workers, scratch))
        if "efficiency" in wanted:
            basket, data = Basket.open(scratch / "mlps"), load(spec, quiet=True)
            name = f"five MLPs on {spec}, {options.trials // 2:,} trials"
            rows.append(
                efficiency(
                    basket,
                    data,
                    name,
                    0.65,
                    1,
                    scratch,
                    trials=options.trials // 2,
                    unit=options.trials // 2,
                    peer_confidence=CONFIDENCE,
                )
            )
        if "resnet" in wanted:
            name = "two ResNet-20s, 32×32 RGB, 64 trials"
            rows.append(efficiency(*resnets(), name, 0.95, 1, scratch, trials=64, patience=20))
        if "growth" in wanted:
            rows += growth(scratch / "mlps", spec, options.growth_base, options.workers, scratch)
    report(rows, options.json)


def resnets() -> tuple[Basket, Dataset]:
    """Two ResNet-20s that differ a little, and noise that they agree on: only the time matters here."""
    from foible.networks import zoo

    torch.manual_seed(0)
    first, second = (zoo.build("resnet:20", (3, 32, 32), 10) for _ in range(2))
    second.load_state_dict(
        {name: value * 1.001 if value.is_floating_point() else value for name, value in first.state_dict().items()}
    )
    basket = Basket({"one": first, "two": second}, classes=[str(i) for i in range(10)], preprocess="inside")
    images = (torch.rand(200, 3, 32, 32) * 255).to(torch.uint8)
    answers = basket.predict(images).argmax(2)
    same = (answers[0] == answers[1]).nonzero()[:, 0]
    return basket, Dataset("noise", "train", images[same], answers[0][same], basket.classes, ())


if __name__ == "__main__":
    main()
