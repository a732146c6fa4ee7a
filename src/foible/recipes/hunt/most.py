"""How far the whole way through `affine` may lead, in words: `15°, 15 %, 10 % shift`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from foible import specs
from foible.errors import UserError

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(°|deg|degrees|%|px|pixels)\s*(shift)?")
EXAMPLE = '"15°, 15 %, 10 % shift"'


@dataclass(frozen=True)
class Most:
    """Bounds on the whole way of `affine`, None where there is none. shift: percent of the shorter side."""

    degrees: float | None = None
    percent: float | None = None
    shift: float | None = None
    pixels: float | None = None

    def options(self, side: int) -> dict[str, float]:
        """As options of the space, for images with this shorter side."""
        pixels = self.pixels if self.shift is None else self.shift / 100 * side
        bounds = {"most_degrees": self.degrees, "most_percent": self.percent, "most_pixels": pixels}
        return {name: bound for name, bound in bounds.items() if bound is not None}


def read_most(text: str) -> Most:
    """`15°, 15 %, 10 % shift`: degrees of rotation, percent of stretch and shear, and of the shorter side (or pixels)
    of shift; each may be left out."""
    said: dict[str, float] = {}
    for part in text.split(","):
        amount = _AMOUNT.fullmatch(part.strip())
        if amount is None or (amount[3] and amount[2] not in ("%", "px", "pixels")):
            raise UserError(f"most: cannot read {part.strip()!r}: expected amounts such as {EXAMPLE}")
        unit = {"°": "degrees", "deg": "degrees", "px": "pixels", "%": "shift" if amount[3] else "percent"}
        name = unit.get(amount[2], amount[2])
        if name in said or {name, *said} >= {"shift", "pixels"}:
            raise UserError(f"most: {text!r} bounds one thing twice: expected amounts such as {EXAMPLE}")
        said[name] = float(amount[1])
        if not said[name]:
            raise UserError(f"most: {part.strip()!r} leaves nothing: set its size to 0 in the space instead")
    return Most(**said)


def check_most(most: str | None, space: str) -> None:
    """Refuse, before any work, bounds that cannot be read, or that the space has no use for."""
    if most is None:
        return
    read_most(most)
    parts = [specs.parse(part) for part in specs.chained(space)]
    if not any(part.name == "affine" for part in parts):
        raise UserError(f"most bounds rotation, stretch and shift, which {space!r} has not: it goes with affine")
    if any(key.startswith("most_") for part in parts for key in part.options):
        raise UserError(f"most and {space!r} both bound the whole way: give one of them")
