"""The images that most excite units and random directions of a layer (paper 3, Sec. 3, Figs. 1–4).

    images → a layer of one network → the best of each direction → rows → purity and coherence, natural against random

Two passes: the first keeps, of any number of images, only those that excite a direction most; the second reads these
again, for a judge that has nothing to do with the network. `whitened` directions need one pass more, before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import none_read, tell_unreadable
from foible.basket.hooks import activations, find_layer, layer_names, tapped
from foible.basket.matching import Matched, match, shape_of
from foible.data import Dataset, Photographs, open_data
from foible.errors import UserError
from foible.inspect.unit.directions import KINDS, OVER, ROOM, Moments, along, random_directions, some_units, spread
from foible.inspect.unit.features import Likeness, example
from foible.inspect.unit.streaming import Seen, shown_to
from foible.inspect.unit.tables import CHANCE, NATURAL, Rows, Units
from foible.inspect.unit.top import Top
from foible.permission import Permission
from foible.progress import Bar, progress
from foible.randomness import uniforms
from foible.runs.own_data import own_data
from foible.text import did_you_mean

MOST = 1000  # units, and directions of each kind, unless asked for more
WIDEST = 4096  # units of a layer whose directions can be whitened


def units(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs | None = None,
    *,
    network: str | None = None,
    layer: str | None = None,
    over: str = "max",
    against: Sequence[str] = ("random",),
    units: int = 4,
    top: int = 10,
    most: int = MOST,
    judge: str | None = None,
    split: str = "test",
    labelled: bool = True,
    canvas: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    trust: bool = False,
    workers: int | None = None,
    quiet: bool = False,
) -> Units:
    """What excites a network's natural units and random directions most, and how alike these images are.

    network: which of the basket; may be left out where there is one. layer: by its name in the network; without, what
    its last layer with weights is given. over: "max", "mean" or "flat", of layers with positions. against: kinds of
    random directions: "random", "whitened", "positive". units: rows to show of each kind. top: images in a row.
    most: units, and directions of each kind, that are compared. judge: see `Likeness.open`. out: a folder for
    `units.json`, `rows.parquet` and the figures.
    """
    for what, value, least in (("units", units, 1), ("top", top, 2), ("most", most, 2)):
        if value < least:
            raise UserError(f"{what} is {value}: expected at least {least}")
    if over not in OVER:
        raise UserError(f"over is {over!r}: expected {', '.join(OVER)}")
    for kind in against:
        if kind not in KINDS:
            raise UserError(f"against is {kind!r}{did_you_mean(kind, KINDS)}; expected {', '.join(KINDS)}")
    basket, matched, name = _opened(basket, data, network, split, labelled, canvas, device, trust, quiet)
    data_set = matched.data
    if len(data_set) < top:
        raise UserError(f"{data_set.name!r} has {len(data_set)} images: give a --top of no more")
    judging = Likeness.open(judge, basket, name, matched, trust)
    with _tapped(basket, name, layer, matched, over) as (tap, said, width), progress(
        "Inspecting", len(data_set) * (2 if "whitened" in against else 1), quiet=quiet
    ) as bar:  # fmt: skip
        count = max(2, min(most, width, ROOM // width))
        directions = {NATURAL: some_units(width, count, seed)}
        moments = _moments(basket, name, matched, tap, width, workers, bar) if "whitened" in against else None
        for kind in dict.fromkeys(against):
            directions[kind] = random_directions(kind, count, width, seed, moments)
        tops, problems = _tops(basket, name, matched, tap, directions, over, top, seed, workers, bar)
    if not quiet:
        tell_unreadable([f"{data_set.files[k] if data_set.files else k}: {why}" for k, why in problems])
    short = tops[CHANCE].index.shape[1]
    if short < top:
        raise UserError(f"only {short} images of {data_set.name!r} could be read: give a --top of no more")
    settings = {
        "data": data_set.name, "data_sha256": data_set.sha256, "split": data_set.split, "images": len(data_set),
        "unreadable": len(problems), "network": name, "fingerprint": basket.fingerprints[name], "layer": said,
        "width": width, "over": over, "against": list(against), "compared": count, "units": units, "top": top,
        "judge": judging.name, "seed": seed, "device": basket.device.type,
    }  # fmt: skip
    rows = [
        Rows.of(kind, directions[kind] if kind == NATURAL else torch.arange(len(found.index)), found)
        for kind, found in tops.items()
    ]
    result = Units.of(settings, rows, matched, judging, units, workers)
    if out is not None:
        from foible.inspect.unit.figures import draw

        result.write(Path(out), draw(result, Path(out)))
    return result


def layers(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs | None = None,
    *,
    network: str | None = None,
    split: str = "test",
    labelled: bool = True,
    canvas: str | None = None,
    device: str = "auto",
    trust: bool = False,
) -> dict[str, tuple[int, ...]]:
    """The layers that can be inspected, in the order of the forward pass, each with the shape of what it gives for one
    image."""
    basket, matched, name = _opened(basket, data, network, split, labelled, canvas, device, trust, quiet=True)
    images = example(basket, name, matched)
    found: dict[str, tuple[int, ...]] = {}
    with torch.no_grad():
        for layer in layer_names(basket.network(name), images):
            found[layer] = tuple(activations(basket.network(name), layer, images).shape[1:])
    return found


def _opened(
    basket: Basket | str | Path | Sequence[str], data: str | Dataset | Photographs | None, network: str | None,
    split: str, labelled: bool, canvas: str | None, device: str, trust: bool, quiet: bool,
) -> tuple[Basket, Matched, str]:  # fmt: skip
    """The networks, the data as the chosen one sees it, and which one that is."""
    data = own_data(basket, Permission.typed(basket, trust=trust), quiet=quiet) if data is None else data
    data_set = open_data(data, split, labelled=labelled, whole=True, quiet=quiet)
    if not isinstance(basket, Basket):
        classes, shape = data_set.classes or None, shape_of(data_set)
        basket = Basket.open(basket, device=device, classes=classes, shape=shape, trust=trust)
    name = _chosen(basket, network)
    return basket, match(data_set, basket.only([name]), canvas=canvas, labelled=False), name


def _chosen(basket: Basket, network: str | None) -> str:
    if network is not None:
        basket.peers(network)  # or an error that names it
        return network
    if len(basket) > 1:
        raise UserError(f"which network is to be inspected? The basket has {', '.join(basket.names)}: give --network")
    return basket.names[0]


@contextmanager
def _tapped(
    basket: Basket, name: str, layer: str | None, matched: Matched, over: str
) -> Iterator[tuple[Callable[[Tensor], Tensor], str, int]]:
    """What gives (n, units, positions) of prepared images; what to call the layer; how many units it has."""
    network, images = basket.network(name), example(basket, name, matched)
    last = find_layer(network, images, f"network {name!r}") if layer is None else None
    if layer is None and last is None:
        layer_names(network)  # or an error that says why there are none
        raise UserError(f"network {name!r} shows none of its layers: give one that does")
    with tapped(network, layer or last or "", inputs=layer is None) as tap:

        def values(prepared: Tensor) -> Tensor:
            return spread(tap(prepared), over)

        with torch.no_grad():
            width = values(images).shape[1]
        if width < 2:
            raise UserError(f"layer {layer or last!r} has one unit: expected at least 2, to compare directions")
        yield values, layer or f"input of {last}", width


def _moments(
    basket: Basket, name: str, matched: Matched, tap: Callable[[Tensor], Tensor], width: int, workers: int | None,
    bar: Bar,
) -> Moments:  # fmt: skip
    if width > WIDEST:
        raise UserError(f"the layer has {width} units: whitened directions are for at most {WIDEST}; leave them out")

    def work(index: Tensor, prepared: Tensor, pixels: Tensor) -> Moments:
        del pixels
        return Moments.of(tap(prepared)[: len(index)])

    found = _counted(shown_to(basket, name, matched, work, workers=workers), bar, [])
    return reduce(add, found, Moments(0, torch.zeros(width).double(), torch.zeros(width, width).double()))


def _tops(
    basket: Basket, name: str, matched: Matched, tap: Callable[[Tensor], Tensor], directions: dict[str, Tensor],
    over: str, top: int, seed: int, workers: int | None, bar: Bar,
) -> tuple[dict[str, Top], list[tuple[int, str]]]:  # fmt: skip
    """The images on top of each kind of direction, and of rows of images drawn at random; and what was unreadable."""
    there = {kind: rows.to(basket.device) for kind, rows in directions.items()}
    count = len(directions[NATURAL])

    def work(index: Tensor, prepared: Tensor, pixels: Tensor) -> dict[str, Top]:
        del pixels
        values = tap(prepared)[: len(index)].float()
        found = {kind: Top.of(along(values, rows, over), index, top, seed) for kind, rows in there.items()}
        drawn = uniforms(seed, index, stream="inspect.chance", count=count)
        return found | {CHANCE: Top.of(drawn, index, top, seed)}

    tops: dict[str, Top] = {}
    problems: list[tuple[int, str]] = []
    for found in _counted(shown_to(basket, name, matched, work, workers=workers), bar, problems):
        tops = {kind: tops[kind].merge(best, top) if tops else best for kind, best in found.items()}
    if not tops:
        raise none_read(matched.data.name, len(problems), matched.told(problems[0]))
    return tops, problems


def _counted(batches: Iterator[Seen[Any]], bar: Bar, problems: list[tuple[int, str]]) -> Iterator[Any]:
    for batch in batches:
        bar.advance(batch.count)
        problems += batch.problems
        if batch.result is not None:
            yield batch.result
