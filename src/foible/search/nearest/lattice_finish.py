"""What rounding leaves over: of the few pixels that are nearest to being worth a level more or less, all combinations
of small changes at once. The planes of the margins say which would do, the model says which does."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.search.nearest.lattice_points import LatticeJudge, Span

PIXELS = 6  # changed together
COMBINATIONS = 1000  # of their changes, at most: with fewer pixels, larger changes
TRIES = 4  # with the model, a turn


def changes(pixels: int) -> Tensor:
    """(combinations, pixels): every change of so many levels each way, as many as COMBINATIONS allows."""
    reach = 1
    while (2 * reach + 3) ** pixels <= COMBINATIONS:
        reach += 1
    return torch.cartesian_prod(*[torch.arange(-reach, reach + 1)] * pixels).view(-1, pixels).float()


def combine(
    judge: LatticeJudge,
    best: Tensor,
    margins: Tensor,
    slopes: Tensor,
    way: Tensor,
    span: Span,
    free: Tensor,
    turn: int = 0,
    tried: Tensor | None = None,
) -> Tensor:
    """Look for a nearer point around the best levels (n, pixels), but for any point where `free` (n,).

    margins (n, rivals) and slopes (n, rivals, pixels) as they are there; way: (n, pixels), the change that would be the
    least without rounding. Each turn looks at other pixels; where there are no others, it leaves out what it is told
    was tried, and says (n, combinations) what has been by now.

    The shortest that should do is tried, and by turns the likeliest that is shorter at all; what the model then says
    moves what is asked of the planes.
    """
    pixels = _pixels(judge.origin + way - best, way, turn)
    step = changes(pixels.shape[1]).to(best.device)
    longer = 2 * (best - judge.origin).gather(1, pixels) @ step.T + step.square().sum(1)  # of the squared norm
    here = best.gather(1, pixels)[:, None]
    least, most = ((end.gather(1, pixels)[:, None] if isinstance(end, Tensor) else end) for end in span)
    inside = ((here + step >= least) & (here + step <= most)).all(2)
    few = slopes.gather(2, pixels[:, None].expand(-1, slopes.shape[1], -1))
    left = (margins[:, :, None] + few @ step.T).amin(1)  # (n, combinations): the least margin afterwards
    unit = few.abs().mean((1, 2)).clamp_min(1e-30)
    asked = torch.zeros_like(unit)
    if tried is None or best.shape[1] > PIXELS:
        tried = torch.zeros_like(inside)
    worth = inside & ~tried & ((longer < -1e-3) | free[:, None])
    for number in range(TRIES):
        if not judge.affords(1):
            return tried
        fits = worth & (left >= asked[:, None])
        shortest = torch.where(fits, longer - 0.5 * (left / unit[:, None]).tanh(), torch.inf)
        likely = ~fits.any(1) if number % 2 == 0 else torch.ones_like(fits[:, 0])
        order = torch.where(likely[:, None], torch.where(worth, -left, torch.inf), shortest)
        pick, some = order.argmin(1, keepdim=True), worth.any(1)
        hit = judge.attempt(best.scatter_add(1, pixels, step[pick[:, 0]] * some[:, None])) & some
        tried = tried.scatter(1, pick, True)
        worth = worth & ~tried & ~(hit[:, None] & (longer >= longer.gather(1, pick)))
        asked = torch.where(likely, asked, asked + torch.where(hit, -unit, unit) / 2)
    return tried & (judge.ledger.best == best).all(1)[:, None]


def _pixels(over: Tensor, way: Tensor, turn: int) -> Tensor:
    """(n, few): the pixels nearest to a level more, and those nearest to a level less. over: (n, pixels), the part of
    the way that rounding left out."""
    count, half = over.shape[1], PIXELS // 2
    if count <= PIXELS:
        return torch.arange(count, device=over.device).expand(len(over), -1)
    onward, first = over * way.sign(), min(turn * half, count // 2 - half)
    more, less = (onward.topk(first + half, 1, largest=side).indices[:, first:] for side in (True, False))
    return torch.cat([more, less], 1)
