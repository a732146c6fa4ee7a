"""Sessions (paper 1, Figs. 5 and 6): a hill climb from top to bottom, with what every network thinks at each move.

Beside each image stand groups of bars, one group a class: the leftmost bar of a group (blue) is the suspect's
activation, the others (green) are its peers'. A session is walked again from the row of a finding: its seed image and
its path of moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from foible import figures
from foible.basket import Basket
from foible.errors import UserError
from foible.findings import Findings
from foible.images import decode_png, to_bytes, to_floats
from foible.objectives import probabilities
from foible.permission import Permission
from foible.processes import one_thread
from foible.runs.reopen import open_again
from foible.search.walking import retrace

MOST_ROWS = 9  # a longer session is shown at so many of its moves, the first and the last among them
MOST_GROUPS = 10  # classes beside an image; of more, those that matter in this session


@dataclass(frozen=True, eq=False)
class Session:
    """images: uint8 (1 + moves, channels, height, width). activations: (1 + moves, networks, classes), suspect first;
    NaN where it is not known."""

    suspect: str
    truth: int
    said: int
    classes: tuple[str, ...]
    images: Tensor
    activations: Tensor

    @property
    def moves(self) -> int:
        return len(self.images) - 1

    @property
    def heading(self) -> str:
        moves = f"{self.moves} move{'' if self.moves == 1 else 's'}"
        return f"{self.suspect}: “{self.classes[self.truth]}” taken for “{self.classes[self.said]}” in {moves}"


def walk(findings: Findings, which: str | int | dict[str, Any], space: Any, basket: Basket | None = None) -> Session:
    """A finding's session, walked again. which: its id, its row number, or the row itself.

    With the networks (`basket`) every class has its activations; from the row alone they are known for the true class
    all along, and for the other classes at both ends.
    """
    row = findings.get(which) if isinstance(which, str) else findings[which] if isinstance(which, int) else which
    if row["outcome"] != "found":
        raise UserError(f"{row['id']} is {row['outcome']}: only what was found has a session to show")
    truth = row["consensus"] if row["truth"] is None else row["truth"]
    steps = [torch.tensor(move["draws"], dtype=torch.float32) for move in row["path"]]
    draws = torch.stack(steps) if steps else torch.empty(0, 0)
    seed = to_floats(decode_png(row["origin"]))
    with torch.no_grad(), one_thread():
        count = len(steps) + 1
        points = retrace(space, seed.expand(count, *seed.shape), [draws[:k] for k in range(count)])
        images = to_bytes(space.render(points)[:count])
        if basket is None:
            activations = _from_row(row, truth)
        else:
            logits = basket.judge(to_floats(images).to(basket.device), row["networks"])
            activations = probabilities(logits).transpose(0, 1).cpu()
    return Session(row["suspect"], truth, row["said"], findings.classes, images, activations)


def _from_row(row: dict[str, Any], truth: int) -> Tensor:
    """(1 + moves, networks, classes) as far as the row knows them."""
    before, after, trace = (torch.tensor(row[name]) for name in ("before", "after", "trace"))
    known = torch.full((len(trace), *after.shape), torch.nan)
    known[0], known[-1] = before, after
    known[:, :, truth] = trace
    return known


def session_figure(
    findings: Findings, which: str | int | dict[str, Any], space: Any, basket: Basket | None = None
) -> Figure:
    """The session of one finding, in the form of Fig. 5."""
    session = walk(findings, which, space, basket)
    figure = canvas(5.2, 0.8 * len(shown_moves(session.moves)) + 0.9)
    draw_session(figure, session)
    return figure


def save_session(run: str | Path, id: str, out: str | Path, *, trust: bool = False) -> Path:
    """Write `session-ID.png` and `.svg` of a finding of a hunt on disk into the folder `out`; gives the PNG's path."""
    task = open_again(run, may=Permission(trust=trust))
    figure = session_figure(Findings.open(run), id, task.parts["space"], task.basket)
    return Path(out) / f"{figures.save(figure, Path(out), f'session-{id}')}.png"


def several(sessions: Sequence[Session]) -> Figure:
    """Sessions in the form of Fig. 6: the longest at the left, the others one below the other at the right."""
    first, *rest = sorted(sessions, key=lambda one: -one.moves)
    tall = [0.75 * len(shown_moves(one.moves)) + 0.55 for one in rest]
    high = max(0.75 * len(shown_moves(first.moves)) + 0.55, sum(tall))
    figure = canvas(10.4 if rest else 5.2, high)
    if not rest:
        draw_session(figure, first)
        return figure
    left, right = figure.subfigures(1, 2, squeeze=False, wspace=0.03)[0]
    draw_session(left, first)
    places = right.subfigures(len(rest), 1, squeeze=False, height_ratios=tall)[:, 0]
    for place, session in zip(places, rest, strict=True):
        draw_session(place, session)
    return figure


def canvas(width: float, height: float) -> Figure:
    """An empty figure of our style, in inches."""
    with figures.style():
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
    return figure


def draw_session(place: Figure | SubFigure, session: Session) -> None:
    """Rows from top to bottom: image, and bars for every class, at the seed and after each move."""
    shown = shown_moves(session.moves)
    groups = _groups(session)
    with figures.style():
        axes = place.subplots(len(shown), 2, squeeze=False, width_ratios=[1, 4.6])
        for row, move in enumerate(shown):
            figures.show_image(axes[row, 0], session.images[move])
            axes[row, 0].set_ylabel("seed" if move == 0 else str(move), rotation=0, ha="right", va="center")
            last = row == len(shown) - 1
            bars(axes[row, 1], session.activations[move][:, groups], [session.classes[k] for k in groups], named=last)
            if last:
                mark_classes(axes[row, 1], groups.index(session.truth), groups.index(session.said))
                axes[row, 1].set_xlabel(
                    f"activation of each class: {session.suspect} blue, its peers green", fontsize=8.5
                )
        place.suptitle(session.heading, fontsize=10.5)


def shown_moves(moves: int) -> list[int]:
    """Which of 0 (the seed) … `moves` are drawn: all, or evenly chosen ones of a long session."""
    return sorted({round(place) for place in np.linspace(0, moves, min(moves + 1, MOST_ROWS)).tolist()})


def _groups(session: Session) -> list[int]:
    """Classes with bars: all of a few, otherwise the true one, the wrong one and those that ever come up most. Where
    only the row is known, the true one and the wrong one."""
    if session.activations.isnan().any():
        return sorted({session.truth, session.said})
    if len(session.classes) <= MOST_GROUPS:
        return list(range(len(session.classes)))
    high = session.activations.amax((0, 1))
    high[[session.truth, session.said]] = 2
    return sorted(high.topk(MOST_GROUPS).indices.tolist())


def bars(axis: Axes, activations: Tensor, names: Sequence[str], *, suspect: int | None = 0, named: bool = True) -> None:
    """A group of bars for every class: activations (networks, classes) in [0, 1], the suspect's blue, others green."""
    networks, classes = activations.shape
    wide = 0.8 / networks
    for network in range(networks):
        places = np.arange(classes) + (network - (networks - 1) / 2) * wide
        colour = figures.SUSPECT if network == suspect else figures.PEER
        axis.bar(places, activations[network].nan_to_num(0).numpy(), wide * 0.9, color=colour, linewidth=0)
    for place in activations.isnan().any(0).nonzero()[:, 0].tolist():
        axis.text(place, 0.05, "not in the row", ha="center", color=figures.PAPER, fontsize=8)
    axis.set_ylim(0, 1.05)
    axis.set_xlim(-0.6, classes - 0.4)
    axis.set_yticks([0, 1])
    axis.set_xticks(range(classes), list(names) if named else [""] * classes)
    axis.tick_params(axis="x", length=0)


def mark_classes(axis: Axes, truth: int, said: int | None) -> None:
    """The true class in the peers' colour and the wrong one in the suspect's, on the axis of the bars."""
    for place, colour in ((truth, figures.PEER), (said, figures.SUSPECT)):
        if place is None:
            continue
        label = axis.get_xticklabels()[place]
        label.set_color(colour)
        label.set_fontweight("bold")


def sureness(row: dict[str, Any]) -> float:
    """How sure the networks are of a finding at the end: the suspect of its wrong answer, the peers of the class,
    whichever is less, 0 to 1."""
    after = torch.tensor(row["after"])
    truth = row["consensus"] if row["truth"] is None else row["truth"]
    return float(torch.cat([after[:1, row["said"]], after[1:, truth]]).min())


def typical(findings: Findings, moves: int, but: Sequence[int] = ()) -> dict[str, Any]:
    """A found row of so many moves, or of nearly so many: the one whose networks are surest. `but`: true classes that
    are shown already."""
    found = findings.filter(outcome="found")
    if not len(found):
        raise UserError("nothing was found, so there is no session to draw: give more trials")
    rows = [row for row in found if row["truth"] not in but] or list(found)
    return min(rows, key=lambda row: (abs(row["moves"] - moves), -sureness(row)))
