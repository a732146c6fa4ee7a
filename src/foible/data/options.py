"""How pictures are to come out: the options that every form of picture data shares."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from foible.errors import UserError


@dataclass(frozen=True)
class Look:
    """How pictures are to come out.

    `size` is (width, height), or None to take them as they are. `grey`: True for 1 channel, False for 3, None
    for 1 where all are grey and else 3. `test` is the share of each class to hold out.
    """

    size: tuple[int, int] | None = None
    grey: bool | None = None
    test: Fraction | None = None

    @property
    def mode(self) -> str | None:
        """Pillow's name for it; None where the picture decides."""
        return None if self.grey is None else "L" if self.grey else "RGB"


def look(spec: str, *, size: str, grey: str, test: str) -> Look:
    """The options of a spec, from text: `size=64`, `size=64x48` (width x height), `grey=true`, `test=0.2`."""
    shape: tuple[int, int] | None = None
    if size:
        parts = size.lower().split("x")
        if len(parts) > 2 or not all(p.isascii() and p.isdigit() and 1 <= int(p) <= 8192 for p in parts):
            raise UserError(f"{spec}: size is {size!r}: expected size=64 or size=64x48 (width x height, up to 8192)")
        shape = int(parts[0]), int(parts[-1])
    choices = {"": None, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if grey.lower() not in choices:
        raise UserError(f"{spec}: grey is {grey!r}: expected true or false")
    return Look(shape, choices[grey.lower()], share(spec, test))


def share(spec: str, test: str) -> Fraction | None:
    """The option `test=0.2`: a share between 0 and 1, or None where it is not given."""
    if not test:
        return None
    try:
        part = Fraction(test).limit_denominator(1000)
    except (ValueError, ZeroDivisionError):
        part = Fraction(0)
    if not 0 < part < 1:
        raise UserError(f"{spec}: test is {test!r}: expected a share between 0 and 1, such as test=0.2")
    return part
