"""`foible study table1`: paper 1, Table 1. How often, in how many moves and at what cost each of five MLPs errs.

Every network in turn is the suspect, the other four are its peers; next-ascent hill climbing over small affine moves
from random training images, given up after 250 candidates in a row without improvement. Four hunts: in the paper's
mode (X ← X′, every accepted image resampled again) and in ours (moves composed, the seed resampled once), at peer
confidence 0 (the peers' argmax alone) and 0.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.findings.tally import row_by_row
from foible.recipes.hunt.recipe import hunt
from foible.spaces import SPACES
from foible.spaces.affine import Affine
from foible.specs import resolve
from foible.studies.common import Result, Row, basket_for, data_for, mean_row, share_row
from foible.studies.peer_pressure.table1 import figures as table1_figures
from foible.studies.peer_pressure.table1 import sizes as table1_sizes
from foible.studies.peer_pressure.table1.trends import Three, trend_rows, trend_words

NETWORKS = ("mlp:10", "mlp:20", "mlp:30", "mlp:40", "mlp:50")
PAPER = {  # network -> success %, moves, forward inferences through all five networks
    "mlp-10": (63.0, 5.0, 507.0),
    "mlp-20": (25.0, 5.0, 640.0),
    "mlp-30": (9.0, 6.0, 852.0),
    "mlp-40": (5.0, 6.0, 801.0),
    "mlp-50": (7.0, 6.0, 819.0),
}
LETTERS = dict(zip(PAPER, "ABCDE", strict=True))
TRIALS = {"quick": 100, "paper": 1000}
QUICK_EPOCHS = 5  # over MNIST, where the full training alone would take half of the minute
CONFIDENCES = (0.0, 0.9)
PAPERS_MODE, OUR_MODE = "the paper's mode", "composed moves"


@dataclass
class Counts:
    """One suspect's trials; `moves`, `counted` (inferences as the paper counts them) and `spent` are of the successful
    trials, one number each."""

    suspect: str
    trials: int = 0
    moves: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{LETTERS[self.suspect]} ({self.suspect[4:]})" if self.suspect in LETTERS else self.suspect

    @property
    def success(self) -> float:
        return 100 * len(self.moves) / self.trials if self.trials else 0.0


def counts_of(run: Path) -> list[Counts]:
    """What each suspect came to in a run folder, in the order in which suspects first appear."""
    counts = []
    for suspect, each in row_by_row(run).items():
        finds = (each[name][each["found"] > 0].tolist() for name in ("moves", "counted", "forwards"))
        counts.append(Counts(suspect, len(each["found"]), *finds))
    return counts


def rows_of(table: str, counts: Sequence[Counts]) -> list[Row]:
    """Success, moves and inferences of every suspect, the paper's figures beside them where it has any."""
    rows = []
    for one in counts:
        paper = PAPER.get(one.suspect, (None, None, None))[0]
        rows.append(share_row(table, f"{one.label}: success, %", paper, len(one.moves), one.trials))
    for what, column, place in (
        ("moves", "moves", 1),
        ("inferences, paper's count", "counted", 2),
        ("inferences, spent", "spent", None),
    ):
        for one in counts:
            paper = None if place is None else PAPER.get(one.suspect, (None, None, None))[place]
            rows.append(mean_row(table, f"{one.label}: {what}", paper, getattr(one, column), least=0))
    return rows


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    trials: int | None = None,
    space: str = "affine",
    patience: int = 250,
    sizes: bool = False,
    workers: int | None = None,
) -> Result:
    """trials: for each suspect. space: sizes of a move, such as `affine?degrees=10&pixels=2`. patience: candidates in a
    row without improvement before a trial ends. sizes: also try other sizes of a move, in the paper's mode, to see what
    comes closest to the paper. workers: processes (default: one a core)."""
    trials = trials or TRIALS[scale]
    modes = modes_of(space)
    source = data_for(data, scale)
    epochs = QUICK_EPOCHS if scale == "quick" and source == "mnist" else None
    networks = basket_for(
        NETWORKS,
        source,
        out,
        seed=seed,
        device=device,
        quiet=quiet,
        given=basket,
        **({"epochs": epochs} if epochs else {}),
    )
    options: dict[str, Any] = {
        "trials": trials, "seed": seed, "split": "train", "patience": patience, "shrink": False, "realism": "none",
        "device": device, "quiet": quiet, "workers": workers,
    }  # fmt: skip
    result = Result("table1", scale, _settings(source, networks.names, trials, patience, modes, epochs, basket), seed)
    hunts: dict[float, dict[str, list[Counts]]] = {}
    trends: list[Row] = []
    for confidence in CONFIDENCES:
        for mode, spec in modes.items():
            folder = out / f"hunt-{'paper' if mode == PAPERS_MODE else 'composed'}-{confidence:g}"
            hunt(networks, source, out=folder, space=spec, peer_confidence=confidence, **options)
            counts = hunts.setdefault(confidence, {})[mode] = counts_of(folder)
            where = f"{mode}, peer confidence {confidence:g}"
            result.rows += rows_of(f"Table 1: {where}", counts)
            trends += trend_rows(f"Trends: {where}", measured_series(counts), paper_series(counts))
            result.notes += trend_words(where, measured_series(counts))
    result.rows += trends
    result.notes += _remarks(source)
    result.figures.append(table1_figures.bars(hunts, PAPER, out))
    if sizes:
        fewer = options | {"trials": max(1, trials // 2)}
        found = table1_sizes.sweep(networks, source, out, fewer)
        rows, notes = table1_sizes.measure({name: counts_of(folder) for name, folder in found.items()}, PAPER)
        result.rows += rows
        result.notes += notes
    return result


def modes_of(space: str) -> dict[str, str]:
    """The two hunts' spaces, from the sizes of a move that were asked for."""
    made = resolve(space, SPACES, "space")
    if not isinstance(made, Affine) or made.resample != "once":
        raise UserError(f"space is {space!r}: expected affine with sizes alone, such as affine?degrees=10&pixels=2")
    joint = "&" if "?" in space else "?"
    return {PAPERS_MODE: f"{space}{joint}resample=each", OUR_MODE: space}


def measured_series(counts: Sequence[Counts]) -> Three:
    """Success, moves and inferences of the suspects, in their order."""
    moves = [_mean(one.moves) for one in counts]
    return [one.success for one in counts], moves, [_mean(one.counted) for one in counts]


def paper_series(counts: Sequence[Counts]) -> Three | None:
    """The same from the paper, where it has every one of these networks."""
    if not all(one.suspect in PAPER for one in counts):
        return None
    success, moves, inferences = zip(*(PAPER[one.suspect] for one in counts), strict=True)
    return success, moves, inferences


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _settings(
    source: str, names: Sequence[str], trials: int, patience: int, modes: dict[str, str], epochs: int | None,
    basket: str | None,
) -> dict[str, Any]:  # fmt: skip
    affine = resolve(modes[OUR_MODE], SPACES, "space")
    return {
        "data": source,
        "networks": list(names) if basket is None else f"{', '.join(names)} (given)",
        "epochs": "the default of `foible train`" if epochs is None else epochs,
        "trials of each suspect": trials,
        "seed images": "training split, those that all networks get right",
        "search": f"next-ascent hill climbing, given up after {patience} candidates in a row without improvement",
        "a move": (
            f"one affine, each part drawn evenly: rotation ± {affine.degrees:g}°, each stretch ± {affine.percent:g} %, "
            f"shear ± {affine.shear:g} %, each shift ± {affine.pixels:g} px (the paper does not say)"
        ),
        "spaces": modes,
        "peer confidence": list(CONFIDENCES),
    }


def _remarks(source: str) -> list[str]:
    remarks = [
        "Intervals are over trials with these five networks; networks trained anew differ by more than that.",
        "Moves and inferences are means over successful trials. The paper's count: candidates × networks. "
        "Spent: the peers are asked only about candidates that the suspect likes less, and each find is judged once "
        "more on its 8-bit image.",
    ]
    if source != "mnist":
        remarks.append(f"The paper's networks learnt MNIST; these learnt {source}, so the figures need not agree.")
    return remarks
