"""What a comparison came to, as its run keeps it: `compare.json`, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foible.recipes.compare.summary import read_summary


@dataclass(frozen=True)
class Share:
    """How many of n a network gets right, with the 95 % interval of the share; the share is NaN where n is 0."""

    network: str
    right: int
    n: int
    share: float
    low: float
    high: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Share:
        share, low, high = (_number(row[key]) for key in ("share", "low", "high"))
        return cls(str(row["network"]), int(row["right"]), int(row["n"]), share, low, high)


@dataclass(frozen=True)
class OneClass:
    name: str
    n: int
    shares: tuple[Share, ...]  # one a network
    fixed: int
    broken: int

    def share(self, network: str | None) -> Share | None:
        """Of this network; None where it has no image of the class."""
        return next((s for s in self.shares if s.network == network and s.share == s.share), None)


@dataclass(frozen=True)
class Flips:
    """What changed from the old network to the new one, image by image."""

    n: int
    both_right: int
    fixed: int
    broken: int
    both_wrong: int
    rate: tuple[float, float, float]  # of negative flips, a share, with its 95 % interval
    difference: tuple[float, float, float]  # in points, with its 95 % interval
    p: float  # McNemar's

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Flips:
        rate, difference = row["negative_flip_rate"], row["difference"]
        return cls(
            n=int(row["n"]),
            both_right=int(row["both_right"]),
            fixed=int(row["fixed"]),
            broken=int(row["broken"]),
            both_wrong=int(row["both_wrong"]),
            rate=(_number(rate["share"]), _number(rate["low"]), _number(rate["high"])),
            difference=(_number(difference["points"]), _number(difference["low"]), _number(difference["high"])),
            p=_number(row["mcnemar_p"]),
        )


@dataclass(frozen=True)
class Consensus:
    """Of images without labels: on how many all networks agree, exactly one dissents, or they split otherwise."""

    agree: int
    dissent: dict[str, int]
    split: int


@dataclass(frozen=True)
class Comparison:
    networks: tuple[str, ...]
    old: str | None
    new: str | None
    labelled: bool
    images: int
    unreadable: int
    left_out: dict[str, int]  # images, by why they were left out
    notes: tuple[str, ...]
    classes: int
    canvas: object  # [height, width]
    accuracy: tuple[Share, ...]
    per_class: tuple[OneClass, ...]
    flips: Flips | None
    consensus: Consensus | None
    doubtful: int
    against: Mapping[str, Any] | None  # how these are ranked, and what is expected of their labels
    dissent: dict[str, int]
    unsettled: int


def read_comparison(file: Path) -> Comparison:
    """The same, for a report."""
    return _comparison(read_summary(file))


def _comparison(of: Mapping[str, Any]) -> Comparison:
    consensus = of.get("consensus")
    return Comparison(
        networks=tuple(map(str, of["networks"])),
        old=of.get("old"),
        new=of.get("new"),
        labelled=bool(of["labelled"]),
        images=int(of["images"]),
        unreadable=int(of["unreadable"]),
        left_out=_left_out(of.get("left_out")),
        notes=tuple(map(str, of.get("notes") or ())),
        classes=len(of["classes"]),
        canvas=(of.get("canvas") or {}).get("size"),
        accuracy=tuple(Share.of(row) for row in of.get("accuracy") or ()),
        per_class=tuple(
            OneClass(
                str(row["class"]),
                int(row["n"]),
                tuple(Share.of(one) for one in row["networks"]),
                int(row.get("fixed") or 0),
                int(row.get("broken") or 0),
            )
            for row in of.get("per_class") or ()
        ),
        flips=Flips.of(of["flips"]) if of.get("flips") else None,
        consensus=Consensus(int(consensus["agree"]), _counts(consensus["dissent"]), int(consensus["split"]))
        if consensus
        else None,
        doubtful=int(of.get("doubtful") or 0),
        against=of.get("against"),
        dissent=_counts(of.get("dissent") or {}),
        unsettled=int(of.get("unsettled") or 0),
    )


def _counts(row: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(count) for name, count in row.items()}


def _left_out(given: Any) -> dict[str, int]:
    counts = given if isinstance(given, Mapping) else {"class not known to the networks": given or 0}
    return {why: count for why, count in _counts(counts).items() if count}


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
