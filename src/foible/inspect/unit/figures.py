"""The figures of `foible inspect units`: rows of images side by side, and how alike the images of all rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from foible.figures import COLOURS, INK, PAPER, new, save, style
from foible.inspect.unit.tables import CHANCE, MEASURES, NATURAL, Units

TITLES = {
    NATURAL: "natural units",
    "random": "random directions",
    "whitened": "random directions, whitened",
    "positive": "random directions, no negative weights",
    CHANCE: "images drawn at random",
}
SHORT = TITLES | {"whitened": "whitened", "positive": "no negative\nweights", CHANCE: "random\nimages",
                  NATURAL: "natural\nunits", "random": "random\ndirections"}  # fmt: skip
LARGE = 64  # pixels a side that an image is enlarged to, by whole factors


def draw(units: Units, out: Path, prefix: str = "") -> list[str]:
    """Write all figures into `out`; their stems."""
    with style():
        return [
            *(rows_figure(units, kind, out, f"{prefix}rows-{kind}") for kind in units.kinds
              if kind not in (NATURAL, CHANCE)),
            alike_figure(units, out, f"{prefix}alike"),
        ]  # fmt: skip


def rows_figure(units: Units, kind: str, out: Path, stem: str) -> str:
    """As Figs. 1 and 2, or 3 and 4: natural units on the left, directions of `kind` on the right."""
    count, top = units.settings["units"], units.settings["top"]
    wide = 0.42 * top + 0.85
    figure, axes = new(1, 2, size=(2 * wide + 0.3, 0.42 * count + 0.85))
    for axis, side in zip(axes[0], (NATURAL, kind), strict=True):
        rows = units.kinds[side]
        chosen = rows.first(count)
        axis.set_title(TITLES[side])
        axis.set_xticks([])
        for spine in axis.spines.values():
            spine.set_visible(False)
        if not chosen:
            axis.set_yticks([])
            axis.text(0.5, 0.5, "none is alive", ha="center", va="center", transform=axis.transAxes)
            continue
        strips = [[_pixels(units.shown[place]) for place in rows.index[row].tolist()] for row in chosen]
        sheet, step = _montage(strips)
        axis.imshow(sheet, interpolation="antialiased")
        called = "unit" if side == NATURAL else "direction"
        names = [_row_name(called, int(rows.numbers[row]), float(rows.purity[row])) for row in chosen]
        axis.set_yticks([step * (row + 0.5) for row in range(len(chosen))], names, fontsize=8)
        axis.tick_params(length=0)
    where = f"{units.settings['network']}, {units.settings['layer']}"
    figure.suptitle(f"{where}: the images that excite it most", fontsize=10.5)
    return save(figure, out, stem)


def _row_name(called: str, number: int, pure: float) -> str:
    return f"{called} {number}" if pure != pure else f"{called} {number}\n{100 * pure:.0f} % one class"


def _pixels(image: Any) -> np.ndarray[Any, Any]:
    """uint8 (channels, height, width) as (height, width, 3), small ones enlarged."""
    array = np.asarray(image).transpose(1, 2, 0)
    array = array.repeat(3, 2) if array.shape[2] == 1 else array
    times = max(1, LARGE // max(array.shape[:2]))
    return array.repeat(times, 0).repeat(times, 1)


def _montage(rows: list[list[np.ndarray[Any, Any]]]) -> tuple[np.ndarray[Any, Any], float]:
    """All images on one white sheet, and the height of a row on it."""
    height, width = rows[0][0].shape[:2]
    gap = max(1, width // 16)
    sheet = np.full((len(rows) * (height + gap), len(rows[0]) * (width + gap), 3), 255, np.uint8)
    for down, row in enumerate(rows):
        for across, image in enumerate(row):
            top, left = down * (height + gap), across * (width + gap)
            sheet[top : top + height, left : left + width] = image
    return sheet, height + gap


def alike_figure(units: Units, out: Path, stem: str) -> str:
    """Purity and coherence of every row, kind by kind, with the means and their 95 % intervals."""
    figure, axes = new(1, 2, size=(3.4 + 1.5 * len(units.kinds), 3.2))
    labels = {"purity": "class purity of a row", "coherence": f"coherence by {units.settings['judge']}"}
    for axis, measure in zip(axes[0], MEASURES, strict=True):
        for place, (kind, rows) in enumerate(units.kinds.items()):
            values = np.array(rows.values(measure))
            if not len(values):
                continue
            colour = PAPER if kind == CHANCE else COLOURS[place]
            # A fixed scatter: the golden ratio's multiples are even and the same each time.
            aside = place + 0.5 * ((np.arange(len(values)) * 0.618034) % 1 - 0.5)
            axis.plot(aside, values, ".", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
            found = units.means[measure][kind]
            if found.low is not None and found.high is not None and found.mean is not None:
                span = [[found.mean - found.low], [found.high - found.mean]]
                axis.errorbar([place], [found.mean], span, color=INK, fmt="o", markersize=4, capsize=4, linewidth=1.2)
        axis.set_xticks(range(len(units.kinds)), [SHORT[kind] for kind in units.kinds], fontsize=8.5)
        axis.set_xlim(-0.6, len(units.kinds) - 0.4)
        axis.set_ylabel(labels[measure])
        axis.grid(axis="y")
    axes[0][0].set_ylim(0, 1.03)
    return save(figure, out, stem)
