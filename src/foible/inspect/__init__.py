"""Look inside networks: what units answer to, and how much each layer can enlarge a small change (paper 3).

foible.inspect.units("basket", "mnist", network="conv", out="runs/units")
foible.inspect.spectrum.spectrum("basket", network="conv", data="mnist", out="runs/spectrum")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foible.inspect.exciting import layers as layers
    from foible.inspect.exciting import units as units

__all__ = ["layers", "units"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from foible.inspect import exciting

        return getattr(exciting, name)
    raise AttributeError(f"module 'foible.inspect' has no attribute {name!r}")
