"""Foolbox's and adv-lib's attacks as methods, where they are installed: the peers of `benchmarks.distort`."""

from __future__ import annotations

import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.distort_peers import tuned
from foible.search.nearest import Model, reached
from foible.search.nearest.wrap import Attack, Method, wrap

FMN_STEP_SIZES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
ALMA_FIRST_STEPS = (0.1, 0.3, 1.0)

Starts = Callable[[Model, Tensor, Tensor, Tensor | None], Tensor]


def nearest_of(pool: Tensor, answers: Tensor) -> Starts:
    """For every image the nearest one of `pool` (m, ...) that the network answers as asked; answers: (m,). The best
    start that Brendel and Bethge's attack can be given without a search."""

    def starts(_: Model, x: Tensor, y: Tensor, targets: Tensor | None) -> Tensor:
        fits = answers != y[:, None] if targets is None else answers == targets[:, None]
        apart = torch.cdist(x.flatten(1), pool.flatten(1)).masked_fill(~fits, torch.inf)
        return pool[apart.argmin(1)]

    return starts


def foolbox_methods(starts: Starts, targeted: bool, wanted: Callable[[str], bool]) -> dict[str, Method]:
    """Foolbox's minimal L2 attacks whose names are wanted; none, with a printed line, where it is not installed."""
    try:
        import foolbox
    except ImportError:
        print("Foolbox is not installed (pip install foolbox): its rows are left out")
        return {}
    toolkit: Any = foolbox
    attacks = toolkit.attacks

    def through(attack: Any, begin: Starts | None = None) -> Attack:
        def run(model: Model, x: Tensor, y: Tensor, targets: Tensor | None = None) -> Tensor:
            judge = toolkit.PyTorchModel(model, bounds=(0, 1), device=x.device)
            kinds = toolkit.criteria
            aim = kinds.Misclassification(y) if targets is None else kinds.TargetedMisclassification(targets)
            more = {"starting_points": begin(model, x, y, targets)} if begin else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed: Tensor = attack(judge, x, aim, epsilons=None, **more)[1]
            return changed

        return run

    def after_ddn(model: Model, x: Tensor, y: Tensor, targets: Tensor | None) -> Tensor:
        changed = through(attacks.DDNAttack(steps=100))(model, x, y, targets)
        with torch.no_grad():
            hit = reached(model(changed), y, targets)
        return torch.where(hit.view(-1, *[1] * (x.ndim - 1)), changed, starts(model, x, y, targets))

    def brendel_bethge() -> Method:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it compiles now, for a minute or so
            attack = attacks.L2BrendelBethgeAttack(steps=1000)
        return tuned([wrap(through(attack, begin)) for begin in (starts, after_ddn)])

    carlini_wagner = partial(attacks.L2CarliniWagnerAttack, binary_search_steps=9, steps=1000, initial_const=1.0)
    fmn = [partial(attacks.L2FMNAttack, steps=1000, max_stepsize=size) for size in FMN_STEP_SIZES]
    makers: dict[str, Callable[[], Method]] = {
        "Foolbox DDN, 100 steps": lambda: wrap(through(attacks.DDNAttack(steps=100))),
        "Foolbox DDN, 1000 steps": lambda: wrap(through(attacks.DDNAttack(steps=1000))),
        "Foolbox C&W, 9 × 1000 steps": lambda: wrap(through(carlini_wagner())),
        "Foolbox FMN, 1000 steps, step size tuned": lambda: tuned([wrap(through(one())) for one in fmn]),
    }
    if importlib.util.find_spec("numba") is None:
        print("numba is not installed (pip install numba): Foolbox's Brendel–Bethge attack is left out")
    else:
        makers["Foolbox Brendel–Bethge, 1000 steps, start tuned"] = brendel_bethge
    if not targeted:
        makers["Foolbox DeepFool"] = lambda: wrap(through(attacks.L2DeepFoolAttack()))
    return {name: make() for name, make in makers.items() if wanted(name)}


def adv_lib_methods() -> dict[str, Method]:
    """adv-lib's ALMA; empty, with a printed line, where it is not installed."""
    if importlib.util.find_spec("adv_lib") is None:
        print("adv-lib is not installed (pip install --no-deps adv-lib): its rows are left out")
        return {}
    with _stand_ins():
        from adv_lib.attacks import alma  # type: ignore[import-untyped]

    def run(model: Model, x: Tensor, y: Tensor, targets: Tensor | None = None, *, first: float) -> Tensor:
        changed: Tensor = alma(
            model, x, y if targets is None else targets, targeted=targets is not None, num_steps=1000,
            init_lr_distance=first,
        )  # fmt: skip
        return changed

    return {"adv-lib ALMA, 1000 steps": tuned([wrap(partial(run, first=first)) for first in ALMA_FIRST_STEPS])}


@contextmanager
def _stand_ins() -> Iterator[None]:
    """adv-lib imports torchvision and visdom for what is not asked of it here: empty modules will do."""
    absent = [name for name in ("torchvision", "visdom") if importlib.util.find_spec(name) is None]
    for name in absent:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].models = None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
