"""Networks of two classes with one output node, as paper 1's checkerboard has them."""

from __future__ import annotations

import torch
from torch import Tensor


def two_classes(answers: object, rows: int) -> object:
    """One logit z an image, (n, 1) or (n,), as the logits (0, z) of two classes; anything else as it is.

    z is the log-odds of the second class, as `binary_cross_entropy_with_logits` trains it, so softmax of (0, z) gives
    that class the probability sigmoid(z). A network that ends in a sigmoid gives a probability, not a logit: take the
    sigmoid off.
    """
    if not isinstance(answers, Tensor) or answers.shape not in ((rows, 1), (rows,)):
        return answers
    z = answers.reshape(rows, 1)
    return torch.cat([torch.zeros_like(z), z], 1)
