"""One job for every recipe: open → match → seeds → settings → units → shards → summary.

A run folder holds all that is needed to go on with it or to replay it; `reopen.py` is the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from foible.basket import Basket
from foible.basket.matching import shape_of
from foible.data import Dataset, Photographs, open_data
from foible.errors import Interrupted, UserError
from foible.findings import Findings
from foible.permission import Permission
from foible.processes import cores, one_thread
from foible.progress import progress
from foible.runs.folder import RunFolder
from foible.runs.local import do_unit, do_units, run_units, shard_of
from foible.runs.own_data import own_data
from foible.runs.recipe import RECIPES, Recipe, find_recipe, load
from foible.runs.record import settings_hash
from foible.runs.reopen import open_again
from foible.runs.task import Seeds, Task, Work
from foible.spec_files import absolute, absolute_chain, with_files
from foible.warping_gpu import wake

FIRST = "ranking"  # the folder, in a run, of units that come before the others


def run(
    recipe: str | Recipe,
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
    """Run a recipe: findings in memory, or with `out` in a run folder that can be resumed.

    recipe: the name of one ("hunt", "distort", "compare", "rank"), FILE.py:NAME, or a `Recipe`.
    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`; without, what the basket was
        trained on.
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
    has_labels, labelled = load(recipe.labels)(asdict(config))
    if device != "cpu" and not isinstance(basket, Basket):
        wake()
    if out is not None:
        RunFolder(out).check_place(with_files("recipe", spec)["recipe"] if spec else recipe.name)
    data = own_data(basket, may, quiet=quiet) if data is None else data
    data_set = open_data(data, config.split, labelled=has_labels, whole=True, quiet=quiet)
    if not isinstance(basket, Basket):
        basket = Basket.open(basket, device=device, classes=data_set.classes or None, shape=shape_of(data_set), may=may)
    networks: Basket = load(recipe.networks)(basket, config)
    matched = load(recipe.match)(data_set, networks, config.canvas, labelled)
    task = Task(recipe, networks, matched, parts, named, may | networks.may, config, workers=workers, quiet=quiet)
    task = load(recipe.fitted)(task, objects.keys())
    named = dict(task.named)
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
    told: dict[str, Any] = {"notes": [*task.basket.notes, *task.matched.notes], "specs": task.basket.specs_of_all}
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
                if task.basket.device.type != "cpu":
                    do_units(work.unit, folder, missing, bar.advance)
                    return
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
                before = [shard_of(first.unit(unit, bar.advance)).rows for unit in range(len(first.sizes))]
        work = _units(task, before)
        with progress(recipe.doing, sum(work.sizes), quiet=task.quiet or recipe.first is not None) as bar:
            made = [shard_of(work.unit(unit, bar.advance)).rows for unit in range(len(work.sizes))]
    if recipe.finish is not None:
        load(recipe.finish)(task, work, None)
    return Findings.concat(map(Findings, made))


def _tables(folder: RunFolder) -> list[pa.Table]:
    """The tables of the units that came before, checked."""
    found = []
    for file in folder.shards():
        try:
            found.append(pq.read_table(file, partitioning=None, page_checksum_verification=True))
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{file} cannot be read ({error}): delete it, and the same command goes on") from error
    return found


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


def _in_this_process(named: Mapping[str, str], recipe: Recipe, spec: str) -> bool:
    """Whether something of the job is an object of this process, which another could not make."""
    return any(text.startswith("object:") for text in named.values()) or (recipe.name not in RECIPES and not spec)
