"""Training together against training one after another: `python -m benchmarks.fleet [--json FILE] [--device cuda]`.

`--only epochs`: both sides have the same networks, batch size, number of steps and fused Adam, and data that are
already on the device; both draw a new order for each epoch. Times are of whole epochs in the steady state, taken in
turns, and each ratio is that of the medians.

`--only boundary`: paper 4's networks, a hundred of each trained until their test accuracy stands in a band around a
target, looks and retries counted in. Against a few of them by the same code one after another, times a hundred by
these; and the seconds of the whole command, data and imports counted in. On a CPU `--members 4 --data digits --networks
mlp:8 --target 0.9 --within 0.01` tries it out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.common import Row, arguments, report
from foible.data import load
from foible.networks.fleet import Fleet, members_at_once
from foible.networks.fresh import fresh_module
from foible.networks.loop import Place, Schedule, Turn, loop
from foible.networks.material import Material, batches
from foible.networks.preprocess import Preprocess
from foible.recipes.train.config import TrainConfig
from foible.recipes.train.fleets import fleets

BATCH = 128
SHAPE = (1, 28, 28)
CLASSES = 10


def one_after_another(spec: str, count: int, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """Plain PyTorch: a module, fused Adam, float images on the device. An epoch of each network in turn."""
    networks = [fresh_module(spec, SHAPE, CLASSES, seed).to(images.device).train() for seed in range(count)]
    optimisers = [torch.optim.Adam(network.parameters(), lr=1e-3, fused=True) for network in networks]

    def epoch() -> None:
        for network, optimiser in zip(networks, optimisers, strict=True):
            teach(network, optimiser)

    def teach(network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        shuffled = torch.randperm(len(images), device=images.device)
        for index in shuffled[: len(images) // BATCH * BATCH].split(BATCH):
            loss = F.cross_entropy(network(images[index]), labels[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return epoch


def together(spec: str, count: int, material: Material) -> Callable[[], None]:
    """The loop of `foible train`: an epoch of every group of the fleet (on a GPU there is one group)."""
    device = material.images.device
    modules = [fresh_module(spec, SHAPE, CLASSES, seed) for seed in range(count)]
    size = members_at_once(modules[0], device) or count
    groups = [range(start, min(start + size, count)) for start in range(0, count, size)]
    fleets = [Fleet([modules[seed] for seed in group], group, device=device) for group in groups]
    places = [Place.start(group, device) for group in groups]
    epochs = 0

    def teach(fleet: Fleet, place: Place) -> None:
        def step(turn: Turn) -> Tensor:
            return fleet.step(*batches(material, turn.rows, Preprocess()), turn.number)

        def after(sums: Tensor | None) -> None:
            assert sums is None or sums.isfinite().all()

        loop(Schedule(len(material.images), BATCH, epochs, 1e-3), place, step, after)

    def epoch() -> None:
        nonlocal epochs
        epochs += 1
        for fleet, place in zip(fleets, places, strict=True):
            teach(fleet, place)

    return epoch


def seconds(work: Callable[[], None], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def compare(what: str, spec: str, count: int, steps: int, bar: float, device: torch.device, repeats: int) -> Row:
    pixels = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (steps * BATCH, *SHAPE), generator=pixels, dtype=torch.uint8).to(device)
    labels = torch.randint(0, CLASSES, (len(images),), generator=pixels).to(device)
    ours = together(spec, count, Material(images, labels, None, CLASSES))
    peer = one_after_another(spec, count, images.to(torch.float32) / 255, labels)
    ours(), peer()  # warm up: allocations, choice of kernels
    times = [(seconds(ours, device), seconds(peer, device)) for _ in range(repeats)]
    a, b = (statistics.median(side) for side in zip(*times, strict=True))
    return Row(f"{count} {what} on {device.type}", a, b, "one after another", b / a, bar, unit="s")


def to_target(
    spec: str, seeds: Sequence[int], data: str, target: float, within: float, device: torch.device
) -> tuple[float, int, int]:
    """Seconds until every seed was kept at the target or given up; how many were kept, and from a second seed."""
    config = TrainConfig((spec,), data, tuple(seeds), rate=5e-4, target=(target,), within=within)
    train, test = load(data, "train", quiet=True), load(data, "test", quiet=True)
    kept = list[str]()

    def work() -> None:
        for _, _, outcome in fleets(config, train, test, device, quiet=True):
            kept.extend(outcome.trained)

    took = seconds(work, device)
    return took, len(kept), sum(int(name.partition("@")[0]) not in seeds for name in kept)


def boundary(
    spec: str, bar: float, members: int, alone: int, data: str, target: float, within: float, device: torch.device
) -> list[Row]:
    """A fleet of so many to the target, so many one after another, and the command. bar: seconds of the command."""
    to_target(spec, [members], data, target, within, device)  # warm up: libraries, choice of kernels
    took, kept, again = to_target(spec, range(members), data, target, within, device)
    print(
        f"{members} {spec}: {kept} stand at {target:g} ± {within:g}, {again} from a second seed: {took:.1f} s",
        flush=True,
    )
    each = [to_target(spec, [seed], data, target, within, device)[0] for seed in range(alone)]
    print(f"{alone} {spec} one after another: {', '.join(f'{one:.2f}' for one in each)} s", flush=True)
    peer = sum(each) * members / alone
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", "from foible.cli import main; main()", "train", spec, "--seeds", str(members),
             "--data", data, "--rate", "5e-4",
             "--target", str(target), "--within", str(within), "--device", device.type, "--out", str(Path(folder, "b")),
             "--json"],
            capture_output=True, text=True,
        )  # fmt: skip
        whole = time.perf_counter() - began
    if len(json.loads(done.stdout or "{}").get("networks", ())) != kept:
        raise RuntimeError(f"the command came to something else: {done.stdout[-500:]}{done.stderr[-500:]}")
    what = f"{members} {spec} to {100 * target:g} % on {device.type}"
    return [
        Row(
            f"{what}, {kept} kept",
            took,
            peer,
            f"{alone} one after another × {members / alone:g}",
            peer / took,
            5.0,
            "s",
        ),
        Row(f"{what}, whole command", whole, bar, "bar", whole, bar, "s", at_most=True),
    ]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=("epochs", "boundary"), default="epochs")
    parser.add_argument("--networks", default="mlp4 cnn4", help="of --only boundary, with blanks between")
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--alone", type=int, default=5)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--target", type=float, default=0.98)
    parser.add_argument("--within", type=float, default=0.0005)
    given = parser.parse_args()
    device = torch.device(given.device)
    if given.only == "boundary":
        bars = {"mlp4": 120.0, "cnn4": 360.0}
        rows = [
            row
            for spec in given.networks.split()
            for row in boundary(
                spec, bars.get(spec, 600.0), given.members, given.alone, given.data, given.target, given.within, device
            )
        ]
        report(rows, given.json)
        return
    if device.type == "cuda":
        cases = [
            ("MLPs of 500 units", "mlp:500", 10, 468, 4.0),
            ("MLPs of 500 units", "mlp:500", 100, 468, 40.0),
            ("LeNets", "lenet", 100, 100, 5.0),
            ("CNNs of paper 4", "cnn4", 100, 30, 5.0),
        ]
    else:
        cases = [("MLPs of 500 units", "mlp:500", 10, 100, 1.3)]
    report([compare(*case, device, given.repeats) for case in cases], given.json)


if __name__ == "__main__":
    main()
