"""Distort: the smallest change of an image that makes a network say another label (paper 3, Sec. 4.1).

    images that the source gets right → nearest image of another label, in the box → on 8 bits → every network judges

The source is the network that is distorted for; all other networks of the basket are judges, and say to whom the
distortion transfers. Every image is a row; what comes of it does not depend on which others are in its unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.findings import Findings
from foible.images import to_floats
from foible.permission import Permission
from foible.recipes.config import DistortConfig
from foible.recipes.distort import DISTORT
from foible.recipes.distort.differentiable import check_differentiable
from foible.recipes.distort.methods import asked_with, make_method, read_method
from foible.recipes.distort.targets import read_target
from foible.runs.defaults import check_images
from foible.runs.job import run
from foible.runs.recipe import Recipe, known_options
from foible.runs.task import Task


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[DistortConfig, dict[str, Any]]:
    """The config, and the method where it is a function."""
    given = options.get("method", DistortConfig.method)
    config = DistortConfig(**{**known_options(recipe.config, options, recipe.name), "method": read_method(given)})
    return config, {} if isinstance(given, str) else {"method": given}


def make_parts(named: Mapping[str, str], may: Permission, objects: Mapping[str, Any]) -> dict[str, Any]:
    """The method: the function that was given, or what its spec names."""
    return dict(objects) or {"method": make_method(named["method"], may)}


def check_task(task: Task) -> None:
    """The method must know the norm, the target must be a class, and the source must have gradients."""
    asked_with(task.parts["method"], task.named["method"], task.config.norm)
    read_target(task.config.target, task.basket.classes)
    images = check_images(task)
    if images is not None:
        check_differentiable(task.basket, task.basket.names[0], to_floats(images.to(task.basket.device)))


def distort(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs = "digits",
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
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    trust: load network files that can run code.
    options: the fields of `DistortConfig`: source, target, method, norm, layer, images, places, split, seed, lattice, …
        `method` may also be a function, as `foible.search.nearest` describes it.
    """
    return run(DISTORT, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
