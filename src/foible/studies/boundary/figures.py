"""Figures 1 to 4 of paper 4, where walks flip, and types by people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from foible import figures
from foible.studies.boundary.sharpness import Sharpness, Walks
from foible.studies.boundary.tables import Fleet, fleet_shares
from foible.studies.boundary.types import Floats, Ints, Opinion, votes

MARKS = ("o", "s", "^", "D", "v", "P")
RED, BLUE, GREY = ("#f2a6a6", "#b2182b"), ("#9ecae1", "#08519c"), "#bdbdbd"


def one_walk(images: Tensor, them: Walks, classes: Sequence[str], walk: int, out: Path) -> str:
    """Fig. 1: one walk from a class to another."""
    first, last = (classes[end] for end in them.ends[walk].tolist())
    titles = [f"{alpha:g}" for alpha in them.alpha.tolist()]
    figure = figures.strip([images[place] for place in them.place[walk].tolist()], titles, each=0.75,
                           heading=f"From {first} to {last}: α")  # fmt: skip
    return figures.save(figure, out, "figure-1")


def sheet(images: Tensor, them: Walks, classes: Sequence[str], counts: Ints | None, out: Path) -> str:
    """Fig. 3: all images, a row a walk. Above each ✓ where all people agree, else what they chose; nothing where
    nobody was asked."""
    rows, steps = them.place.shape
    figure, axes = figures.new(size=(0.62 * steps + 0.9, 0.78 * rows + 0.5))
    axis = axes[0, 0]
    _, height, width = images.shape[1:]
    tall, wide = height + max(8, height // 3), width + 2
    board = np.ones((rows * tall, steps * wide, 3))
    for row in range(rows):
        for step in range(steps):
            image = figures.pixels(images[int(them.place[row, step])])
            top, left = row * tall + tall - height, step * wide
            board[top : top + height, left : left + width] = image[..., None] if image.ndim == 2 else image
            text = _said(counts[them.place[row, step]], classes) if counts is not None else ""
            axis.text(left + width / 2, top - 1, text, ha="center", va="bottom", fontsize=7)
    axis.imshow(board, interpolation="nearest")
    axis.set_xticks([step * wide + width / 2 for step in range(steps)], [f"{one:g}" for one in them.alpha.tolist()])
    axis.set_yticks([row * tall + tall - height / 2 for row in range(rows)],
                    [f"{classes[a]}–{classes[b]}" for a, b in them.ends.tolist()])  # fmt: skip
    axis.set_xlabel("α")
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.tick_params(length=0)
    return figures.save(figure, out, "figure-3")


def _said(counts: Ints, classes: Sequence[str]) -> str:
    chosen = np.flatnonzero(counts).tolist()
    return "" if not chosen else "✓" if len(chosen) == 1 else ",".join(classes[one] for one in chosen)


def with_accuracy(fleets: Sequence[Fleet], people: Opinion | None, out: Path) -> str:
    """Fig. 2: types A and C by accuracy, a line an architecture, with the standard deviation over repeats; without
    people, on how many images the seeds disagree."""
    words = {
        "A": "type A, % of the images",
        "C": "type C, % of the images",
        "disagree": "seeds disagree, % of the images",
    }
    keys = ("A", "C") if people is not None else ("disagree",)
    figure, axes = figures.new(1, len(keys), size=(3.9 * len(keys) + 0.6, 3.3))
    names = list(dict.fromkeys(one.architecture for one in fleets))
    known = {one.target for one in fleets}
    reach = max(known) - min(known)  # bars of one accuracy stand a little apart
    for axis, key in zip(axes[0], keys, strict=True):
        for number, name in enumerate(names):
            mine = sorted((one for one in fleets if one.architecture == name), key=lambda one: one.target)
            shares = [fleet_shares(one, people)[key] for one in mine]
            spread = [float(one.std(ddof=1)) if len(one) > 1 else 0.0 for one in shares]
            at = [one.target + 0.008 * reach * (number - 1) for one in mine]
            axis.errorbar(at, [float(one.mean()) for one in shares], spread, capsize=3, marker=MARKS[number],
                          color=figures.COLOURS[number], label=name)  # fmt: skip
        axis.set_xticks(sorted(known))
        axis.set_xlabel("test accuracy, %")
        axis.set_ylabel(words[key])
        axis.set_ylim(bottom=0)
        axis.grid(True)
    axes[0, 0].legend()
    return figures.save(figure, out, "figure-2")


def who_disagrees(fleets: Sequence[Fleet], them: Walks, classes: Sequence[str], counts: Ints | None, out: Path) -> str:
    """Fig. 4, a panel an accuracy: red where only people disagree, blue where only networks do, darker with more
    classes; grey where both agree, white where both disagree. Without people blue and grey alone. Of the fleets' first
    repeat."""
    rows, steps = them.place.shape
    figure, axes = figures.new(1, len(fleets), size=(2.7 * len(fleets) + 1.0, 0.24 * rows + 1.0), sharey=True)
    theirs = (counts > 0).sum(1) if counts is not None else np.ones(them.place.size, np.int64)
    for axis, fleet in zip(axes[0], fleets, strict=True):
        own = (votes(fleet.said[0], len(classes)) > 0).sum(1)
        axis.imshow(colours(own, theirs)[them.place], aspect="auto", interpolation="nearest")
        axis.set_xticks(range(0, steps, 2), [f"{one:g}" for one in them.alpha.tolist()[::2]])
        axis.set_yticks(range(rows), [f"{classes[a]}–{classes[b]}" for a, b in them.ends.tolist()])
        axis.set_xticks(np.arange(-0.5, steps), minor=True)
        axis.set_yticks(np.arange(-0.5, rows), minor=True)
        axis.grid(True, which="minor", color="#eeeeee", lw=0.6)
        axis.tick_params(which="minor", length=0)
        axis.set_xlabel("α")
        axis.set_title(f"{fleet.architecture}, {fleet.target:g} %")
    figure.suptitle(
        "Blue: networks disagree. Grey: they agree. (People have not labelled these images yet.)" if counts is None else
        "Who disagrees: red, people alone; blue, networks alone; white, both; grey, nobody",
        fontsize=9,
    )  # fmt: skip
    return figures.save(figure, out, "figure-4")


def colours(networks: Ints, people: Ints) -> Floats:
    """(images, 3): red, blue, grey or white. networks, people: (images,), how many classes they chose among them."""
    from matplotlib.colors import to_rgb

    found = np.ones((len(networks), 3))
    alone = {RED: (people, networks), BLUE: (networks, people)}
    for (light, dark), (split, whole) in alone.items():
        found[(split == 2) & (whole <= 1)] = to_rgb(light)
        found[(split > 2) & (whole <= 1)] = to_rgb(dark)
    found[(networks <= 1) & (people <= 1)] = to_rgb(GREY)
    return found


def where_flips(
    names: Sequence[str], networks: Sharpness, people: Sharpness | None, them: Walks, classes: Sequence[str], out: Path
) -> str:
    """A row a walk: α at which each network changes its mind, and people."""
    rows = len(them.place)
    kinds = list(dict.fromkeys(name.rstrip("0123456789") for name in names))
    figure, axes = figures.new(size=(6.4, 0.26 * rows + 1.1))
    axis = axes[0, 0]
    for number, kind in enumerate(kinds):
        mine = [row for row, name in enumerate(names) if name.rstrip("0123456789") == kind]
        for shift, row in enumerate(mine):
            beside = 0.09 * (shift - 1) + 0.03 * (number - 1)  # else one mark hides another
            axis.plot(networks.flip[row], np.arange(rows) + beside, ls="none", ms=4.5, alpha=0.75,
                      marker=MARKS[number % len(MARKS)], color=figures.COLOURS[number % len(figures.COLOURS)],
                      label=kind if not shift else None)  # fmt: skip
    if people is not None:
        axis.plot(
            people.flip, np.arange(rows), ls="none", marker="|", ms=15, mew=2.2, color=figures.INK, label="people"
        )
    axis.set_yticks(range(rows), [f"{classes[a]}–{classes[b]}" for a, b in them.ends.tolist()])
    axis.invert_yaxis()
    axis.set_xlim(-0.02, 1.02)
    axis.set_xlabel("α at which the answer flips")
    axis.grid(True)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figures.save(figure, out, "flips")


def types_by_people(
    shares: Mapping[str, Mapping[str, Sequence[float]]],
    ticks: Mapping[str, Sequence[float]],
    boundary: Floats,
    out: Path,
) -> str:
    """CIFAR-10H: types by what counts as agreement and by the number of people, and how many images people disagree on.

    boundary: (numbers of people, 3), the share with its interval.
    """
    figure, axes = figures.new(1, 3, size=(10.2, 3.0))
    labels = {"threshold": "people agree from, %", "people": "people an image"}
    for axis, what in zip(axes[0], shares, strict=False):
        for name, word in (("a", "type A"), ("c", "type C")):
            axis.plot(ticks[what], shares[what][name], marker="o", label=word)
        axis.set_xlabel(labels[what])
        axis.set_ylabel("% of the images")
        axis.set_ylim(bottom=0)
        axis.grid(True)
    axes[0, 0].legend()
    last: Any = axes[0, 2]
    middle, low, high = boundary.T
    reach = np.maximum(0, np.stack([middle - low, high - middle]))
    last.errorbar(ticks["people"], middle, reach, marker="o", capsize=3, color=figures.INK)
    last.set_xlabel("people an image")
    last.set_ylabel("people disagree, % of the images")
    last.set_ylim(bottom=0)
    last.grid(True)
    return figures.save(figure, out, "types")
