"""A judge outside the basket: what is this digit now, after moves or swaps?

A search can turn a 6 into a 9; the networks that took part in it cannot say so. The judge is a LeNet that never took
part, of another family than the papers' small networks, and it has learnt from images that were moved far and had
pixels exchanged, so that neither puts it off by itself. It stands in for a person, and errs: `floor` says how often,
on test images changed in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset, load
from foible.findings import Findings
from foible.images import to_bytes, to_floats
from foible.processes import one_thread
from foible.randomness import integers, uniforms
from foible.recipes.train.train import train
from foible.spaces import Affine

NETWORK = "lenet"
REACH = 4.0  # largest moves, each way: twice to three times as far as a hunt's finds lie
SWAPS = 80  # at most
MOST = 180_000  # changed images in memory


@dataclass(frozen=True)
class Judge:
    """basket: the one network. floor: the share of changed test images that it gets wrong, 0 to 1."""

    basket: Basket
    floor: float

    def says(self, findings: Findings) -> list[int]:
        """Its class of the image of every row, as an index into the findings' classes."""
        return says(self.basket, self.basket.names[0], findings)


def says(basket: Basket, name: str, findings: Findings) -> list[int]:
    """The class that one network gives the image of every row, as an index into the findings' classes."""
    if not len(findings):
        return []
    order = [basket.classes.index(one) for one in findings.classes]
    with one_thread():
        logits = basket.predict(torch.stack(findings.images()), [name])[0]
    return [int(k) for k in logits[:, order].argmax(1)]


def held_out_judge(data: str, out: Path, *, seed: int, shown: int, device: str = "auto", quiet: bool = False) -> Judge:
    """Train the judge into `out/judge`, once. shown: about how many changed images it is to see: a part of the training
    images, or copies of them each changed in its own way, as far as `MOST`, and from there on in several epochs."""
    lesson, test = load(data, "train", quiet=True), load(data, "test", quiet=True)
    some = slice(None, None, max(1, len(lesson) // shown))
    lesson = Dataset(lesson.name, "train", lesson.images[some], lesson.labels[some], lesson.classes)
    copies = max(1, min(shown, MOST) // len(lesson))
    with one_thread():  # a small convolution on two threads beside a busy process takes several times as long
        entries = train(
            [NETWORK],
            changed(lesson, seed=seed, copies=copies),
            test=changed(test, seed=seed + 1),
            seeds=[seed],
            out=out / "judge",
            epochs=max(1, round(shown / (copies * len(lesson)))),
            device=device,
            quiet=quiet,
        )
    return Judge(Basket.open(str(out / "judge"), device=device), 1 - entries[0].accuracy["test"])


def changed(data: Dataset, *, seed: int, copies: int = 1) -> Dataset:
    """`copies` of every image, each as likely to be moved as not, and as likely to have pixels exchanged as not."""
    parts = [_changed(data.images, seed, copy) for copy in range(copies)]
    name = f"{data.name}, moved up to {REACH:g} largest moves and up to {SWAPS} swaps"
    return Dataset(name, data.split, torch.cat(parts), data.labels.repeat(copies), data.classes)


@torch.no_grad()
def _changed(images: Tensor, seed: int, copy: int) -> Tensor:
    count, channels, height, width = images.shape
    space, rows = Affine(), torch.arange(count)
    what, drawn = uniforms(seed, rows, copy, stream="held_out.moves", count=2 + space.draws).split([2, space.draws], 1)
    moved = what[:, 0] < 0.5
    drawn = torch.where(moved[:, None], 0.5 + REACH * (drawn - 0.5), 0.5)  # 0.5 stays where it is
    chunks = zip(images.split(2000), drawn.split(2000), strict=True)
    with one_thread():
        made = [to_bytes(space.render(space.move(space.start(to_floats(part)), far))) for part, far in chunks]
    flat = torch.cat(made).flatten(2)
    swaps = ((2 * what[:, 1]).clamp(max=1) * -SWAPS + SWAPS).long()  # half have none, the others 1 to SWAPS
    for step in range(SWAPS):
        some = (swaps > step).nonzero()[:, 0]
        places = integers(seed, some, copy, member=step, stream="held_out.swaps", high=height * width, count=2)
        one, other = places.unbind(1)
        flat[some, :, one], flat[some, :, other] = flat[some, :, other], flat[some, :, one]
    return flat.view(count, channels, height, width)
