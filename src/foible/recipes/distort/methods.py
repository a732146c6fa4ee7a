"""Methods for minimal distortions, from their specs or given as functions, and what they are asked with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from foible import specs
from foible.basket import Budget
from foible.errors import UserError
from foible.permission import Permission
from foible.recipes.distort.targets import Solve
from foible.search.nearest import Model, Nearest
from foible.search.nearest.methods import METHODS

Method = Callable[..., Nearest]
Methods = tuple[Method, ...]
Given = str | Method | Sequence[str | Method]
OURS = ("targets", "low", "high", "norm", "budget", "tick")  # settings of the recipe, not options of a method
OBJECT = "object:"
LEAVING = ("closest", "fmn", "apgd", "decision")  # they find the nearest of all labels by leaving the one there is


def read_method(given: Given) -> str:
    """The spec of a method, or those of several with a plus between them; `object:…` where a function is among them
    that no spec names."""
    if isinstance(given, str):
        return "+".join(specs.chained(given, ","))
    if callable(given):
        return specs.spec_of(given, METHODS) or OBJECT + getattr(given, "__name__", type(given).__name__)
    if not given:
        raise UserError("method is an empty list: give at least one, as in [foible.closest]")
    parts = [read_method(one) for one in given]
    own = any(part.startswith(OBJECT) for part in parts)
    return (OBJECT if own else "") + "+".join(part.removeprefix(OBJECT) for part in parts)


def make_methods(spec: str, may: Permission, given: Given | None = None) -> Methods:
    """The methods that a spec names: `closest?steps=50`, `closest+fmn`, or FILE.py:NAME for a user's own. given: what
    was given in place of a spec, where it was."""
    if given is not None and not isinstance(given, str):
        each: Sequence[str | Method] = [given] if callable(given) else given
        return tuple(method for one in each for method in _made(one, may))
    if spec.startswith(OBJECT):
        raise UserError(f"the method of this run was an object in memory ({spec[7:]}): it cannot be made again")
    return _made(spec, may)


def _made(given: str | Method, may: Permission) -> Methods:
    if not isinstance(given, str):
        return (given,)
    parts = specs.chained(read_method(given))
    for part in parts:
        if not part:
            raise UserError(f"{given!r} has an empty part: write a method on both sides of every comma")
        for name in specs.parse(part).options:
            if name in OURS:
                raise UserError(f"{part!r}: {name} is a setting of `foible distort` itself and no option of a method")
    return tuple(specs.resolve(part, METHODS, "method", may) for part in parts)


def names_of(spec: str) -> list[str]:
    """What the methods of a spec are called, in their order."""
    return specs.chained(spec.removeprefix(OBJECT))


def kind_of(target: str | int, method: str, likeliest: int | None) -> str | int:
    """What methods are asked for: the nearest of all other labels is any, where they need not try each."""
    leaving = all(specs.parse(name).name in LEAVING for name in names_of(method)) and not method.startswith(OBJECT)
    return "any" if target == "best" and likeliest is None and leaving else target


def asked_with(methods: Methods, spec: str, norm: str) -> list[dict[str, Any]]:
    """For each method the keywords for the norm, where it takes one; one that does not makes the l2 norm small."""
    told: list[dict[str, Any]] = []
    for method, name in zip(methods, names_of(spec), strict=True):
        parameters = inspect.signature(method).parameters.values()
        knows = any(p.name == "norm" or p.kind is p.VAR_KEYWORD for p in parameters)
        if not knows and norm != "l2":
            raise UserError(f"norm is {norm!r}, and the method {name!r} knows l2 alone: take --method closest")
        told.append({"norm": norm} if knows else {})
    return told


def solvers(
    methods: Methods, spec: str, *, model: Model, norm: str, low: float, high: float, budget: Budget
) -> list[Solve]:
    """Each method as a function of images, labels and targets."""

    def solve(method: Method, more: dict[str, Any], points: Any, labels: Any, targets: Any) -> Nearest:
        return method(model, points, labels, targets=targets, low=low, high=high, budget=budget, **more)

    return [partial(solve, *one) for one in zip(methods, asked_with(methods, spec, norm), strict=True)]
