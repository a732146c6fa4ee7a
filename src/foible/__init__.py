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
    from foible.generators.opening import open_generator
    from foible.generators.train import train_generator
    from foible.images import settle
    from foible.networks.preprocess import Preprocess
    from foible.objectives import Dissent, Distances
    from foible.recipes.boundary.recipe import boundary
    from foible.recipes.compare.recipe import compare
    from foible.recipes.distort.recipe import distort
    from foible.recipes.distort.summary import robust_accuracy
    from foible.recipes.explain.recipe import explain
    from foible.recipes.fool.recipe import fool
    from foible.recipes.hunt.recipe import hunt
    from foible.recipes.rank.recipe import rank
    from foible.recipes.train.train import train
    from foible.rejection.fitting import fit_rejection, reject
    from foible.report import write_report
    from foible.runs.job import run
    from foible.runs.recipe import Recipe
    from foible.search.climb.gradient import gradient
    from foible.search.climb.hill_climb import hill_climb
    from foible.search.nearest.closest import closest
    from foible.search.nearest.lbfgs import lbfgs
    from foible.spaces.affine import Affine
    from foible.spaces.chain import Chain
    from foible.spaces.crop import Crop
    from foible.spaces.photometric import Photometric
    from foible.spaces.swaps import Swaps
    from foible.views import View

__version__ = "0.1.0"

_HOMES = {
    "Affine": "foible.spaces.affine",
    "Basket": "foible.basket",
    "Budget": "foible.basket",
    "Chain": "foible.spaces.chain",
    "Crop": "foible.spaces.crop",
    "Dissent": "foible.objectives",
    "Distances": "foible.objectives",
    "Findings": "foible.findings",
    "FoibleError": "foible.errors",
    "Interrupted": "foible.errors",
    "Photometric": "foible.spaces.photometric",
    "Preprocess": "foible.networks.preprocess",
    "Recipe": "foible.runs.recipe",
    "Swaps": "foible.spaces.swaps",
    "UserError": "foible.errors",
    "View": "foible.views",
    "boundary": "foible.recipes.boundary.recipe",
    "closest": "foible.search.nearest.closest",
    "compare": "foible.recipes.compare.recipe",
    "distort": "foible.recipes.distort.recipe",
    "fit_rejection": "foible.rejection.fitting",
    "gradient": "foible.search.climb.gradient",
    "hill_climb": "foible.search.climb.hill_climb",
    "hunt": "foible.recipes.hunt.recipe",
    "lbfgs": "foible.search.nearest.lbfgs",
    "load": "foible.data",
    "explain": "foible.recipes.explain.recipe",
    "fool": "foible.recipes.fool.recipe",
    "open_generator": "foible.generators.opening",
    "rank": "foible.recipes.rank.recipe",
    "reject": "foible.rejection.fitting",
    "robust_accuracy": "foible.recipes.distort.summary",
    "run": "foible.runs.job",
    "settle": "foible.images",
    "train": "foible.recipes.train.train",
    "train_generator": "foible.generators.train",
    "write_report": "foible.report",
}

__all__ = [
    "Affine",
    "Basket",
    "Budget",
    "Chain",
    "Crop",
    "Dissent",
    "Distances",
    "Findings",
    "FoibleError",
    "Interrupted",
    "Photometric",
    "Preprocess",
    "Recipe",
    "Swaps",
    "UserError",
    "View",
    "boundary",
    "closest",
    "compare",
    "distort",
    "explain",
    "fit_rejection",
    "fool",
    "gradient",
    "hill_climb",
    "hunt",
    "lbfgs",
    "load",
    "open_generator",
    "rank",
    "reject",
    "robust_accuracy",
    "run",
    "settle",
    "train",
    "train_generator",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'foible' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
