"""A hunt's parts (space, objective, search) from keywords and specs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from foible import specs
from foible.errors import UserError
from foible.objectives import OBJECTIVES
from foible.permission import Permission
from foible.realism import check as check_realism
from foible.recipes.config import HuntConfig
from foible.recipes.hunt.most import check_most
from foible.runs.recipe import Recipe, known_options
from foible.search import SEARCHES
from foible.search.elites.encodings import ENCODINGS
from foible.spaces import SPACES

TABLES: dict[str, dict[str, Any]] = {
    "space": SPACES, "objective": OBJECTIVES, "search": SEARCHES, "encoding": ENCODINGS,
}  # fmt: skip

ATLAS = "map-elites"


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[HuntConfig, dict[str, Any]]:
    """Keywords as settings, and those of space, objective and search that were given as objects."""
    options, objects = dict(known_options(recipe.config, options, recipe.name)), {}
    for name, table in TABLES.items():
        given = options.get(name)
        if given is not None and not isinstance(given, str):
            objects[name] = given
            options[name] = specs.spec_of(given, table) or f"object:{getattr(given, '__name__', type(given).__name__)}"
    config: HuntConfig = recipe.config(**options)
    check_realism(config.realism)
    if config.most is not None and "space" in objects:
        raise UserError("most beside a space of your own: set it there")
    check_most(config.most, config.space)
    if config.atlas:
        if config.search == HuntConfig.search:
            config = dataclasses.replace(config, search=ATLAS)
        if not config.search.startswith(ATLAS):
            raise UserError(f"an atlas is drawn by the search {ATLAS!r}, not by {config.search!r}: leave one out")
    sugar: dict[str, dict[str, Any]] = {
        "objective": {
            "peer_confidence": config.peer_confidence,
            "suspect_confidence": config.suspect_confidence,
        },
        "search": {"patience": config.patience},
    }
    for name, extra in sugar.items():
        said = {key: value for key, value in extra.items() if value is not None}
        if said and name in objects:
            raise UserError(f"{', '.join(said)} beside a {name} of your own: set it there")
        spec = getattr(config, name)
        for key, value in said.items():
            spec += f"{'&' if '?' in spec else '?'}{key}={value}"
        config = dataclasses.replace(config, **{name: spec})
    return config, objects


def make_parts(named: Mapping[str, Any], may: Permission, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Space, objective and search, as far as they are named: from their specs, but for those given as objects."""
    made = dict(objects)
    for name, table in TABLES.items():
        if name in named and name not in made:
            if named[name].startswith("object:"):
                raise UserError(
                    f"the {name} of this run was an object in memory ({named[name][7:]}): it cannot be made again"
                )
            made[name] = specs.resolve(named[name], table, name, may)
    return made
