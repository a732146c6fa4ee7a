"""A row of `fool` again: its genome drawn anew, at any size, or the image that it keeps; and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.errors import UserError
from foible.findings import Findings
from foible.images import MOST_JUDGED, decode_png, to_floats
from foible.processes import one_thread
from foible.recipes.replay import Replayed, replayed
from foible.runs.task import Task
from foible.search.elites.encodings import ENCODINGS, drawn
from foible.specs import resolve

MOST_SIDE = 8192  # pixels


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
    height, width = decode_png(row["image"], repr(row["id"]), MOST_JUDGED).shape[1:]
    size = tuple(max(1, round(edge * side / max(height, width))) for edge in (height, width))
    return drawn(row, resolve(str(settings.get("encoding")), ENCODINGS, "encoding"), (size[0], size[1]))


def redrawn(row: dict[str, Any], task: Task) -> Replayed:
    """Drawn from its genome and judged again."""
    basket, image = task.basket, drawn(row, task.parts["encoding"])
    with torch.no_grad(), one_thread():
        logits = basket.judge(to_floats(image[None].to(basket.device)), row["networks"])
        found = bool(task.parts["objective"].found(logits, torch.tensor([row["target"]], device=basket.device))[0])
    return replayed(row, image, logits, found)
