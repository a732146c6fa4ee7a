"""How far a box reaches: so many largest moves each way, but never past what makes sense."""

from __future__ import annotations

from typing import Any

from foible.errors import UserError


def check_reach(reach: float) -> None:
    if not 1 <= reach <= 1000:
        raise UserError(f"reach is {reach}: expected 1 to 1000 largest moves")


def check_sizes(space: Any, most: dict[str, float]) -> None:
    """Refuse a move's size (an attribute of `space`) that is negative, above its `most`, or not a number."""
    for name, top in most.items():
        if not 0 <= getattr(space, name) <= top:
            raise UserError(f"{name} is {getattr(space, name)}: expected 0 to {top:g}")


def within(reach: float, size: float, most: float) -> float:
    """How many moves of `size` the box reaches: `reach`, but not past `most`, and at least one move."""
    return reach if size == 0 else max(1.0, min(reach, most / size))
