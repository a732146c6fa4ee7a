"""`foible study searches`: paper 1, Sec. 2 (end) and future work 4 and 5. Which search finds most for its inferences?

Every search starts from the same seed images against the same suspects, with the same budget for each trial. The curve
of a search is the share of trials that had found something after x inferences. A gradient counts as two inferences
more. Hill climbing gives a trial up after 250 candidates in a row without improvement, as in the paper; the others go
on until they find or have spent the budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.findings.tally import row_by_row
from foible.objectives import OBJECTIVES
from foible.recipes.hunt.recipe import hunt
from foible.search import SEARCHES
from foible.studies.common import Result, Row, basket_for, data_for, mean_row, share_row
from foible.studies.peer_pressure.searches import figures as searches_figures
from foible.studies.peer_pressure.table1.study import LETTERS, NETWORKS, OUR_MODE, PAPER, PAPERS_MODE, modes_of

TRIALS = {"quick": 40, "paper": 1000}
BUDGET = {"quick": 1000, "paper": 3000}
QUICK_EPOCHS = 3  # over MNIST: the full training would take most of the minute
GRADIENT = 2  # inferences that one gradient counts as, beside its forward pass
FOREVER = 1_000_000  # generations: more than any budget lasts


@dataclass(frozen=True)
class Contestant:
    """One search: its name in `foible.search.SEARCHES` and its options, what it looks for, and how it resamples."""

    label: str
    search: str
    options: str = ""
    objective: str = "dissent"
    mode: str = OUR_MODE

    @property
    def folder(self) -> str:
        return "hunt-" + "-".join("".join(c if c.isalnum() else " " for c in self.label.lower()).split())

    def spec(self, budget: int) -> str:
        return self.search + self.options.format(budget=budget)

    @property
    def there(self) -> bool:
        return self.search in SEARCHES and self.objective in OBJECTIVES


PAPERS = Contestant("hill climbing, the paper's mode", "hill-climb", mode=PAPERS_MODE)
CONTESTANTS = (
    PAPERS,
    Contestant("hill climbing", "hill-climb"),
    Contestant("hill climbing, DIST", "hill-climb", objective="distances"),
    Contestant("genetic", "genetic", f"?generations={FOREVER}"),
    Contestant("PBIL", "pbil", f"?generations={FOREVER}"),
    Contestant("evolution strategy", "strategy", f"?generations={FOREVER}"),
    Contestant("gradient", "gradient", "?effort={budget}"),
)


@dataclass
class Costs:
    """What one search spent on one suspect: `all` trials, and those that `found`; `counted` as the paper counts them,
    candidates × networks, of those that found."""

    suspect: str
    all: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{LETTERS[self.suspect]} ({self.suspect[4:]})" if self.suspect in LETTERS else self.suspect

    @property
    def success(self) -> float:
        return len(self.found) / len(self.all) if self.all else 0.0

    @property
    def each(self) -> float | None:
        """Inferences for each find, those of failed trials included."""
        return sum(self.all) / len(self.found) if self.found else None


def costs_of(run: Path) -> list[Costs]:
    """Each suspect's costs in a run folder, in the order in which suspects first appear."""
    made = []
    for suspect, each in row_by_row(run).items():
        costs, found = each["forwards"] + GRADIENT * each["backwards"], each["found"] > 0
        made.append(Costs(suspect, costs.tolist(), costs[found].tolist(), each["counted"][found].tolist()))
    return made


def ratio_row(table: str, quantity: str, paper: float | None, one: Costs) -> Row:
    """Inferences for each find with failed trials counted in: a ratio of two means, with its interval by the delta
    method."""
    trials, finds = len(one.all), len(one.found)
    if one.each is None:
        return Row(table, quantity, paper, None, n=trials)
    # Σ (cost − ratio × found)² over trials: those that found, and all less these.
    squares = math.fsum(cost**2 for cost in one.all)
    squares += math.fsum((cost - one.each) ** 2 - cost**2 for cost in one.found)
    half = 1.96 * math.sqrt(squares) / finds
    return Row(table, quantity, paper, one.each, max(0.0, one.each - half), one.each + half, trials)


def rows_of(contestant: Contestant, costs: Sequence[Costs]) -> list[Row]:
    """Of every suspect: success, inferences per success and per find; the paper's figures where they are of this."""
    table, rows = contestant.label, []
    known = PAPER if contestant is PAPERS else {}
    for one in costs:
        paper = known.get(one.suspect, (None,))[0]
        rows.append(share_row(table, f"{one.label}: success, %", paper, len(one.found), len(one.all)))
    if known:
        for one in costs:
            paper = known.get(one.suspect, (None,))[-1]
            rows.append(mean_row(table, f"{one.label}: inferences per success, paper's count", paper, one.counted))
    for one in costs:
        rows.append(mean_row(table, f"{one.label}: inferences per success", None, one.found, least=0))
    for one in costs:
        rows.append(ratio_row(table, f"{one.label}: inferences per find, failures counted", None, one))
    return rows


def pooled(costs: Sequence[Costs]) -> Costs:
    """All suspects as one."""
    whole = Costs("all")
    for one in costs:
        whole.all += one.all
        whole.found += one.found
        whole.counted += one.counted
    return whole


def against_rows(measured: dict[str, list[Costs]]) -> list[Row]:
    """All suspects together, and every search beside the paper's hill climbing in the same run."""
    together = {label: pooled(costs) for label, costs in measured.items()}
    base = together[PAPERS.label]
    rows = []
    for label, one in together.items():
        rows.append(share_row("All suspects", f"{label}: success, %", None, len(one.found), len(one.all)))
    for label, one in together.items():
        rows.append(ratio_row("All suspects", f"{label}: inferences per find, failures counted", None, one))
    for label, one in together.items():
        if one is not base:
            table, n = "All suspects, the paper's hill climbing = 1", len(one.all)
            success = one.success / base.success if base.success else None
            spent = one.each / base.each if one.each and base.each else None
            rows.append(Row(table, f"{label}: success", None, success, n=n))
            rows.append(Row(table, f"{label}: inferences per find, failures counted", None, spent, n=n))
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
    budget: int | None = None,
    peer_confidence: float = 0.9,
    space: str = "affine",
    workers: int | None = None,
) -> Result:
    """trials: for each suspect. budget: inferences for one trial. peer_confidence: the least probability that each peer
    must give the class. space: sizes of a move, such as `affine?degrees=10&pixels=2`. workers: processes (default: one
    a core; at quick scale one, which starts at once)."""
    trials, budget = trials or TRIALS[scale], budget or BUDGET[scale]
    if budget < 1:
        raise UserError(f"budget is {budget}: expected at least 1")
    modes, source = modes_of(space), data_for(data, scale)
    epochs = QUICK_EPOCHS if scale == "quick" and source == "mnist" else None
    networks = basket_for(
        NETWORKS, source, out, seed=seed, device=device, quiet=quiet, given=basket,
        **({"epochs": epochs} if epochs else {}),
    )  # fmt: skip
    options: dict[str, Any] = {
        "trials": trials, "seed": seed, "split": "train", "shrink": False, "realism": "none", "device": device,
        "quiet": quiet, "workers": workers or (1 if scale == "quick" else None), "peer_confidence": peer_confidence,
        "unit": trials if scale == "quick" else None,
    }  # fmt: skip
    measured: dict[str, list[Costs]] = {}
    result = Result("searches", scale, {}, seed)
    for contestant in CONTESTANTS:
        if not contestant.there:
            result.notes.append(f"Left out: {contestant.label}, which this version of Foible does not have.")
            continue
        folder = out / contestant.folder
        hunt(
            networks, source, out=folder, space=modes[contestant.mode], objective=contestant.objective,
            search=contestant.spec(budget), budget=budget, **options,
        )  # fmt: skip
        measured[contestant.label] = costs_of(folder)
        result.rows += rows_of(contestant, measured[contestant.label])
    result.rows += against_rows(measured)
    result.settings = {
        "data": source,
        "networks": list(networks.names),
        "epochs": "the default of `foible train`" if epochs is None else epochs,
        "trials of each suspect": trials,
        "budget of a trial, inferences": budget,
        "peer confidence": peer_confidence,
        "spaces": modes,
        "searches": {one.label: one.spec(budget) for one in CONTESTANTS if one.label in measured},
        "a gradient counts as": f"{GRADIENT} inferences, beside its forward pass",
    }
    result.notes += _remarks(source)
    result.figures.append(searches_figures.curves(measured, budget, out))
    result.figures.append(searches_figures.bars(measured, out))
    return result


def _remarks(source: str) -> list[str]:
    remarks = [
        "Intervals are over trials with these networks; networks trained anew differ by more than that.",
        "The paper's figures are its Table 1, in its own count (candidates × networks) and with its own moves; it says "
        "of other searches only that their efficiency varied greatly.",
        "Inferences are as spent: peers are asked only where their answer can matter.",
        "A trial may pass its budget by the few inferences that finish what it has begun.",
        "Defaults of the gradient search were chosen on MNIST with five such networks, and those of the evolution "
        "strategy, PBIL and the genetic algorithm on a few hundred trials of it; hill climbing is as in the paper.",
    ]
    if source != "mnist":
        remarks.append(f"The paper's networks learnt MNIST; these learnt {source}, so the figures need not agree.")
    return remarks
