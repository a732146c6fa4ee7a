"""What a gate checks: how much worse NEW is than OLD on some images, and what all checks together come to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from foible.errors import UserError
from foible.statistics import Verdict, paired, verdict

CONFIDENCE = 0.95
MOST_IDS = 100  # of broken images, in a result

Kind = Literal["overall", "class", "tag"]


@dataclass(frozen=True)
class Check:
    """OLD and NEW on the same n images (or trials). All figures but the counts are percentage points.

    broken: OLD is right and NEW is wrong; fixed: the other way round. points = error(NEW) − error(OLD), with its
    interval; None where OLD or NEW had a say in which images these are, so that the difference would tell of that. A
    check without a tolerance has no verdict: it is there to be read.
    """

    kind: Kind
    name: str
    n: int
    broken: int
    fixed: int
    points: float | None
    low: float | None
    high: float | None
    confidence: float  # of the interval, a probability
    tolerance: float | None
    verdict: Verdict | None
    unit: str = "images"  # what was counted


@dataclass(frozen=True)
class Gated:
    """The answer of a gate. `old` is the network that NEW was measured against, and `recorded` whether by what a suite
    records of it; `broken` holds ids of images that NEW lost."""

    tier: Literal["suite", "hunt"]
    verdict: Verdict
    old: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    broken: tuple[str, ...]
    recorded: bool = False
    networks: Mapping[str, str] = field(default_factory=dict)  # the specs of NEW, OLD and others, where they have any

    def failed(self, strict: bool = False) -> bool:
        """Whether a pipeline should stop here."""
        return self.verdict == "fail" or (strict and self.verdict == "inconclusive")

    def of(self, kind: Kind) -> list[Check]:
        return [check for check in self.checks if check.kind == kind]

    def worst(self, most: int = 10) -> list[Check]:
        """The classes that lost most, those that fail first."""
        worse = [check for check in self.of("class") if check.verdict == "fail" or check.broken > check.fixed]
        return sorted(worse, key=lambda check: (check.verdict != "fail", -(check.points or 0), check.name))[:most]

    @property
    def named(self) -> str:
        """Which networks these are: `new is SPEC, old is SPEC`; nothing where they have none."""
        return ", ".join(f"{name} is {spec}" for name, spec in self.networks.items())

    @property
    def against(self) -> str:
        """What NEW was measured against, in words."""
        return f"what the suite recorded of {self.old!r}" if self.recorded else self.old

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def measure(
    kind: Kind,
    name: str,
    n: int,
    broken: int,
    fixed: int,
    tolerance: float | None,
    confidence: float = CONFIDENCE,
    unit: str = "images",
) -> Check:
    """One check, from its counts."""
    low, high = (100 * limit for limit in paired(broken, fixed, n, confidence))
    points = 100 * (broken - fixed) / n if n else 0.0
    found = None if tolerance is None else verdict(low, high, tolerance)
    return Check(kind, name, n, broken, fixed, points, low, high, confidence, tolerance, found, unit)


def watched(name: str, n: int, broken: int, fixed: int) -> Check:
    """Counts on images that OLD or NEW helped to choose: to be looked at, and no measure of either."""
    return Check("tag", name, n, broken, fixed, None, None, None, CONFIDENCE, None, None)


def measure_classes(counts: Mapping[str, tuple[int, int, int]], tolerance: float) -> list[Check]:
    """A check for each class from its (n, broken, fixed); classes without images have none.

    The more classes, the likelier that one looks bad by chance: intervals are widened by Bonferroni's rule, so that
    a network that lost nothing fails in any class at all with a probability of at most 5 %.
    """
    shown = {name: count for name, count in counts.items() if count[0]}
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(shown))
    return [measure("class", name, *count, tolerance, confidence) for name, count in shown.items()]


def decide(checks: Iterable[Check], *, whole: bool = True) -> Verdict:
    """Fail where any check fails; pass where every overall check passes and all images were judged (`whole`)."""
    checks = list(checks)
    if any(check.verdict == "fail" for check in checks):
        return "fail"
    overall = [check.verdict for check in checks if check.kind == "overall"]
    return "pass" if whole and overall and set(overall) == {"pass"} else "inconclusive"


def check_tolerances(**given: float) -> None:
    """Percentage points, or an error that names the flag."""
    for name, value in given.items():
        if not (math.isfinite(value) and 0 <= value <= 100):
            raise UserError(f"{name.replace('_', '-')} is {value}: expected percentage points, 0 to 100")


def check_names(names: Sequence[str], wanted: str) -> None:
    """Every gate needs a network called `new`, and knows OLD by the name `old`."""
    if "new" not in names:
        given = f"given {', '.join(names)}" if names else "given none"
        raise UserError(f"no network is called 'new' ({given}): expected {wanted}")
