"""The features in which a row's images are compared: a held-out network's, or plain pixels where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.basket import Basket, padded
from foible.basket.accuracy import none_read
from foible.basket.hooks import find_layer, tapped
from foible.basket.judging import own_views
from foible.basket.matching import Matched, shape_of
from foible.data import read
from foible.errors import UserError
from foible.images import to_floats
from foible.inspect.unit.directions import spread
from foible.inspect.unit.streaming import Seen, shown_to

PIXELS = "pixels"
Found = tuple[Tensor, Tensor, Tensor]
SIDE = 32  # pixels are averaged down to so many a side before they are compared


@dataclass(frozen=True, eq=False)
class Likeness:
    """Who says how alike two images are. name: of a network of `basket`, or "pixels"."""

    basket: Basket
    name: str

    @staticmethod
    def open(given: str | None, basket: Basket, network: str, matched: Matched, trust: bool) -> Likeness:
        """The judge called `given`: a network of the basket, "pixels", or a network of its own, [NAME=]SPEC. Without:
        the first other network of the basket, or else pixels."""
        if given is None:
            return Likeness(basket, next(iter(basket.peers(network)), PIXELS))
        if given == PIXELS:
            return Likeness(basket, PIXELS)
        if given not in basket.names:
            classes, shape = matched.data.classes or None, shape_of(matched.data)
            try:
                own = Basket.open([given], device=basket.device.type, classes=classes, shape=shape, trust=trust)
            except UserError as error:
                raise UserError(
                    f"judge {given!r} is no network of the basket ({', '.join(basket.names)}), nor can it be opened as "
                    f"one of its own: {error}"
                ) from error
            if len(own) != 1:
                raise UserError(f"judge {given!r} is {len(own)} networks: name one, as {given}/{own.names[0]}")
            if own.fingerprints[own.names[0]] != basket.fingerprints[network]:
                return Likeness(own, own.names[0])
        elif given != network:
            return Likeness(basket, given)
        raise UserError(f"judge {given!r} is the network that is inspected: give another one, or pixels")

    def features(self, matched: Matched, index: Tensor, workers: int | None) -> Iterator[Found]:
        """(index (k,), features (k, d), pixels (k, channels, height, width) uint8 on the canvas) batch by batch."""
        if self.name == PIXELS:

            def small(index: Tensor, prepared: Tensor, pixels: Tensor) -> Found:
                del prepared
                images = to_floats(pixels)
                if max(images.shape[2:]) > SIDE:
                    images = F.adaptive_avg_pool2d(images, (min(SIDE, images.shape[2]), min(SIDE, images.shape[3])))
                return index, images.flatten(1), pixels

            name = self.basket.names[0]
            yield from _results(shown_to(self.basket, name, matched, small, index=index, workers=workers))
            return
        with last_features(self.basket, self.name, matched) as features:

            def judged(index: Tensor, prepared: Tensor, pixels: Tensor) -> Found:
                return index, features(prepared)[: len(index)].float().cpu(), pixels

            yield from _results(shown_to(self.basket, self.name, matched, judged, index=index, workers=workers))


def _results(batches: Iterator[Seen[Found]]) -> Iterator[Found]:
    for batch in batches:
        if batch.result is not None:
            yield batch.result


@torch.no_grad()
def example(basket: Basket, name: str, matched: Matched) -> Tensor:
    """A few images as the network takes them, to find out about its layers."""
    view = own_views(basket, matched.data, matched.canvas)[name]
    problems: list[tuple[int, str]] = []
    for part in matched.index.split(16):
        seen = read(matched.data, part, [view])
        problems += seen.problems
        if len(seen.index):
            break
    else:
        raise none_read(matched.data.name, len(problems), matched.told(problems[0]))
    images = seen.images[0]
    basket.only([name]).check(images)
    return basket.hows[name](padded(to_floats(images.to(basket.device))))


@contextmanager
def last_features(basket: Basket, name: str, matched: Matched) -> Iterator[Callable[[Tensor], Tensor]]:
    """What the last layer with weights is given, (n, d) of prepared images, averaged over positions where there are
    any; the answers, where no layer can be seen."""
    network, images = basket.network(name), example(basket, name, matched)
    try:
        layer = find_layer(network, images, f"network {name!r}")
    except UserError:
        layer = None
    if layer is None:
        yield lambda prepared: basket.answer(name, prepared)
        return
    with tapped(network, layer, inputs=True) as tap:
        yield lambda prepared: spread(tap(prepared)).mean(2)
