"""Learning from all images at once, by L-BFGS: best for a single layer, where it finds the one answer there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Advance = Callable[[str], None]  # called now and then, with a note for the progress bar
BEND = 0.1  # how much cross-entropy bends along a logit, about: p (1 - p)


def converge(
    weights: Sequence[Tensor], parts: Callable[[], Iterable[Tensor]], iterations: int,
    advance: Advance = lambda _: None, *, chunk: int = 10, evaluations: int = 3, tolerance: float = 1e-7,
) -> int:  # fmt: skip
    """With a strong Wolfe line search, until the steps change nothing or are used up; how many were taken.

    parts: the loss as the numbers that it is the sum of. Each is differentiated before the next one is asked for, so
    that images which do not fit into memory together may be several parts.
    chunk: iterations between two notes. evaluations: of the loss, to each iteration. tolerance: of the gradient.
    """
    if not iterations:
        return 0
    optimiser = torch.optim.LBFGS(
        weights, max_iter=chunk, max_eval=evaluations * chunk, history_size=20, line_search_fn="strong_wolfe",
        tolerance_grad=tolerance, tolerance_change=1e-9,
    )  # fmt: skip

    def whole() -> Tensor:
        optimiser.zero_grad()
        total = weights[0].new_zeros(())
        for part in parts():
            part.backward()
            total += part.detach()
        return total

    done = 0
    for _ in range(math.ceil(iterations / chunk)):
        optimiser.step(whole)
        before, done = done, int(optimiser.state[weights[0]]["n_iter"])
        advance(f"L-BFGS {done}/{iterations}")
        if done - before < chunk:
            break
    return done


def linear(
    inputs: Tensor, outputs: int, loss: Callable[[Tensor], Tensor], decay: float, iterations: int, advance: Advance
) -> tuple[Tensor, Tensor]:
    """Weights (outputs, d) and biases (outputs,) that minimise loss(logits) + decay Σw² on inputs (n, d), by L-BFGS.

    A convex problem with one answer, so that it begins at nothing; the steps are taken in inputs that are shifted, and
    scaled until the loss bends about as much along each of them, where L-BFGS is many times quicker.
    """
    middle, spread = inputs.mean(0), inputs.var(0)
    size = (BEND * spread + 2 * decay).sqrt().clamp_min(1e-3)
    even = (inputs - middle) / size
    weight = torch.zeros(outputs, inputs.shape[1], device=inputs.device, requires_grad=True)
    bias = torch.zeros(outputs, device=inputs.device, requires_grad=True)

    def parts() -> list[Tensor]:
        return [loss(F.linear(even, weight, bias)) + decay * (weight / size).square().sum()]

    converge([weight, bias], parts, iterations, advance)
    found = (weight / size).detach()
    return found, bias.detach() - found @ middle
