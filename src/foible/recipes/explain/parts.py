"""The parts of `explain` (space, objective, search) from keywords, and who is explained."""

from __future__ import annotations

import dataclasses
from typing import Any
from urllib.parse import quote

from foible import specs
from foible.basket import Basket
from foible.errors import UserError
from foible.recipes.config import ExplainConfig
from foible.runs.recipe import Recipe, known_options
from foible.spaces import Latent

OURS = ("rate", "steps", "restarts", "momentum")  # options that are those of `descend`


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[ExplainConfig, dict[str, Any]]:
    """Keywords as settings; a generator in memory becomes a space that is given as an object."""
    options, objects = dict(known_options(recipe.config, options, recipe.name)), {}
    generator = options.get("generator", "")
    if generator and not isinstance(generator, str):
        objects["space"] = Latent(generator, step=1.0, reach=8.0)
        options["generator"], options["space"] = f"object:{type(generator).__name__}", "object:Latent"
    config: ExplainConfig = recipe.config(**options)
    if not config.generator and "generator=" not in config.space:
        raise UserError(
            "explain needs a generator: give --generator FOLDER, which `foible generator train vae:10 --data … --out "
            "FOLDER` makes"
        )
    if config.generator and not objects:
        config = dataclasses.replace(config, space=_with(config.space, generator=config.generator))
    if specs.parse(config.search).name == "descend":
        said = {name: getattr(config, name) for name in OURS if getattr(config, name) != getattr(ExplainConfig, name)}
        config = dataclasses.replace(config, search=_with(config.search, **said))
    return config, objects


def _with(spec: str, **options: Any) -> str:
    for key, value in options.items():
        spec += f"{'&' if '?' in spec else '?'}{key}={quote(str(value), safe='/:,')}"
    return spec


def suspect_first(basket: Basket, config: ExplainConfig) -> Basket:
    """The network that is explained, and the others, who are asked whether they accept what mends it."""
    suspect = config.suspect or basket.names[0]
    return basket.only([suspect, *basket.peers(suspect)])
