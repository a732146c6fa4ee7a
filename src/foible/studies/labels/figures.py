"""The figures of `foible study labels`: wrong labels by score, and along each ranking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from foible import figures
from foible.recipes.compare.against import Floats
from foible.statistics import wilson
from foible.studies.labels.rankings import OURS, Bools

Part = tuple[str, int, int]  # its name, wrong labels, images


def shares(deciles: Sequence[Part], bands: Sequence[Part], out: Path) -> str:
    """The share of wrong labels in tenths of the list, and in the bands that the package tells of."""
    figure, axes = figures.new(1, 2, size=(9.6, 3.8), sharey=True)
    for axis, parts, title in zip(axes[0], (deciles, bands), ("tenths of the list", "bands"), strict=True):
        parts = [part for part in parts if part[2]]
        share = np.array([100 * wrong / n for _, wrong, n in parts])
        ends = np.array([wilson(wrong, n) for _, wrong, n in parts]).reshape(-1, 2).T * 100
        reach = np.maximum(0, np.array([share - ends[0], ends[1] - share]))
        axis.errorbar(range(len(parts)), share, reach, fmt="o", color=figures.MEASURED, capsize=3, lw=1.4)
        axis.set_xticks(range(len(parts)), [f"{name}\n({n:,})" for name, _, n in parts], rotation=90, fontsize=8)
        whole = sum(wrong for _, wrong, _ in parts) / max(1, sum(n for _, _, n in parts))
        axis.axhline(100 * whole, color=figures.PAPER, lw=1.2, ls="--")
        axis.set_title(f"{title}: score (images)")
        axis.set_ylim(0, 100 if ends.size and ends[1].max() > 60 else 60)
        axis.grid(True, axis="y")
    axes[0, 0].set_ylabel("people side with the networks, %")
    return figures.save(figure, out, "shares")


def curves(ranked: dict[str, Floats], wrong: Bools, out: Path) -> str:
    """Wrong labels among the first k, for every ranking; the dashed line is a random order."""
    figure, axes = figures.new(size=(6.4, 4.2))
    axis, n = axes[0, 0], len(wrong)
    at = np.arange(1, n + 1)
    for number, (name, values) in enumerate(ranked.items()):
        seen = np.cumsum(wrong[np.argsort(-values, kind="stable")])
        axis.plot(
            at, seen, color=figures.COLOURS[number], lw=2.2 if name == OURS else 1.3, label=name, drawstyle="steps-post"
        )
    axis.plot([0, n], [0, int(wrong.sum())], color=figures.PAPER, ls="--", lw=1.2, label="random order")
    axis.set_xlabel("images looked at, the first of each ranking")
    axis.set_ylabel("people side with the networks")
    axis.set_xlim(0, max(1, n))
    axis.set_ylim(bottom=0)
    axis.grid(True)
    axis.legend(loc="lower right")
    return figures.save(figure, out, "rankings")
