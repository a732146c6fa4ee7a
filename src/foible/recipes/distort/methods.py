"""A method for minimal distortions, from its spec or given as a function, and what it is asked with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from foible import specs
from foible.errors import UserError
from foible.permission import Permission
from foible.search.nearest import Nearest
from foible.search.nearest.methods import METHODS

Method = Callable[..., Nearest]
OURS = ("targets", "low", "high", "norm", "budget", "tick")  # settings of the recipe, not options of a method


def read_method(given: str | Method) -> str:
    """The spec of a method; `object:NAME` for a function that no spec names."""
    if isinstance(given, str):
        return given
    return specs.spec_of(given, METHODS) or f"object:{getattr(given, '__name__', type(given).__name__)}"


def make_method(spec: str, may: Permission) -> Method:
    """The method that a spec names: `closest?steps=50`, or FILE.py:NAME for a user's own."""
    if spec.startswith("object:"):
        raise UserError(f"the method of this run was an object in memory ({spec[7:]}): it cannot be made again")
    for name in specs.parse(spec).options:
        if name in OURS:
            raise UserError(f"{spec!r}: {name} is a setting of `foible distort` itself and no option of a method")
    method: Method = specs.resolve(spec, METHODS, "method", may)
    return method


def asked_with(method: Method, spec: str, norm: str) -> dict[str, Any]:
    """The keywords for the norm, where a method takes one; one that does not makes the l2 norm small."""
    parameters = inspect.signature(method).parameters.values()
    if any(p.name == "norm" or p.kind is p.VAR_KEYWORD for p in parameters):
        return {"norm": norm}
    if norm != "l2":
        raise UserError(f"norm is {norm!r}, and the method {spec!r} knows l2 alone: take --method closest")
    return {}
