"""What the studies of evolved images share: runs of `foible fool` that are kept in the study's folder, their findings
as tensors, and rows whose intervals are over runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from foible.basket import Basket
from foible.data.catalogue import KNOWN
from foible.errors import UserError
from foible.findings import Findings
from foible.networks.files import FILE, read_record
from foible.recipes.fool.recipe import fool
from foible.runs.record import settings_hash
from foible.statistics import wilson
from foible.studies.common import Row, data_for, fewer
from foible.studies.easily_fooled.trained import networks_for

SMALL = 150_000  # images: fewer are judged before another process has started
SURE, VERY_SURE = 0.99, 0.9999  # of Table S1, and of Fig. S4
LENET = {"cifar10": "lenet"}  # by data; elsewhere the paper's own, Caffe's


@dataclass(frozen=True, eq=False)
class Evolved:
    """Evolved images of one suspect, one for each run and class: n rows on the CPU, those that got an answer."""

    classes: tuple[str, ...]
    networks: tuple[str, ...]  # the suspect first
    run: Tensor  # (n,)
    target: Tensor  # (n,) the class that it evolved for
    images: Tensor  # uint8 (n, channels, height, width), of the last generation
    first: Tensor  # the best of the first generation
    said: Tensor  # (networks, n, classes) probabilities, of the images
    began: Tensor  # the same, of the best of the first generation
    trace: Tensor  # (marks, n) the confidence that evolution raised, after the marked generations
    marks: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.run)

    @property
    def runs(self) -> list[int]:
        found: list[int] = torch.unique(self.run).tolist()
        return found

    @property
    def confidence(self) -> Tensor:
        """(networks, n): in the class that each evolved for."""
        return self.said.gather(2, self.target.expand(len(self.networks), -1)[..., None])[..., 0]

    def after(self, generations: int) -> Tensor:
        """(n,): the confidence after as many generations, or at the last mark before."""
        return self.trace[max(place for place, mark in enumerate(self.marks) if mark <= max(1, generations))]


def evolved(
    basket: Basket, data: str, out: Path, name: str, *, seed: int, device: str, quiet: bool, runs: int,
    generations: int, population: int, suspects: Sequence[str] = (), **options: Any,
) -> dict[str, Evolved]:  # fmt: skip
    """What evolution makes of each suspect (default: of all networks), in a run in `out/runs`, which goes on where it
    was broken off. options: of `foible.fool`."""
    asked = {
        "runs": runs, "generations": generations, "population": population, "seed": seed,
        "suspect": list(suspects) or list(basket.names), **options,
    }  # fmt: skip
    known = {"networks": dict(basket.fingerprints), "data": data, "device": basket.device.type, **asked}
    few = runs * generations * population * len(asked["suspect"]) < SMALL
    findings = fool(
        basket, data, out=out / "runs" / f"{name}-{settings_hash(known)[:8]}", workers=1 if few else None,
        device=device, quiet=quiet, **asked,
    )  # fmt: skip
    return {one: read(findings, one) for one in asked["suspect"]}


def read(findings: Findings, suspect: str) -> Evolved:
    """The rows of one suspect; those that a network answered with NaN are left out."""
    table = findings.table
    table = table.filter(pc.and_(pc.equal(table["suspect"], suspect), pc.not_equal(table["outcome"], "invalid")))
    if not table.num_rows:
        raise UserError(f"{suspect!r} gave no answer that is a number: there is nothing to study")
    mine = Findings(table)
    path = table["path"][0].as_py()
    trace = np.asarray(mine.column("trace"), np.float32)[..., 0]
    return Evolved(
        classes=mine.classes,
        networks=tuple(table["networks"][0].as_py()),
        run=torch.tensor(mine.column("lane")),
        target=torch.tensor(mine.column("target")),
        images=torch.stack(mine.images("image")),
        first=torch.stack(mine.images("origin")),
        said=_probabilities(mine, "after"),
        began=_probabilities(mine, "before"),
        trace=torch.from_numpy(trace).t(),
        marks=(1, *(step["step"] for step in path)),
    )


def _probabilities(findings: Findings, column: str) -> Tensor:
    return torch.from_numpy(np.asarray(findings.column(column), np.float64)).transpose(0, 1)


def plan_for(plan: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """A scale's own plan with what the user gave: text that is not empty, numbers that are not 0 (of `images`: not
    negative)."""
    asked = {key: value for key, value in given.items() if (value >= 0 if key == "images" else value)}
    for key, value in asked.items():
        if isinstance(value, int | float) and value < (0 if key == "images" else 1):
            raise UserError(f"{key} is {value}: expected at least {0 if key == 'images' else 1}")
    return {**plan, **asked}


def stage(
    plan: Mapping[str, Any], specs: Sequence[str], seeds: Sequence[int], *, scale: str, data: str | None, out: Path,
    device: str, basket: str | None, quiet: bool,
) -> tuple[str, str, Basket]:  # fmt: skip
    """The data that is studied, the data that is used (fewer images, where the plan says so), and the networks."""
    named = data_for(data, scale)
    short = basket is None and plan["images"] and named in KNOWN
    used = fewer(named, plan["images"], out, tested=plan["tested"]) if short else named
    specs = [one or LENET.get(named, "lenet-caffe") for one in specs]
    group = networks_for(specs, used, out, seeds=seeds, steps=plan["steps"], device=device, quiet=quiet, given=basket)
    return named, used, group


def told(basket: Basket) -> list[str]:
    """The networks with their test errors, where these are known: for the settings."""
    errors = {
        one["name"]: f" ({100 * (1 - one['accuracy']['test']):.2f} % test error)"
        for folder in basket.source or ()
        if (Path(folder) / FILE).is_file()
        for one in read_record(Path(folder))["networks"]
        if "test" in one.get("accuracy", ())
    }
    return [f"{name}{errors.get(name, '')}" for name in basket.names]


def ratio_row(table: str, quantity: str, paper: float | None, hits: Tensor, of: Tensor, runs: Tensor) -> Row:
    """The share of `hits` (n,) among `of` (n,), in percent, with an interval over runs (n,): images of one run have
    ancestors in common. Linearised, with Student's quantile; Wilson's where all runs agree, or there is only one."""
    from scipy.stats import t

    total, good = int(of.sum()), int((hits & of).sum())
    if not total:
        return Row(table, quantity, paper, None, n=0)
    share = good / total
    each = torch.unique(runs, return_inverse=True)[1]
    count = int(each.max()) + 1
    apart = torch.zeros(count, dtype=torch.float64)
    apart.index_add_(0, each, ((hits & of).double() - share * of.double()))
    spread = math.sqrt(float(apart.square().sum()) * count / max(1, count - 1)) / total
    low, high = wilson(good, total)
    if spread > 0 and count > 1:
        half = float(t.ppf(0.975, count - 1)) * spread
        low, high = max(0.0, share - half), min(1.0, share + half)
    return Row(table, quantity, paper, 100 * share, 100 * low, 100 * high, total)


def mean_of(table: str, quantity: str, paper: float | None, parts: Sequence[Row]) -> Row:
    """The mean of independent shares in percent."""
    known = [row for row in parts if row.measured is not None and row.low is not None and row.high is not None]
    if not known or len(known) < len(parts):
        return Row(table, quantity, paper, None, n=0)
    count = len(known)
    middle = sum(row.measured or 0 for row in known) / count
    below, above = (
        math.sqrt(sum(reach**2 for reach in reaches)) / count
        for reaches in (
            [(row.measured or 0) - (row.low or 0) for row in known],
            [(row.high or 0) - (row.measured or 0) for row in known],
        )
    )
    return Row(table, quantity, paper, middle, max(0, middle - below), min(100, middle + above),
               sum(row.n or 0 for row in known))  # fmt: skip
