"""A row of `fool` again: its genome drawn anew, at any size, or the image that it keeps; and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.errors import UserError
from foible.findings import OUTCOMES, Findings
from foible.images import MOST_JUDGED, decode_png, encode_png, to_bytes, to_floats
from foible.objectives import probabilities
from foible.processes import one_thread
from foible.recipes.replay import Replayed, difference
from foible.runs.task import Task
from foible.search.elites.by_class import Shape
from foible.search.elites.encodings import ENCODINGS
from foible.specs import resolve
from foible.text import shown

MOST_SIDE = 8192  # pixels


def drawn(row: dict[str, Any], encoding: Any, shape: Shape, size: tuple[int, int] | None = None) -> Tensor:
    """uint8 (channels, height, width): the image of a row's genome, or the one that it keeps where that is all."""
    if not row["point"] or not hasattr(encoding, "read"):
        if size is not None and size != shape[1:]:
            raise UserError(
                f"{shown(row['id'])!r} is made of pixels, and has no other size: only those of --encoding cppn can be "
                "drawn at any size"
            )
        return decode_png(row["image"], repr(row["id"]), MOST_JUDGED)
    genome = encoding.read(row["point"], shape, repr(shown(row["id"])))
    with torch.no_grad(), one_thread():
        return to_bytes(encoding.render(genome, shape, size))[0]


def draw_again(run: str | Path, id: str, side: int) -> Tensor:
    """uint8 (channels, height, width): the image of one row, its longer side so many pixels. No network is opened."""
    findings = Findings.open(run)
    row = findings.get(id)
    settings = findings.configs[row["config"]]
    if settings.get("recipe") != "fool":
        raise UserError(
            f"{str(run)!r} is a run of {settings.get('recipe')!r}: only images that `foible fool` evolved can be drawn "
            "at another size"
        )
    if not 1 <= side <= MOST_SIDE:
        raise UserError(f"size is {side}: expected 1 to {MOST_SIDE} pixels")
    shape = shape_of(row)
    size = tuple(max(1, round(edge * side / max(shape[1:]))) for edge in shape[1:])
    return drawn(row, resolve(str(settings.get("encoding")), ENCODINGS, "encoding"), shape, (size[0], size[1]))


def shape_of(row: dict[str, Any]) -> Shape:
    """Of the image that a row keeps."""
    channels, height, width = decode_png(row["image"], repr(row["id"]), MOST_JUDGED).shape
    return channels, height, width


def redrawn(row: dict[str, Any], task: Task) -> Replayed:
    """Drawn from its genome and judged again."""
    basket, stored = task.basket, torch.tensor(row["after"])
    image = drawn(row, task.parts["encoding"], shape_of(row))
    with torch.no_grad(), one_thread():
        logits = basket.judge(to_floats(image[None].to(basket.device)), row["networks"])
        aim = torch.tensor([row["target"]], device=basket.device)
        found = bool(task.parts["objective"].found(logits, aim)[0])
    now = probabilities(logits)[:, 0].cpu()
    return Replayed(
        id=row["id"],
        image=image,
        same_image=encode_png(image) == row["image"],
        difference=difference(now, stored),
        stored=row["outcome"],
        now=OUTCOMES[0] if found else "not found",
        probabilities=now,
    )
