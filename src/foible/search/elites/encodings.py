"""How `fool` writes images down, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from foible.errors import UserError
from foible.search.climb.ascend import PRESETS, Ascent
from foible.spaces.cppn import Cppn
from foible.spaces.direct import Direct
from foible.text import did_you_mean


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
