"""From distorted images to rows of findings. The harness judges again: found means found on the pixels of the PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.basket.matching import Matched
from foible.findings.rows import (
    answered,
    as_lists,
    as_nested,
    as_pngs,
    as_table,
    cost,
    ended,
    identity,
    known,
    origin,
    unmoved,
)
from foible.images import to_bytes, to_floats
from foible.objectives import of_class, probabilities
from foible.recipes.distort.settle import firmly
from foible.recipes.distort.targets import Reached
from foible.search.nearest import Nearest, length, margin

MOST_VALUES = 12_288  # of an image (64×64 in colour) whose exact floats are kept in its row


@dataclass(frozen=True)
class Asked:
    """The rows of a unit: n images, each with what is asked of it."""

    positions: Tensor  # (n,) in the data
    pixels: Tensor  # (n, channels, height, width) uint8
    labels: Tensor  # (n,) what they are
    logits: Tensor  # (networks, n, classes) of the images as they are, the source first

    def repeated(self, times: int) -> Asked:
        """Each row `times` times, one after another."""
        rows = [field.repeat_interleave(times, 0) for field in (self.positions, self.pixels, self.labels)]
        return Asked(rows[0], rows[1], rows[2], self.logits.repeat_interleave(times, 1))


@torch.no_grad()
def make_rows(
    basket: Basket,
    matched: Matched,
    asked: Asked,
    start: Tensor,
    exact: Reached,
    settled: Nearest,
    *,
    norm: str,
    tried: int,
    labelled: bool,
    several: bool,
    config: str,
    large: bool = False,
    after: Tensor | None = None,
    methods: Sequence[str | None] = (),
    askings: int = 1,
    best: bool = False,
) -> pa.Table:
    """A row for each image, by `foible.findings.schema.SCHEMA`.

    basket: the source and then its judges. start: (n, …) where `exact`, what was found in floats, began. settled: the
    same on 8 bits, with the cost of bringing it there. tried: labels tried for each. several: an image has a row for
    each label. large: keep the floats of large images too. after: (networks, n, classes), what is said then where a
    layer was distorted and the image was not. methods: what the methods are called that `exact` is from.
    askings: how often what is found must hold. best: the nearest label was asked for, whichever it is.
    """
    saved = to_bytes(settled.images.clone())
    images, layered = to_floats(saved), after is not None
    after = basket.judge(images) if after is None else after
    count, labels, target, places = len(saved), asked.labels.cpu(), exact.targets, asked.positions.tolist()
    which = [basket.classes[to] for to in target.tolist()] if several and target is not None else None
    again = [basket.judge(images, basket.names[:1])[0] for _ in range(askings - 1)]
    outcome = _outcomes(exact, [after[0], *again], asked.labels)
    moved = images - to_floats(asked.pixels)
    before_p, after_p = (probabilities(logits).cpu() for logits in (asked.logits, after))
    # What only rounding made has no distance in floats.
    floats = exact.found.cpu() | torch.tensor([one != "found" for one in outcome])
    return as_table(
        identity([basket.names] * count, places, config=config, device=basket.device, which=which),
        origin(matched.data, places, as_pngs(asked.pixels)),
        answered(
            before_p, after_p, answers(after.cpu()), truth=labels if labelled else None,
            label_from="label" if labelled else "consensus", consensus=None if labelled else labels,
        ),
        cost(exact.forwards + settled.forwards, exact.backwards + settled.backwards, candidates=tried),
        unmoved(count),
        ended(outcome, as_pngs(saved), score=margin(after[0], asked.labels, target)),
        {
            "target": _nearest_label(after[0], asked.labels, target, best),
            "trace": as_nested(torch.stack([of_class(part, labels).t() for part in (before_p, after_p)], 1)),
            "point": _points(exact.images, large),
            "change": _layer_change(start, exact.images) if layered else _change(moved, exact.images - start, floats),
            "distance": None if layered else length(moved, norm),
            "method": _found_by(exact, methods),
            "distance_exact": pa.array(exact.distance.cpu().numpy(), mask=(~floats).numpy()),
        },
        count=count,
    )  # fmt: skip


def _nearest_label(said: Tensor, labels: Tensor, target: Tensor | None, best: bool) -> Any:
    """The target; where it was the nearest label and none was tried by itself, the other label that the source finds
    likeliest by what it said (n, classes)."""
    if target is None and best:
        target = said.nan_to_num(nan=-torch.inf).scatter(1, labels[:, None], -torch.inf).argmax(1)
    return None if target is None else known(target)


def _outcomes(exact: Reached, asked: Sequence[Tensor], labels: Tensor) -> list[str]:
    """The saved pixels decide, each time that the source was `asked` (n, classes). What only floats show is
    `unsettled`; what only rounding made is found."""
    holds = torch.stack([firmly(logits, labels, exact.targets) for logits in asked]).all(0).tolist()
    broken = (~asked[0].isfinite().all(1) | exact.invalid).tolist()
    return [
        "found" if hit else "invalid" if bad else "unsettled" if floats else "exhausted"
        for hit, bad, floats in zip(holds, broken, exact.found.tolist(), strict=True)
    ]


def _found_by(exact: Reached, methods: Sequence[str | None]) -> list[str | None] | None:
    """Of several methods the one that found each image; None where nothing had to be, or could be, found."""
    if exact.method is None:
        return None
    searched = (exact.found & (exact.distance > 0)).tolist()
    return [methods[number] if one else None for number, one in zip(exact.method.tolist(), searched, strict=True)]


def _points(images: Tensor, large: bool) -> pa.Array | None:
    """The floats themselves, where they are few or were asked for."""
    flat = images.flatten(1)
    return as_lists(flat.cpu()) if large or flat.shape[1] <= MOST_VALUES else None


def _change(moved: Tensor, exactly: Tensor, floats: Tensor) -> list[list[tuple[str, float]]]:
    """How far, as the paper says it (root mean square over the pixels), and the largest change of any pixel."""
    root = math.sqrt(moved[0].numel())
    parts = {
        "rms": length(moved) / root,
        "linf": length(moved, "linf"),
        "rms before 8 bits": length(exactly) / root,
        "linf before 8 bits": length(exactly, "linf"),
    }
    rows = torch.stack(list(parts.values()), 1).tolist()
    return [
        list(zip(parts, row, strict=True))[: 4 if known else 2]
        for row, known in zip(rows, floats.tolist(), strict=True)
    ]


def _layer_change(start: Tensor, end: Tensor) -> list[list[tuple[str, float]]]:
    """The same of a layer's output, and as a share of the output's own length."""
    root = math.sqrt(start[0].numel())
    parts = {
        "rms of the layer": length(end - start) / root,
        "linf of the layer": length(end - start, "linf"),
        "share of the layer": length(end - start) / length(start).clamp_min(1e-30),
    }
    return [list(zip(parts, row, strict=True)) for row in torch.stack(list(parts.values()), 1).tolist()]
