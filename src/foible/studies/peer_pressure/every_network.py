"""One image that every network in turn gets wrong while its peers stay right (paper 1, Figs. 5, 6 and 9).

Suspects share lanes: lane 17 starts from the same seed image whichever network is the suspect. So a hunt of each
network is one attempt of each on every seed, and the seeds of which all attempts succeeded are the ones looked for.
Rounds of trials follow each other, up to a bound, until there are enough of them: once with peers that need only
prefer the class, as in the paper, and once with peers that stay sure of it. The sessions of Figs. 5 and 6 are of the
first suspect with sure peers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure, SubFigure

from foible import figures
from foible.basket import Basket
from foible.errors import UserError
from foible.findings import Findings
from foible.images import decode_png
from foible.recipes.hunt.recipe import hunt
from foible.spaces import Affine
from foible.studies.common import Result, Row, basket_for, data_for, share_row
from foible.studies.peer_pressure.sessions import (
    bars,
    canvas,
    mark_classes,
    session_figure,
    several,
    sureness,
    typical,
    walk,
)

NETWORKS = ("mlp:10", "mlp:20", "mlp:30", "mlp:40", "mlp:50")
PAPER = {"mlp-10": 63, "mlp-20": 25, "mlp-30": 9, "mlp-40": 5, "mlp-50": 7}  # Table 1: success of each alone, %
WANTED = 2  # seed images, as in Fig. 9
SESSIONS = (7, 4, 3)  # moves of the three in Fig. 6; the one in Fig. 5 has 5
SURE = 0.9  # the peers' least confidence where they are to be sure
SCALES: dict[str, dict[str, Any]] = {
    "quick": {"trials": 300, "rounds": 1, "train": {"epochs": 3}},
    "paper": {"trials": 1000, "rounds": 8, "train": {}},
}


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
    rounds: int | None = None,
) -> Result:
    """trials: seed images in a round. rounds: at most so many; no more are made than it takes."""
    plan = SCALES[scale]
    data, trials, most = data_for(data, scale), trials or plan["trials"], rounds or plan["rounds"]
    networks = basket_for(NETWORKS, data, out, seed=seed, device=device, quiet=quiet, given=basket, **plan["train"])
    if len(networks) < 2:
        raise UserError(f"the basket holds {len(networks)} network: every network in turn needs at least two")
    settings: dict[str, Any] = {"data": data, "networks": list(networks.names), "trials": trials, "space": "affine"}
    result = Result("every-network", scale, settings, seed)
    for least, stem in ((0.0, "figure-9"), (SURE, "figure-9-sure")):
        parts: list[Findings] = []
        chosen: list[list[dict[str, Any]]] = []
        while len(chosen) < WANTED and len(parts) < most:
            number = len(parts)
            found = hunt(
                networks, data, trials=trials, seed=seed + number, peer_confidence=least, shrink=False,
                realism="none", device=device, quiet=quiet, out=out / "hunts" / f"confidence-{least:g}-{number}",
            )  # fmt: skip
            parts.append(found)
            chosen += missed_by_all(found, networks.names)
        settings[f"rounds at peer confidence {least:g}"] = len(parts)
        rows, notes = numbers(parts, networks.names, least)
        result.rows += rows
        result.notes += notes
        if least:
            first = Findings.concat([part.filter(suspect=networks.names[0]) for part in parts])
            result.figures = draw_sessions(first, networks, out) + result.figures
        if chosen:
            result.figures.append(figures.save(figure9(pick(chosen), parts[0].classes), out, stem))
    result.notes.append(
        "The paper shows two such seeds and gives no share; were its networks independent, the shares of its Table 1 "
        f"would make it one seed in {1 / math.prod(share / 100 for share in PAPER.values()):,.0f}."
    )
    return result


def found_by(findings: Findings, names: Sequence[str]) -> torch.Tensor:
    """(lanes, networks) bool: whether each network's attempt on each seed succeeded."""
    lanes = findings.column("lane")
    found = torch.zeros(max(lanes) + 1, len(names), dtype=torch.bool)
    for lane, suspect, outcome in zip(lanes, findings.column("suspect"), findings.column("outcome"), strict=True):
        found[lane, names.index(suspect)] = outcome == "found"
    return found


def missed_by_all(findings: Findings, names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """For each seed that every network was made to miss: the rows, one a network, in the order of `names`."""
    lanes = found_by(findings, names).all(1).nonzero()[:, 0].tolist()
    if not lanes:
        return []
    rows = {(row["lane"], row["suspect"]): row for row in findings.filter(lane=lanes)}
    return [[rows[lane, name] for name in names] for lane in lanes]


def pick(chosen: list[list[dict[str, Any]]], count: int = WANTED) -> list[list[dict[str, Any]]]:
    """The seeds to draw: those whose networks are surest, the suspects of their answers and the peers of the class; of
    different classes where there are any."""
    order = sorted(chosen, key=lambda rows: -min(sureness(row) for row in rows))
    first = {rows[0]["truth"]: rows for rows in reversed(order)}
    best = sorted(first.values(), key=order.index)
    return (best + [rows for rows in order if rows not in best])[:count]


def numbers(rounds: Sequence[Findings], names: Sequence[str], least: float) -> tuple[list[Row], list[str]]:
    """Each network's success, how many networks each seed made err, and what the latter would be if a seed that is
    easy for one network were no easier for the others."""
    found = torch.cat([found_by(part, names) for part in rounds])
    seeds, count = found.shape
    each = found.double().mean(0).tolist()
    chance = [1.0]  # of k networks, were they independent: the Poisson binomial law, network by network
    for share in each:
        chance = [a * (1 - share) + b * share for a, b in zip([*chance, 0], [0, *chance], strict=True)]
    missed = found.sum(1).bincount(minlength=count + 1).tolist()
    how = f"peer confidence {least:g}"
    rows = [
        share_row(f"Each network alone, {how}", f"{name}: success, %", PAPER.get(name), int(found[:, k].sum()), seeds)
        for k, name in enumerate(names)
    ]
    table = f"Fig. 9, {how}: networks that were made to miss the same seed"
    for k in reversed(range(count + 1)):
        rows.append(share_row(table, f"{k} of {count}, % of seeds", None, missed[k], seeds))
        rows.append(Row(table, f"{k} of {count}, % of seeds if networks were independent", None, 100 * chance[k]))
    whole, expected = missed[count], seeds * chance[count]
    times = f" ({whole / expected:.1f} times as many)" if expected > 0 and whole else ""
    notes = [
        f"At {how}, {whole} of {seeds:,} seeds were missed by each of the {count} networks in turn while its peers "
        f"held the class; {expected:.3g} would be expected if their successes were independent{times}."
    ]
    if len(rounds) > 1:
        notes[0] += (
            f" It took {len(rounds)} rounds; stopping at the {WANTED}nd such seed makes the share a little high."
        )
    if whole < WANTED:
        notes.append(
            f"At {how}, {len(rounds)} × {seeds // len(rounds)} seeds gave fewer than {WANTED} such: give more."
        )
    return rows, notes


def draw_sessions(findings: Findings, basket: Basket, out: Path) -> list[str]:
    """Figs. 5 and 6, from what was found with sure peers; nothing where nothing was found."""
    if not len(findings.filter(outcome="found")):
        return []
    space = Affine()
    first = typical(findings, 5)
    stems = [figures.save(session_figure(findings, first, space, basket), out, "figure-5")]
    shown, sessions = [first["truth"]], []
    for moves in SESSIONS:
        row = typical(findings, moves, shown)
        shown.append(row["truth"])
        sessions.append(walk(findings, row, space, basket))
    return [*stems, figures.save(several(sessions), out, "figure-6")]


def figure9(chosen: list[list[dict[str, Any]]], classes: Sequence[str]) -> Figure:
    """Side by side for each seed: the seed on top, below it what made each network in turn miss it."""
    tall = max(len(rows) for rows in chosen) + 1
    figure = canvas(5.4 * len(chosen), 0.8 * tall + 0.7)
    places = figure.subfigures(1, len(chosen), squeeze=False, wspace=0.03)[0]
    for place, rows in zip(places, chosen, strict=True):
        _draw_seed(place, rows, classes)
    return figure


def _draw_seed(place: SubFigure, rows: list[dict[str, Any]], classes: Sequence[str]) -> None:
    few = len(classes) <= 10
    with figures.style():
        axes = place.subplots(len(rows) + 1, 2, squeeze=False, width_ratios=[1, 4])
        place.suptitle(
            f"“{classes[rows[0]['truth']]}”: each network in turn takes it for something else", fontsize=10.5
        )
        for line, (left, right) in enumerate(axes):
            row = rows[max(0, line - 1)]
            activations = torch.tensor(row["after" if line else "before"])
            groups = list(range(len(classes))) if few else sorted({row["truth"], *(one["said"] for one in rows)})
            figures.show_image(left, decode_png(row["image" if line else "origin"]))
            label = f"{row['suspect']}:\n“{classes[row['said']]}”" if line else "seed"
            left.set_ylabel(label, rotation=0, ha="right", va="center")
            bars(right, activations[:, groups], [classes[k] for k in groups], suspect=0 if line else None)
            mark_classes(right, groups.index(row["truth"]), groups.index(row["said"]) if line else None)
