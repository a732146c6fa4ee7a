"""Hunt: images that a suspect gets wrong while all its peers get them right (paper 1).

    seeds that the whole basket gets right → a search through a space of small changes → findings

Every trial is a lane, numbered from 0; the same lane starts from the same seed image and draws the same numbers
whichever network is the suspect, so that suspects compare pairwise.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible import specs
from foible.basket import Basket, Budget
from foible.data import Dataset, load
from foible.errors import UserError
from foible.findings import Findings, with_metadata
from foible.networks.resume import fingerprint
from foible.progress import progress
from foible.randomness import integers
from foible.recipes.config import HuntConfig
from foible.recipes.parts import TABLES, absolute, make_parts, read_options, refuse_code
from foible.recipes.rows import make_rows
from foible.runs import RunFolder, run_units, settings_hash
from foible.runs.local import Tick, Work, cores, do_unit, one_thread
from foible.search import Trials


@dataclass(frozen=True)
class _Hunter:
    """Everything that one unit of work needs, made once a process."""

    basket: Basket
    data: Dataset
    eligible: Tensor  # (m,) positions of the seed images
    space: Any
    objective: Any
    search: Any
    settings: dict[str, Any]

    def trials(self, lanes: Tensor) -> tuple[Trials, Tensor]:
        """The trials of these lanes, and where in the data their seed images stand."""
        drawn = integers(self.settings["seed"], lanes, stream="hunt.seeds", high=len(self.eligible), count=1)[:, 0]
        index = self.eligible[drawn]
        return Trials(lanes, self.data.images[index], self.data.labels[index]), index

    @property
    def units(self) -> list[tuple[str, int, int]]:
        """(suspect, first lane, end) of every unit."""
        size, trials = self.settings["unit"], self.settings["trials"]
        return [
            (suspect, first, min(first + size, trials))
            for suspect in self.settings["suspects"]
            for first in range(0, trials, size)
        ]

    def work(self, unit: int, tick: Tick) -> Any:
        """The rows of one unit: a pure function of the settings and the unit's number."""
        suspect, first, end = self.units[unit]
        trials, index = self.trials(torch.arange(first, end))
        found = self.search(
            self.space, self.objective, self.basket, trials, suspect=suspect, seed=self.settings["seed"],
            precision=self.settings["precision"], budget=Budget(forwards=self.settings["budget"]), tick=tick,
        )  # fmt: skip
        key = settings_hash(self.settings)
        origin = {
            "origin_data": [self.data.name] * len(index),
            "origin_split": [self.data.split] * len(index),
            "origin_index": index.tolist(),
        }
        table = make_rows(
            self.space, self.objective, self.basket, trials, found, suspect=suspect, origin=origin,
            truth=trials.aims.tolist(), config=key,
        )  # fmt: skip
        return with_metadata(table, self.basket.classes, {key: self.settings})


def hunt(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset = "digits",
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    quiet: bool = False,
    **options: Any,
) -> Findings:
    """Hunt with each suspect in turn; findings in memory, or with `out` in a run folder that can be resumed.

    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist", or a `Dataset`.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    options: the fields of `HuntConfig`: suspect, trials, seed, split, space, objective, search, peer_confidence, …
        `space`, `objective` and `search` may also be objects and functions.
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: expected at least 1")
    config, things = read_options(options)
    data_set = load(data, config.split, quiet=quiet)
    if not isinstance(basket, Basket):
        basket = Basket.open(basket, device=device, classes=data_set.classes, shape=shape_of(data_set))
    data_set = _by_name(data_set, basket.classes)
    for suspect in config.suspect:
        basket.peers(suspect)  # or an error that names it
    basket.check(data_set.images)
    with one_thread():
        eligible = _eligible(basket, data_set, quiet)
    settings = _settings(config, basket, data_set)
    hunter = _Hunter(basket, data_set, eligible, **things, settings=settings)
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
            "device": basket.device.type,
            **{name: absolute(getattr(config, name)) for name in TABLES},
        }
        folder.begin(settings, where, len(hunter.units))
        missing = folder.missing(len(hunter.units))
        done = total - sum(end - first for _, first, end in (hunter.units[u] for u in missing))
        processes = workers or (cores() if basket.device.type == "cpu" else 1)
        with progress("Hunting", total, quiet=quiet) as bar:
            if done:
                bar.advance(done, "already on disk")
            if apart and min(processes, len(missing)) > 1:
                run_units(
                    partial(_prepare, eligible=eligible.numpy()),
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


def _prepare(path: Path, eligible: Any) -> Work:
    """A worker's hunter, from the run folder alone."""
    return open_hunter(path, eligible=torch.from_numpy(eligible), trust=True).work  # the user named them just now


def open_hunter(
    path: str | Path,
    *,
    eligible: Tensor | None = None,
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
    data = load(where["data"], settings["split"], quiet=True)
    if basket is None:
        if not where["basket"]:
            raise UserError(f"the run {str(path)!r} was made with networks in memory: give them with --basket")
        basket = Basket.open(
            where["basket"],
            device=device or where["device"],
            classes=data.classes,
            shape=shape_of(data),
        )
    for name, known in settings["networks"].items():
        if basket.fingerprints.get(name) != known:
            raise UserError(
                f"network {name!r} is not the one that the run {str(path)!r} was made with: its weights differ"
            )
        if basket.preprocess[name].to_json() != settings["preprocess"][name]:
            raise UserError(f"network {name!r} is preprocessed otherwise than when the run {str(path)!r} was made")
    none = torch.empty(0, dtype=torch.int64)
    return _Hunter(
        basket,
        _by_name(data, basket.classes),
        none if eligible is None else eligible,
        **make_parts(where),
        settings=settings,
    )


def shape_of(data: Dataset) -> tuple[int, int, int]:
    """(channels, height, width) of its images."""
    channels, height, width = data.images.shape[1:]
    return channels, height, width


def _by_name(data: Dataset, classes: Sequence[str]) -> Dataset:
    """The data with its labels counted as the basket counts them: classes meet by name."""
    if tuple(data.classes) == tuple(classes):
        return data
    unknown = sorted(set(data.classes) ^ set(classes))
    if unknown:
        raise UserError(
            f"the data {data.name!r} has classes {_some(data.classes)}, the basket {_some(classes)}; only one of them "
            f"knows {_some(unknown)}: give data of the networks' task"
        )
    position = torch.tensor([list(classes).index(name) for name in data.classes])
    return dataclasses.replace(data, labels=position[data.labels], classes=tuple(classes))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f", … ({len(names)})" if len(names) > 6 else "")


def _eligible(basket: Basket, data: Dataset, quiet: bool) -> Tensor:
    """Positions of the images that every network gets right."""
    right = torch.zeros(len(data), dtype=torch.bool)
    batch = max(16, min(1000, 4_000_000 // data.images[0].numel()))
    with progress("Judging seed images", len(data), quiet=quiet) as bar:
        for first in range(0, len(data), batch):
            part = slice(first, first + batch)
            logits = basket.predict(data.images[part], batch=batch)
            agree = (logits.argmax(2) == data.labels[part]).all(0) & logits.isfinite().all(2).all(0)
            right[part] = agree
            bar.advance(len(agree))
    if not right.any():
        raise UserError(
            f"none of the {len(data)} images of {data.name!r} ({data.split}) is classified right by all of "
            f"{', '.join(basket.names)}: check the class order and the preprocessing"
        )
    return right.nonzero()[:, 0]


def _settings(config: HuntConfig, basket: Basket, data: Dataset) -> dict[str, Any]:
    """Everything that the findings depend on, as JSON values; its hash names the run."""
    pixels = data.images[0].numel()
    unit = config.unit or max(16, min(20_000, 16_000_000 // pixels, math.ceil(config.trials / 2)))
    settings = {
        "recipe": "hunt",
        "data": data.name,
        "data_sha256": fingerprint(data),
        "split": data.split,
        "networks": dict(basket.fingerprints),
        "preprocess": {name: how.to_json() for name, how in basket.preprocess.items()},
        "suspects": list(config.suspect or basket.names),
        "trials": config.trials,
        "seed": config.seed,
        "precision": config.precision,
        "budget": config.budget,
        "unit": unit,
        "device": basket.device.type,
    }
    for name in TABLES:
        spec = getattr(config, name)
        settings[name] = spec
        if specs.parse(spec).is_file:  # its name and content; where it lies is not a setting
            file = Path(specs.parse(spec).name)
            settings[name] = spec.replace(specs.parse(spec).name, file.name, 1)
            settings[f"{name}_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return settings
