"""Minimal distortions towards every wrong label, and the three readings of "minimal": best, random and worst target.

Paper 3's D(x, l) belongs to a label l; which l its averages are over, it does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.matching import match
from foible.data import Dataset
from foible.data.stream import Threads, in_order
from foible.errors import UserError
from foible.networks.files import FILE
from foible.processes import cores, one_thread
from foible.progress import progress
from foible.randomness import integers, uniforms
from foible.search.nearest import Model, Nearest
from foible.studies.intriguing.networks.baskets import records
from foible.transfer import Source, rms

TARGETS = ("best", "random", "worst")
BATCH = 900  # rows at a time: a hundred images of ten classes
Method = Callable[..., Nearest]


@dataclass(frozen=True, eq=False)
class Asked:
    """Images to distort. origins: (n, channels, height, width) in [0, 1]; labels: (n,); targets: (n, k), the other
    classes in turn; drawn: (n,), which of the k is the random one."""

    origins: Tensor
    labels: Tensor
    targets: Tensor
    drawn: Tensor

    def head(self, count: int) -> Asked:
        return Asked(*(getattr(self, field.name)[:count] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Distorted:
    """What became of n images and k targets. images: (n, k, channels, height, width); found: (n, k);
    sizes: (n, k), RMS over the pixels, infinite where nothing was found; cost: mean gradients a row."""

    asked: Asked
    images: Tensor
    found: Tensor
    sizes: Tensor
    gradients: float

    def chosen(self, target: str) -> Tensor:
        """(n,): which of the k targets is the best (least distortion), the worst (most), or the random one.

        A target that was not reached is the worst only where none was.
        """
        if target == "random":
            return self.asked.drawn
        if target == "best":
            return self.sizes.argmin(1)
        return self.sizes.masked_fill(~self.found, -1.0).argmax(1)

    def taken(self, target: str) -> tuple[Tensor, Tensor, Tensor]:
        """(images (n, …), found (n,), sizes (n,)) at that target."""
        rows, place = torch.arange(len(self.sizes)), self.chosen(target)
        return self.images[rows, place], self.found[rows, place], self.sizes[rows, place]

    def source(self, target: str, method: str = "closest") -> Source:
        """As `foible.transfer` takes it."""
        return Source(self.taken(target)[0], self.asked.origins, self.asked.labels, target=target, method=method)

    def found_sizes(self, target: str) -> list[float]:
        """The RMS of those that were found."""
        _, found, sizes = self.taken(target)
        return [float(size) for size in sizes[found]]


def some_images(data: Dataset, basket: Basket, count: int, seed: int, stream: str) -> Asked:
    """`count` images of the data, drawn without order, each with every class but its own as a target."""
    met = match(data, basket)
    order = uniforms(seed, torch.arange(len(met.index)), stream=stream, count=1)[:, 0].argsort(stable=True)
    index = met.index[order[:count]]
    labels, classes = met.labels[index], len(basket.classes)
    others = torch.arange(1, classes)
    targets = (labels[:, None] + others) % classes
    drawn = integers(seed, torch.arange(len(index)), high=classes - 1, stream=f"{stream}.target", count=1)[:, 0]
    return Asked(data.floats(index), labels, targets, drawn)


def learnt_rows(basket: Basket, rows: int) -> int:
    """How many images of the training split, from its beginning, the networks learnt from; all where none says less."""
    if not basket.source or len(basket.source) > 1 or not (Path(basket.source[0]) / FILE).is_file():
        return rows
    said = [one.settings.get("images of the split", rows) for one in records(basket).values()]
    return min([rows, *(number for number in said if isinstance(number, int))])


def first_rows(data: Dataset, rows: int) -> Dataset:
    """The first images of a data set."""
    return data if rows >= len(data) else replace(data, images=data.images[:rows], labels=data.labels[:rows])


def model_of(basket: Basket, name: str) -> Model:
    """The network as methods take it: pixels in [0, 1] to logits."""
    return lambda images: basket.judge(images, [name])[0]


def every_target(method: Method, basket: Basket, name: str, asked: Asked, *, quiet: bool = True) -> Distorted:
    """Distort every image towards every one of its targets."""
    n, k = asked.targets.shape
    model = model_of(basket, name)

    def work(rows: Tensor) -> Nearest:
        device, image = basket.device, rows // k
        return method(
            model, asked.origins[image].to(device), asked.labels[image].to(device),
            targets=asked.targets.flatten()[rows].to(device),
        )  # fmt: skip

    parts = list(torch.arange(n * k).split(BATCH if basket.device.type == "cpu" else 10 * BATCH))
    with progress(f"Distorting for {name}", n * k, quiet=quiet) as bar:
        done = []
        for part in shared_out(work, parts, basket.device.type):
            done.append(part)
            bar.advance(len(part.found))
    return _gathered(asked, done, (n, k))


def leave(method: Method, basket: Basket, name: str, asked: Asked, **options: object) -> Distorted:
    """Distort every image until its label is lost, whatever comes instead: k = 1."""
    model = model_of(basket, name)

    def work(rows: Tensor) -> Nearest:
        origins, labels = asked.origins[rows].to(basket.device), asked.labels[rows].to(basket.device)
        return method(model, origins, labels, **options)

    parts = list(torch.arange(len(asked.labels)).split(BATCH))
    one = replace(asked, targets=asked.labels[:, None], drawn=torch.zeros_like(asked.drawn))
    return _gathered(one, list(shared_out(work, parts, basket.device.type)), (len(asked.labels), 1))


def shared_out(work: Callable[[Tensor], Nearest], parts: Sequence[Tensor], device: str) -> Iterator[Nearest]:
    """What `work` makes of each part, in order. On a CPU every core takes whole parts, with one torch thread each."""
    if device != "cpu":
        yield from map(work, parts)
        return

    def alone(part: Tensor) -> Nearest:
        torch.set_num_threads(1)  # of this thread
        return work(part)

    count = min(cores(), len(parts))
    with one_thread():
        yield from in_order(alone, parts, Threads(count, "foible-distort"), count + 1)


def _gathered(asked: Asked, parts: Sequence[Nearest], shape: tuple[int, int]) -> Distorted:
    images = torch.cat([part.images.detach().cpu() for part in parts])
    found = torch.cat([part.found.cpu() for part in parts])
    away = images - asked.origins.repeat_interleave(shape[1], 0)
    sizes = rms(away).masked_fill(~found, torch.inf)
    gradients = torch.cat([part.backwards.cpu() for part in parts]).double().mean()
    return Distorted(
        asked, images.view(*shape, *images.shape[1:]), found.view(shape), sizes.view(shape), float(gradients)
    )


def counted(value: int | None, default: int, what: str, most: int) -> int:
    """An option that counts images, checked."""
    number = default if value is None else value
    if number < 1:
        raise UserError(f"{what} is {number}: expected at least 1")
    return min(number, most)
