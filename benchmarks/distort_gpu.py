"""The rows of `benchmarks.distort` that need CUDA. The bars in seconds are for an H200."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.common import Row
from benchmarks.distort_peers import alma, ddn, tuned
from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.images import to_floats
from foible.recipes.train.train import train
from foible.search.nearest import Model
from foible.search.nearest.closest import closest
from foible.search.nearest.one_judge import as_text, under_one_judge
from foible.search.nearest.wrap import wrap


def _timed(model: Model, images: Tensor, labels: Tensor, targets: Tensor, rows: int) -> tuple[float, float, float]:
    """Seconds for all images, a share of `rows` at a time; the share found; gradients per row."""
    closest(model, images[:rows], labels[:rows], targets=targets[:rows])  # kernels are chosen, memory is taken
    torch.cuda.synchronize()
    started, found, spent = time.perf_counter(), 0, 0
    for at in range(0, len(images), rows):
        part = slice(at, at + rows)
        result = closest(model, images[part], labels[part], targets=targets[part])
        found, spent = found + int(result.found.sum()), spent + int(result.backwards.sum())
    torch.cuda.synchronize()
    return time.perf_counter() - started, found / len(images), spent / len(images)


def _row(what: str, seconds: float, bar: float, found: float, spent: float) -> Row:
    print(f"{what}: {seconds:.1f} s, found {100 * found:.2f} %, {spent:.0f} gradients each", flush=True)
    return Row(what, seconds, bar, "the bar, for an H200", seconds / bar, 1, "s", at_most=True)


def mnist_on_gpu(basket: Basket, data: Dataset, rows: int = 30_000) -> list[Row]:
    """Every test image to every other label, for the widest network of the basket."""
    network = max(basket.names, key=lambda name: _widest(basket, name))
    there = Basket.open(basket.source or [], device="cuda")
    images, labels = to_floats(data.images).to("cuda"), data.labels.to("cuda")
    k = len(basket.classes) - 1
    others = torch.arange(k + 1, device="cuda").expand(len(labels), -1)
    targets = others[others != labels[:, None]]
    seconds, found, spent = _timed(
        lambda x: there.judge(x, [network])[0],
        images.repeat_interleave(k, 0),
        labels.repeat_interleave(k),
        targets,
        rows,
    )
    return [_row(f"{network}: {len(images):,} images × {k} targets", seconds, 60, found, spent)]


def _widest(basket: Basket, name: str) -> int:
    """The second layer's inputs: 200 for 200-200-10, and no autoencoder."""
    layers = [m for m in basket.network(name).modules() if isinstance(m, torch.nn.Linear)]  # type: ignore[union-attr]
    return layers[1].in_features if len(layers) == 3 else 0


def resnet50(count: int = 1000, rows: int = 250) -> list[Row]:
    """torchvision's ResNet-50 with random weights, its normalisation fitted to the images: only the time matters. Each
    image is to become the class after the network's own answer."""
    try:
        from torchvision.models import resnet50 as build
    except Exception as error:  # a torchvision for another torch raises RuntimeError
        print(f"torchvision cannot be used ({error}): the ResNet-50 row is left out")
        return []
    torch.manual_seed(0)
    network = build(num_classes=1000).to("cuda")
    images = _pictures(count).to("cuda")
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = None  # a plain average over what is shown
        for at in range(0, min(count, 256), 64):
            network(images[at : at + 64])
    network.eval().requires_grad_(False)
    with torch.no_grad():
        labels = torch.cat([network(images[at : at + rows]).argmax(1) for at in range(0, count, rows)])
    seconds, found, spent = _timed(network, images, labels, (labels + 1) % 1000, rows)
    return [_row(f"ResNet-50 at 224×224, {count:,} images, fixed target", seconds, 300, found, spent)]


def _pictures(count: int) -> Tensor:
    """CIFAR-10's test images made large, or smooth noise where they are not at hand."""
    try:
        small = to_floats(load("cifar10", split="test", quiet=True).images[:count])
    except UserError:
        small = torch.rand(count, 3, 14, 14)
    return torch.nn.functional.interpolate(small, (224, 224), mode="bilinear", align_corners=False).clamp(0, 1)


def cifar(folder: Path | None, scratch: Path, count: int = 256, device: str = "cuda", steps: int = 1000) -> list[Row]:
    """closest against DDN and ALMA on a ResNet-20: nearer on average, and for no more gradients."""
    if folder is None:
        folder = scratch / "resnet"
        train("resnet:20", "cifar10", out=folder, augment="crops", device=device)
    basket = Basket.open(folder, device=device)
    name = basket.names[0]
    data = load("cifar10", split="test", quiet=True)
    answers = basket.predict(data.images[: 2 * count])[0].argmax(1).cpu()
    right = (answers == data.labels[: 2 * count]).nonzero()[:count, 0]
    images, labels = to_floats(data.images[right]), data.labels[right]
    firsts = [partial(alma, steps=steps, first=first) for first in (0.1, 0.3, 1.0)]
    methods = {
        "closest": partial(closest, effort=steps),
        f"DDN, {steps} steps": wrap(partial(ddn, steps=steps)),
        f"ALMA, {steps} steps, first step tuned": tuned([wrap(attack) for attack in firsts]),
    }
    lines = under_one_judge(methods, basket, name, images, labels)
    print(f"\n{name} on CIFAR-10, {len(images)} images\n{as_text(lines)}", flush=True)
    ours, rows = lines[0], []
    rows.append(Row(f"{name}: success of closest", ours.success, 1, "all", ours.success, 1))
    for line in lines[1:]:
        both = line.distances.isfinite() & ours.distances.isfinite()
        a, b = float(ours.distances[both].mean()), float(line.distances[both].mean())
        rows += [
            Row(f"{name}, CIFAR-10: mean L2", a, b, line.name, a / b, 1, at_most=True),
            Row(f"{name}, CIFAR-10: gradients", ours.backwards, line.backwards, line.name,
                ours.backwards / line.backwards, 1, at_most=True),
        ]  # fmt: skip
    return rows
