"""The figures: maps of the plane (2, 3), the way down in it (4, 9), two beside ten dimensions (5), the way step by step
(7, 8), and success against steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from torch import Tensor

from foible import figures
from foible.studies.sympathetic.mending import Descent, Images, Mended, route, shifted
from foible.studies.sympathetic.parts import Case
from foible.studies.sympathetic.plane import REACH, Plane
from foible.studies.sympathetic.success import says

GREY = "#9aa0a6"
GAP = 3  # white pixels between pictures


def _colours(classes: int) -> Any:
    import matplotlib as mpl

    colours = [mpl.colormaps["tab20"](i % 10 * 2 + 1) for i in range(classes)]  # the pale halves: text is read on them
    return ListedColormap(colours), BoundaryNorm(np.arange(classes + 1) - 0.5, classes)


def _areas(axis: Axes, said: Tensor, plane: Plane) -> None:
    """The class of every code of the grid (side²,), with its name in the middle of its largest stretch."""
    side, names = plane.side, plane.case.test.classes
    cells = said.view(side, side).numpy()
    colours, norm = _colours(len(names))
    axis.imshow(
        cells, origin="lower", extent=(-REACH, REACH, -REACH, REACH), cmap=colours, norm=norm, interpolation="nearest"
    )
    along = np.linspace(-REACH, REACH, side)
    for number, name in enumerate(names):
        rows, columns = np.nonzero(cells == number)
        if len(rows) >= max(2, side * side // 400):
            middle = np.argmin((rows - np.median(rows)) ** 2 + (columns - np.median(columns)) ** 2)
            axis.text(along[columns[middle]], along[rows[middle]], name, ha="center", va="center", fontsize=9,
                      clip_on=True)  # fmt: skip
    axis.set_xlabel("first dimension")


def maps(plane: Plane, given: Images, out: Path) -> str:
    """Figs. 2 and 3: c(g(z)) and c(x′) over the same codes, for one mistake."""
    case = plane.case
    figure, axes = figures.new(1, 3, size=(11.2, 4.4), width_ratios=(1, 1, 0.42))
    code = case.space.start(given.images[:1].to(case.basket.device)).code[0].tolist()
    said = plane.logits(given.images[:1])[0].argmax(1)
    for axis, answers, title in zip(axes[0], (plane.said_of_drawn, said), ("c(g(z))", "c(x′)"), strict=False):
        _areas(axis, answers, plane)
        axis.plot(0, 0, "*", color="gold", mec="black", ms=13)
        axis.plot(*code, "^", color="white", mec="black", ms=9)
        axis.set_title(title)
    axes[0, 0].set_ylabel("second dimension")
    names, was = case.test.classes, int(case.said[given.index[0]])
    figures.show_image(
        axes[0, 2], given.images[0], "x (triangle: e(x);\nstar: code 0)",
        note=f"said {names[was]}, is {names[int(given.aims[0])]}",
    )  # fmt: skip
    return figures.save(figure, out, "figure2-3")


def ways(plane: Plane, shown: Sequence[tuple[str, Images]], how: Descent, at: list[int], out: Path) -> str:
    """Figs. 4 and 9: the way of z + e, with contours of the cross entropy; a mistake that is mended, and one whose way
    ends in a local minimum. The way goes on after the class is right; black dot: first right step, star: end."""
    case = plane.case
    figure, axes = figures.new(len(shown), 2, size=(11.5, 4.7 * len(shown)), width_ratios=(1, 1.25))
    for (title, given), line in zip(shown, axes, strict=True):
        places = route(case.space, case.basket, case.suspect, given, how, at)[:, 0]
        code = case.space.start(given.images.to(case.basket.device)).code
        logits, aim = plane.logits(given.images)[0], int(given.aims[0])
        changed = _along(case, given, places, how)
        right = (says(case, changed) == aim).nonzero()[:, 0].tolist()
        _way(line[0], plane, logits, aim, (code + places).cpu().numpy(), right)
        line[0].set_title(f"{title}: {_words(case, given)}")
        picked = _picked(len(at), 6, right)
        _strip(line[1], given.images[0].cpu(), changed[picked].cpu(), [at[i] for i in picked])
    return figures.save(figure, out, "figure4-9")


def _words(case: Case, given: Images) -> str:
    names, place, aim = case.test.classes, int(given.index[0]), int(given.aims[0])
    verb = "is" if aim == int(case.test.labels[place]) else "driven to"
    return f"said {names[int(case.said[place])]}, {verb} {names[aim]}"


def _along(case: Case, given: Images, places: Tensor, how: Descent) -> Tensor:
    """(steps, …): x′ of one image at every place of its way."""
    space = replace(case.space, clip=how.png)
    return shifted(space, given.images.to(places.device).expand(len(places), -1, -1, -1), places)


def _picked(count: int, most: int, right: list[int]) -> list[int]:
    """Evenly, with the first step that is right among them."""
    some = {int(i) for i in np.linspace(0, count - 1, most).round()}
    return sorted(some | set(right[:1]))


def _way(axis: Axes, plane: Plane, logits: Tensor, aim: int, way: Any, right: list[int]) -> None:
    side = plane.side
    _areas(axis, logits.argmax(1), plane)
    entropy = -logits.log_softmax(1)[:, aim].view(side, side).numpy()
    along = np.linspace(-REACH, REACH, side)
    axis.contour(along, along, entropy, levels=12, colors=GREY, linewidths=0.6)
    axis.plot(way[:, 0], way[:, 1], "-", color="black", lw=1.2)
    axis.plot(*way[0], "^", color="white", mec="black", ms=9)
    if right:
        axis.plot(*way[right[0]], "o", color="black", ms=6)
    axis.plot(*way[-1], "*", color="gold", mec="black", ms=13)
    centre, reach = way.mean(0), max(1.0, float(np.ptp(way, axis=0).max()))
    axis.set_xlim(centre[0] - reach, centre[0] + reach)
    axis.set_ylim(centre[1] - reach, centre[1] + reach)


def _strip(axis: Axes, image: Tensor, changed: Tensor, at: list[int]) -> None:
    """Three rows, a column for each step: x′, x′ − x by its own least and greatest, and signed on one scale. One
    picture: as many axes would take seconds."""
    change = (changed - image).mean(1).numpy()
    scale = max(float(np.abs(change).max()), 1e-6)
    own = change - change.min((1, 2), keepdims=True)
    own = np.where(np.ptp(change, (1, 2))[:, None, None] > 1e-4, own / np.maximum(own.max((1, 2), keepdims=True), 1e-9),
                   0.5)  # fmt: skip
    first = changed.clamp(0, 1).expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()
    whole = sheet([first, np.repeat(own[..., None], 3, 3), signed(change, scale)])
    tall, wide = (side + GAP for side in change.shape[1:])
    axis.imshow(whole, interpolation="nearest")
    figures.blank(axis)
    for column, steps in enumerate(at):
        axis.text((column + 0.5) * wide, -1, f"step {steps}", ha="center", va="bottom", fontsize=8.5)
    for row, word in enumerate(("x′", "x′ − x,\nmin–max", f"x′ − x,\n± {scale:.2g}")):
        axis.text(-1, (row + 0.5) * tall, word, ha="right", va="center", fontsize=8.5)


def signed(change: Any, scale: float) -> Any:
    """Changes (…) as colours (…, 3): red where light is added, blue where it is taken."""
    import matplotlib as mpl

    return mpl.colormaps["RdBu_r"](0.5 + 0.5 * np.clip(change / scale, -1, 1))[..., :3]


def sheet(rows: Sequence[Any]) -> Any:
    """Rows of pictures (n, height, width, 3) as one, white between them."""
    framed = [np.pad(row, ((0, 0), (0, GAP), (0, GAP), (0, 0)), constant_values=1.0) for row in rows]
    return np.concatenate([np.concatenate(list(row), 1) for row in framed])


def beside(cases: Sequence[Case], came: Sequence[Mended], out: Path, rows: int = 5) -> str:
    """Fig. 5: the same mistakes, mended in two and in ten dimensions: said, x, x′, x′ − x, label."""
    both = torch.stack([one.found for one in came]).all(0).nonzero()[:rows, 0]
    figure, axes = figures.new(1, len(came), size=(4.2 * len(came) + 0.4, 1.25 * max(1, len(both)) + 0.7))
    scale = max([float(one.change[both].abs().amax()) for one in came if len(both)], default=1.0)
    for axis, case, one in zip(axes[0], cases, came, strict=True):
        figures.blank(axis)
        axis.set_title(f"{case.latent}-D latent space: x, x′, x′ − x (± {scale:.2g})", pad=8)
        names = case.test.classes
        images, changed = (
            some[both].cpu().clamp(0, 1).expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()
            for some in (one.given.images, one.changed)
        )
        change = signed(one.change[both].mean(1).cpu().numpy(), scale)
        if not len(both):
            continue
        axis.imshow(sheet([np.stack(line) for line in zip(images, changed, change, strict=True)]))
        tall, wide = (side + GAP for side in change.shape[1:3])
        for place, row in enumerate(both.tolist()):
            was, aim = int(case.said[one.given.index[row]]), int(one.given.aims[row])
            axis.text(-2, (place + 0.5) * tall, names[was], ha="right", va="center")
            axis.text(3 * wide + 1, (place + 0.5) * tall, names[aim], ha="left", va="center")
    return figures.save(figure, out, "figure5")


def steps(case: Case, given: Images, how: Descent, at: list[int], out: Path) -> str:
    """Figs. 7 and 8: some mistakes, step by step."""
    places = route(case.space, case.basket, case.suspect, given, how, at)
    n = len(given)
    figure, axes = figures.new(n, 1, size=(0.95 * len(at) + 0.9, 3.5 * n))
    for row, axis in enumerate(axes[:, 0]):
        one = given[torch.tensor([row])]
        _strip(axis, one.images[0].cpu(), _along(case, one, places[:, row], how).cpu(), at)
        axis.set_title(f"{case.name}: {_words(case, one)}", fontsize=9.5, pad=16)
    return figures.save(figure, out, "figure7-8")


def curves(mended: Mapping[str, Mended], driven: Mapping[str, Mended], most: int, out: Path) -> str:
    """Success against steps: mistakes mended, and (dashed) right images driven to other classes."""
    figure, axes = figures.new(size=(8.2, 4.2))
    axis, at = axes[0, 0], np.arange(most + 1)
    for number, name in enumerate(name for name in mended if name in driven):
        for came, line, words in ((mended[name], "-", "LSE"), (driven[name], "--", "LAE")):
            taken = np.where(came.found.cpu().numpy(), came.steps.cpu().numpy(), most + 1)
            share = 100 * np.searchsorted(np.sort(taken), at, side="right") / len(taken)
            axis.plot(at + 1, share, line, color=figures.COLOURS[number], lw=1.6, label=f"{words} {name}")
    axis.set_xscale("log")
    axis.set_xlabel("steps + 1")
    axis.set_ylabel("class reached, %")
    axis.set_ylim(0, 101)
    axis.grid(True)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figures.save(figure, out, "steps")
