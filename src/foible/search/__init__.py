"""Searches: plain functions that move many lanes through a space at once, and say what each lane came to.

`closest` and `lbfgs` are of another form, that of `nearest.py`: they look for the nearest image of another class.
"""

from collections.abc import Callable

from foible.search.climb.descend import descend
from foible.search.climb.edges import edges
from foible.search.climb.genetic import genetic
from foible.search.climb.gradient import gradient
from foible.search.climb.hill_climb import hill_climb
from foible.search.climb.pbil import pbil
from foible.search.climb.strategy import strategy
from foible.search.elites.map_elites import map_elites
from foible.search.nearest.closest import closest
from foible.search.nearest.lbfgs import lbfgs
from foible.search.nearest.wrap import as_attack, wrap
from foible.search.task import Accepted, Found, Trials

SEARCHES: dict[str, Callable[..., Found]] = {
    "hill-climb": hill_climb,
    "map-elites": map_elites,
    "genetic": genetic,
    "pbil": pbil,
    "strategy": strategy,
    "gradient": gradient,
    "descend": descend,
    "edges": edges,
}

__all__ = [
    "SEARCHES",
    "Accepted",
    "Found",
    "Trials",
    "as_attack",
    "closest",
    "descend",
    "edges",
    "genetic",
    "gradient",
    "hill_climb",
    "lbfgs",
    "map_elites",
    "pbil",
    "strategy",
    "wrap",
]
