"""The methods for minimal distortions, by name."""

from __future__ import annotations

from collections.abc import Callable

from foible.search.nearest import Nearest
from foible.search.nearest.apgd import nearest_by_apgd
from foible.search.nearest.closest import closest
from foible.search.nearest.decision import decision
from foible.search.nearest.fmn import fmn
from foible.search.nearest.lbfgs import lbfgs

METHODS: dict[str, Callable[..., Nearest]] = {
    "closest": closest, "fmn": fmn, "apgd": nearest_by_apgd, "lbfgs": lbfgs, "decision": decision,
}  # fmt: skip
