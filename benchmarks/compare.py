"""Compare two ResNet-20s over CIFAR-10's test set, against their forward passes alone."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.common import Row, arguments, report
from foible import Basket, UserError, compare
from foible.basket.judging import batch_size, judged
from foible.data import Dataset, load
from foible.images import to_floats
from foible.networks import zoo
from foible.processes import cores, one_thread


def networks() -> Basket:
    """Two ResNet-20s that differ somewhat, with no training: only the time matters here."""
    torch.manual_seed(0)
    first, second = (zoo.build("resnet:20", (3, 32, 32), 10) for _ in range(2))
    changed = {
        name: value + 0.003 * torch.randn_like(value) if value.is_floating_point() else value
        for name, value in first.state_dict().items()
    }
    second.load_state_dict(changed)
    return Basket({"old": first, "new": second}, classes=tuple(map(str, range(10))), preprocess="inside")


def pictures() -> Dataset:
    try:
        data = load("cifar10", "test", quiet=True)
    except UserError:
        print("CIFAR-10 is not here: noise of its size takes its place")
        images = torch.randint(0, 256, (10_000, 3, 32, 32), dtype=torch.uint8)
        data = Dataset("noise", "test", images, torch.zeros(10_000, dtype=torch.int64), tuple(map(str, range(10))))
    return dataclasses.replace(data, classes=tuple(map(str, range(10))))


def answered(basket: Basket, data: Dataset) -> Dataset:
    """Labels as the first network gives them, but for one in five: about as many mistakes as real networks make."""
    said = torch.cat([part.logits[0].argmax(1) for part in judged(basket, data)])
    wrong = torch.arange(len(said)) % 5 == 0
    return dataclasses.replace(data, labels=torch.where(wrong, (said + 3) % 10, said))


@torch.no_grad()
def forward_passes(basket: Basket, data: Dataset) -> None:
    """Both networks over all images: whole batches on every core, one torch thread each."""
    modules = [basket.network(name) for name in basket.names]

    @torch.no_grad()
    def work(images: torch.Tensor) -> None:
        torch.set_num_threads(1)
        floats = to_floats(images)
        for module in modules:
            module(floats)

    with one_thread(), ThreadPoolExecutor(cores()) as pool:
        list(pool.map(work, data.images.split(batch_size(data, [], "cpu"))))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    basket = networks()
    data = answered(basket, pictures())
    wholes, floors = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for repeat in range(options.repeats):
            started = time.perf_counter()
            summary = compare(basket, data, out=Path(scratch) / str(repeat), quiet=True)
            wholes.append(time.perf_counter() - started)
            started = time.perf_counter()
            forward_passes(basket, data)
            floors.append(time.perf_counter() - started)
    whole, floor = min(wholes), min(floors)
    name = f"compare of two ResNet-20s, {len(data):,} images, {summary['findings']:,} findings"
    report([Row(name, whole, floor, "their forward passes alone", floor / whole, 0.9, "s")], options.json)


if __name__ == "__main__":
    main()
