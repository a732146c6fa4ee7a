"""Judge any number of images, each network through its own eyes, in bounded memory.

On a CPU every core takes whole batches, from file to logits, with one torch thread each: decoding and forward passes
share the cores without waiting for each other, and no batch depends on how many cores there are. On a GPU the cores
decode, in processes of their own where there is much to decode, and one thread feeds the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.matching import Matched
from foible.data import Batch, Dataset, Photographs, read
from foible.data.processes import decoded_apart
from foible.data.stream import Threads, in_order
from foible.images import to_floats
from foible.processes import cores, one_thread
from foible.views import View

MANY = 10_000  # photographs, from which on it pays to start processes that decode for a GPU


@dataclass(frozen=True, eq=False)
class Judged:
    """A batch. index: (k,) positions in the data of the images that could be read.
    logits: (networks, k, classes), on the CPU. canvas: (k, channels, height, width) uint8, where asked for.
    problems: (position, why) of the images that could not be read."""

    index: Tensor
    logits: Tensor
    canvas: Tensor | None
    problems: list[tuple[int, str]]


def judged(
    basket: Basket,
    data: Dataset | Photographs,
    *,
    index: Tensor | None = None,
    canvas: View | None = None,
    native: bool = True,
    keep: bool = False,
    batch: int | None = None,
    workers: int | None = None,
) -> Iterator[Judged]:
    """Logits of the images at `index` (all of them without it), batch by batch in that order.

    native: each network sees the file through its own view. Otherwise all see the canvas, as searches do.
    keep: hand back the images on the canvas too.
    """
    index = torch.arange(len(data)) if index is None else index
    canvas = plain(canvas, data)
    views = own_views(basket, data, canvas) if native else dict.fromkeys(basket.names, canvas)
    wanted = list(dict.fromkeys([*views.values(), *([canvas] if keep else [])]))
    parts = list(index.split(batch or batch_size(data, wanted, basket.device.type)))

    def look(part: Tensor) -> Batch:
        return read(data, part, wanted)

    @torch.no_grad()
    def judge(seen: Batch) -> Judged:
        shown = dict(zip(wanted, seen.images, strict=True))
        if len(seen.index):
            logits = basket.judge_views({name: shown[view] for name, view in views.items()}).cpu()
        else:
            logits = torch.empty(len(basket), 0, len(basket.classes))
        return Judged(seen.index, logits, shown[canvas] if keep else None, seen.problems)

    count = min(workers or cores(), max(1, len(parts)))
    if basket.device.type == "cpu":

        def whole(part: Tensor) -> Judged:
            torch.set_num_threads(1)  # of this thread
            return judge(look(part))

        with one_thread():
            yield from in_order(whole, parts, Threads(count, "foible-judge"), count + 1)
    elif isinstance(data, Photographs) and len(index) >= MANY and count > 2:
        yield from map(judge, decoded_apart(data, wanted, list(index.split(64)), count))
    else:
        yield from map(judge, in_order(look, parts, Threads(count, "foible-judge"), count + 2))


def ask_first(basket: Basket, matched: Matched) -> None:
    """Two images through every network, each by its own view, so that what does not fit is said before any work."""
    for _ in judged(basket, matched.data, index=matched.index[:2], canvas=matched.canvas):
        pass


def own_views(basket: Basket, data: Dataset | Photographs, canvas: View | None) -> dict[str, View | None]:
    """How each network sees the data; one that takes any size sees photographs on the canvas."""
    return {
        name: canvas if view is None and isinstance(data, Photographs) else plain(view, data)
        for name, view in basket.views.items()
    }


def plain(view: View | None, data: Dataset | Photographs) -> View | None:
    """None where the data has that size already: nothing is to be done to it."""
    if isinstance(data, Dataset) and view is not None and view.size == tuple(data.images.shape[2:]):
        return None
    return view


def batch_size(data: Dataset | Photographs, views: Sequence[View | None], device: str) -> int:
    """Images to a batch: on a CPU few enough for its caches, on a GPU enough to fill it."""
    pixels = [view.size[0] * view.size[1] for view in views if view is not None]
    if isinstance(data, Dataset):
        pixels.append(data.images.shape[2] * data.images.shape[3])
    room, most = (131_072, 512) if device == "cpu" else (13_000_000, 4096)
    return max(16, min(most, room // max(pixels)))


@torch.no_grad()
def on_canvas(basket: Basket, matched: Matched, logits: Tensor, pixels: Tensor) -> Tensor:
    """What the networks say of the very pixels that are kept (n, channels, height, width) uint8; those who saw just
    these have said it already: logits (networks, n, classes), as each network saw the file."""
    views, kept = own_views(basket, matched.data, matched.canvas), plain(matched.canvas, matched.data)
    places = torch.tensor([place for place, name in enumerate(basket.names) if views[name] != kept], dtype=torch.int64)
    again = [basket.names[place] for place in places.tolist()]
    after = logits.clone()
    for part in torch.arange(len(pixels)).split(64) if again and len(pixels) else ():
        after[places[:, None], part] = basket.judge(to_floats(pixels[part].to(basket.device)), again).cpu()
    return after
