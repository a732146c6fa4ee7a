"""Where data and networks meet: classes by name, and photographs of any size on one canvas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from foible.basket import Basket
from foible.class_names import align, offers, positions
from foible.data import Dataset, Photographs
from foible.errors import UserError
from foible.text import cut, shown, some
from foible.views import View

Data = Dataset | Photographs


@dataclass(frozen=True, eq=False)
class Matched:
    """Data as a basket sees it.

    labels: (n,) int64, counted as the basket counts its classes; -1 where there is none.
    index: (m,) positions of the images whose class the networks know: what can be judged.
    canvas: what images are brought to before moves act on them; None takes them as they are.
    notes: a line for everything that was left out.
    """

    data: Data
    labels: Tensor
    index: Tensor
    canvas: View | None
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the images on the canvas."""
        if self.canvas is not None:
            return self.canvas.size
        assert isinstance(self.data, Dataset)
        height, width = self.data.images.shape[2:]
        return height, width

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of the images on the canvas."""
        channels = self.data.channels if isinstance(self.data, Photographs) else self.data.images.shape[1]
        return (channels, *self.size)

    def told(self, problem: tuple[int, str]) -> str:
        """An image that could not be read and why, as its data names it."""
        place, why = problem
        return f"{self.data.files[place] if self.data.files else place}: {why}"


def match(data: Data, basket: Basket, *, canvas: str | None = None, labelled: bool = True) -> Matched:
    """Match the data's classes with the basket's by name, and settle on a canvas (`224` or `WIDTHxHEIGHT`)."""
    view = _canvas(data, basket, canvas)
    if isinstance(data, Photographs) and data.look.grey is None and basket.shape and basket.shape[0] == 1:
        data = replace(data, look=replace(data.look, grey=True))  # networks of one channel see photographs in grey
    if not labelled:
        none = torch.full((len(data),), -1)
        return Matched(data, none, torch.arange(len(data)), view, data.notes)
    if bool((data.labels < 0).all()):
        raise UserError(f"{data.name!r} has no labels: give labelled data, or say --unlabelled where that is meant")
    places = align(data.classes, basket.classes)
    notes = [*data.notes]
    lists = list(basket.lists.values())
    if isinstance(data, Photographs) and all(one == basket.classes for one in lists) and not _any(places):
        places = positions(data.classes, basket.classes)  # folders and columns of numbers are often the networks' own
        if _any(places):
            notes.append(
                f"the classes of {data.name} are numbers: taken as places in the networks' list, from 0 (0 is "
                f"{cut(basket.classes[0])!r}); if they are not, give the data's names with classes=FILE"
            )
    unknown = [name for name, place in zip(data.classes, places, strict=True) if place is None]
    met = {*places}
    lone = [name for place, name in enumerate(basket.classes) if place not in met]
    if len(unknown) == len(data.classes):
        raise UserError(
            f"no class of the data {data.name!r} ({some(data.classes)}) is a class of the networks "
            f"({some(basket.classes)}){offers(unknown, lone)}: classes meet by name; give data of the networks' task, "
            "or the networks' class lists with classes=FILE"
        )
    mapped = torch.tensor([-1 if place is None else place for place in places])
    labels = torch.where(data.labels >= 0, mapped[data.labels.clamp_min(0)], -1)
    index = (labels >= 0).nonzero()[:, 0]
    if unknown:
        notes.append(
            f"{len(data) - len(index)} of {len(data)} images are left out: the networks do not know their classes "
            f"({some(unknown)}){offers(unknown, lone)}"
        )
    if not len(index):
        raise UserError(f"no image of {data.name!r} has a class that the networks know ({some(basket.classes)})")
    return Matched(data, labels, index, view, tuple(notes))


def _any(places: Sequence[int | None]) -> bool:
    return any(place is not None for place in places)


def _canvas(data: Data, basket: Basket, given: str | None) -> View | None:
    largest = basket.canvas
    if given is not None:
        sides = given.lower().split("x")
        if len(sides) > 2 or not all(side.isascii() and side.isdigit() for side in sides):
            raise UserError(f"canvas is {given!r}: expected pixels, such as 224 or 320x240 (width x height)")
        size = int(sides[-1]), int(sides[0])
        view: View | None = View(size, interpolation=largest.interpolation if largest else "bilinear")
    else:
        view = largest
    if isinstance(data, Dataset):
        height, width = data.images.shape[2:]
        return None if view is None or view.size == (height, width) else view
    if view is None:
        raise UserError(
            f"{shown(data.name)} holds photographs of any size, and no network says what size it takes: give --canvas "
            "224, or size= in the networks' specs"
        )
    return view


def shape_of(data: Dataset | Photographs) -> tuple[int, int, int] | None:
    """(channels, height, width) of its images; None where they are of any size."""
    if isinstance(data, Photographs):
        return None
    channels, height, width = data.images.shape[1:]
    return channels, height, width
