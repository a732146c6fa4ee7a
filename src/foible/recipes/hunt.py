"""Hunt: images that a suspect gets wrong while all its peers get them right (paper 1).

    seeds that the whole basket gets right → a search through a space of small changes → findings

Every trial is a lane, numbered from 0; the same lane starts from the same seed image and draws the same numbers
whichever network is the suspect, so that suspects compare pairwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget
from foible.data import Dataset, Photographs, open_data, read
from foible.errors import UserError
from foible.findings import Findings, with_metadata
from foible.meeting import Meeting, meet
from foible.networks.preprocess import Preprocess
from foible.progress import progress
from foible.randomness import integers
from foible.realism import Realism
from foible.realism import check as check_realism
from foible.realism import fit as fit_realism
from foible.recipes.config import HuntConfig
from foible.recipes.parts import TABLES, absolute, absolute_chain, make_parts, read_options, refuse_code, with_files
from foible.recipes.rows import make_rows
from foible.recipes.seeds import chosen, eligible_seeds, peers_of, tell_few
from foible.runs import RunFolder, run_units, settings_hash
from foible.runs.local import Tick, Work, cores, do_unit, one_thread
from foible.search import Trials


@dataclass(frozen=True)
class _Hunter:
    """Everything that one unit of work needs, made once a process."""

    basket: Basket
    meeting: Meeting
    eligible: Tensor  # (m,) positions of the seed images
    aims: Tensor  # (m,) the class of each: its label, or without labels what every network says
    space: Any
    objective: Any
    search: Any
    settings: dict[str, Any]
    trust: bool = False  # for the network that judges realism

    def trials(self, lanes: Tensor) -> tuple[Trials, Tensor]:
        """The trials of these lanes, and where in the data their seed images stand."""
        drawn = integers(self.settings["seed"], lanes, stream="hunt.seeds", high=len(self.eligible), count=1)[:, 0]
        index, aims = self.eligible[drawn], self.aims[drawn]
        once, places = index.unique(return_inverse=True)
        seen = read(self.meeting.data, once, [self.meeting.canvas])
        if seen.problems:
            position, why = seen.problems[0]
            raise UserError(f"image {position} of {self.meeting.data.name!r} could be read and cannot now: {why}")
        return Trials(lanes, seen.images[0][places], aims), index

    @property
    def units(self) -> list[tuple[str, int, int]]:
        """(suspect, first lane, end) of every unit."""
        size, trials = self.settings["unit"], self.settings["trials"]
        return [
            (suspect, first, min(first + size, trials))
            for suspect in self.settings["suspects"]
            for first in range(0, trials, size)
        ]

    @cached_property
    def realism(self) -> Realism | None:
        """What tells how typical an image looks: fitted to some of the seed images, the same ones in every process."""
        if self.settings["realism"] == "none":
            return None
        pixels = self.meeting.size[0] * self.meeting.size[1]
        most = max(64, min(2000, 40_000_000 // pixels))
        some = self.eligible[
            torch.linspace(0, len(self.eligible) - 1, min(most, len(self.eligible)), dtype=torch.float64).long()
        ]
        seen = read(self.meeting.data, some, [self.meeting.canvas])
        return fit_realism(self.settings["realism"], seen.images[0], basket=self.basket, trust=self.trust)

    def work(self, unit: int, tick: Tick) -> Any:
        """The rows of one unit: a pure function of the settings and the unit's number."""
        suspect, first, end = self.units[unit]
        trials, index = self.trials(torch.arange(first, end))
        basket = self.basket.only([suspect, *peers_of(self.basket, suspect, self.settings["peers"])])
        found = self.search(
            self.space, self.objective, basket, trials, suspect=suspect, seed=self.settings["seed"],
            precision=self.settings["precision"], budget=Budget(forwards=self.settings["budget"]), tick=tick,
        )  # fmt: skip
        if found.trial is not None:
            trials, index = trials.rows(found.trial), index[found.trial]
        key = settings_hash(self.settings)
        data, files = self.meeting.data, self.meeting.data.files
        origin = {
            "origin_data": [data.name] * len(index),
            "origin_split": [data.split] * len(index),
            "origin_index": index.tolist(),
            "origin_file": [None if files is None else files[place] for place in index.tolist()],
        }
        table = make_rows(
            self.space, self.objective, basket, trials, found, suspect=suspect, origin=origin,
            labelled=not self.settings["unlabelled"], config=key, shrinks=self.settings["shrink"],
            realism=self.realism,
        )  # fmt: skip
        return with_metadata(table, self.basket.classes, {key: self.settings})


def hunt(
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
    """Hunt with each suspect in turn; findings in memory, or with `out` in a run folder that can be resumed.

    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    trust: load network files that can run code.
    options: the fields of `HuntConfig`: suspect, peers, trials, seed, split, space, objective, search, canvas, …
        `space`, `objective` and `search` may also be objects and functions.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: expected at least 1")
    config, things = read_options(options)
    check_realism(config.realism)
    labelled = not config.unlabelled
    data_set = open_data(data, config.split, labelled=labelled, quiet=quiet)
    if not isinstance(basket, Basket):
        basket = Basket.open(basket, device=device, classes=data_set.classes, shape=shape_of(data_set), trust=trust)
    basket = chosen(basket, config.suspect, config.peers)
    meeting = meet(data_set, basket, canvas=config.canvas, labelled=labelled)
    with one_thread():
        first = read(meeting.data, meeting.index[:16], [meeting.canvas])
        if len(first.index):
            basket.check(first.images[0])
    eligible, aims, clean, unreadable = eligible_seeds(basket, meeting, labelled, quiet)
    if not quiet:
        tell_few(len(config.peers) or len(basket) - 1)
    settings = _settings(config, basket, meeting)
    hunter = _Hunter(basket, meeting, eligible, aims, **things, settings=settings, trust=trust)
    if config.realism.startswith("network:"):
        _ = hunter.realism  # what is wrong with that network should be said now and not after the first unit
    total = settings["trials"] * len(settings["suspects"])
    if out is None:
        with progress("Hunting", total, quiet=quiet) as bar, one_thread():
            return Findings.concat([Findings(hunter.work(u, bar.advance)) for u in range(len(hunter.units))])
    folder = RunFolder(out)
    named = not any(str(settings[name]).startswith("object:") for name in TABLES)
    apart = basket.source is not None and isinstance(data, str) and named  # can another process make all of it?
    with folder.lock():
        where = {
            "basket": [absolute(spec) for spec in basket.source or []],
            "data": absolute(data_set.name),
            "trust": trust,
            "device": basket.device.type,
            **{name: absolute_chain(getattr(config, name)) for name in TABLES},
        }
        told = {"clean": clean.rows() if labelled else None, "notes": [*basket.notes, *meeting.notes]}
        folder.begin(settings, where, len(hunter.units), **told)
        folder.list_unreadable([*data_set.problems, *unreadable])
        missing = folder.missing(len(hunter.units))
        done = total - sum(end - first for _, first, end in (hunter.units[u] for u in missing))
        processes = workers or (cores() if basket.device.type == "cpu" else 1)
        with progress("Hunting", total, quiet=quiet) as bar:
            if done:
                bar.advance(done, "already on disk")
            if apart and min(processes, len(missing)) > 1:
                run_units(
                    partial(_prepare, eligible=eligible.numpy(), aims=aims.numpy()),
                    folder,
                    missing,
                    workers=processes,
                    tick=bar.advance,
                )
            else:
                with one_thread():
                    for unit in missing:
                        do_unit(hunter.work, folder, unit, bar.advance)
    return Findings.open(folder.path)


def _prepare(path: Path, eligible: Any, aims: Any) -> Work:
    """A worker's hunter, from the run folder alone."""
    seeds = torch.from_numpy(eligible), torch.from_numpy(aims)
    return open_hunter(path, seeds=seeds, trust=True).work  # the user named them just now


def open_hunter(
    path: str | Path,
    *,
    seeds: tuple[Tensor, Tensor] | None = None,
    basket: Basket | None = None,
    device: str | None = None,
    trust: bool = False,
) -> _Hunter:
    """The hunter of a run on disk: to work on it, or to replay its rows. Refuses a basket that has changed.

    A run may come from anybody, so Python files that it names are run only with `trust`.
    """
    config = RunFolder(path).config
    settings, where = config["settings"], config["where"]
    if not trust:
        refuse_code(path, [where[name] for name in TABLES] + ([] if basket else where["basket"]))
    labelled = not settings.get("unlabelled", False)
    data = open_data(where["data"], settings["split"], labelled=labelled, quiet=True)
    if basket is None:
        if not where["basket"]:
            raise UserError(f"the run {str(path)!r} was made with networks in memory: give them with --basket")
        basket = Basket.open(
            where["basket"],
            device=device or where["device"],
            classes=data.classes,
            shape=shape_of(data),
            trust=trust and where.get("trust", False),
        )
    check_networks(path, settings, basket)
    none = torch.empty(0, dtype=torch.int64)
    basket = basket.only(list(settings["networks"]))
    return _Hunter(
        basket,
        meet(data, basket, canvas=settings.get("canvas_given"), labelled=labelled),
        *(seeds or (none, none)),
        **make_parts(where),
        settings=settings,
        trust=where.get("trust", False),
    )


def check_networks(path: str | Path, settings: dict[str, Any], basket: Basket) -> None:
    """Refuse networks, or preprocessing, other than those that a run was made with."""
    for name, known in settings["networks"].items():
        if basket.fingerprints.get(name) != known:
            raise UserError(
                f"network {name!r} is not the one that the run {str(path)!r} was made with: its weights differ"
            )
        if basket.preprocess[name] != Preprocess.from_json(settings["preprocess"][name]):
            raise UserError(f"network {name!r} is preprocessed otherwise than when the run {str(path)!r} was made")


def shape_of(data: Dataset | Photographs) -> tuple[int, int, int] | None:
    """(channels, height, width) of its images; None where they are of any size."""
    if isinstance(data, Photographs):
        return None
    channels, height, width = data.images.shape[1:]
    return channels, height, width


def _settings(config: HuntConfig, basket: Basket, meeting: Meeting) -> dict[str, Any]:
    """Everything that the findings depend on, as JSON values; its hash names the run."""
    data = meeting.data
    channels = data.channels if isinstance(data, Photographs) else data.images.shape[1]
    pixels = channels * meeting.size[0] * meeting.size[1]
    gpu = basket.device.type != "cpu"  # it likes more lanes at once, and does one unit after another
    share = config.trials if config.atlas or gpu else math.ceil(config.trials / 2)  # an atlas is one map a unit
    lanes, values = (100_000, 256_000_000) if gpu else (20_000, 16_000_000)
    unit = config.unit or max(16, min(lanes, values // pixels, share))
    settings = {
        "recipe": "hunt",
        "data": data.name,
        "data_sha256": data.sha256,
        "split": data.split,
        "canvas": None if meeting.canvas is None else meeting.canvas.to_json(),
        "canvas_given": config.canvas,
        "networks": {name: basket.fingerprints[name] for name in basket.names},
        "lists": {name: settings_hash({"classes": basket.lists[name]}) for name in basket.names},
        "preprocess": {name: how.to_json() for name, how in basket.preprocess.items()},
        "suspects": list(config.suspect) or [name for name in basket.names if name not in config.peers],
        "peers": list(config.peers),
        "trials": config.trials,
        "seed": config.seed,
        "precision": config.precision,
        "budget": config.budget,
        "unlabelled": config.unlabelled,
        "atlas": config.atlas,
        "shrink": config.shrink,
        "realism": config.realism,
        "unit": unit,
        "device": basket.device.type,
    }
    for name in TABLES:
        settings.update(with_files(name, getattr(config, name)))
    return settings
