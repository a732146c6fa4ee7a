"""One job for every recipe: open → match → seeds → settings → units → shards → summary, and the way back.

A run folder holds all that is needed to go on with it or to replay it. A run may come from anybody: what is opened
again runs, fetches and reads only what a `Permission` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.matching import Matched, match, shape_of
from foible.data import Dataset, Photographs, open_data, read
from foible.data.places import roots
from foible.errors import Interrupted, UserError
from foible.findings import Findings
from foible.networks.load.specs import same_network
from foible.networks.preprocess import Preprocess
from foible.permission import NOTHING, Permission, is_remembered, places_of
from foible.processes import cores, one_thread
from foible.progress import progress
from foible.records import TEXT, check
from foible.runs.folder import RunFolder
from foible.runs.local import Shard, Tick, do_unit, run_units
from foible.runs.recipe import RECIPES, Recipe, known_options, load, recipe_called
from foible.runs.record import settings_hash
from foible.spec_files import absolute, absolute_chain, with_files

FIRST = "ranking"  # the folder, in a run, of units that come before the others
LOOKED_AT = 16  # images that networks are tried on before any work


class Work(Protocol):
    """The units of a run. Each is a pure function of the settings and its number."""

    @property
    def sizes(self) -> Sequence[int]:
        """What each unit counts on the bar; there are as many units as sizes."""

    def unit(self, number: int, tick: Tick) -> pa.Table | Shard:
        """The rows of one unit; `tick(k)` says that k more are done."""


class ImageUnits:
    """Units of so many images each, in the order of the data: for recipes that judge every one."""

    task: Task

    @property
    def parts(self) -> Sequence[Tensor]:
        """Positions of the images of each unit."""
        return torch.split(self.task.matched.index, self.task.settings["unit"])

    @property
    def sizes(self) -> list[int]:
        return [len(part) for part in self.parts]


@dataclass(frozen=True, eq=False)
class Seeds:
    """Where units begin: tensors by name, which worker processes are handed too. accuracy: of each network on the
    images that were looked at, where labels tell it. unreadable: a line for each file that could not be read."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    accuracy: dict[str, Any] | None = None
    unreadable: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """What a recipe works on: opened, matched, and settled. config: None where the run was opened again."""

    recipe: Recipe
    basket: Basket
    matched: Matched
    parts: Mapping[str, Any]  # space, objective, search, method: made from their specs, or given
    named: Mapping[str, str]  # their specs, as they can be opened from here
    may: Permission = NOTHING
    config: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Tensor] = field(default_factory=dict)
    workers: int | None = None  # threads that judge inside a unit
    quiet: bool = True

    @property
    def key(self) -> str:
        """The hash that names the settings in every row."""
        return settings_hash(self.settings)


def run(
    recipe: str | Recipe,
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
    """Run a recipe: findings in memory, or with `out` in a run folder that can be resumed.

    recipe: the name of one ("hunt", "distort", "compare", "rank"), FILE.py:NAME, or a `Recipe`.
    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    trust: load network files that can run code. options: the fields of the recipe's config.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: expected at least 1")
    spec, recipe = find_recipe(recipe)
    config, objects = load(recipe.read)(recipe, options)
    named = {name: getattr(config, name) for name in recipe.parts}
    may = Permission.typed(basket, list(named.values()), spec, trust=trust)
    parts = load(recipe.make)(named, may, objects)
    has_labels, labelled = recipe.labels(asdict(config))
    data_set = open_data(data, config.split, labelled=has_labels, quiet=quiet)
    if not isinstance(basket, Basket):
        basket = Basket.open(basket, device=device, classes=data_set.classes or None, shape=shape_of(data_set), may=may)
    networks: Basket = load(recipe.networks)(basket, config)
    matched = load(recipe.match)(data_set, networks, config.canvas, labelled)
    task = Task(recipe, networks, matched, parts, named, may | networks.may, config, workers=workers, quiet=quiet)
    with one_thread():
        load(recipe.check)(task)
    seeds = load(recipe.seeds)(task)
    task = replace(task, seeds=seeds.tensors)
    task = replace(task, settings=_shared_settings(task, spec) | load(recipe.settings)(task))
    if out is None:
        return _in_memory(task)
    where = {
        "basket": [absolute(one) for one in networks.source or []], "data": absolute(data_set.name), "trust": trust,
        "device": networks.device.type, **{name: absolute_chain(text) for name, text in named.items()},
        **({"recipe": absolute(spec)} if spec else {}),
    }  # fmt: skip
    apart = networks.source is not None and isinstance(data, str) and not _in_this_process(named, recipe, spec)
    folder = RunFolder(out)
    with folder.lock():
        _on_disk(task, folder, where, seeds, data_set.problems, apart)
    return Findings.open(folder.path)


def _on_disk(
    task: Task, folder: RunFolder, where: dict[str, Any], seeds: Seeds, problems: Sequence[str], apart: bool
) -> None:
    """The units that are missing, in the folder; what a recipe has to say of all of them last."""
    recipe = task.recipe
    told: dict[str, Any] = {"notes": [*task.basket.notes, *task.matched.notes]}
    if seeds.accuracy is not None:
        told["clean"] = seeds.accuracy
    do = partial(_do, task, apart=apart)
    before: Iterable[pa.Table] = ()
    if recipe.first is not None:
        folder.begin(task.settings, where, None, **told)
        folder.inside(FIRST)
        stage, first = RunFolder(folder.path / FIRST), load(recipe.first)(task)
        stage.begin(task.settings, where, len(first.sizes))
        do(first, stage, recipe.doing, first=True)
        before = _tables(stage)
    work = _units(task, before)
    if recipe.first is None:
        folder.begin(task.settings, where, len(work.sizes), **told)
    elif folder.config["units"] != len(work.sizes):
        folder.note(units=len(work.sizes))
    folder.list_unreadable([*problems, *seeds.unreadable])
    do(work, folder, recipe.doing if recipe.first is None else "Keeping")
    if recipe.finish is not None:
        load(recipe.finish)(task, work, folder)


def _do(task: Task, work: Work, folder: RunFolder, doing: str, *, apart: bool, first: bool = False) -> None:
    """Do the units that are missing, in worker processes where they can open everything themselves."""
    sizes, total = work.sizes, sum(work.sizes)
    missing = folder.missing(len(sizes))
    done = total - sum(sizes[unit] for unit in missing)
    many = cores() if task.basket.device.type == "cpu" and not task.recipe.alone else 1
    processes = min(task.workers or many, len(missing))
    with progress(doing, total, quiet=task.quiet) as bar:
        if done:
            bar.advance(done, "already on disk")
        if apart and processes > 1:
            arrays = {name: tensor.numpy() for name, tensor in task.seeds.items()}
            may = task.may.reading(folder.config["where"]["data"])
            prepare = partial(_prepare, arrays=arrays, may=may, first=first)
            run_units(prepare, folder, missing, workers=processes, tick=bar.advance)
            return
        try:
            with one_thread():
                for unit in missing:
                    do_unit(work.unit, folder, unit, bar.advance)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; finished units are in {folder.path}: the same command goes on from there"
            ) from None


def _prepare(path: Path, arrays: Mapping[str, Any], may: Permission, first: bool) -> Callable[..., Any]:
    """A worker's unit of work, from the run folder; `may`: what the user named just now."""
    seeds = {name: torch.from_numpy(array) for name, array in arrays.items()}
    task = replace(open_again(path, may=may), seeds=seeds, workers=1)
    recipe = task.recipe
    if first:
        made = load(recipe.first)(task)
    else:
        made = _units(task, () if recipe.first is None else _tables(RunFolder(path / FIRST)))
    work: Callable[..., Any] = made.unit
    return work


def _units(task: Task, before: Iterable[pa.Table]) -> Any:
    """The units of a task; where others come before them, these are handed over."""
    make = load(task.recipe.work)
    return make(task) if task.recipe.first is None else make(task, before)


def _in_memory(task: Task) -> Findings:
    """The same without a folder."""
    recipe, before = task.recipe, []
    with one_thread():
        if recipe.first is not None:
            first = load(recipe.first)(task)
            with progress(recipe.doing, sum(first.sizes), quiet=task.quiet) as bar:
                before = [first.unit(unit, bar.advance) for unit in range(len(first.sizes))]
        work = _units(task, before)
        with progress(recipe.doing, sum(work.sizes), quiet=task.quiet or recipe.first is not None) as bar:
            made = [work.unit(unit, bar.advance) for unit in range(len(work.sizes))]
    if recipe.finish is not None:
        load(recipe.finish)(task, work, None)
    return Findings.concat([Findings(one.rows if isinstance(one, Shard) else one) for one in made])


def _tables(folder: RunFolder) -> list[pa.Table]:
    """The tables of the units that came before, checked."""
    found = []
    for file in folder.shards():
        try:
            found.append(pq.read_table(file, partitioning=None, page_checksum_verification=True))
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{file} cannot be read ({error}): delete it, and the same command goes on") from error
    return found


# The way back.


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
    recipe = _from_file(where.get("recipe", settings["recipe"]), may) if own else recipe_called(settings["recipe"])
    named = {name: where.get(name, settings.get(name)) for name in recipe.parts}
    check(named, {str: TEXT}, f"the run {str(run)!r}")
    parts = load(recipe.make)(named, may, {})
    has_labels, labelled = recipe.labels(settings)
    data = open_data(data_of(run, where["data"], may), settings["split"], labelled=has_labels, quiet=True)
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


def data_of(run: str | Path, spec: str, may: Permission) -> str:
    """The data that a run names, if it is a data set by name, or lies where its user works: beside the run, below the
    working folder, where data sets are kept, or where this user has run something before. Any other place is read only
    with trust."""
    homes = [Path(run).resolve().parent, Path.cwd(), *(root.resolve() for root in roots())]
    for place in () if may.trust or spec in may.data else places_of(spec):
        if not any(place.is_relative_to(home) for home in homes) and not is_remembered(place):
            raise UserError(
                f"the run {str(run)!r} names data at {str(place)!r}, where you have run nothing yet, and a run may "
                "come from anybody: if that is where the images are, add --trust, or go there"
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


# What a recipe does where it does not say otherwise.


def read_config(recipe: Recipe, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The config from keywords; an unknown one is named. Parts that are no text are objects in memory."""
    options = dict(known_options(recipe.config, options, recipe.name))
    objects = {name: options[name] for name in recipe.parts if not isinstance(options.get(name, ""), str)}
    named = {name: f"object:{getattr(thing, '__name__', type(thing).__name__)}" for name, thing in objects.items()}
    return recipe.config(**options | named), objects


def everybody(basket: Basket, _: Any) -> Basket:
    """All networks, in their order."""
    return basket


def plainly(data: Dataset | Photographs, basket: Basket, canvas: str | None, labelled: bool) -> Matched:
    """On the canvas that was asked for, or that of the largest network."""
    return match(data, basket, canvas=canvas, labelled=labelled)


def check_images(task: Task) -> Tensor | None:
    """Try the first images on every network; they (n, channels, height, width) uint8, or None if none can be read."""
    seen = read(task.matched.data, task.matched.index[:LOOKED_AT], [task.matched.canvas])
    if not len(seen.index):
        return None
    task.basket.check(seen.images[0])
    return seen.images[0]


def no_seeds(_: Task) -> Seeds:
    """Units need nothing but the data."""
    return Seeds()


def own_settings(task: Task) -> dict[str, Any]:
    """Every field of the config that is not a part, a split or a canvas."""
    other = (*task.recipe.parts, "split", "canvas")
    named = {entry.name for entry in fields(task.config)} - set(other)
    return {name: value for name, value in asdict(task.config).items() if name in named}


def _shared_settings(task: Task, spec: str) -> dict[str, Any]:
    """What the findings of any recipe depend on, as JSON values."""
    basket, data, canvas = task.basket, task.matched.data, task.matched.canvas
    shared = {
        "recipe": task.recipe.name,
        "data": data.name,
        "data_sha256": data.sha256,
        "split": data.split,
        "canvas": None if canvas is None else canvas.to_json(),
        "canvas_given": task.config.canvas,
        "networks": dict(basket.fingerprints),
        "lists": {name: settings_hash({"classes": basket.lists[name]}) for name in basket.names},
        "preprocess": {name: how.to_json() for name, how in basket.preprocess.items()},
        "device": basket.device.type,
    }
    for name, text in {**task.named, **({"recipe": spec} if spec else {})}.items():
        shared.update(with_files(name, text))
    return shared


def find_recipe(recipe: str | Recipe) -> tuple[str, Recipe]:
    """What was typed, if it is a file, and the recipe."""
    if isinstance(recipe, Recipe):
        return "", recipe
    if ".py:" not in recipe:
        return "", recipe_called(recipe)
    return recipe, _from_file(recipe, Permission.typed(recipe))


def _from_file(spec: str, may: Permission) -> Recipe:
    """The recipe that FILE.py:NAME names."""
    file, _, name = spec.rpartition(":")
    made = may.run(file, name)
    if not isinstance(made, Recipe):
        raise UserError(f"{spec!r} is {type(made).__name__}: expected a foible.Recipe")
    return made


def _in_this_process(named: Mapping[str, str], recipe: Recipe, spec: str) -> bool:
    """Whether something of the job is an object of this process, which another could not make."""
    return any(text.startswith("object:") for text in named.values()) or (recipe.name not in RECIPES and not spec)
