"""The pictures of `deep`: Fig. 8 of paper 1, left and right, and what each network is sensitive to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from foible import figures
from foible.findings import Findings
from foible.images import decode_png
from foible.sensitivity import Sensitivity
from foible.studies.peer_pressure.severe import Severe

EXAMPLES = 4  # of each network
CLEAR = 2.0  # log₂ of the odds ratio from which on a cell has its full colour


def draw(
    name: str, networks: Sequence[str], findings: Findings, known: Sensitivity, hard: Severe,
    original: tuple[Tensor, str], out: Path,
) -> list[str]:  # fmt: skip
    """All pictures of one architecture; their stems."""
    stems = [figures.save(left(hard, original, len(networks)), out, f"figure-8-left-{name}")]
    if len(findings.filter(outcome="found")):
        stems.append(figures.save(right(findings, networks), out, f"figure-8-right-{name}"))
    if known.kinds:
        stems.append(figures.save(odds(known), out, f"sensitivity-{name}"))
    return stems


def left(hard: Severe, original: tuple[Tensor, str], networks: int) -> Figure:
    """Fig. 8, left: the original and severe changes of it that every network still gets right."""
    figure, axes = figures.new(3, 3, size=(5.6, 7.1))
    cells = list(axes.flat)
    figures.show_image(cells[0], original[0], "original", note=original[1])
    for axis, one in zip(cells[1:], hard.survivors, strict=False):
        figures.show_image(axis, one.image, one.theme, note=_words(one.change))
    for axis in cells[1 + len(hard.survivors) :]:
        figures.blank(axis)
    figure.suptitle(f"All {networks} networks get these right: {original[1]}", fontsize=10.5)
    return figure


def _words(change: dict[str, float], most: int = 2) -> str:
    """The largest parts of a change: `rotation 31°, brightness −12 %`."""
    largest = sorted(change.items(), key=lambda item: -abs(item[1]))[:most]
    words = []
    for name, value in largest:
        what, _, unit = name.rpartition(" ")
        space = "" if unit == "°" else " "
        words.append(f"{what} {f'{value:.0f}'.replace('-', '−')}{space}{unit}")
    return "\n".join(words)


def right(findings: Findings, networks: Sequence[str]) -> Figure:
    """Fig. 8, right, for every network: originals, and what each was turned into, which the network gets wrong."""
    chosen = [_examples(findings, name) for name in networks]
    rows = max(map(len, chosen))
    figure, axes = figures.new(rows, len(networks), size=(2.1 * len(networks) + 0.2, 1.5 * rows + 0.8))
    for column, (name, examples) in enumerate(zip(networks, chosen, strict=True)):
        for row in range(rows):
            axis = axes[row, column]
            if row >= len(examples):
                figures.blank(axis)
                continue
            one = examples[row]
            was, said = (findings.name_of(one[key]) for key in ("truth", "said"))
            figures.show_image(axis, _side_by_side(one), note=f"{was} → “{said}”\n{_kinds(one)}")
        axes[0, column].set_title(f"network {column + 1}\n{name}", fontsize=8)
    heading = "Original | what the network takes for something else, while all its peers are right"
    figure.suptitle(f"{heading}\n(below: the kinds of move that already suffice)", fontsize=10)
    return figure


def _side_by_side(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The original and the image, with a white gap between them."""
    before, after = (figures.pixels(decode_png(row[column])) for column in ("origin", "image"))
    gap = np.ones((len(before), max(1, len(before) // 16), *before.shape[2:]))
    joined = np.concatenate([before, gap, after], 1)
    return joined if joined.ndim == 2 else joined.transpose(2, 0, 1)


def _kinds(row: dict[str, Any]) -> str:
    """The kinds of the least change, at most three of them."""
    kinds = row["kinds"] or []
    return ", ".join(kinds[:3]) + (", …" if len(kinds) > 3 else "")


def _examples(findings: Findings, suspect: str) -> list[dict[str, Any]]:
    """Found by the widest margin, of different classes first."""
    rows = list(findings.filter(outcome="found", suspect=suspect))
    rows.sort(key=lambda row: -(row["score"] or 0.0))
    seen: dict[int, int] = {}
    ranked: list[tuple[int, int, dict[str, Any]]] = []
    for row in rows:
        ranked.append((seen.get(row["truth"], 0), len(ranked), row))
        seen[row["truth"]] = seen.get(row["truth"], 0) + 1
    return [row for _, _, row in sorted(ranked, key=lambda item: item[:2])[:EXAMPLES]]


def odds(known: Sensitivity) -> Figure:
    """Odds ratio of every kind among a network's mistakes against its peers': network by kind."""
    kinds = list(dict.fromkeys(row.kind for row in known.kinds))
    by_cell = {(row.network, row.kind): row for row in known.kinds}
    values = np.array([[math.log2(by_cell[name, kind].odds.ratio) for kind in kinds] for name in known.networks])
    figure, axes = figures.new(1, 1, size=(0.78 * len(kinds) + 1.9, 0.42 * len(known.networks) + 1.5))
    axis = axes[0, 0]
    shown = axis.imshow(values, cmap=mpl.colormaps["PuOr_r"], vmin=-CLEAR, vmax=CLEAR, aspect="auto")
    for row, name in enumerate(known.networks):
        for column, kind in enumerate(kinds):
            cell = by_cell[name, kind]
            sure, ink = cell.holm < 0.05, "white" if abs(values[row, column]) > 1.4 else figures.INK
            axis.text(
                column, row, f"{cell.odds.ratio:.2g}{'*' if sure else ''}", ha="center", va="center", fontsize=8.5,
                fontweight="bold" if sure else "normal", color=ink,
            )  # fmt: skip
    axis.set_xticks(range(len(kinds)), kinds, rotation=35, ha="right")
    axis.set_yticks(range(len(known.networks)), known.networks)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(shown, ax=axis, ticks=[-2, -1, 0, 1, 2], pad=0.01)
    bar.ax.set_yticklabels(["¼", "½", "1", "2", "4"])
    groups = len({row.kind for row in known.kinds if row.group})
    if groups:
        axis.axvline(groups - 0.5, color="white", linewidth=4)
    axis.set_title("Odds ratio of each kind among its mistakes, against its peers' (* p < 0.05 by Holm)", loc="left")
    return figure
