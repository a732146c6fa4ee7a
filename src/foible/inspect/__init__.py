"""Look inside networks: what units answer to, and how much each layer can enlarge a small change (paper 3).

foible.inspect.units("basket", "mnist", network="conv", out="runs/units")
foible.inspect.spectrum.spectrum("basket", network="conv", data="mnist", out="runs/spectrum")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foible.basket.hooks import above as above
    from foible.basket.hooks import activations as activations
    from foible.inspect.unit.units import layers as layers
    from foible.inspect.unit.units import units as units

__all__ = ["above", "activations", "layers", "units"]

_HOMES = {
    "above": "foible.basket.hooks",
    "activations": "foible.basket.hooks",
    "layers": "foible.inspect.unit.units",
    "units": "foible.inspect.unit.units",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'foible.inspect' has no attribute {name!r}")
