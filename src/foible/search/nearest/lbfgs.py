"""The paper's minimal distortion (paper 3, Sec. 4.1): box-constrained L-BFGS inside a search over c, image by image.

Minimise c‖r‖² + loss(x + r) with x + r in the box: where f(x + r) says what is asked for, c was small enough, and the
least distortion belongs to the largest such c. (‖r‖² for the paper's |r|, as it is smooth at 0.) The loss is the
target's cross-entropy; untargeted, that of "any class but the label", −log(1 − p(label)), bounded and as smooth.

The search over c: a first guess from the slope at the image, growing factors until one c succeeds and a larger one
fails, then ever narrower brackets of log c, cut where the margins at both ends let 0 be expected. Each c starts from an
answer that is there already. Every point tried is a candidate, and the least that succeeded is kept. Last, the lines to
it from the nearest failing answer and from the image are halved by forward passes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, Nearest, join, margin
from foible.search.nearest.box_lbfgs import minimise
from foible.search.nearest.ledger import Ledger

FACTOR = 4.0  # from the first c to the second, while there is no bracket; then its square, its cube, ...
NARROW = 1.1  # a bracket whose ends differ by no more is not worth another c
CUT = 0.15  # of a bracket that a cut leaves at least, on either side
EXTREME = 1e12  # c lies between 1/EXTREME and EXTREME


def lbfgs(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    low: float = 0.0,
    high: float = 1.0,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
    rounds: int = 12,
    steps: int = 60,
    history: int = 10,
    decrease: float = 1e-5,
    halvings: int = 8,
    width: int | None = None,
) -> Nearest:
    """The nearest image, in l2, that the model takes for its target (without targets: for anything but its label).

    rounds: values of c that an image may try. steps: gradients for one c at most, fewer where one gains no more than
    `decrease`. halvings: forward passes on each of the two last lines. width: images that share a batch. A row ends
    when its bracket is narrow, its budget spent, or the model's answer not finite. `tick(k)` hears of k more rows done.
    """
    if rounds < 1 or steps < 2 or history < 1 or halvings < 0:
        raise UserError(
            f"rounds is {rounds}, steps {steps}, history {history}, halvings {halvings}: "
            "expected at least 1, at least 2, at least 1 and at least 0"
        )
    if bool(((images < low) | (images > high)).any()):
        raise UserError(
            f"pixels reach from {float(images.min()):.4g} to {float(images.max()):.4g}, outside [{low:g}, {high:g}]: "
            "scale the images, or give low and high as they are"
        )
    parts: list[Nearest] = []
    for rows in torch.arange(len(images), device=images.device).split(width or _width(images, history)):
        aims = None if targets is None else targets[rows]
        search = _Search(model, images[rows], labels[rows], aims, low, high, budget, tick)
        failing = search.over_c(rounds, steps, history, decrease)
        search.halve(failing, halvings)
        search.halve(search.origin, halvings)
        parts.append(search.ledger.close(search.shape))
    return join(parts)


def _width(images: Tensor, history: int) -> int:
    """Images in a batch: what memory holds of their histories and, roughly, of a network's activations."""
    each = images.element_size() * max(1, images[:1].numel()) * (2 * history + 200)
    room = torch.cuda.mem_get_info(images.device)[0] // 2 if images.is_cuda else 4_000_000_000
    return int(max(16, min(16_384, room // each)))


class _Search:
    """All rows of a batch: n images of d pixels, what was found of them so far, and what it cost."""

    def __init__(
        self, model: Model, images: Tensor, labels: Tensor, targets: Tensor | None, low: float, high: float,
        budget: Budget | None, tick: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        self.model, self.shape, self.low, self.high = model, images.shape[1:], low, high
        self.labels, self.targets, self.tick = labels, targets, tick
        self.origin = images.detach().flatten(1)
        self.ledger = Ledger(self.origin, budget)  # sizes are squared lengths

    def over_c(self, rounds: int, steps: int, history: int, decrease: float) -> Tensor:
        """Search c for every row; (n, d): the answers at the least c that failed, the images where none did."""
        every = torch.arange(len(self.origin), device=self.origin.device)
        live = every[~(self._judge(every, self.origin) > 0) & self.ledger.able(every, 1)]
        self._tell(len(every) - len(live))
        good = self.origin.new_zeros(len(every))  # values of c
        bad = torch.full_like(good, torch.inf)
        above, below = torch.full_like(good, torch.nan), torch.full_like(good, torch.nan)  # their margins
        answers, failing = self.origin.clone(), self.origin.clone()
        c = self._guess(live)
        for turn in range(rounds):
            if not live.numel():
                break
            ended, margins = self._solve(live, c, answers[live], steps, history, decrease)
            won = margins > 0
            yes, no = live[won], live[~won]
            good[yes], above[yes], answers[yes] = c[won], margins[won], ended[won]
            bad[no], below[no], failing[no] = c[~won], margins[~won], ended[~won]
            unsolved = no[good[no] == 0]
            answers[unsolved] = failing[unsolved]
            over = (bad[live] <= NARROW * good[live]) | ~self.ledger.able(live, 1)
            self._tell(int(over.sum()))
            live = live[~over]
            c = _following(good[live], bad[live], above[live], below[live], FACTOR ** (turn + 1))
        self._tell(len(live))
        return failing

    def halve(self, ends: Tensor, times: int) -> None:
        """Halve the lines from `ends` (n, d) to what was found, where that is not the image itself."""
        rows = (self.ledger.found & (self.ledger.least > 0)).nonzero()[:, 0]
        out, into = ends[rows], self.ledger.best[rows]
        for _ in range(times):
            more = self.ledger.able(rows, 1).nonzero()[:, 0]
            rows, out, into = rows[more], out[more], into[more]
            if not rows.numel():
                return
            middle = (out + into) / 2
            won = (self._judge(rows, middle) > 0)[:, None]
            out, into = torch.where(won, out, middle), torch.where(won, middle, into)

    def _tell(self, done: int) -> None:
        if self.tick is not None and done:
            self.tick(done)

    def _aims(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.labels[rows], None if self.targets is None else self.targets[rows]

    @torch.no_grad()
    def _judge(self, rows: Tensor, points: Tensor) -> Tensor:
        """(k,): margins of these rows' points, by a forward pass."""
        logits = self.model(points.view(-1, *self.shape))
        self.ledger.spend(rows)
        return self._note(rows, points, logits, (points - self.origin[rows]).square().sum(1))

    def _note(self, rows: Tensor, points: Tensor, logits: Tensor, square: Tensor) -> Tensor:
        """(k,): margins, NaN where they are not known; and offer the points to the ledger."""
        finite = logits.isfinite().all(1)
        margins = margin(logits, *self._aims(rows))
        self.ledger.offer(rows, points, by=margins, hit=margins > 0, size=square, sound=finite)
        return margins.where(finite, torch.nan)

    def _gradient(self, points: Tensor, of: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (k, classes) at points (k, d), of(logits) (k,), and its slope (k, d)."""
        with torch.enable_grad():
            at = points.detach().requires_grad_()
            logits = self.model(at.view(-1, *self.shape))
            if not logits.requires_grad:
                raise UserError("the network gives no gradient: lbfgs needs one that torch can differentiate")
            values = of(logits)
            (slope,) = torch.autograd.grad(values.sum(), at)
        return logits.detach(), values.detach().to(points.dtype), slope

    def _guess(self, rows: Tensor) -> Tensor:
        """(k,): a first c. Were the margin m a plane of slope w between two classes, then m = 0 at r = |m| / ‖w‖, where
        the loss has slope ‖w‖ / 2; and 2 c r = ‖w‖ / 2."""
        if not rows.numel():
            return self.origin.new_empty(0)
        _, margins, slope = self._gradient(self.origin[rows], lambda logits: margin(logits, *self._aims(rows)))
        self.ledger.spend(rows, 1, 1)
        c = slope.square().sum(1) / (4 * margins.abs())
        return c.nan_to_num(1.0).clamp(1e-6, 1e6)

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """(k,): −log p(target), or −log(1 − p(label)). In float64, whose last bits (they hang on a row's place in the
        batch) are gone when it is rounded."""
        labels, targets = self._aims(rows)
        aim = labels if targets is None else targets
        logits = logits.double()
        held = logits.gather(1, aim[:, None])[:, 0]
        others = logits.scatter(1, aim[:, None], -torch.inf).logsumexp(1)
        return softplus(held - others if targets is None else others - held)

    def _solve(
        self, rows: Tensor, c: Tensor, start: Tensor, steps: int, history: int, decrease: float
    ) -> tuple[Tensor, Tensor]:
        """Minimise c‖r‖² + loss from `start` (k, d): the answers (k, d), and their margins (k,)."""
        lowest, margins = torch.full_like(c, torch.inf), torch.full_like(c, torch.nan)

        def function(points: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
            outer, weight = rows[inner], c[inner]
            change = points - self.origin[outer]
            square = change.square().sum(1)
            logits, loss, slope = self._gradient(points, lambda logits: self._loss(logits, outer))
            self.ledger.spend(outer, 1, 1)
            reached = self._note(outer, points, logits, square)
            value = loss + weight * square
            lower = value <= lowest[inner]
            lowest[inner[lower]], margins[inner[lower]] = value[lower], reached[lower]
            return value, slope + 2 * weight[:, None] * change

        ended = minimise(
            function, start, self.low, self.high,
            history=history, steps=self.ledger.left(rows, steps), decrease=decrease, scale=0.5 / c,
        )  # fmt: skip
        self.ledger.invalid[rows] |= ended.invalid
        return ended.points, margins


def _following(good: Tensor, bad: Tensor, above: Tensor, below: Tensor, factor: float) -> Tensor:
    """(k,): the c to try after these: between the largest that was good (0: none) and the least that was bad (infinite:
    none), nearer to the one whose margin is nearer to 0; else beyond the one there is, by `factor`."""
    part = (above / (above - below)).nan_to_num(0.5).clamp(CUT, 1 - CUT)
    between = (good.double().log() * (1 - part) + bad.double().log() * part).exp().to(good.dtype)
    outside = torch.where(good > 0, good * factor, bad / factor)
    return torch.where((good > 0) & bad.isfinite(), between, outside).clamp(1 / EXTREME, EXTREME)
