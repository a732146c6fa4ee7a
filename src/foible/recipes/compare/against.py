"""All networks disagree with the label: which of these images come first, and how many of their labels may be wrong.

The score of an image that is labelled y, and that every network calls c, is a weighted mean over the networks k of

    log(p_k(c) / t_k(c)) − log(p_k(y) / t_k(y))

in nats. t_k(j), as in confident learning (Northcutt, Jiang, Chuang 2021), is the mean probability that k gives to j on
the images labelled j: to be sure of a class that is easily recognised says less than to be sure of one that is not.

Weights. Networks of one kind make the same mistakes: the first of a kind counts 1, the second ½, the third ¼, and so
on, shared evenly among them. A network that was trained on these very images has learnt their labels: it counts nothing
while there are others.

Most such images are not mislabelled. How many are was measured with people (`foible study labels`), is told as measured
there, and only of three networks or more that were not trained on the images. No torch here: a summary is told at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foible.records import COUNT, NUMBER, TEXT
from foible.statistics import wilson
from foible.text import some

TAG = "against-label"
OLD_TAG = "label-error"  # of runs made before it was known how few of them are errors
WORDS = "all networks disagree with the label"
LEAST = 1e-4  # probabilities below it count as much: no network decides alone by being absurdly sure
ENOUGH, FEW = 3, "few networks"  # to say how many labels may be wrong
ELSEWHERE = ("timm", "torchvision", "hf", "onnx", "pickle", "torchscript", "pt2")  # behind these comes the name
IN, OUT, UNKNOWN = "in-sample", "out-of-sample", "unknown"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """Images that score at least `least`, below the band above: of `n` that people looked at, `wrong` are mislabelled
    by their majority, which says what the networks say."""

    least: float
    wrong: int
    n: int

    @property
    def told(self) -> dict[str, Any]:
        low, high = wilson(self.wrong, self.n)
        return {"wrong": self.wrong, "n": self.n, "share": self.wrong / self.n, "low": low, "high": high}


# `foible study labels --scale paper --basket resnets`, in docs/studies/labels.md: four ResNets of 92 to 93 %, the
# 10,000 test images of CIFAR-10, which they were not trained on, and the people of CIFAR-10H.
BANDS = (Band(6.0, 6, 25), Band(3.0, 5, 78), Band(-np.inf, 1, 58))
MEASURED = "CIFAR-10's test images, with four ResNets and about 50 people an image"

NETWORK = {"network": TEXT, "kind": TEXT, "seen": TEXT, "weight": NUMBER, "thresholds": [NUMBER]}
SHARE = {"wrong": COUNT, "n": COUNT, "share": NUMBER, "low": NUMBER, "high": NUMBER}
FORM = {  # of `against` in compare.json
    "images": COUNT, "networks": [NETWORK], "why_not": (None, TEXT), "measured": TEXT,
    "expected": (None, {"share": NUMBER, "low": NUMBER, "high": NUMBER}),
    "bands": [{"least": (None, NUMBER), "images": COUNT, "expected": (None, SHARE)}],
}  # fmt: skip


def kind_of(spec: str) -> str:
    """What a network is, by its spec: "resnet" of `resnet:20`, `timm:resnet50d`, `probe:…/resnet-20,hidden=64` and
    `nets.py:ResNet`; of a file or folder the letters that its name begins with."""
    plain = spec.partition("?")[0].partition(",")[0]
    head, _, tail = plain.removeprefix("probe:").rpartition(":")
    ours = head.isalnum() and head not in ELSEWHERE
    name = re.match(r"[a-zA-Z]*", Path(head if ours else tail).name)
    return (name[0] if name else "").lower() or plain.lower()


def seen_before(training: Mapping[str, Any], data: str, split: str) -> str:
    """Whether a network was trained on these images, by the record of its training: its data and split."""
    known = training.get("data"), training.get("split")
    if known == (data, split):
        return IN
    if not all(known):
        return UNKNOWN
    # Files under two names may be the same images; data sets that we know by name are not.
    return OUT if known[0] == data or not {":"} & {*str(known[0]), *data} else UNKNOWN


def weights(kinds: Sequence[str], seen: Sequence[str]) -> list[float]:
    """What each network counts; together 1."""
    counts = [one != IN for one in seen] if any(one != IN for one in seen) else [True] * len(seen)
    many = Counter(kind for kind, one in zip(kinds, counts, strict=True) if one)
    each = [(2 - 0.5 ** (many[kind] - 1)) / many[kind] if one else 0.0 for kind, one in zip(kinds, counts, strict=True)]
    return [one / sum(each) for one in each]


def score(said: Floats, given: Floats, usual: Floats, labels_usual: Floats, weight: Sequence[float]) -> Floats:
    """(n,) the score. said, given: (networks, n) probabilities of the networks' common class and of the label; usual,
    labels_usual: (networks, n) the thresholds of these two classes; weight: (networks,)."""
    p, q, t, u = (np.log(np.maximum(one, LEAST)) for one in (said, given, usual, labels_usual))
    worth = np.asarray(weight)[:, None]
    return np.asarray(np.where(worth > 0, worth * (p - t - q + u), 0.0).sum(0))


def in_bands(scores: Floats) -> list[tuple[float, float, NDArray[np.bool_]]]:
    """Of each band its least score, the least of the one above it, and (n,) whether a score is in it."""
    ends = [np.inf, *(band.least for band in BANDS)]
    return [(least, above, (scores >= least) & (scores < above)) for above, least in pairwise(ends)]


def summarise_against(scores: Floats, networks: list[dict[str, Any]]) -> dict[str, Any]:
    """The part `against` of compare.json, of the scores of all such images. networks: as in NETWORK."""
    asked = sum(one["weight"] > 0 for one in networks)
    why_not = None
    if all(one["seen"] == IN for one in networks):
        why_not = IN
    elif asked < ENOUGH:
        why_not = FEW
    bands = [
        {
            "least": least if np.isfinite(least) else None, "images": int(inside.sum()),
            "expected": None if why_not else band.told,
        }
        for band, (least, _, inside) in zip(BANDS, in_bands(scores), strict=True)
    ]  # fmt: skip
    return {
        "images": len(scores), "networks": networks, "why_not": why_not, "measured": MEASURED,
        "expected": None if why_not or not len(scores) else _expected(bands), "bands": bands,
    }  # fmt: skip


def _expected(bands: list[dict[str, Any]]) -> dict[str, float]:
    """The share of wrong labels, were each band's as it was measured. The ends of the interval are those of the bands,
    all on the same side at once: wider than need be."""
    images = sum(band["images"] for band in bands)
    ends = ("share", "low", "high")
    return {end: sum(band["images"] * band["expected"][end] for band in bands) / images for end in ends}


def tell_against(images: int, against: Mapping[str, Any] | None) -> list[str]:
    """In sentences: how many such images there are, and what is to be expected of their labels."""
    if not images:
        return []
    lines = [f"{WORDS[0].upper()}{WORDS[1:]} on {images:,} {'image' if images == 1 else 'images'}."]
    if against is None:
        return lines
    if against["expected"] is not None:
        lines.append(
            f"Expect about {_percent(against['expected'])} of these labels to be wrong, as scores like these meant on "
            f"{against['measured']}.{_first(against['bands'])} The others are hard images. Other data may differ: look "
            "at the first ones."
        )
    elif against["why_not"] == FEW:
        lines.append(
            f"How many of these labels may be wrong is not told of fewer than {ENOUGH} networks that have not seen the "
            "images: give more."
        )
    by = {seen: [one["network"] for one in against["networks"] if one["seen"] == seen] for seen in (IN, OUT, UNKNOWN)}
    if by[IN]:
        others = "the order is by the others" if by[OUT] or by[UNKNOWN] else "how many are wrong is not told of these"
        lines.append(f"In-sample: {some(by[IN])} learnt these labels in training, wrong ones too; {others}.")
    elif by[UNKNOWN]:
        lines.append(
            f"Whether {some(by[UNKNOWN])} saw these images in training is not known; in-sample, a network learns wrong "
            "labels too."
        )
    else:
        lines.append("Out-of-sample: no network was trained on these images.")
    return lines


def _first(bands: Sequence[Mapping[str, Any]]) -> str:
    """What was measured of the images with the highest scores, and how many there are here."""
    if not bands or bands[0]["expected"] is None or bands[0]["least"] is None:
        return ""
    known, here = bands[0]["expected"], bands[0]["images"]
    return (
        f" Of {known['n']:,} with a score of {bands[0]['least']:g} or more {known['wrong']:,} were, {_percent(known)}; "
        f"here {here:,} {'has' if here == 1 else 'have'} that."
    )


def _percent(told: Mapping[str, Any]) -> str:
    low, share, high = (f"{100 * told[name]:.0f}" for name in ("low", "share", "high"))
    return f"{share} % (95 % interval {low} to {high})"
