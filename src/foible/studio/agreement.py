"""How far people agree, and what they say together: Fleiss' κ, Krippendorff's α, the majority, Dawid and Skene.

Pure functions of counts. An answer that is no class ("cannot tell") is a class of its own where agreement is measured,
and no vote where a class is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Votes:
    """One answer a line: `item`, `person` and `choice` are (n,), numbered from 0; how many there are of each."""

    item: Ints
    person: Ints
    choice: Ints
    items: int
    people: int
    choices: int

    def counts(self) -> Floats:
        """(items, choices): how often each was chosen."""
        made = np.zeros((self.items, self.choices))
        np.add.at(made, (self.item, self.choice), 1)
        return made


def fleiss_kappa(counts: Floats) -> tuple[float, Floats]:
    """Fleiss' κ of all classes, and of each, from (items, classes) counts. Items with fewer than two answers are left
    out; items may have different numbers of answers, and each weighs as many pairs of an answer with the others as it
    has. NaN where nothing can be said: no such items, or a class that nobody, or everybody, chose."""
    counts = counts[counts.sum(1) >= 2]
    if not len(counts):
        return float("nan"), np.full(counts.shape[1], np.nan)
    each = counts.sum(1)
    share = counts.sum(0) / each.sum()
    agree = (counts * (counts - 1)).sum(1) / (each * (each - 1))
    observed, expected = float((agree * each).sum() / each.sum()), float((share**2).sum())
    weight = counts / (each - 1)[:, None]  # of each answer: 1 over the others of its item
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = (weight * (each[:, None] - counts)).sum(0) / (each.sum() * share * (1 - share))
        whole = (observed - expected) / (1 - expected) if expected < 1 else float("nan")
    return whole, 1 - apart


def krippendorff_alpha(counts: Floats) -> float:
    """Krippendorff's α for nominal data, from (items, classes) counts; answers may be missing. NaN where fewer than two
    answers meet anywhere, or where all are the same."""
    counts = counts[counts.sum(1) >= 2]
    total = counts.sum()
    if not total:
        return float("nan")
    each = counts.sum(1, keepdims=True)
    same = float((counts * (counts - 1) / (each - 1)).sum())
    by_class = counts.sum(0)
    chance = float((by_class * (by_class - 1)).sum() / (total - 1))
    return (same - chance) / (total - chance) if total > chance else float("nan")


def majority(counts: Floats) -> Ints:
    """(items,): what most said; -1 where two are equally frequent, or nobody said anything."""
    best = counts.argmax(1)
    top = counts.max(1, initial=0)
    return np.where((top > 0) & ((counts == top[:, None]).sum(1) == 1), best, -1)


def person_agreement(votes: Votes) -> Floats:
    """(people,): of a person's answers, how large a share of the others' answers to the same item agree with it, in the
    mean; NaN where nobody else answered."""
    counts = votes.counts()
    others = counts.sum(1)[votes.item] - 1
    same = counts[votes.item, votes.choice] - 1
    met = others > 0
    with np.errstate(invalid="ignore"):
        total = np.bincount(votes.person[met], same[met] / others[met], minlength=votes.people)
        return np.asarray(total / np.bincount(votes.person[met], minlength=votes.people))


@dataclass(frozen=True)
class Truths:
    """What Dawid and Skene's model makes of votes. posterior: (items, classes). prior: (classes,). confusion: (people,
    classes, classes), what each person says of each class."""

    posterior: Floats
    prior: Floats
    confusion: Floats

    @property
    def best(self) -> Ints:
        """(items,): the likeliest class; -1 of an item without a vote."""
        if not self.posterior.shape[1]:
            return np.full(len(self.posterior), -1)
        return np.where(self.posterior.max(1) > 0, self.posterior.argmax(1), -1)


def dawid_skene(votes: Votes, *, smoothing: float = 0.0, rounds: int = 200, tolerance: float = 1e-6) -> Truths:
    """A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    Applied Statistics 28 (1979): every person confuses classes in a way of their own; EM, begun at the shares of votes.

    Votes of a person for one item may be several. smoothing: added to every count of a confusion: with few answers a
    person, pure maximum likelihood is sure of far too much.
    """
    from scipy import sparse  # a tenth of a second, for those who ask

    shape = (votes.people, votes.choices, votes.choices)
    counts = votes.counts()
    asked = counts.sum(1) > 0
    belief = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    prior, confusion = np.zeros(votes.choices), np.zeros(shape)
    places = (votes.item, votes.person * votes.choices + votes.choice)  # (items, people × said): who said what of which
    said = sparse.csr_array((np.ones(len(votes.item)), places), shape=(votes.items, votes.people * votes.choices))
    for _ in range(rounds if len(votes.item) else 0):
        before = belief
        prior = (belief[asked].sum(0) + smoothing) / (asked.sum() + smoothing * votes.choices)
        confusion = (said.T @ belief).reshape(shape).transpose(0, 2, 1) + smoothing
        confusion = confusion / np.maximum(confusion.sum(2, keepdims=True), 1e-300)
        logs = np.log(np.maximum(confusion, 1e-300)).transpose(0, 2, 1).reshape(-1, votes.choices)
        likely = np.log(np.maximum(prior, 1e-300)) + said @ logs
        belief = np.exp(likely - likely.max(1, keepdims=True))
        belief = belief / belief.sum(1, keepdims=True) * asked[:, None]
        if np.abs(belief - before).max(initial=0) < tolerance:
            break
    return Truths(belief, prior, confusion)
