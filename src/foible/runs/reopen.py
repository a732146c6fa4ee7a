"""The way back: the task of a run on disk, to go on with it or to replay its rows.

A run may come from anybody: what is opened again runs, fetches and reads only what a `Permission` allows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.basket.matching import shape_of
from foible.data import open_data
from foible.data.places import roots
from foible.errors import Untrusted, UserError
from foible.networks.load.specs import same_network
from foible.networks.preprocess import Preprocess
from foible.permission import NOTHING, Permission, is_remembered, places_of
from foible.records import TEXT, check
from foible.runs.folder import RunFolder
from foible.runs.recipe import load, recipe_called, recipe_in_file
from foible.runs.task import Task


def open_again(
    run: str | Path, *, basket: Basket | None = None, device: str | None = None, may: Permission = NOTHING
) -> Task:
    """The task of a run on disk: to work on it, or to replay its rows. Refuses networks that have changed.

    basket: networks to judge with instead of those that the run names. may: whose code may be run, which networks may
    be fetched, and with trust also which files are read.
    """
    config = RunFolder(run).config
    settings, where = config["settings"], config["where"]
    own = ".py:" in settings["recipe"]
    recipe = recipe_in_file(where.get("recipe", settings["recipe"]), may) if own else recipe_called(settings["recipe"])
    named = {name: where.get(name, settings.get(name)) for name in recipe.parts}
    check(named, {str: TEXT}, f"the run {str(run)!r}")
    parts = load(recipe.make)(named, may, {})
    has_labels, labelled = load(recipe.labels)(settings)
    named_data = data_of(run, where["data"], may)
    data = open_data(named_data, settings["split"], labelled=has_labels, whole=True, quiet=True)
    if basket is None:
        if not where["basket"]:
            raise UserError(f"the run {str(run)!r} was made with networks in memory: give them with --basket")
        basket = Basket.open(
            where["basket"], device=device or where["device"], classes=data.classes or None, shape=shape_of(data),
            may=may,
        )  # fmt: skip
    check_networks(run, settings, basket)
    basket = basket.only(list(settings["networks"]))
    matched = load(recipe.match)(data, basket, settings.get("canvas_given"), labelled)
    return Task(recipe, basket, matched, parts, named, may, settings=settings)


def data_of(run: str | Path, spec: str, may: Permission, what: str = "run") -> str:
    """The data that a run (or a basket) names, if it is a data set by name, or lies where its user works: beside the
    run, below the working folder, where data sets are kept, or where this user has run something before. Any other
    place is read only with trust."""
    homes = [Path(run).resolve().parent, Path.cwd(), *(root.resolve() for root in roots())]
    for place in () if may.trust or spec in may.data else places_of(spec):
        if not any(place.is_relative_to(home) for home in homes) and not is_remembered(place):
            raise Untrusted(
                f"the {what} {str(run)!r} names data at {str(place)!r}, where you have run nothing yet, and a {what} "
                "may come from anybody: go there, or, if that is where the images are, add --trust"
            )
    return spec


def check_networks(run: str | Path, settings: dict[str, Any], basket: Basket) -> None:
    """Refuse networks, or preprocessing, other than those that a run was made with."""
    for name, known in settings["networks"].items():
        if not same_network(known, basket.fingerprints.get(name)):
            raise UserError(
                f"network {name!r} is not the one that the run {str(run)!r} was made with: its weights or its code "
                "differ"
            )
        if basket.preprocess[name] != Preprocess.from_json(settings["preprocess"][name]):
            raise UserError(f"network {name!r} is preprocessed otherwise than when the run {str(run)!r} was made")
