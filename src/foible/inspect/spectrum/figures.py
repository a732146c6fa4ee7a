"""The picture of a spectrum: what each layer can do to a change, what it does along distortions, and along noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from foible.figures import INK, PAPER, new, save, style
from foible.inspect.spectrum.growth import WHOLE, Stage
from foible.inspect.spectrum.record import Spectrum

DISTORTION, NOISE, REAL = "#d55e00", "#0072b2", "#009e73"


def draw(found: Spectrum, out: Path, stem: str = "spectrum") -> str:
    """STEM.png and STEM.svg: bounds and growth of every stage, and below what distortions gain over noise."""
    return draw_all([found], out, stem)


def draw_all(several: Sequence[Spectrum], out: Path, stem: str) -> str:
    """The same of several networks, side by side; each as wide as it has layers."""
    grown = any(one.growth for one in several)
    widths = [max(3.4, 0.9 + 0.52 * len(one.stages)) for one in several]
    scale = min(1.0, 24 / sum(widths))
    with style():
        figure, axes = new(
            2 if grown else 1,
            len(several),
            size=(max(6.4, sum(widths) * scale + 0.6), 6.4 if grown else 4.6),
            gridspec_kw={"width_ratios": widths, **({"height_ratios": [2.4, 1]} if grown else {})},
        )
        for column, one in enumerate(several):
            _column(axes[:, column], one, column == 0)
        handles: dict[str, Any] = {}
        for axis in axes[0]:
            handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        across = 5 if len(several) > 1 else 2
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncol=across)
        return save(figure, out, stem)


def label(stage: Stage) -> str:
    """The layer's own name, without the normalisation that is folded in."""
    return stage.name.partition(" + ")[0]


def _column(axes: Any, found: Spectrum, first: bool) -> None:
    top, last = axes[0], axes[-1]
    _bounds(top, found)
    _growth(top, found)
    _logarithmic(top)
    top.set_title(found.network)
    if first:
        top.set_ylabel("‖change out‖ / ‖change in‖")
    if last is not top:
        top.set_xticks([])
        _gain(last, found)
        _logarithmic(last)
        if first:
            last.set_ylabel("distortions\nover noise")
    names = [label(one) for one in found.stages]
    last.set_xticks(range(len(names)), names, rotation=50, ha="right", rotation_mode="anchor")
    for axis in (top, last):
        axis.set_xlim(-0.7, max(1, len(names)) - 0.3)


def _logarithmic(axis: Axes) -> None:
    """A logarithmic axis whose ticks are plain numbers, few or many decades."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    spread = high / low
    marks = (1, 1.2, 1.5, 2, 3, 5, 7) if spread < 5 else (1, 2, 5) if spread < 200 else (1,)
    axis.yaxis.set_major_locator(LogLocator(subs=marks, numticks=12))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y")


def _bounds(axis: Axes, found: Spectrum) -> None:
    dash: dict[str, Any] = {"marker": "_", "markersize": 15, "markeredgewidth": 2.2}
    for key, looks, word in (
        ("upper", {**dash, "color": INK}, "upper bound, circular"),
        (
            "real_upper",
            {"marker": "o", "color": "none", "markeredgecolor": REAL, "markersize": 9},
            "upper bound, real layer",
        ),
        ("lower", {**dash, "color": PAPER}, "lower bound of the weights"),
    ):
        shown = [(x, getattr(one, key)) for x, one in enumerate(found.stages) if getattr(one, key)]
        if shown:
            xs, ys = zip(*shown, strict=True)
            axis.plot(xs, ys, linestyle="none", label=word, **looks)


def _growth(axis: Axes, found: Spectrum) -> None:
    for key, colour, word, shift in (
        ("distortion", DISTORTION, "growth along distortions", -0.1),
        ("noise", NOISE, "growth along noise as long", 0.1),
    ):
        points = []
        for x, one in enumerate(found.growth):
            middle, low, high = (getattr(one, f"{key}{end}") for end in ("", "_low", "_high"))
            if one.stage != WHOLE and middle is not None:
                points.append((x + shift, middle, middle - (low or middle), (high or middle) - middle))
        if points:
            xs, middles, below, above = zip(*points, strict=True)
            axis.errorbar(xs, middles, [below, above], fmt="o-", color=colour, label=word, capsize=2, markersize=4.5,
                          linewidth=1)  # fmt: skip


def _gain(axis: Axes, found: Spectrum) -> None:
    shown = [(x, one.gain) for x, one in enumerate(found.growth) if one.stage != WHOLE and one.gain is not None]
    worst = found.worst
    if shown:
        names = [found.growth[x].stage for x, _ in shown]
        colours = [DISTORTION if worst and name == worst.stage else PAPER for name in names]
        axis.bar([x for x, _ in shown], [gain - 1 for _, gain in shown], bottom=1, color=colours, width=0.55)
    axis.axhline(1, color=INK, linewidth=0.8)
