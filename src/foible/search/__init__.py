"""Searches: plain functions that move many lanes through a space at once, and say what each lane came to.

`closest` and `lbfgs` are of another form, that of `nearest.py`: they look for the nearest image of another class.
"""

from collections.abc import Callable

from foible.search.closest import closest
from foible.search.found import Accepted, Found, Trials
from foible.search.genetic import genetic
from foible.search.gradient import gradient
from foible.search.hill_climb import hill_climb
from foible.search.lbfgs import lbfgs
from foible.search.map_elites import map_elites
from foible.search.pbil import pbil
from foible.search.strategy import strategy
from foible.search.wrap import as_attack, wrap

SEARCHES: dict[str, Callable[..., Found]] = {
    "hill-climb": hill_climb,
    "map-elites": map_elites,
    "genetic": genetic,
    "pbil": pbil,
    "strategy": strategy,
    "gradient": gradient,
}

__all__ = [
    "SEARCHES",
    "Accepted",
    "Found",
    "Trials",
    "as_attack",
    "closest",
    "genetic",
    "gradient",
    "hill_climb",
    "lbfgs",
    "map_elites",
    "pbil",
    "strategy",
    "wrap",
]
