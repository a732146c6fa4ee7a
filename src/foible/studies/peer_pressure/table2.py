"""Peers against unrealistic mistakes (paper 1, Sec. 5, Table 2 and Fig. 1).

Moves are exchanges of two pixels. The suspect is the smallest network, with none to all of the others as peers: the
more peers, the fewer searches end in a mistake. For k peers every choice of k is made and their trials pooled; the
nested order (the first k) is told too. The same is done with affine moves, and with peers that must stay sure of the
class instead of merely preferring it; a judge outside the basket says how often a mistake is no longer the digit that
it was (a 6 turned into a 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from operator import eq, ne
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from foible import figures
from foible.basket import Basket
from foible.data import open_data
from foible.errors import UserError
from foible.findings import Findings
from foible.progress import progress
from foible.recipes.hunt.recipe import hunt
from foible.studies.common import Result, Row, basket_for, data_for, mean_row, share_row
from foible.studies.peer_pressure.held_out import Judge, held_out_judge, says
from foible.studies.peer_pressure.sessions import canvas

NETWORKS = ("mlp:10", "mlp:20", "mlp:30", "mlp:40", "mlp:50")
PAPER = {0: (299, 36), 1: (145, 37), 2: (96, 39), 3: (72, 40), 4: (57, 41)}  # peers: successes of 300, transforms
PAPER_TRIALS = 300
SPACES = {"swaps": "pixel swaps", "affine": "affine moves"}
SCALES: dict[str, dict[str, Any]] = {  # levels: the peers' least confidence in the class
    "quick": {"levels": (0.0, 0.99), "trials": 60, "choices": 1, "train": {"epochs": 3}, "judge": 30_000},
    "paper": {"levels": (0.0, 0.9, 0.99), "trials": 300, "choices": None, "train": {}, "judge": 360_000},
}
GRID = 7  # digits across and down in each panel of Fig. 1


@dataclass
class PeerTrials:
    """Trials of one number of peers, over some choices of them. The counts after `moves` are of what was found."""

    trials: int = 0
    moves: list[int] = field(default_factory=list)  # of each find
    drifted: int = 0  # the judge no longer gives the true class
    sided: int = 0  # the judge gives what the suspect said
    left_out: int = 0  # looks of a peer that did not take part
    left_out_wrong: int = 0

    def add(self, findings: Findings, judge: Judge, basket: Basket, left_out: Sequence[str]) -> None:
        """left_out: the peers that did not take part."""
        found = findings.filter(outcome="found")
        self.trials += len(findings)
        self.moves += found.column("moves")
        truth, said, seen = found.column("truth"), found.column("said"), judge.says(found)
        self.drifted += sum(map(ne, seen, truth))
        self.sided += sum(map(eq, seen, said))
        for name in left_out:
            self.left_out += len(found)
            self.left_out_wrong += sum(map(ne, says(basket, name, found), truth))


@dataclass
class Curve:
    """One space at one peer confidence: tallies by the number of peers, pooled over choices and of the nested order,
    and the findings with all peers."""

    space: str
    level: float
    pooled: list[PeerTrials] = field(default_factory=list)
    nested: list[tuple[str, PeerTrials]] = field(default_factory=list)
    whole: Findings | None = None

    @property
    def title(self) -> str:
        return f"{SPACES[self.space]}, peer confidence {self.level:g}"


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
    choices: int | None = None,
) -> Result:
    """trials: for each choice of peers; 300 in the paper. choices: at most so many of each number of peers, the nested
    one first. Of a basket that is given, the first network is the suspect and the next four are the peers."""
    plan = SCALES[scale]
    data, trials, most = data_for(data, scale), trials or plan["trials"], choices or plan["choices"]
    networks = basket_for(NETWORKS, data, out, seed=seed, device=device, quiet=quiet, given=basket, **plan["train"])
    if len(networks) < 2:
        raise UserError(f"the basket holds {len(networks)} network: Table 2 needs a suspect and at least one peer")
    suspect, *peers = networks.names[: len(NETWORKS)]
    judge = held_out_judge(data, out, seed=seed, shown=plan["judge"], device=device, quiet=quiet)
    images = open_data(data, "train", quiet=True)  # opened once for all hunts
    curves = [Curve(space, level) for space in SPACES for level in plan["levels"]]
    chosen = [list(combinations(peers, count))[:most] for count in range(len(peers) + 1)]
    with progress("Hunting", len(curves) * sum(map(len, chosen)), quiet=quiet) as bar:
        for curve in curves:
            for sets in chosen:
                pooled = PeerTrials()
                for choice in sets:
                    found = hunt(
                        networks.only([suspect, *choice]), images, suspect=suspect, trials=trials, seed=seed,
                        space=curve.space, peer_confidence=curve.level, unit=trials, shrink=False, realism="none",
                        workers=1, device=device, quiet=True,
                        out=out / "hunts" / "-".join([curve.space, f"{curve.level:g}", *choice]),
                    )  # fmt: skip
                    rest = [name for name in peers if name not in choice]
                    pooled.add(found, judge, networks, rest)
                    if choice == sets[0]:
                        curve.nested.append((", ".join(choice) or "none", PeerTrials()))
                        curve.nested[-1][1].add(found, judge, networks, rest)
                        curve.whole = found  # the last is with all peers
                    bar.advance(1)
                curve.pooled.append(pooled)
    settings = {
        "data": data, "suspect": suspect, "peers": peers, "trials": trials, "choices": most or "all", "patience": 250,
        "judge": "a LeNet on moved and swapped images", "judge_errors_on_changed_test_images": judge.floor,
    }  # fmt: skip
    result = Result("table2", scale, settings, seed)
    for curve in curves:
        result.rows += rows_of(curve)
        result.notes += notes_of(curve, judge)
    result.notes.append(
        "Peer confidence 0 is the paper's text: peers need only prefer the class. Levels above it are ours: 0.99 was "
        "added after first runs at 0 and 0.9, so that it fits the paper better says nothing about what the paper did."
    )
    result.notes.append(
        "For k peers the trials of every choice of k are pooled; intervals are over trials, the networks being given. "
        "A swap that changes nothing is a candidate that brings nothing: it counts towards the patience of 250."
    )
    result.figures = [
        figures.save(figure1(curves), out, "figure-1"),
        figures.save(figure_of(curves, judge.floor), out, "table-2"),
    ]
    return result


def rows_of(curve: Curve) -> list[Row]:
    """Success and moves by the number of peers, in both orders; then what became of the digit."""
    rows, order, drift = [], [], []
    title = f"Table 2, {curve.title}"
    for count, tally in enumerate(curve.pooled):
        wins, moves = PAPER.get(count, (None, None)) if curve.space == "swaps" else (None, None)
        share = None if wins is None else 100 * wins / PAPER_TRIALS
        peers = f"{count} peer{'' if count == 1 else 's'}"
        found = len(tally.moves)
        rows.append(share_row(title, f"{peers}: success, %", share, found, tally.trials))
        rows.append(mean_row(title, f"{peers}: moves of a success", moves, tally.moves))
        names, one = curve.nested[count]
        order.append(share_row(f"{title}, nested order", f"{names}: success, %", share, len(one.moves), one.trials))
        order.append(mean_row(f"{title}, nested order", f"{names}: moves of a success", moves, one.moves))
        table = f"Is it still the digit? {curve.title}"
        drift.append(share_row(table, f"{peers}: the judge sees another digit, %", None, tally.drifted, found))
        drift.append(share_row(table, f"{peers}: the judge sees what the suspect said, %", None, tally.sided, found))
        if tally.left_out:
            text = f"{peers}: a peer that was left out errs too, %"
            drift.append(share_row(table, text, None, tally.left_out_wrong, tally.left_out))
    pooled = any(tally.trials > one.trials for tally, (_, one) in zip(curve.pooled, curve.nested, strict=True))
    return rows + (order if pooled else []) + drift


def notes_of(curve: Curve, judge: Judge) -> list[str]:
    """What the figures say: does success fall, do moves rise, and how often is the digit lost?"""
    shares = [len(tally.moves) / tally.trials for tally in curve.pooled]
    peers = len(shares) - 1
    change = "falls with every further peer" if all(a > b for a, b in pairwise(shares)) else (
        "falls, but not with every peer" if shares[-1] < shares[0] else "does not fall"
    )  # fmt: skip
    means = ", ".join(f"{np.mean(tally.moves):.0f}" if tally.moves else "–" for tally in curve.pooled)
    notes = [
        f"{curve.title}: success {change} ({', '.join(f'{100 * share:.1f}' for share in shares)} % for 0 to {peers} "
        f"peers); moves of a success {means}."
    ]
    if curve.pooled[0].moves and curve.pooled[-1].moves:
        alone, all_of_them = (100 * tally.drifted / len(tally.moves) for tally in (curve.pooled[0], curve.pooled[-1]))
        notes.append(
            f"{curve.title}: the judge sees another digit in {alone:.0f} % of what was found without peers and in "
            f"{all_of_them:.0f} % with {peers}; it errs on {100 * judge.floor:.1f} % of images changed at random."
        )
    return notes


def figure1(curves: Sequence[Curve]) -> Figure:
    """Fig. 1: digits that the suspect gets right, its mistakes under affine moves, its mistakes under pixel swaps; all
    with all peers, and those of the surest peers first."""

    def of(space: str, column: str, **wanted: str) -> list[Any]:
        found = [curve.whole.filter(**wanted) for curve in reversed(curves) if curve.space == space and curve.whole]
        return [image for part in found for image in part.images(column)]

    panels = {
        "classified right": of("affine", "origin"),
        "high-value mistakes (affine moves)": of("affine", "image", outcome="found"),
        "low-value mistakes (pixel swaps)": of("swaps", "image", outcome="found"),
    }
    figure = canvas(10.8, 3.9)
    with figures.style():
        axes = figure.subplots(1, len(panels))
        for axis, (title, images) in zip(axes, panels.items(), strict=True):
            figures.show_image(axis, mosaic(images[: GRID * GRID]), title)
    return figure


def mosaic(images: Sequence[Any]) -> Any:
    """Up to GRID × GRID images (channels, height, width) uint8 as one, white where there are no more."""
    channels, height, width = images[0].shape if len(images) else (1, 28, 28)
    sheet = np.full((channels, GRID * (height + 1) - 1, GRID * (width + 1) - 1), 255, np.uint8)
    for place, image in enumerate(images):
        top, left = place // GRID * (height + 1), place % GRID * (width + 1)
        sheet[:, top : top + height, left : left + width] = image
    return sheet


def figure_of(curves: Sequence[Curve], floor: float) -> Figure:
    """Success and the judge's doubt against the number of peers, beside the paper's Table 2 and the share of images
    changed at random on which the judge errs (`floor`)."""
    figure, axes = figures.new(1, 2, size=(9.4, 3.5))
    success, drift = axes[0]
    for curve in curves:
        levels = [one.level for one in curves if one.space == curve.space]
        style = ("o:", "o--", "o-")[-len(levels) :][levels.index(curve.level)]
        colour = figures.COLOURS[list(SPACES).index(curve.space)]
        shares = [100 * len(one.moves) / one.trials for one in curve.pooled]
        success.plot(range(len(shares)), shares, style, color=colour, label=curve.title)
        known = [(count, 100 * one.drifted / len(one.moves)) for count, one in enumerate(curve.pooled) if one.moves]
        drift.plot([count for count, _ in known], [share for _, share in known], style, color=colour)
    paper = [100 * wins / PAPER_TRIALS for wins, _ in PAPER.values()]
    success.plot(list(PAPER), paper, "s-", color=figures.PAPER, label="pixel swaps, paper")
    drift.axhline(100 * floor, linestyle="--", color=figures.PAPER)
    drift.annotate("the judge's own errors", (0.02, 100 * floor), (0, 3), textcoords="offset points", fontsize=8)
    success.set_ylabel("searches that end in a mistake, %")
    drift.set_ylabel("mistakes in which the judge\nsees another digit, %")
    for axis in (success, drift):
        axis.set_xlabel("peers")
        axis.set_xticks(range(max(len(curve.pooled) for curve in curves)))
        axis.set_ylim(0, None)
        axis.grid(axis="y")
    figure.legend(loc="outside lower center", ncols=3)
    return figure
