"""Which labels a distortion is to reach, and the nearest (or farthest) over all that were tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from foible.errors import UserError
from foible.randomness import integers
from foible.search.nearest import Model, Nearest, length, margin, reached
from foible.text import did_you_mean, some

FIRM = 1e-6  # of the largest logit: what a margin may be off by from one batch to another
KINDS = ("best", "worst", "random", "next", "each", "any")

Solve = Callable[[Tensor, Tensor, Tensor | None], Nearest]  # images, labels, targets


@dataclass(frozen=True)
class Fallback:
    """A method for what others have not found, or with `everywhere` for all images; the nearer is kept."""

    solve: Callable[[Tensor, Tensor, Tensor | None, Tensor], Nearest]  # images, labels, targets, forwards spent on them
    number: int  # among the methods
    everywhere: bool = False


def read_target(target: str, classes: tuple[str, ...]) -> str | int:
    """One of `KINDS`, or the number of the class that is named; `class:best` names a class called best."""
    if target in KINDS:
        return target
    name = target.removeprefix("class:")
    if name in classes:
        return classes.index(name)
    raise UserError(
        f"target is {target!r}{did_you_mean(name, (*KINDS, *classes))}: expected {', '.join(KINDS)}, or a class of the "
        f"networks ({some(classes)})"
    )


def targets_of(
    kind: str | int, labels: Tensor, positions: Tensor, logits: Tensor, *, seed: int, likeliest: int | None = None
) -> Tensor | None:
    """(n, k): the labels to try for each image; None where none is asked for.

    labels: (n,) what the images are. positions: (n,) in the data, which decide what is drawn. logits: (n, classes) of
    the source, which decide what is `likeliest`.
    """
    count = logits.shape[1]
    if kind == "any":
        return None
    if isinstance(kind, int):
        return torch.full_like(labels, kind)[:, None]
    if kind == "next":
        return ((labels + 1) % count)[:, None]
    if kind == "random":
        drawn = integers(seed, positions, stream="distort.target", high=count - 1, count=1).to(labels.device)
        return drawn + (drawn >= labels[:, None])
    if likeliest is not None and likeliest < count - 1:
        others = logits.nan_to_num(nan=-torch.inf).scatter(1, labels[:, None], -torch.inf)
        return others.argsort(dim=1, descending=True, stable=True)[:, :likeliest]
    every = torch.arange(count - 1, device=labels.device).expand(len(labels), -1)
    return every + (every >= labels[:, None])


@dataclass(frozen=True)
class Reached:
    """What became of n images, over all labels that were tried."""

    images: Tensor  # (n, *shape): the nearest one found; else the one that came closest to what was asked for
    targets: Tensor | None  # (n,) the label of each; None where none was asked for
    found: Tensor  # (n,) bool
    invalid: Tensor  # (n,) bool: no label was reached, and every search met NaN or infinity
    distance: Tensor  # (n,)
    margin: Tensor  # (n,) of those not found; -inf where it is not a number
    forwards: Tensor  # (n,) int64, over all labels
    backwards: Tensor  # (n,)
    method: Tensor | None = None  # (n,) which of several methods each image is from; None where there is one


def over_targets(
    solves: Sequence[Solve],
    model: Model,
    images: Tensor,
    labels: Tensor,
    targets: Tensor | None,
    logits: Tensor,
    *,
    norm: str,
    worst: bool = False,
    rows: int = 4096,
    last: Fallback | None = None,
    trusted: bool = False,
    tick: Callable[[int], None] | None = None,
) -> Reached:
    """Every image and each of its `targets` (n, k), at most about `rows` at once; the nearest label found wins, or with
    `worst` the farthest.

    solves: one a method; of each label the nearest that any of them finds. last: what then follows. logits: (n,
    classes) the model's, of `images`: where they say what is asked for already, nothing is searched. trusted: methods
    are taken at their word, where the model may say something else when it is asked again.
    """
    if targets is None:
        return _tried(solves, model, images, labels, None, logits, norm, last, trusted, tick)
    best: Reached | None = None
    for group in targets.split(max(1, rows // max(1, len(images))), dim=1):
        width = group.shape[1]
        many = [tensor.repeat_interleave(width, 0) for tensor in (images, labels, logits)]
        tried = _tried(solves, model, many[0], many[1], group.flatten(), many[2], norm, last, trusted, tick)
        for place in range(width):
            one = _every(tried, place, width)
            best = one if best is None else _better(best, one, worst)
    assert best is not None
    return best


def _tried(
    solves: Sequence[Solve], model: Model, images: Tensor, labels: Tensor, targets: Tensor | None, logits: Tensor,
    norm: str, last: Fallback | None, trusted: bool, tick: Callable[[int], None] | None,
) -> Reached:  # fmt: skip
    """One search a row and method."""
    best: Reached | None = None
    for number, solve in enumerate(solves):
        one = _searched(solve, model, images, labels, targets, logits, norm, trusted)
        if len(solves) > 1:
            one = replace(one, method=torch.full_like(labels, number))
        best = one if best is None else _better(best, one, worst=False)
    if tick is not None:
        tick(len(images))
    assert best is not None
    if last is not None:
        best = once_more(last, best, model, images, labels, targets, logits, norm=norm, trusted=trusted)
    return best


def once_more(
    last: Fallback, best: Reached, model: Model, images: Tensor, labels: Tensor, targets: Tensor | None, logits: Tensor,
    *, norm: str, trusted: bool,
) -> Reached:  # fmt: skip
    """`best`, and where nothing was found (or everywhere) what `last` finds, if it is nearer. Without targets any label
    will do; if `best` speaks of labels it is then what the model says."""
    far = (best.distance > 0) & last.everywhere
    rows = (~best.invalid & (~best.found | far)).nonzero()[:, 0]
    if not len(rows):
        return best
    # A budget is for each label; where any will do it is one more.
    whole = targets is None and best.targets is not None
    spent = torch.zeros_like(rows) if whole else best.forwards[rows]
    asked = None if targets is None else targets[rows]
    new = _searched(
        lambda images, labels, targets: last.solve(images, labels, targets, spent), model, images[rows], labels[rows],
        asked, logits[rows], norm, trusted,
    )  # fmt: skip
    new = replace(new, method=torch.full_like(rows, last.number))
    if whole:
        with torch.no_grad():
            others = model(new.images).scatter(1, labels[rows][:, None], -torch.inf)
        new = replace(new, targets=others.argmax(1))
    best = replace(best, method=torch.zeros_like(labels) if best.method is None else best.method)
    old = Reached(*(None if field is None else field[rows] for field in vars(best).values()))  # type: ignore[arg-type]
    better = vars(_better(old, new, worst=False))
    known = {name: field for name, field in vars(best).items() if field is not None}
    return replace(best, **{name: field.index_copy(0, rows, better[name]) for name, field in known.items()})


def _searched(
    solve: Solve, model: Model, images: Tensor, labels: Tensor, targets: Tensor | None, logits: Tensor, norm: str,
    trusted: bool,
) -> Reached:  # fmt: skip
    """One search a row."""
    found = reached(logits, labels, targets)
    invalid, gap = torch.zeros_like(found), torch.zeros(len(images), device=images.device)
    ends, forwards, backwards = images.clone(), torch.zeros_like(labels), torch.zeros_like(labels)
    left = (~found).nonzero()[:, 0]
    if len(left):
        asked = None if targets is None else targets[left]
        made = solve(images[left], labels[left], asked)
        ends[left] = torch.where(made.images.isfinite(), made.images, images[left])
        holds, gap[left], broken = _checked(model, ends[left], labels[left], asked)
        found[left] = made.found & (holds | trusted)
        invalid[left] = (made.invalid | broken) & ~found[left]
        forwards[left] += made.forwards + 1
        backwards[left] += made.backwards
    return Reached(ends, targets, found, invalid, length(ends - images, norm), gap, forwards, backwards)


@torch.no_grad()
def _checked(model: Model, images: Tensor, labels: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """A method's word is not enough: whether the model says what is asked for, to rounding errors; by what margin; and
    whether it answers with NaN or infinity."""
    logits = model(images)
    gap, finite = margin(logits, labels, targets).nan_to_num(nan=-torch.inf), logits.isfinite().all(1)
    return (gap > -FIRM * logits.abs().amax(1).clamp_min(1)) & finite, gap, ~finite


def _every(tried: Reached, place: int, width: int) -> Reached:
    """Rows place, place + width, …"""
    return Reached(*(None if field is None else field[place::width] for field in vars(tried).values()))  # type: ignore[arg-type]


def _better(old: Reached, new: Reached, worst: bool) -> Reached:
    """Row by row: found before not found; then the nearer (or the farther); of those not found the one that came
    closest to its label. Costs add up."""
    nearer = new.distance > old.distance if worst else new.distance < old.distance
    same = torch.where(new.found, nearer, new.margin > old.margin)
    take = torch.where(new.found == old.found, same, new.found)
    shape = (-1,) + (1,) * (old.images.ndim - 1)
    return Reached(
        torch.where(take.view(shape), new.images, old.images),
        _taken(take, new.targets, old.targets),
        old.found | new.found,
        old.invalid & new.invalid,
        torch.where(take, new.distance, old.distance),
        torch.where(take, new.margin, old.margin),
        old.forwards + new.forwards,
        old.backwards + new.backwards,
        _taken(take, new.method, old.method),
    )


def _taken(take: Tensor, new: Tensor | None, old: Tensor | None) -> Tensor | None:
    return None if new is None or old is None else torch.where(take, new, old)
