"""Objectives: which way is better, what the peers must say, and when something is found.

An objective is asked in three places, with the class aimed at (`aim`) for every row:
- `score`: the suspect's logits (n, classes) -> (n,), higher is better. One that `asks` "all" takes those of every
  network, the suspect's first, (networks, n, classes);
- `allows`: the peers' logits (peers, n, classes) -> (n,) bool, asked only of rows whose score improved. Some peers may
  be asked before the others, so what all of them allow, each must allow;
- `found`: logits of all, the suspect's first, (networks, n, classes) -> (n,) bool, judged on settled images.

Where it can also say by how much each network's condition holds, it has a `slack`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from foible.errors import UserError

Asks = Literal["suspect", "all"]


class Objective(Protocol):
    asks: ClassVar[Asks]  # whose logits `score` takes

    def score(self, logits: Tensor, aim: Tensor) -> Tensor: ...
    def allows(self, logits: Tensor, aim: Tensor) -> Tensor: ...
    def found(self, logits: Tensor, aim: Tensor) -> Tensor: ...


@runtime_checkable
class Sloped(Protocol):
    """An objective with a slope to follow."""

    def slack(self, logits: Tensor, aim: Tensor) -> Tensor:
        """By how much each network's condition holds: logits (networks, n, classes), the suspect's first, ->
        (networks, n), found when all are above 0; differentiable."""


def asks_all(objective: Objective) -> bool:
    """Whether `score` takes every network's logits. A user's objective need not say whom it asks: the suspect alone."""
    if getattr(objective, "whole", False):  # how objectives said it before there was `asks`
        return True
    asks = getattr(objective, "asks", "suspect")
    if asks not in ("suspect", "all"):
        raise UserError(f"{type(objective).__name__}.asks is {asks!r}: expected 'suspect' or 'all'")
    return bool(asks == "all")


def slack_of(objective: Objective, logits: Tensor, aim: Tensor) -> Tensor | None:
    """The slack (networks, n) of logits (networks, n, classes), where the objective has one."""
    return objective.slack(logits, aim) if isinstance(objective, Sloped) else None


def of_class(values: Tensor, aim: Tensor) -> Tensor:
    """values (networks, n, classes) at class `aim` (n,): (networks, n)."""
    return values.gather(2, aim.expand(len(values), -1)[..., None])[..., 0]


def probabilities(logits: Tensor) -> Tensor:
    """Softmax over the last axis, for the record: through float64, so that float32 bits do not hang on the batch."""
    return logits.double().softmax(-1).float()


def _log_odds(probability: float) -> float:
    return math.inf if probability >= 1 else math.log(probability / (1 - probability))


def _at_least(others: Tensor, confidence: float) -> Tensor:
    """What the class's logit must exceed, given the others' (…, classes): for preferring it, and for a probability."""
    best = others.amax(-1)
    if confidence <= 0:
        return best
    sure = others.logsumexp(-1) + _log_odds(confidence)
    return sure if confidence > 0.5 else torch.maximum(best, sure)  # above a half the second implies the first


@dataclass(frozen=True)
class Dissent:
    """Paper 1: every peer P holds the class, P(X′) = C, while the suspect A loses it: A(X′) ≠ C.

    peer_confidence: the least probability that each peer must give C, besides preferring it.
    suspect_confidence: the least probability that the suspect must give its wrong answer.
    With both 0, argmax alone decides ("sufficiently differently" in the paper).
    """

    asks: ClassVar[Asks] = "suspect"

    peer_confidence: float = 0.0
    suspect_confidence: float = 0.0

    def __post_init__(self) -> None:
        for name in ("peer_confidence", "suspect_confidence"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} is {getattr(self, name)}: expected a probability from 0 to 1")

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        """log((1 − p) / p) of p = A(X′)_C: it rises exactly when p falls, and does not saturate where p rounds to 1."""
        by_class = logits.t().contiguous()  # reducing over the first axis is several times as fast
        held = by_class.gather(0, aim[None])[0]
        return by_class.scatter(0, aim[None], -torch.inf).logsumexp(0) - held

    def allows(self, logits: Tensor, aim: Tensor) -> Tensor:
        by_class = logits.permute(2, 0, 1).contiguous()
        index = aim.expand(1, len(logits), -1)
        if self.peer_confidence > 0.5:  # which implies that C is preferred
            return (by_class.softmax(0).gather(0, index)[0] >= self.peer_confidence).all(0)
        held = by_class.gather(0, index)
        others = by_class.scatter(0, index, -torch.inf).amax(0)
        right = (held[0] > others) & by_class.isfinite().all(0)
        if self.peer_confidence > 0:
            right &= by_class.softmax(0).gather(0, index)[0] >= self.peer_confidence
        return right.all(0)

    def slack(self, logits: Tensor, aim: Tensor) -> Tensor:
        """By how much each network's condition holds, in log-odds: logits (networks, n, classes), the suspect's first,
        -> (networks, n). Found when all are above 0; differentiable, for searches that follow a slope."""
        held = of_class(logits, aim)
        others = logits.scatter(2, aim.expand(len(logits), -1)[..., None], -torch.inf)
        for_class = held[1:] - _at_least(others[1:], self.peer_confidence)
        against = others[:1].amax(2) - held[:1]
        if self.suspect_confidence > 0:
            said = logits[:1].scatter(2, others[:1].argmax(2, keepdim=True), -torch.inf)
            sure = others[:1].amax(2) - said.logsumexp(2) - _log_odds(self.suspect_confidence)
            against = torch.minimum(against, sure)
        return torch.cat([against, for_class])

    def found(self, logits: Tensor, aim: Tensor) -> Tensor:
        top = logits[0].softmax(1).max(1)
        wrong = (top.indices != aim) & (top.values >= self.suspect_confidence)  # NaN is never >=
        if wrong.device.type == "cpu" and not wrong.any():  # a look that a GPU would have to be stopped for
            return wrong
        return wrong & self.allows(logits[1:], aim)


@dataclass(frozen=True)
class Distances(Dissent):
    """Paper 1, Sec. 2, as first written: min DIST(pi(X′), pj(X′)) between peers and max DIST(A(X′), pk(X′)).

    DIST is the Euclidean distance of two networks' probabilities; the score is the mean distance of the suspect A from
    its peers less the mean distance between peers, which takes every network's answer. When something is found is as
    in Dissent.
    """

    asks: ClassVar[Asks] = "all"

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        """logits (networks, n, classes), the suspect's first -> (n,)."""
        said = logits.softmax(2)
        if len(said) < 2:
            return super().score(logits[0], aim)
        apart: Tensor = (said[1:] - said[:1]).norm(dim=2).mean(0)
        if len(said) < 3:
            return apart
        peers = len(said) - 1
        between: Tensor = torch.cdist(said[1:].transpose(0, 1), said[1:].transpose(0, 1)).sum((1, 2)) / (
            peers * (peers - 1)
        )
        return apart - between


@dataclass(frozen=True)
class Restore:
    """Paper 2: the suspect gives the class aimed at, A(X′) = C. The score is its log-probability: to climb it is to
    descend the cross entropy.

    confidence: the least probability that it must give C, besides preferring it. peers: they must prefer C too.
    """

    asks: ClassVar[Asks] = "suspect"

    confidence: float = 0.0
    peers: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.confidence <= 1:
            raise UserError(f"confidence is {self.confidence}: expected a probability from 0 to 1")

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        return logits.log_softmax(1).gather(1, aim[:, None])[:, 0]

    def allows(self, logits: Tensor, aim: Tensor) -> Tensor:
        if not self.peers:
            return torch.ones_like(aim, dtype=torch.bool)
        return (_ahead(logits, aim, 0.0) > 0).all(0)

    def slack(self, logits: Tensor, aim: Tensor) -> Tensor:
        """As `Dissent.slack`; peers that need not agree never fail."""
        own = _ahead(logits[:1], aim, self.confidence)
        others = _ahead(logits[1:], aim, 0.0) if self.peers else torch.full_like(logits[1:, :, 0], 1e9)
        return torch.cat([own, others])

    def found(self, logits: Tensor, aim: Tensor) -> Tensor:
        right = (_ahead(logits[:1], aim, self.confidence) > 0)[0]  # NaN is never above 0
        return right & self.allows(logits[1:], aim)


def _ahead(logits: Tensor, aim: Tensor, confidence: float) -> Tensor:
    """(networks, n): by how much, in log-odds, the class is more than what it must exceed."""
    others = logits.scatter(2, aim.expand(len(logits), -1)[..., None], -torch.inf)
    return of_class(logits, aim) - _at_least(others, confidence)


@dataclass(frozen=True)
class Confidence:
    """Paper 5: the class aimed at is given with confidence, whatever the image shows.

    of: whose. "suspect"; "all", the mean of every network's probabilities (Sec. B); or "alone": the suspect's, while no
    peer gives any class more than `doubt` (they do not know).
    confidence: the least probability that counts as found.
    """

    of: str = "suspect"
    confidence: float = 0.99
    doubt: float = 0.5

    def __post_init__(self) -> None:
        if self.of not in ("suspect", "all", "alone"):
            raise UserError(f"of is {self.of!r}: expected suspect, all or alone")
        for name in ("confidence", "doubt"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} is {getattr(self, name)}: expected a probability from 0 to 1")

    @property
    def asks(self) -> Asks:
        return "suspect" if self.of == "suspect" else "all"

    def every(self, logits: Tensor) -> Tensor:
        """The score for every class, (networks, n, classes) -> (n, classes): log-odds, which do not saturate where a
        probability rounds to 1. Alone: how much of the suspect's log-odds no doubt of a peer is missing from."""
        odds = log_odds_of(logits)
        if self.of == "suspect":
            return odds[0]
        if self.of == "all":
            sure, unsure = torch.sigmoid(odds.double()).mean(0), torch.sigmoid(-odds.double()).mean(0)
            return (sure.log() - unsure.log()).float()
        over = (odds[1:].amax((0, 2)) - _log_odds(self.doubt)).clamp(min=0) if len(odds) > 1 else odds.new_zeros(())
        return odds[0] - 4 * over[..., None]

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        """As `every`, of the class aimed at. Logits of the suspect alone, or (networks, n, classes)."""
        whole = logits[None] if logits.ndim == 2 else logits
        return self.every(whole).gather(1, aim[:, None])[:, 0]

    def allows(self, logits: Tensor, aim: Tensor) -> Tensor:
        if self.of != "alone" or not len(logits):
            return torch.ones_like(aim, dtype=torch.bool)
        return (logits.softmax(2).amax((0, 2)) <= self.doubt) & logits.isfinite().all(2).all(0)

    def found(self, logits: Tensor, aim: Tensor) -> Tensor:
        sure = logits.softmax(2)
        own = sure.mean(0) if self.of == "all" else sure[0]
        hit = (own.gather(1, aim[:, None])[:, 0] >= self.confidence) & (own.argmax(1) == aim)  # NaN is never >=
        return hit & self.allows(logits[1:], aim)


def log_odds_of(logits: Tensor) -> Tensor:
    """log(p / (1 − p)) of every class: logits (…, classes) -> the same shape. The largest is computed from the others
    alone, so that it is exact where p rounds to 1."""
    top = logits.amax(-1, keepdim=True)
    mass = (logits - top).exp()
    first = mass.argmax(-1, keepdim=True)
    beside = mass.scatter(-1, first, 0.0).sum(-1, keepdim=True)
    others = (1 + beside - mass).scatter(-1, first, beside)
    return logits - top - others.clamp(min=1e-38).log()


OBJECTIVES = {"dissent": Dissent, "distances": Distances, "restore": Restore, "confidence": Confidence}
