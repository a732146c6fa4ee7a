"""Where networks and people agree, and where not: paper 4's types A, B and C, and what its tables count.

                      networks disagree     networks agree
    people disagree   B                     C
    people agree      A, a mistake          B; a mistake where they say another class (footnote 2)

said: (networks, images), what each network says. People: counts (images, classes), how many chose each class.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Types(NamedTuple):
    """Which images are of which type, (images,) each. Every image is of one."""

    a: Bools  # networks disagree, people agree
    both_disagree: Bools  # B
    both_agree: Bools  # B, on the same class
    c: Bools  # networks agree, people disagree
    against: Bools  # both agree, on different classes

    def counts(self) -> dict[str, int]:
        return {name: int(mask.sum()) for name, mask in zip(self._fields, self, strict=True)}


class Opinion(NamedTuple):
    """What people make of images. label: (images,), the class that most chose, -1 where two share the first place or
    nobody chose any. share: (images,), of the people who chose it. agree: (images,)."""

    label: Ints
    share: Floats
    agree: Bools


def opinion(counts: Ints, threshold: float = 1.0) -> Opinion:
    """People agree where at least this share of them chose one class; in the paper, all of them."""
    total, most = counts.sum(1), counts.max(1)
    single = ((counts == most[:, None]).sum(1) == 1) & (most > 0)
    share = most / np.maximum(total, 1)
    return Opinion(np.where(single, counts.argmax(1), -1), share, single & (share >= threshold - 1e-12))


def types_of(said: Ints, people: Opinion) -> Types:
    """The type of each image."""
    one = (said == said[0]).all(0)
    same = said[0] == people.label
    return Types(~one & people.agree, ~one & ~people.agree, one & people.agree & same, one & ~people.agree,
                 one & people.agree & ~same)  # fmt: skip


def wrong_by_model(said: Ints, people: Opinion) -> Floats:
    """(networks,): of all images, the share on which people agree and the network says something else (Table 2)."""
    return np.asarray(((said != people.label) & people.agree).mean(1), np.float64)


def wrong_by_any(said: Ints, people: Opinion) -> float:
    """Of all images, the share on which people agree and some network says something else."""
    return float(((said != people.label) & people.agree).any(0).mean())


def pairwise(said: Ints) -> Floats:
    """(pairs,): of all images, the share on which two networks, or two people, disagree."""
    return np.asarray([(said[i] != said[j]).mean() for i, j in combinations(range(len(said)), 2)], np.float64)


def votes(said: Ints, classes: int) -> Ints:
    """(…, images, classes): how many of the judges said each class. said: (…, judges, images); −1 counts for none."""
    return np.asarray((said[..., None] == np.arange(classes)).sum(-3), np.int64)


def certainty(said: Ints) -> Floats:
    """(…, images): the share of the networks that give the commonest answer (Table 5). said: (…, networks, images)."""
    return np.asarray(votes(said, int(said.max()) + 1).max(-1) / said.shape[-2], np.float64)


def flips(said: Ints) -> Ints:
    """(walks,): how often the answer changes along each walk from one class to another. said: (walks, steps)."""
    return np.asarray((said[:, 1:] != said[:, :-1]).sum(1), np.int64)


def unanimous(counts: Ints, many: int) -> Floats:
    """(images,): how likely so many of the people of an image, drawn without replacement, all chose one class; of an
    image with fewer people, all of them are taken."""
    from scipy.special import gammaln

    taken = np.minimum(counts.sum(1), many)[:, None]
    total = counts.sum(1)[:, None]
    with np.errstate(invalid="ignore"):
        ways = gammaln(counts + 1) - gammaln(counts - taken + 1) + gammaln(total - taken + 1) - gammaln(total + 1)
    return np.asarray(np.where(counts >= taken, np.exp(ways), 0.0).sum(1).clip(0, 1) * (total[:, 0] > 0))


def fewer_people(counts: Ints, many: int, seed: int) -> Ints:
    """The answers of so many of the people of each image, drawn without replacement; of an image with fewer, all."""
    draw = np.random.default_rng([seed, many])
    taken = np.minimum(counts.sum(1), many)
    return np.stack([
        draw.multivariate_hypergeometric(row, some) for row, some in zip(counts, taken.tolist(), strict=True)
    ]).astype(np.int64)  # fmt: skip
