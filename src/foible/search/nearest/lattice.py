"""The smallest change that survives 8 bits: an image that a PNG can hold, and that the model still calls as wanted.

A minimal distortion ends a hair beyond the decision boundary, and rounding its pixels to k/255 undoes about half of
them. Asked for here is the nearest point *of the lattice*: whole levels q of 0 … 255, judged as the float32 pixels of
the reloaded file. Near a point the margins over the rivals are planes, and with multipliers λ for them the best levels

    q = clip(round(origin + Σ λ_j a_j))        a_j: the slope of the margin over rival j

(each pixel minimises its own (q − origin)² − 2 q Σ λ_j a_j). So:

1. the continuous distortion gives the first way: bisect on how far to follow it, rounded, with the model itself;
2. the slopes there give the next: solve for λ without the model, and bisect again;
3. what rounding leaves over (`lattice_finish`): of a few pixels, all combinations of small changes at once.

For "linf" see `lattice_linf`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.images import to_floats
from foible.search.nearest import Model, Nearest, length
from foible.search.nearest.lattice_finish import combine
from foible.search.nearest.lattice_linf import evenly
from foible.search.nearest.lattice_planes import needs, way_to
from foible.search.nearest.lattice_points import RIVALS, LatticeJudge, box, whole

# Tuned on MNIST (linear, sigmoid and ReLU networks): twice as much of any one changes the mean norm by under 0.03 %.
ROUNDS = 4  # of slopes, multipliers and bisection
TRIES = 5  # of one bisection with the model
FAIR = 1.05  # times the continuous length: what is longer than this is no place to take slopes at
TURNS = 4  # of combinations


def on_lattice(
    model: Model,
    images: Tensor,
    nearest: Nearest,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: float = 0.0,
    high: float = 1.0,
    budget: Budget | None = None,
) -> Nearest:
    """`nearest`, as a method found it from images (n, *shape), on the 8-bit lattice: images of k/255 within [low, high]
    as near to the origins as can be found, `found` where the model says what is asked for on exactly these floats.

    Rows that `nearest` has not found stay so, rounded. An origin that is called as wanted already is the answer itself.
    Costs and budget are those of this refinement alone: for l2 50 forwards and 8 backwards a row (40 with targets).
    """
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected 'l2' or 'linf'")
    if not torch.isfinite(images).all():
        raise UserError("images hold NaN or infinity: give origins with pixels in [0, 1]")
    images = to_floats(images).float()
    rows = nearest.found.nonzero()[:, 0]
    guess = 255 * torch.where(nearest.images.isfinite(), nearest.images, images).flatten(1)
    best = whole(guess, box(low, high))
    found, invalid = torch.zeros_like(nearest.found), nearest.invalid.clone()
    forwards, backwards = torch.zeros_like(nearest.forwards), torch.zeros_like(nearest.backwards)
    if len(rows):
        aims = None if targets is None else targets[rows]
        judge = LatticeJudge(model, images[rows], labels[rows], aims, box(low, high), norm, budget)
        judge.begin()
        if norm == "linf":
            evenly(judge, guess[rows])
            judge.done = judge.done | judge.ledger.found
        _nearest(judge, guess[rows])
        part = judge.ledger.close(best.shape[1:])
        best[rows], found[rows], invalid[rows] = part.images, part.found, part.invalid
        forwards[rows], backwards[rows] = part.forwards, part.backwards
    return Nearest((best / 255).view_as(images), found, invalid, forwards, backwards)


def _nearest(judge: LatticeJudge, guess: Tensor) -> None:
    """The least l2 change, from levels (n, pixels) of a continuous answer."""
    if not judge.affords(1):
        return
    span = judge.span
    slopes = (guess - judge.origin)[:, None]
    way = way_to(judge.origin, slopes, (slopes * guess[:, None]).sum(2), span)
    _follow(judge, way)
    at, fair = guess, (FAIR * length(guess - judge.origin)) ** 2
    for _ in range(ROUNDS):
        if not judge.affords(2, RIVALS):
            return
        margins, slopes = judge.planes(at)
        way = way_to(judge.origin, slopes, needs(at, margins, slopes), span)
        _follow(judge, way)
        at = torch.where((judge.ledger.least <= fair)[:, None], judge.ledger.best, whole(judge.origin + way, span))
    tried = None
    for turn in range(TURNS):
        if not judge.affords(2, RIVALS):
            return
        best = judge.ledger.best.clone()  # the ledger's own changes with every better point
        margins, slopes = judge.planes(best)
        if turn == 0:
            way = way_to(judge.origin, slopes, needs(best, margins, slopes), span)
        tried = combine(judge, best, margins, slopes, way, span, ~judge.ledger.found, turn, tried)


def _follow(judge: LatticeJudge, way: Tensor) -> None:
    """Go along way (n, pixels) from the origins, as far as the model asks for: bisection on the length."""
    part = torch.ones(len(way), device=way.device)
    under, over, factor = torch.zeros_like(part), torch.full_like(part, torch.inf), 1.02
    for _ in range(TRIES):
        if not judge.affords(1):
            return
        enough = judge.attempt(judge.origin + part[:, None] * way)
        under, over = torch.where(enough, under, part), torch.where(enough, part, over)
        between = torch.where(under == 0, over / factor, (under * over).sqrt())
        part = torch.where(over.isinf(), under * factor, between)
        factor = factor**2
