"""A recipe: a verb, declared. What is its own is named here; what all verbs do alike is in `job.py`.

Nothing heavy is imported here or where our recipes are declared, so that to look one up costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from foible.errors import UserError
from foible.permission import Permission
from foible.runs.record import OLD_NAMES
from foible.text import did_you_mean

Lazy = Callable[..., Any] | str  # a function, or "module:name": that module is loaded when it is first needed


@dataclass(frozen=True)
class Recipe:
    """What a verb is made of. `task` is a `foible.runs.task.Task`: networks and data, matched, and the settings.

    name: in config.json; of a user's own, FILE.py:NAME. config: a frozen dataclass, which is the keywords, the flags
    and the settings. doing: the word on the progress bar; counted: what it counts there.

    read(recipe, options) -> (config, parts given as objects). parts: fields of the config that are specs of a part.
    make(named, may, objects) -> the parts by name. networks(basket, config) -> those that are needed, in order.
    match(data, basket, canvas, labelled) -> the data as these networks see it. fitted(task, names of parts given as
    objects) -> the task, its parts fitted to both. check(task): what can be said to be wrong before any work.
    labels(settings): whether the data has labels to read, and whether they are used.
    seeds(task) -> `Seeds`: where units begin. settings(task) -> what the rows depend on besides what all recipes have.

    work(task) -> `Work`: the units. first(task) -> `Work`: units that come before, in a folder of their own; then it is
    work(task, their tables). alone: a unit uses all cores by itself. finish(task, work, folder): the summary.

    replay(row, task) -> `Replayed`. summary(run), told(summary, json=, run=, …) and page(source, title=, gallery=, …):
    what the run came to, on the terminal and as HTML. papers(settings) -> keys of what to cite, or the keys themselves.
    frozen: how a suite takes its rows: "found" (by their pixels), "places" (by where they stand in the data), or ""
    (it does not). everybody: in Studio every person labels every image, unless told otherwise.
    """

    name: str
    config: type
    work: Lazy
    doing: str = "Working"
    counted: str = "lanes"
    read: Lazy = "foible.runs.defaults:read_config"
    parts: tuple[str, ...] = ()
    make: Lazy = "foible.recipes.hunt.parts:make_parts"
    networks: Lazy = "foible.runs.defaults:everybody"
    match: Lazy = "foible.runs.defaults:plainly"
    fitted: Lazy = "foible.runs.defaults:as_it_is"
    check: Lazy = "foible.runs.defaults:check_images"
    labels: Lazy = lambda settings: (not settings.get("unlabelled", False),) * 2
    seeds: Lazy = "foible.runs.defaults:no_seeds"
    settings: Lazy = "foible.runs.defaults:own_settings"
    first: Lazy | None = None
    alone: bool = False
    finish: Lazy | None = None
    replay: Lazy = "foible.recipes.replay:along_the_path"
    summary: Lazy = "foible.findings.tally:summarise"
    told: Lazy = "foible.cli.hunt:print_summary"
    page: Lazy = "foible.report.pages.hunt:render"
    papers: tuple[str, ...] | Lazy = ()
    frozen: str = "found"
    everybody: bool = False


# Where each verb is declared. A recipe of somebody's own may be put here too, under its name.
RECIPES: dict[str, Recipe | str] = {
    "hunt": "foible.recipes.hunt:HUNT",
    "distort": "foible.recipes.distort:DISTORT",
    "compare": "foible.recipes.compare:COMPARE",
    "rank": "foible.recipes.rank:RANK",
    "explain": "foible.recipes.explain:EXPLAIN",
    "fool": "foible.recipes.fool:FOOL",
    "boundary": "foible.recipes.boundary:BOUNDARY",
}


def load(thing: Any) -> Any:
    """A function, or what "module:name" names."""
    if not isinstance(thing, str):
        return thing
    module, _, name = thing.partition(":")
    return getattr(import_module(module), name)


def modules_of(recipe: Recipe) -> list[str]:
    """What a worker process loads for the units of one of our recipes."""
    needed = (recipe.make, recipe.match, recipe.first, recipe.work)
    return ["foible.runs.job", *(thing.partition(":")[0] for thing in needed if isinstance(thing, str))]


def recipe_called(name: str) -> Recipe:
    """The recipe of this name, or an error that lists those there are."""
    found = RECIPES.get(OLD_NAMES.get(name, name))
    if found is None:
        raise UserError(
            f"there is no recipe {name!r}{did_you_mean(name, RECIPES)}; known: {', '.join(RECIPES)}, or FILE.py:NAME "
            "for your own"
        )
    made: Recipe = load(found)
    return made


def recipe_of(settings: Mapping[str, Any]) -> Recipe | None:
    """The recipe that made findings with these settings; None where it is a user's own, or nothing says it."""
    name = str(settings.get("recipe"))
    return recipe_called(name) if OLD_NAMES.get(name, name) in RECIPES else None


def find_recipe(recipe: str | Recipe) -> tuple[str, Recipe]:
    """What was typed, if it is a file, and the recipe."""
    if isinstance(recipe, Recipe):
        return "", recipe
    if ".py:" not in recipe:
        return "", recipe_called(recipe)
    return recipe, recipe_in_file(recipe, Permission.typed(recipe))


def recipe_in_file(spec: str, may: Permission) -> Recipe:
    """The recipe that FILE.py:NAME names."""
    file, _, name = spec.rpartition(":")
    made = may.run(file, name)
    if not isinstance(made, Recipe):
        raise UserError(f"{spec!r} is {type(made).__name__}: expected a foible.Recipe")
    return made


def known_options(config: type, options: dict[str, Any], what: str) -> dict[str, Any]:
    """The options, once all are fields of `config`; otherwise an error that names the stranger."""
    known = [entry.name for entry in fields(config)]
    for key in options:
        if key not in known:
            raise UserError(f"{what} has no option {key!r}{did_you_mean(key, known)}; it takes {', '.join(known)}")
    return options
