"""From distorted images to rows of findings. The harness judges again: found means found on the pixels of the PNG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.clean import answers
from foible.images import encode_pngs, to_bytes, to_floats
from foible.meeting import Meeting
from foible.objectives import probabilities
from foible.recipes.distort_settle import firmly
from foible.recipes.distort_targets import Reached
from foible.recipes.rows import as_lists, as_nested, as_offsets, as_table, versions
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
    meeting: Meeting,
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
    after: Tensor | None = None,
) -> pa.Table:
    """A row for each image, by `foible.findings.SCHEMA`.

    basket: the source and then its judges. start: (n, …) where `exact`, what was found in floats, began. settled: the
    same on 8 bits, with the cost of bringing it there. tried: labels tried for each. several: an image has a row for
    each label. after: (networks, n, classes), what is said then where a layer was distorted and the image was not.
    """
    saved = to_bytes(settled.images.clone())
    images, layered = to_floats(saved), after is not None
    after = basket.judge(images) if after is None else after
    count, source, data, target = len(saved), basket.names[0], meeting.data, exact.targets
    outcome = _outcomes(exact, after[0], asked.labels)
    moved = images - to_floats(asked.pixels)
    before_p, after_p = (probabilities(logits).transpose(0, 1).cpu() for logits in (asked.logits, after))
    said, aims = answers(after.cpu()), asked.labels.cpu()
    places = asked.positions.tolist()
    # What only rounding made has no distance in floats.
    floats = exact.found.cpu() | torch.tensor([one != "found" for one in outcome])
    columns: dict[str, Any] = {
        "id": _ids(source, places, target if several else None, basket.classes),
        "config": [config] * count,
        "suspect": [source] * count,
        "networks": [list(basket.names)] * count,
        "lane": places,
        "outcome": outcome,
        "tags": [[]] * count,
        "image": encode_pngs(saved.cpu().numpy()),
        "origin": encode_pngs(asked.pixels.cpu().numpy()),
        "origin_data": [data.name] * count,
        "origin_split": [data.split] * count,
        "origin_index": places,
        "origin_file": [None if data.files is None else data.files[place] for place in places],
        "truth": _known(aims) if labelled else [None] * count,
        "label_from": ["label" if labelled else "consensus"] * count,
        "consensus": _known(_agreed(said[1:])) if labelled else _known(aims),
        "said": _known(said[0]),
        "target": [None] * count if target is None else _known(target.cpu()),
        "before": as_nested(before_p),
        "after": as_nested(after_p),
        "moves": [0] * count,
        "candidates": [tried] * count,
        "forwards": (exact.forwards + settled.forwards).cpu().numpy(),
        "backwards": (exact.backwards + settled.backwards).cpu().numpy(),
        "path": [[]] * count,
        "trace": _trace(before_p, after_p, aims),
        "point": _points(exact.images),
        "change": _layer_change(start, exact.images) if layered else _change(moved, exact.images - start, floats),
        "distance": None if layered else length(moved, norm).cpu().numpy(),
        "distance_exact": pa.array(exact.distance.cpu().numpy(), mask=(~floats).numpy()),
        "score": margin(after[0], asked.labels, target).cpu().numpy(),
        "film": [None] * count,
        "versions": [versions(basket.device)] * count,
    }
    return as_table(columns, count)


def _outcomes(exact: Reached, logits: Tensor, labels: Tensor) -> list[str]:
    """The saved pixels decide. What only floats show is `unsettled`; what only rounding made is found."""
    holds = firmly(logits, labels, exact.targets).tolist()
    broken = (~logits.isfinite().all(1) | exact.invalid).tolist()
    return [
        "found" if hit else "invalid" if bad else "unsettled" if floats else "exhausted"
        for hit, bad, floats in zip(holds, broken, exact.found.tolist(), strict=True)
    ]


def _ids(source: str, places: list[int], targets: Tensor | None, classes: tuple[str, ...]) -> list[str]:
    if targets is None:
        return [f"{source}-{place:06d}" for place in places]
    return [f"{source}-{place:06d}-{classes[to]}" for place, to in zip(places, targets.tolist(), strict=True)]


def _agreed(said: Tensor) -> Tensor:
    """(n,): the class that all judges' answers (judges, n) have in common; -1 where they differ or there are none."""
    if not len(said):
        return torch.full((said.shape[1],), -1)
    return torch.where((said == said[0]).all(0), said[0], -1)


def _trace(before: Tensor, after: Tensor, labels: Tensor) -> pa.Array:
    """Probabilities (n, networks, classes) of the label, before and after."""
    where = labels[:, None, None].expand(-1, before.shape[1], 1)
    both = torch.stack([part.gather(2, where)[..., 0] for part in (before, after)], 1)
    return pa.ListArray.from_arrays(as_offsets(torch.full((len(both),), 2)), as_lists(both.flatten(0, 1)))


def _points(images: Tensor) -> pa.Array | list[None]:
    """The floats themselves, where they are few."""
    flat = images.flatten(1)
    return as_lists(flat.cpu()) if flat.shape[1] <= MOST_VALUES else [None] * len(flat)


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


def _known(values: Tensor) -> pa.Array:
    """Class numbers, null for -1."""
    return pa.array(values.numpy(), mask=(values < 0).numpy()).cast(pa.int32())
