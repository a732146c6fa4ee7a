"""How `fool` writes images down, by name, and the images of its rows, drawn again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from foible.errors import UserError
from foible.images import MOST_JUDGED, decode_png, to_bytes
from foible.processes import one_thread
from foible.search.climb.ascend import PRESETS, Ascent
from foible.spaces.cppn import Cppn
from foible.spaces.direct import Direct
from foible.text import did_you_mean, shown


@dataclass(frozen=True)
class Climb:
    """`ascent?preset=decay&steps=500`: pixels that climb the gradient. steps: 0 takes the preset's."""

    preset: str = "decay"
    steps: int = 0

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            known = f"{did_you_mean(self.preset, PRESETS)}; known: {', '.join(PRESETS)}"
            raise UserError(f"ascent has no preset {self.preset!r}{known}")
        _ = self.how

    @property
    def how(self) -> Ascent:
        return replace(PRESETS[self.preset], steps=self.steps) if self.steps else PRESETS[self.preset]


ENCODINGS: dict[str, Any] = {"cppn": Cppn, "direct": Direct, "ascent": Climb}


def drawn(row: dict[str, Any], encoding: Any, size: tuple[int, int] | None = None) -> Tensor:
    """uint8 (channels, height, width): the image of a row's genome, or the one that it keeps where that is all.

    size: (height, width) to draw, where it is another than that of the image.
    """
    image = decode_png(row["image"], repr(row["id"]), MOST_JUDGED)
    channels, height, width = image.shape
    if row["point"] and hasattr(encoding, "read"):
        shape = (channels, height, width)
        genome = encoding.read(row["point"], shape, repr(shown(row["id"])))
        with torch.no_grad(), one_thread():
            return to_bytes(encoding.render(genome, shape, size))[0]
    if size is not None and size != (height, width):
        raise UserError(
            f"{shown(row['id'])!r} is made of pixels, and has no other size: only those of --encoding cppn can be "
            "drawn at any size"
        )
    return image
