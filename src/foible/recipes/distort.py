"""Distort: the smallest change of an image that makes a network say another label (paper 3, Sec. 4.1).

    images that the source gets right → nearest image of another label, in the box → on 8 bits → every network judges

The source is the network that is distorted for; all other networks of the basket are judges, and say to whom the
distortion transfers. Every image is a row; what comes of it does not depend on which others are in its unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from foible.basket import Basket
from foible.data import Dataset, Photographs, open_data, read
from foible.errors import UserError
from foible.findings import Findings
from foible.images import to_floats
from foible.progress import progress
from foible.recipes.config import DistortConfig
from foible.recipes.distort_check import check_differentiable
from foible.recipes.distort_images import choose_images
from foible.recipes.distort_methods import asked_with, make_method, read_method
from foible.recipes.distort_targets import read_target
from foible.recipes.distort_units import Distorter, meet_source, open_distorter, settings_of, source_first
from foible.recipes.hunt import shape_of
from foible.recipes.parts import absolute
from foible.runs import RunFolder, run_units
from foible.runs.local import Work, cores, do_unit, one_thread


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
    options: the fields of `DistortConfig`: source, target, method, norm, layer, images, split, seed, lattice, budget, …
        `method` may also be a function, as `foible.search.nearest` describes it.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: expected at least 1")
    given = options.get("method", DistortConfig.method)
    config = DistortConfig.read({**options, "method": read_method(given)})
    method = make_method(config.method) if isinstance(given, str) else given
    asked_with(method, config.method, config.norm)
    labelled = not config.unlabelled
    data_set = open_data(data, config.split, labelled=labelled, quiet=quiet)
    if not isinstance(basket, Basket):
        basket = Basket.open(
            basket, device=device, classes=data_set.classes or None, shape=shape_of(data_set), trust=trust
        )
    basket = source_first(basket, config.source)
    read_target(config.target, basket.classes)
    meeting = meet_source(data_set, basket, config.canvas, labelled)
    with one_thread():
        first = read(meeting.data, meeting.index[:16], [meeting.canvas])
        if len(first.index):
            basket.check(first.images[0])
            check_differentiable(basket, basket.names[0], to_floats(first.images[0].to(basket.device)))
    chosen, clean, unreadable = choose_images(
        basket, meeting, count=config.images, seed=config.seed, wrong=config.wrong, labelled=labelled, quiet=quiet
    )
    distorter = Distorter(basket, meeting, chosen, method, settings_of(config, basket, meeting))
    _ = distorter.layer  # what is wrong with it should be said now and not after the first unit
    total = len(chosen) * distorter.tries
    if out is None:
        with progress("Distorting", total, quiet=quiet) as bar, one_thread():
            return Findings.concat([Findings(distorter.work(u, bar.advance)) for u in range(distorter.units)])
    folder = RunFolder(out)
    named = not config.method.startswith("object:")
    apart = basket.source is not None and isinstance(data, str) and named  # can another process make all of it?
    with folder.lock():
        where = {
            "basket": [absolute(spec) for spec in basket.source or []],
            "data": absolute(data_set.name),
            "trust": trust,
            "device": basket.device.type,
            "method": absolute(config.method),
        }
        told = {"clean": clean.rows() if labelled else None, "notes": [*basket.notes, *meeting.notes]}
        folder.begin(distorter.settings, where, distorter.units, **told)
        folder.list_unreadable([*data_set.problems, *unreadable])
        missing = folder.missing(distorter.units)
        done = total - sum(len(distorter.part(unit)) for unit in missing) * distorter.tries
        processes = workers or (cores() if basket.device.type == "cpu" else 1)
        with progress("Distorting", total, quiet=quiet) as bar:
            if done:
                bar.advance(done, "already on disk")
            if apart and min(processes, len(missing)) > 1:
                prepare = partial(_prepare, chosen=chosen.numpy())
                run_units(prepare, folder, missing, workers=processes, tick=bar.advance)
            else:
                with one_thread():
                    for unit in missing:
                        do_unit(distorter.work, folder, unit, bar.advance)
    return Findings.open(folder.path)


def _prepare(path: Path, chosen: Any) -> Work:
    """A worker's distorter, from the run folder alone."""
    return open_distorter(path, chosen=torch.from_numpy(chosen), trust=True).work  # the user named them just now
