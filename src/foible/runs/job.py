"""One job for every recipe: open → match → refuse → seeds → settings → units → shards → summary.

A run folder holds all that is needed to go on with it or to replay it; `reopen.py` is the way back.
"""

from __future__ import annotations

import sys
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
from foible.processes import cores, one_thread, without_pandas
from foible.progress import progress
from foible.runs.folder import RunFolder
from foible.runs.kept_seeds import Kept, key_of
from foible.runs.local import do_unit, do_units, run_units, shard_of
from foible.runs.own_data import own_data
from foible.runs.recipe import RECIPES, Recipe, find_recipe, load
from foible.runs.record import settings_hash
from foible.runs.reopen import open_again
from foible.runs.spans import Plan, Span, gaps
from foible.runs.task import FIRST, LEAST, Seeds, Task, Work
from foible.runs.told import BEFORE, forecast, told_of
from foible.spec_files import absolute, absolute_chain, absolute_data, with_files
from foible.warping_gpu import wake


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
    without_pandas()
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
    if out is None:
        return _in_memory(_seeded(task, spec)[0])
    folder = RunFolder(out)
    ours = recipe.name in RECIPES and not spec
    early = _shared_settings(task, spec) | (load(recipe.settings)(task) if ours else {})
    try:
        with folder.lock():
            task = replace(task, settings=folder.known(early, early=True))
            kept = Kept(folder.path, key_of(config, early))
            task, seeds = _seeded(task, spec, kept)
            where = {
                "basket": [absolute(one) for one in networks.source or []], "data": absolute_data(data_set.name),
                "trust": trust, "device": networks.device.type,
                **{name: absolute_chain(text) for name, text in task.named.items()},
                **({"recipe": absolute(spec)} if spec else {}),
            }  # fmt: skip
            apart = networks.source is not None and isinstance(data, str) and not _in_this_process(task, spec)
            _on_disk(task, folder, where, seeds, data_set.problems, apart, kept)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped: {told_of(folder.path)}") from None
    return Findings.open(folder.path)


def _seeded(task: Task, spec: str, kept: Kept | None = None) -> tuple[Task, Seeds]:
    """The task with its seeds and settings: the networks are tried, and images judged as far as they must be. kept:
    what was said of some before, and where it is noted what is said now."""
    recipe = task.recipe
    with one_thread():
        load(recipe.check)(task)
    seeds: Seeds = load(recipe.seeds)(replace(task, kept=kept))
    task = replace(task, seeds=seeds.tensors)
    return replace(task, settings=_shared_settings(task, spec) | load(recipe.settings)(task)), seeds


def _on_disk(
    task: Task, folder: RunFolder, where: dict[str, Any], seeds: Seeds, problems: Sequence[str], apart: bool,
    kept: Kept,
) -> None:  # fmt: skip
    """The lanes that are missing, in the folder; what a recipe has to say of all of them last."""
    recipe, task = task.recipe, replace(task, folder=folder.path)
    told: dict[str, Any] = {"notes": [*task.basket.notes, *task.matched.notes], "specs": task.basket.specs_of_all}
    if seeds.accuracy is not None:
        told["clean"] = seeds.accuracy
    do = partial(_do, apart=apart)
    before: Iterable[pa.Table] = ()
    if recipe.first is not None:
        task = replace(task, settings=folder.begin(task.settings, where, None, **told))
        folder.inside(BEFORE)
        stage, first = RunFolder(folder.path / BEFORE), load(recipe.first)(task)
        stage.begin(task.settings, where, first.lanes, size=task.settings.get("unit"))
        do(task, first, stage, recipe.doing, first=True)
        before = _tables(stage)
        work = _units(task, before)
        if folder.config["lanes"] != list(work.lanes):
            folder.note(lanes=list(work.lanes), **({"numbered": work.most} if "units" in folder.config else {}))
    else:
        known = folder.known(task.settings)
        task = replace(task, settings=known) if "unit" in known else task
        work = _units(task, before)
        folder.begin(task.settings, where, work.lanes, size=task.settings.get("unit"), **told)
    folder.list_unreadable([*problems, *seeds.unreadable])
    kept.write()
    do(task, work, folder, recipe.doing if recipe.first is None else "Keeping")
    if recipe.finish is not None:
        with progress("Summing up", 1, quiet=task.quiet) as bar:
            load(recipe.finish)(task, work, folder)
            bar.advance()


def _do(task: Task, work: Work, folder: RunFolder, doing: str, *, apart: bool, first: bool = False) -> None:
    """Do the lanes that are missing, in worker processes where they can open everything themselves."""
    missing, total = folder.missing(anew=True), sum(work.lanes)
    left = sum(span.size for span in missing)
    here = task.basket.device.type == "cpu"
    many = cores() if here and not task.recipe.alone else 1
    plan = _plan(task, work, missing, task.workers or many if apart else 1, folder.begun(missing, work.most))
    if not task.quiet:
        plan.heard = partial(_tell_forecast, task, plan, work.lanes)
    with progress(doing, total, done=total - left, quiet=task.quiet) as bar:
        if plan.workers > 1:
            arrays = {name: tensor.numpy() for name, tensor in task.seeds.items()}
            may = task.may.reading(folder.config["where"]["data"])
            prepare = partial(_prepare, arrays=arrays, may=may, first=first)
            run_units(prepare, folder, plan, workers=plan.workers, tick=bar.advance)
            return
        with one_thread():
            if not here:
                do_units(work.unit, folder, plan, bar.advance)
                return
            while (span := plan.next()) is not None:
                plan.took(span, do_unit(work.unit, folder, span, bar.advance))


def _tell_forecast(task: Task, plan: Plan, lanes: Sequence[int], pace: float) -> None:
    told = forecast(
        task.settings, lanes, left=plan.left, pace=pace, workers=plan.workers, least=max(plan.least, plan.reached)
    )
    if told:
        print(told, file=sys.stderr, flush=True)


def _plan(task: Task, work: Work, missing: Sequence[Span], workers: int, begun: Sequence[Span] = ()) -> Plan:
    """How the missing lanes become units: by what is measured, unless the user says how many are in each, or lanes that
    touch do, or an earlier version did. begun: units that were broken off."""
    fixed = getattr(task.config, "unit", None) or task.settings.get("together", task.settings.get("unit"))
    least: int = fixed or min(getattr(work, "least", LEAST), work.most)
    left = sum(span.size for span in missing)
    workers = max(1, min(workers, -(-left // least)))
    begin = max(least, min(getattr(work, "first", FIRST), -(-left // workers)))
    return Plan(missing, first=begin, least=least, most=fixed or work.most, workers=workers, begun=begun)


def _prepare(path: Path, arrays: Mapping[str, Any], may: Permission, first: bool) -> Callable[..., Any]:
    """A worker's unit of work, from the run folder; `may`: what the user named just now."""
    seeds = {name: torch.from_numpy(array) for name, array in arrays.items()}
    task = replace(open_again(path, may=may), seeds=seeds, workers=1, folder=path)
    recipe = task.recipe
    if first:
        made = load(recipe.first)(task)
    else:
        made = _units(task, () if recipe.first is None else _tables(RunFolder(path / BEFORE)))
    work: Callable[..., Any] = made.unit
    return work


def _units(task: Task, before: Iterable[pa.Table]) -> Any:
    """The units of a task; where others come before them, these are handed over."""
    make = load(task.recipe.work)
    return make(task) if task.recipe.first is None else make(task, before)


def _in_memory(task: Task) -> Findings:
    """The same without a folder."""
    recipe, before = task.recipe, []

    def done(work: Work, doing: str, quiet: bool) -> list[pa.Table]:
        made, plan = [], _plan(task, work, gaps((), work.lanes), 1)
        plan.first = plan.most  # nothing is kept before all is done
        with progress(doing, sum(work.lanes), quiet=quiet) as bar:
            while (span := plan.next()) is not None:
                made.append(shard_of(work.unit(span, bar.advance)).rows)
        return made

    with one_thread():
        if recipe.first is not None:
            before = done(load(recipe.first)(task), recipe.doing, task.quiet)
        work = _units(task, before)
        made = done(work, recipe.doing, task.quiet or recipe.first is not None)
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


def _in_this_process(task: Task, spec: str) -> bool:
    """Whether something of the job is an object of this process, which another could not make."""
    own = task.recipe.name not in RECIPES and not spec
    return own or any(text.startswith("object:") for text in task.named.values())
