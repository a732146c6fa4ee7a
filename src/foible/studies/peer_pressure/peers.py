"""How many peers? (paper 1, future work 2): "Does adding more peers increase reliability at the expense of mistake
coverage?"

A fleet of one architecture and many seeds; a few of it are suspects, the others peers, 1 to 20 of them. Labels are
hidden: the class aimed at is the one that suspect and peers give the seed image, an image that none was trained on.
Measured are
- success: the share of trials that end in a finding;
- coverage: how many pairs of (true class, suspect's answer) and how many true classes the real mistakes show;
- reliability: the share of findings whose consensus is the truth. The truth is the label of the seed image; and, since
  a move can change what an image shows, also what a judge outside the basket sees in the finding itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foible import figures
from foible.basket import Basket
from foible.data import open_data
from foible.errors import UserError
from foible.progress import progress
from foible.recipes.hunt.recipe import hunt
from foible.recipes.train.fleets import meet
from foible.statistics import wilson
from foible.studies.common import Result, Row, basket_for, data_for, share_row
from foible.studies.peer_pressure.held_out import Judge, held_out_judge
from foible.studies.peer_pressure.reliability import ConsensusFinds, difference, rarefied, trend

SPACES = {"affine": "affine moves", "swaps": "pixel swaps"}
ENOUGH = 20  # finds, from which on shares of them are compared and drawn
SCALES: dict[str, dict[str, Any]] = {  # levels: the peers' least confidence in the class
    "quick": {
        "peers": (1, 3, 8, 20), "levels": (0.0,), "suspects": 1, "trials": 150, "train": {"epochs": 2}, "judge": 30_000,
    },
    "paper": {
        "peers": (1, 2, 3, 5, 8, 12, 16, 20), "levels": (0.0, 0.9), "suspects": 2, "trials": 300, "train": {},
        "judge": 360_000,
    },
}  # fmt: skip


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
    suspects: int | None = None,
    network: str = "mlp:30",
) -> Result:
    """trials: for each suspect, number of peers and space. suspects: how many of the fleet are hunted in turn.
    network: the architecture of the fleet. Of a basket that is given, the first networks are the suspects."""
    plan = SCALES[scale]
    data, trials, hunted = data_for(data, scale), trials or plan["trials"], suspects or plan["suspects"]
    seeds = range(seed, seed + hunted + max(plan["peers"]))
    fleet = basket_for(
        [network], data, out, seed=seed, seeds=list(seeds), device=device, quiet=quiet, given=basket, **plan["train"]
    )
    if len(fleet) <= hunted:
        raise UserError(f"the basket holds {len(fleet)} networks for {hunted} suspects: give more, the rest are peers")
    accused, others = fleet.names[:hunted], fleet.names[hunted:]
    judge = held_out_judge(data, out, seed=seed, shown=plan["judge"], device=device, quiet=quiet)
    pool = open_data(data, "test", quiet=True)  # opened once for all hunts, which do not look at its labels
    labels = meet(pool, fleet.classes).tolist()
    counts = [count for count in plan["peers"] if count <= len(others)]
    curves: dict[str, list[ConsensusFinds]] = {}
    with progress("Hunting", len(SPACES) * len(plan["levels"]) * len(counts) * hunted, quiet=quiet) as bar:
        for space, level in product(SPACES, plan["levels"]):
            curve = curves.setdefault(f"{SPACES[space]}, peer confidence {level:g}", [])
            for count in counts:
                curve.append(ConsensusFinds(count))
                for name in accused:
                    found = hunt(
                        fleet.only([name, *others[:count]]), pool, suspect=name, split="test", unlabelled=True,
                        peer_confidence=level, space=space, trials=trials, unit=trials, seed=seed, shrink=False,
                        realism="none", workers=1, device=device, quiet=True,
                        out=out / "hunts" / f"{space}-{level:g}-{count}-{name}",
                    )  # fmt: skip
                    curve[-1].add(found, labels, judge)
                    bar.advance(1)
    settings = {
        "data": data, "split": "test", "unlabelled": True, "network": network if basket is None else basket,
        "suspects": list(accused), "peers": len(others), "trials": trials, "patience": 250,
        "judge": "a LeNet on moved and swapped images", "judge_errors_on_changed_test_images": judge.floor,
    }  # fmt: skip
    result = Result("peers", scale, settings, seed)
    for title, tallies in curves.items():
        result.rows += rows_of(title, tallies, len(fleet.classes))
        result.notes += answer(title, tallies, len(curves))
    result.notes += _about(fleet, judge, [tally for tallies in curves.values() for tally in tallies])
    result.figures = [figures.save(figure_of(curves), out, "peers")]
    return result


def rows_of(title: str, tallies: Sequence[ConsensusFinds], classes: int) -> list[Row]:
    """Success, coverage and reliability for every number of peers."""
    rows: list[Row] = []
    equal, least = at_equal_finds(tallies)
    for tally, kinds in zip(tallies, equal, strict=True):
        peers, found = f"{tally.peers} peer{'' if tally.peers == 1 else 's'}", len(tally.found)
        pairs, real = tally.pairs, tally.pairs.total()
        table = f"{title}: reliability"
        rows += [
            share_row(f"{title}: success", f"{peers}, %", None, found, tally.trials),
            Row(f"{title}: coverage", f"{peers}: pairs of {classes * (classes - 1)}", None, len(pairs), n=real),
            Row(f"{title}: coverage", f"{peers}: pairs among {least} finds", None, kinds, n=real),
            Row(f"{title}: coverage", f"{peers}: true classes", None, len({label for label, _ in pairs}), n=real),
            share_row(table, f"{peers}: consensus is the seed's label, %", None, tally.by_label, found),
            share_row(table, f"{peers}: consensus is what the judge sees, %", None, tally.by_judge, found),
            share_row(table, f"{peers}: both, %", None, tally.by_both, found),
        ]
    return sorted(rows, key=lambda row: ("success", "coverage", "reliability").index(row.table.rpartition(" ")[2]))


def at_equal_finds(tallies: Sequence[ConsensusFinds]) -> tuple[list[float | None], int]:
    """How many pairs an equal number of finds would show, and which number: the smallest that is at least `ENOUGH`.
    None for a number of peers with fewer."""
    finds = [tally.pairs.total() for tally in tallies]
    least = min((count for count in finds if count >= ENOUGH), default=ENOUGH)
    kinds = [rarefied(tally.pairs, least) if of >= least else None for tally, of in zip(tallies, finds, strict=True)]
    return kinds, least


def answer(title: str, tallies: Sequence[ConsensusFinds], tests: int = 1) -> list[str]:
    """The paper's question, answered by the trends over all numbers of peers. It is asked of `tests` curves at once, so
    each trend must be that much surer (Bonferroni), or one of many would rise by chance."""
    surely = NormalDist().inv_cdf(1 - 0.025 / tests)
    by_label, by_judge, rises = (
        trend([(math.log(tally.peers), getattr(tally, name), len(tally.found)) for tally in tallies])
        for name in ("by_label", "by_judge", "by_both")
    )
    falls = trend([(math.log(tally.peers), len(tally.found), tally.trials) for tally in tallies])
    verdict = {
        (True, True): "Yes: reliability rises, and success, the share of seeds with a mistake, falls",
        (True, False): "Reliability rises, and success does not measurably fall",
        (False, True): "No: success falls, and reliability does not measurably rise",
        (False, False): "Neither does reliability measurably rise nor success fall",
    }[rises > surely, falls < -surely]
    first, last = tallies[0], tallies[-1]
    enough = [tally for tally in tallies if len(tally.found) >= ENOUGH]
    said = f"success goes from {_percent(len(first.found), first.trials)} with {first.peers} to "
    said += f"{_percent(len(last.found), last.trials)} with {last.peers} (z {falls:+.1f})"
    if len(enough) > 1:
        one, other = enough[0], enough[-1]
        change = difference(one.by_both, len(one.found), other.by_both, len(other.found))
        said += f", reliability by label and judge from {_percent(one.by_both, len(one.found))} with {one.peers} to "
        said += f"{_percent(other.by_both, len(other.found))} with {other.peers} ({_points(change)})"
    else:
        said += f"; at most one number of peers gave {ENOUGH} finds, too few to compare reliability"
    said += (
        f". Trend of reliability over all numbers of peers: z {rises:+.1f} (by label alone {by_label:+.1f}, by judge "
    )
    said += f"alone {by_judge:+.1f}); beyond ±{surely:.2f} counts"
    kinds, least = at_equal_finds(tallies)
    known = [(tally.peers, value) for tally, value in zip(tallies, kinds, strict=True) if value is not None]
    notes = [
        f"{title}: does adding more peers increase reliability at the expense of mistake coverage? {verdict}: {said}.",
        f"{title}: pairs of (true class, answer) covered go from {len(first.pairs)} to {len(last.pairs)}",
    ]
    if len(known) > 1:
        notes[1] += f"; among {least} finds each, from {known[0][1]:.0f} with {known[0][0]} to {known[-1][1]:.0f} with "
        notes[1] += f"{known[-1][0]} peers"
    return [notes[0], notes[1] + "."]


def _percent(count: float, of: int) -> str:
    return f"{100 * count / of:.1f} %"


def _points(change: tuple[float, float, float]) -> str:
    middle, low, high = (100 * value for value in change)
    return f"{middle:+.1f} points, {low:+.1f} to {high:+.1f}"


def _about(fleet: Basket, judge: Judge, tallies: Sequence[ConsensusFinds]) -> list[str]:
    notes = [
        f"The judge, none of the {len(fleet)} networks, errs on {_percent(judge.floor, 1)} of test images moved and "
        "swapped at random: reliability by the judge is no surer than that."
    ]
    wrong, hits = sum(tally.misnamed for tally in tallies), sum(tally.misnamed_found for tally in tallies)
    others, more = sum(tally.trials for tally in tallies) - wrong, sum(len(tally.found) for tally in tallies) - hits
    if wrong and others:
        notes.append(
            f"{_percent(wrong, wrong + others)} of all trials began with a seed whose consensus was already wrong; "
            f"{_percent(hits, wrong)} of these ended in a finding, of the others {_percent(more, others)}."
        )
    return notes


def figure_of(curves: dict[str, list[ConsensusFinds]]) -> Figure:
    """Success, pairs covered and reliability against the number of peers: a colour for each space and confidence."""
    figure, axes = figures.new(2, 2, size=(9.6, 7.0))
    (success, coverage), (by_label, by_judge) = axes
    for colour, (title, tallies) in zip(figures.COLOURS, curves.items(), strict=False):
        peers = [tally.peers for tally in tallies]
        _curve(success, peers, [(len(tally.found), tally.trials) for tally in tallies], colour, title)
        coverage.plot(peers, [len(tally.pairs) for tally in tallies], "o-", color=colour)
        kinds = [math.nan if value is None else value for value in at_equal_finds(tallies)[0]]
        coverage.plot(peers, kinds, "^:", color=colour)
        enough = [tally for tally in tallies if len(tally.found) >= ENOUGH]
        for axis, name in ((by_label, "by_label"), (by_judge, "by_judge")):
            shares = [(getattr(tally, name), len(tally.found)) for tally in enough]
            _curve(axis, [tally.peers for tally in enough], shares, colour)
    success.set_ylabel("trials that end in a finding, %")
    coverage.set_ylabel("pairs (true class, answer) covered\n(dotted: by equal numbers of finds)")
    by_label.set_ylabel("findings whose consensus is\nthe label of the seed, %")
    by_judge.set_ylabel("findings whose consensus is\nwhat the judge sees, %")
    ticks = sorted({tally.peers for tallies in curves.values() for tally in tallies})
    for axis in axes.flat:
        axis.set_xlabel("peers")
        axis.set_xscale("log")
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_xticks([], minor=True)
        axis.set_xlim(min(ticks) * 0.9, max(ticks) * 1.1)
        axis.grid(axis="y")
    success.set_ylim(0, 102)
    coverage.set_ylim(0, None)
    for axis in (by_label, by_judge):
        axis.set_ylim(None, 101)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _curve(axis: Axes, peers: list[int], shares: list[tuple[int, int]], colour: str, label: str | None = None) -> None:
    """A share in percent with its interval; nothing where there was nothing to take a share of."""
    if not shares:
        return
    low, high = zip(*(wilson(count, of) for count, of in shares), strict=True)
    axis.plot(peers, [100 * count / of for count, of in shares], "o-", color=colour, label=label)
    axis.fill_between(peers, [100 * share for share in low], [100 * share for share in high], color=colour, alpha=0.1)
