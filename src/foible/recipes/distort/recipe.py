"""Distort: the smallest change of an image that makes a network say another label (paper 3, Sec. 4.1).

    images that the source gets right → nearest image of another label, in the box → on 8 bits → every network judges

The source is the network that is distorted for; all other networks of the basket are judges, and say to whom the
distortion transfers. Every image is a row; what comes of it does not depend on which others are in its unit.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.errors import UserError
from foible.findings import Findings
from foible.images import to_floats
from foible.permission import Permission
from foible.recipes.config import DistortConfig
from foible.recipes.distort import DISTORT
from foible.recipes.distort.fallback import NAME
from foible.recipes.distort.gradients import look
from foible.recipes.distort.masking import NONE
from foible.recipes.distort.methods import asked_with, make_methods, names_of, read_method
from foible.recipes.distort.targets import read_target
from foible.recipes.distort.units import check_places, layer_of
from foible.runs.defaults import check_images
from foible.runs.job import run
from foible.runs.recipe import Recipe, known_options
from foible.runs.task import Task
from foible.search.nearest.methods import METHODS


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[DistortConfig, dict[str, Any]]:
    """The config, and the method where it is a function, or several in a list."""
    given = options.get("method", DistortConfig.method)
    config = DistortConfig(**{**known_options(recipe.config, options, recipe.name), "method": read_method(given)})
    return config, {} if isinstance(given, str) else {"method": given}


def make_parts(named: Mapping[str, str], may: Permission, objects: Mapping[str, Any]) -> dict[str, Any]:
    """The methods: the functions that were given, or what their specs name."""
    return {"method": make_methods(named["method"], may, objects.get("method"))}


def check_task(task: Task) -> None:
    """The method must know the norm, the target must be a class, and where a method or a layer was asked for that needs
    a gradient the source must have one. How a source hides its gradient is told."""
    asked_with(task.parts["method"], task.named["method"], task.config.norm)
    read_target(task.config.target, task.basket.classes)
    check_places(task)
    images = check_images(task)
    if images is None:
        return
    basket, method, layer = task.basket, task.config.method, task.config.layer
    seen = look(basket, basket.names[0], to_floats(images.to(basket.device)))
    follow = [name for name in names_of(method) if name.partition("?")[0] in METHODS.keys() - {NAME}]
    for one in seen:
        if one.kind == NONE and layer is not None:
            raise UserError(f"{one.words}; a layer is distorted by gradients: leave --layer out")
        if one.kind == NONE and follow and method != DistortConfig.method:
            advice = f"leave it out, or take --method {NAME}, which asks for answers alone"
            raise UserError(f"{one.words}; the method {follow[0]!r} follows gradients: {advice}")
        if layer is None:
            basket.remarks[one.kind] = one.told
    layer_of(task, layer)  # or an error that says what is wrong with it
    if task.config.unlabelled and not task.quiet and seen:  # with labels, they are told with the accuracy
        print("\n".join(basket.remarks.values()), file=sys.stderr)


def distort(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs | None = None,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Findings:
    """The smallest change of each image that makes the source say another label, and what every other network says of
    it; findings in memory, or with `out` in a run folder that can be resumed.

    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`; without, what the basket was
        trained on.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    trust: load network files that can run code.
    options: the fields of `DistortConfig`: source, target, method, norm, layer, images, places, split, seed, lattice, …
        `method` may also be a function, as `foible.search.nearest` describes it, or a list of these and of specs.
    """
    return run(DISTORT, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
