"""How strange an image looks to a network, or to a basket, from logits alone; and how well that tells two kinds apart.

max-softmax     −log of the largest probability (Hendrycks and Gimpel 2017; here the larger is the stranger)
entropy         of the probabilities
energy          −log Σ exp(logit) (Liu and others 2020)
disagreement    of several networks: the entropy of their mean less the mean of their entropies (Lakshminarayanan
                and others 2017; a Jensen–Shannon divergence)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.errors import UserError
from foible.realism.separation import separation
from foible.statistics import wilson

SCORES = {
    "max-softmax": "-log(max(softmax(logits)))",
    "entropy": "-sum(p * log(p)), p = softmax(logits)",
    "energy": "-log(sum(exp(logits)))",
    "disagreement": "entropy(mean over networks of p) - mean over networks of entropy(p), p = softmax(logits)",
}
DISAGREEMENT = "disagreement"  # the one that takes several networks
ACCEPTED = 0.95  # of real images, where what passes of fooling ones is counted


@dataclass(frozen=True)
class Told:
    """One score. auroc: the chance that a fooling image is the stranger of a pair, with a 95 % interval (Newcombe's).
    passes: which share of fooling images passes where 95 % of real ones do (FPR at 95 % TPR); its interval is of two
    errors, that of a share (Wilson's) and that of the limit (by order statistics), put together as Zou and Donner do
    (Construction of confidence limits about effect measures, Statistics in Medicine 27, 2008)."""

    score: str
    auroc: float
    low: float
    high: float
    passes: float
    passes_low: float
    passes_high: float
    real: int
    fooling: int


def strangeness(logits: Tensor) -> dict[str, Tensor]:
    """By score, (n,) float64, the larger the stranger. logits: (networks, n, classes), the suspect's first; or
    (n, classes) of one network. `disagreement` is there where networks are two or more."""
    values = _three(logits).double()
    chances = values.softmax(-1)
    entropies = torch.special.entr(chances).sum(-1)
    others = values[0].scatter(-1, values[0].argmax(-1, keepdim=True), -torch.inf)
    found = {
        # of the others' share, so that two that are all but certain are still told apart
        "max-softmax": torch.log1p((others - values[0].amax(-1, keepdim=True)).exp().sum(-1)),
        "entropy": entropies[0],
        "energy": -values[0].logsumexp(-1),
    }
    if len(values) > 1:
        found[DISAGREEMENT] = (torch.special.entr(chances.mean(0)).sum(-1) - entropies.mean(0)).clamp_min(0)
    return found


def told_apart(real: Tensor, fooling: Tensor) -> tuple[Told, ...]:
    """How well each score tells fooling images from real ones. real, fooling: logits (networks, n, classes), the
    suspect's first, or (n, classes)."""
    for what, logits in (("real", real), ("fooling", fooling)):
        check(logits, what)
    scores, others = strangeness(real), strangeness(fooling)
    return tuple(_told(name, scores[name], others[name]) for name in scores if name in others)


def limit_for(real: Tensor, share: float = ACCEPTED) -> float:
    """The least score that at least `share` of real images (n,) do not exceed."""
    ordered = real.double().sort().values
    return float(ordered[min(len(ordered), max(1, math.ceil(share * len(ordered) - 1e-9))) - 1])


def check(logits: Tensor, what: str, names: Sequence[str] = ()) -> None:
    """Refuse logits that are none, or no numbers. what: which images they are of; names: of the networks."""
    values = _three(logits)
    if not values.shape[1]:
        raise UserError(f"there are no {what} images to judge: expected logits of at least one")
    broken = (values.isnan() | values.isposinf()).any(-1) | values.isneginf().all(-1)
    if bool(broken.any()):
        place = int(broken.any(1).nonzero()[0])
        name = names[place] if names else f"{place + 1} of {len(values)}"
        raise UserError(
            f"network {name} answers with NaN or infinity for {int(broken[place].sum())} of "
            f"{values.shape[1]} {what} images: no score is to be had of these; leave them out, or mend the network"
        )


def _three(logits: Tensor) -> Tensor:
    if logits.ndim not in (2, 3) or logits.shape[-1] < 2 or not len(logits):
        raise UserError(
            f"logits have the shape {tuple(logits.shape)}: expected (networks, n, classes), or (n, classes) of one"
        )
    return logits if logits.ndim == 3 else logits[None]


def _told(name: str, real: Tensor, fooling: Tensor) -> Told:
    apart = separation(fooling, real)
    ordered, n, many = real.sort().values, len(real), len(fooling)

    def passing(limit: float | Tensor) -> int:
        return int((fooling <= limit).sum())

    at = passing(limit_for(real))
    low, high = _places(n)
    share, (least, most) = at / many, wilson(at, many)
    lower = passing(ordered[low]) / many if low >= 0 else 0.0  # were the limit lower, or higher
    higher = passing(ordered[high]) / many if high < n else 1.0
    low_end = max(0.0, share - math.hypot(share - least, share - lower))
    high_end = min(1.0, share + math.hypot(most - share, higher - share))
    return Told(name, apart.auc, apart.low, apart.high, share, low_end, high_end, n, many)


def _places(n: int) -> tuple[int, int]:
    """Between which of n ordered values (counted from 0; −1 and n are none) the limit lies, with 95 % of certainty."""
    from scipy.stats import binom

    return int(binom.ppf(0.025, n, ACCEPTED)) - 1, int(binom.ppf(0.975, n, ACCEPTED))
