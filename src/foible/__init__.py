"""Foible finds the weak parts of image classifiers: realistic inputs that a network should get right and does not.

The public names are these few; they are loaded when first used, so that `import foible` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foible.basket import Basket, Budget
    from foible.data import load
    from foible.errors import FoibleError, Interrupted, UserError
    from foible.findings import Findings
    from foible.images import settle
    from foible.networks.preprocess import Preprocess
    from foible.objectives import Dissent
    from foible.recipes.compare import compare
    from foible.recipes.hunt import hunt
    from foible.recipes.train import train
    from foible.report import write_report
    from foible.search.hill_climb import hill_climb
    from foible.spaces.affine import Affine
    from foible.views import View

__version__ = "0.1.0"

_HOMES = {
    "Affine": "foible.spaces.affine",
    "Basket": "foible.basket",
    "Budget": "foible.basket",
    "Dissent": "foible.objectives",
    "Findings": "foible.findings",
    "FoibleError": "foible.errors",
    "Interrupted": "foible.errors",
    "Preprocess": "foible.networks.preprocess",
    "UserError": "foible.errors",
    "View": "foible.views",
    "compare": "foible.recipes.compare",
    "hill_climb": "foible.search.hill_climb",
    "hunt": "foible.recipes.hunt",
    "load": "foible.data",
    "settle": "foible.images",
    "train": "foible.recipes.train",
    "write_report": "foible.report",
}

__all__ = [
    "Affine",
    "Basket",
    "Budget",
    "Dissent",
    "Findings",
    "FoibleError",
    "Interrupted",
    "Preprocess",
    "UserError",
    "View",
    "compare",
    "hill_climb",
    "hunt",
    "load",
    "settle",
    "train",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'foible' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
