"""How a broken promise is said."""

from __future__ import annotations

from torch import Tensor


def require(holds: bool | Tensor, promise: str) -> None:
    """Nothing where it holds, else an error that says the promise."""
    if not bool(holds):
        raise AssertionError(promise)
