"""Training together against training one after another: `python -m benchmarks.fleet [--json FILE] [--device cuda]`.

Both sides have the same networks, batch size, number of steps and fused Adam, and data that are already on the
device; both draw a new order for each epoch. Times are of whole epochs in the steady state, taken in turns, and each
ratio is that of the medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.common import Row, arguments, report
from foible.networks.fleet import Fleet, members_at_once
from foible.networks.loop import Place, Schedule, Turn, loop
from foible.networks.material import Material, batches
from foible.networks.preprocess import Preprocess
from foible.networks.training import fresh_module

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


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda":
        cases = [
            ("MLPs of 500 units", "mlp:500", 10, 468, 4.0),
            ("MLPs of 500 units", "mlp:500", 100, 468, 40.0),
            ("LeNets", "lenet", 100, 100, 5.0),
        ]
    else:
        cases = [("MLPs of 500 units", "mlp:500", 10, 100, 1.3)]
    report([compare(*case, device, given.repeats) for case in cases], given.json)


if __name__ == "__main__":
    main()
