"""The methods for minimal distortions, by name."""

from __future__ import annotations

from collections.abc import Callable

from foible.search.closest import closest
from foible.search.lbfgs import lbfgs
from foible.search.nearest import Nearest

METHODS: dict[str, Callable[..., Nearest]] = {"closest": closest, "lbfgs": lbfgs}
