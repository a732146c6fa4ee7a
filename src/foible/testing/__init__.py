"""The conformance kit: does your own space, objective, search or recipe keep the promises that the rest relies on?

    from foible.testing import check_space
    check_space(MySpace())

Each check raises AssertionError with the promise that was broken. `linear_basket` is a basket whose boundaries are
known exactly, and `Counting` a network that counts the images it was shown.
"""

from foible.testing.linear import (
    CLASSES,
    SHAPE,
    Counting,
    blobs,
    linear_basket,
    linear_network,
    linear_trials,
    write_linear_task,
)
from foible.testing.objectives import check_objective
from foible.testing.recipes import check_recipe
from foible.testing.searches import check_search
from foible.testing.spaces import check_space

__all__ = [
    "CLASSES",
    "SHAPE",
    "Counting",
    "blobs",
    "check_objective",
    "check_recipe",
    "check_search",
    "check_space",
    "linear_basket",
    "linear_network",
    "linear_trials",
    "write_linear_task",
]
