"""The nearest image that a network calls something else: our own method, and the default of `distort`.

Two kinds of steps, each for what it is good at:

- **planes** (plane.py): the margin is replaced by its tangent at z, and the image is projected onto that and the box;
  for a linear network one step is the answer. A step is a forward and a backward, and one that makes distance and
  violation together worse than all of the last few is taken back and halved. Walks begin at the image, then go towards
  the rivals that look nearest, then begin at points around the image;
- **a ball that shrinks** (ball.py), from the best that was found, where the planes turned out to be wrong: margins of
  deep networks have kinks everywhere.

At the end a line search on the segment from x brings every image just beyond the boundary. Rows never touch. The caller
gives the effort; how it is shared out is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from foible.basket import Budget
from foible.basket.precision import LOOKED_AT, apart
from foible.errors import UserError
from foible.randomness import normals
from foible.search.nearest import Model, Nearest, join
from foible.search.nearest.ball import BOLD, USUAL, shrink
from foible.search.nearest.first_order import ALL, Aim, check_counts
from foible.search.nearest.ledger import Ledger
from foible.search.nearest.plane import ROUGH, over_label, walk
from foible.search.nearest.projection import Bound, within

LEAST, MOST = 2e-6, 1e-3  # of the largest logit, that a margin must be above 0
EFFORT = 150  # gradients for an image, unless the caller says otherwise
WALK, SHORT = 20, 10  # steps of a walk from one place; of one to the only label there is to go to
# With two classes: steps after which planes that are so wrong are left for the ball. Rows that go on by planes are
# asked about apart from the others, and on a GPU a few rows take half as long as a hundred: so only where these are
# true.
FIRST, BENT = 3, 0.002
LOOKS, RIVALS = 9, 3  # rivals whose tangents at the image are compared; and to how many of them walks go
AROUND = 4.0  # how far from the image further walks begin, in units of the distance found
FURTHER = 1000  # the first number of walks from around the image where planes are true: other directions
RESCUE = 80  # steps from the image once more, where nothing was found
HALVINGS = 10  # of the last hundredth of the way


def closest(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: Bound = 0.0,
    high: Bound = 1.0,
    effort: int = EFFORT,
    sure: float | None = None,
    width: int | None = None,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
) -> Nearest:
    """The nearest images (n, *shape) that `model` gives the targets to; without targets, that it no longer gives the
    labels to.

    norm: "l2" or "linf". effort: about how many gradients an image is worth; where nothing more can be hoped for, less
    is spent. sure: by how much, as a share of the largest logit and of 1, a margin must be above 0, since another batch
    may round otherwise; by default what `surely` measures on a GPU. width: rows in a batch. budget: what no image
    spends more than. tick(k) hears of k further images.
    """
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected l2 or linf")
    check_counts(effort=effort)
    if len(images) and not bool(((images >= low) & (images <= high)).all()):
        raise UserError(
            f"pixels from {float(images.min()):.4g} to {float(images.max()):.4g}: expected all within {low} and {high}"
        )
    width = width or _width(images)
    if sure is None:
        sure = surely(model, images) if images.is_cuda and len(images) else LEAST
    parts = []
    for rows in torch.arange(len(images), device=images.device).split(width):
        x = images[rows].detach().flatten(1)
        aim = Aim(
            model, tuple(images.shape[1:]), x, labels[rows], None if targets is None else targets[rows], norm,
            _rows(low, rows), _rows(high, rows), sure, Ledger(x, budget),
        )  # fmt: skip
        _search(aim, effort)
        parts.append(aim.ledger.close(aim.shape))
        if tick is not None:
            tick(len(rows))
    return join(parts)


def surely(model: Model, images: Tensor) -> float:
    """By how much of the largest logit, and of 1, the answers of a model go up and down with the batch: at least
    `LEAST`, and never so much that a model that draws lots has no distortion."""
    with torch.no_grad():
        scale = model(images[:LOOKED_AT]).abs().amax(1).clamp_min(1)
    shares = apart(lambda some: model(some).clone(), images).amax(1) / scale  # it may answer in the same memory again
    return min(MOST, max(LEAST, float(shares.max())))


def _width(images: Tensor) -> int:
    """Rows in a batch."""
    each = 4 * 12 * max(1, images[0].numel()) if len(images) else 1
    if images.is_cuda:
        free, _ = torch.cuda.mem_get_info(images.device)
        return int(max(16, min(16_384, free // 8 // each)))
    return int(max(16, min(512, 2**29 // each)))


def _search(aim: Aim, effort: int) -> None:
    """The whole search for the images of one batch."""
    if not _affords(aim, 1):
        return
    with torch.no_grad():
        logits = aim.model(aim.x.view(-1, *aim.shape))
    aim.ledger.forwards.add_(1)
    there = aim.note(ALL, aim.x, logits)
    part, put_back = _some(aim, ~there & ~aim.ledger.invalid)
    if len(part.x):
        _from_here(part, effort, logits.shape[1])
    put_back()


def _from_here(aim: Aim, effort: int, classes: int) -> None:
    """The same for images that have somewhere to go."""
    ledger, two = aim.ledger, classes == 2
    rough, left = _taste(aim, effort) if two else _planes(aim, effort, free=aim.targets is None)
    part, put_back = _some(aim, ~rough & ledger.found)  # planes are true: what is left goes into more of them
    if len(part.x):
        on = _affords(part, min(SHORT, left)) if two else 0
        if on:
            walk(part, part.ledger.best, on)
        for number in range((left - on) // WALK):
            _around(part, FURTHER + number)
    put_back()
    part, put_back = _some(aim, (rough | ~ledger.found) & ~ledger.invalid)
    if len(part.x):
        shrink(part, _affords(part, left), strides=BOLD if two else USUAL)
    put_back()
    part, put_back = _some(aim, ~ledger.found & ~ledger.invalid)
    if len(part.x):
        shrink(part, _affords(part, RESCUE), part.x)
    put_back()
    part, put_back = _some(aim, ledger.found)
    if len(part.x):
        _tighten(part)
    put_back()


def _affords(aim: Aim, wanted: int) -> int:
    """Gradients of so many that the budget still has for the row that spent most."""
    budget, ledger = aim.ledger.budget, aim.ledger
    spent = ((budget.forwards, ledger.forwards), (budget.backwards, ledger.backwards))
    return max(0, min([wanted, *(limit - int(cost.max()) for limit, cost in spent if limit is not None)]))


def _some(aim: Aim, chosen: Tensor) -> tuple[Aim, Callable[[], None]]:
    """The rows (n,) bool alone, so that nothing is computed for the others, and what brings them back."""
    rows = chosen.nonzero()[:, 0]
    if len(rows) == len(aim.x):
        return aim, lambda: None
    part = replace(
        aim, x=aim.x[rows], labels=aim.labels[rows], targets=None if aim.targets is None else aim.targets[rows],
        low=_rows(aim.low, rows), high=_rows(aim.high, rows), ledger=aim.ledger.part(rows),
    )  # fmt: skip
    return part, lambda: aim.ledger.put(rows, part.ledger)


def _rows(bound: Bound, rows: Tensor) -> Bound:
    return bound[rows] if isinstance(bound, Tensor) and bound.ndim > 1 else bound


def _taste(aim: Aim, effort: int) -> tuple[Tensor, int]:
    """A few steps from the image, for two classes. Where the planes mislead, they end in a worse place than they pass,
    and a ball had better begin there. The same answer as of `_planes`."""
    steps = _affords(aim, min(FIRST, effort))
    rough = walk(aim, aim.x, steps) > BENT
    return torch.ones_like(rough) if aim.norm == "linf" else rough, effort - steps


def _planes(aim: Aim, effort: int, free: bool) -> tuple[Tensor, int]:
    """Walks: from the image, to the rivals that look nearest, from around the image. Whether (n,) the planes mislead,
    and the effort that is left. free: there are several labels to go to."""
    steps = _affords(aim, min(WALK if free else SHORT, effort))
    rough = walk(aim, aim.x, steps) > ROUGH
    if aim.norm == "linf":
        rough = torch.ones_like(rough)  # also where planes are true, a corner is soon as near as another
    left = effort - steps
    rounds, rivals = left // (2 * WALK) if free else 0, None
    if rounds and _affords(aim, LOOKS + WALK) == LOOKS + WALK:
        rivals = _likely(aim)
        left -= rivals.shape[1]
    for number in range(rounds):
        if _affords(aim, WALK) < WALK:
            break
        left -= WALK
        if rivals is not None and number < min(RIVALS, rivals.shape[1]):
            walk(aim, aim.x, WALK, rivals[:, number])
            continue
        _around(aim, number)
    return rough, left


def _around(aim: Aim, number: int) -> None:
    """A walk from a point around the image, in a direction that goes by its number."""
    if _affords(aim, WALK) < WALK:
        return
    count, x = aim.x.shape[1], aim.x
    drawn = normals(0, torch.tensor(number), stream="closest.around", count=count).to(x)  # one for all rows
    least = aim.ledger.least.to(x)
    size = AROUND * torch.where(least.isinf(), 0.0, least) / (math.sqrt(count) if aim.norm == "l2" else 1.0)
    walk(aim, within(x + size[:, None] * drawn, aim.low, aim.high), WALK)


def _likely(aim: Aim) -> Tensor:
    """(n, k): the strongest rivals, those that look nearest from x first, by their tangents there; the one that was
    reached already comes last."""
    labels = aim.labels[:, None]
    with torch.no_grad():
        there, here = (aim.model(points.view(-1, *aim.shape)) for points in (aim.ledger.best, aim.x))
    aim.ledger.forwards.add_(2)
    known = there.scatter(1, labels, -torch.inf).argmax(1)
    classes = here.scatter(1, labels, -torch.inf).topk(min(LOOKS, here.shape[1] - 1), 1).indices
    far = []
    for rival in classes.unbind(1):
        by, slope, _ = aim.slope(aim.x, over_label(rival))
        far.append(torch.where(rival == known, torch.inf, aim.tangent(by, slope)))
    return classes.gather(1, torch.stack(far, 1).argsort(dim=1))


def _tighten(aim: Aim) -> None:
    """Along the segment from x to the nearest point known: the first point beyond the boundary, by halving."""
    way = aim.ledger.best - aim.x
    short, long = (torch.full_like(aim.x[:, 0], share) for share in (0.99, 1.0))
    for _ in range(_affords(aim, HALVINGS)):
        middle = (short + long) / 2
        hit = aim.look(within(aim.x + middle[:, None] * way, aim.low, aim.high))
        short, long = torch.where(hit, short, middle), torch.where(hit, middle, long)
