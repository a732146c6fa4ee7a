"""A rule that refuses strange images: a score, a threshold, and what it costs; and its file, `rule.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from foible.disk import write_with_folder
from foible.errors import UserError
from foible.records import COUNT, NUMBER, TEXT, One, read_versioned, word
from foible.rejection.scores import DISAGREEMENT, SCORES, Told, check, strangeness
from foible.statistics import wilson

VERSION = 1
SHARE = One(lambda value: type(value) in (int, float) and 0 <= value <= 1, "a share, 0 to 1")
COUNTED = {"count": COUNT, "n": COUNT, "share": SHARE, "low": SHARE, "high": SHARE}
FORM = {
    "score": word(*SCORES), "threshold": NUMBER, "suspect": TEXT, "networks": {str: TEXT}, "classes": [TEXT],
    "cost": COUNTED, "caught": COUNTED, "fitted": dict, "scores": [dict], "versions": {str: TEXT},
}  # fmt: skip


@dataclass(frozen=True)
class Share:
    """`count` of `n`, with Wilson's 95 % interval."""

    count: int
    n: int

    def to_json(self) -> dict[str, Any]:
        low, high = wilson(self.count, self.n)
        return {"count": self.count, "n": self.n, "share": self.count / max(1, self.n), "low": low, "high": high}


@dataclass(frozen=True)
class Rule:
    """Refuse an image whose score is above the threshold.

    networks: SHA-256 by name, of those that the score takes; the suspect comes first. classes: those that their logits
    are of. cost: how many real images it refuses, of such as had no part in the fitting; caught: how many fooling
    ones. fitted: what it was fitted to. scores: how well every score told them apart, of images that had no part.
    """

    score: str
    threshold: float
    networks: dict[str, str]
    classes: tuple[str, ...]
    cost: Share
    caught: Share
    fitted: dict[str, Any]
    scores: tuple[dict[str, Any], ...]
    versions: dict[str, str]

    @property
    def suspect(self) -> str:
        return next(iter(self.networks))

    def refuses(self, logits: Tensor) -> Tensor:
        """(n,) bool, from logits (networks, n, classes) in the order of `networks`, or (n, classes) of one."""
        if logits.ndim != 3 and len(self.networks) > 1:
            raise UserError(f"the score {self.score} takes logits (networks, n, classes) of {', '.join(self.networks)}")
        check(logits, "given", tuple(self.networks))
        return strangeness(logits)[self.score] > self.threshold

    def to_json(self) -> dict[str, Any]:
        """The content of `rule.json`."""
        return {
            "schema_version": VERSION, "score": self.score, "formula": SCORES[self.score],
            "reject": "where the score is above the threshold", "threshold": self.threshold, "suspect": self.suspect,
            "networks": self.networks, "classes": list(self.classes), "cost": self.cost.to_json(),
            "caught": self.caught.to_json(), "fitted": self.fitted, "scores": list(self.scores),
            "versions": self.versions,
        }  # fmt: skip

    def save(self, file: str | Path) -> None:
        """Write it as JSON."""
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_with_folder(Path(file), text.encode())


def read_rule(file: str | Path) -> Rule:
    """A rule from its file, which may be anybody's."""
    path = Path(file)
    advice = "give a file that `foible reject fit` wrote"
    had = read_versioned(path, FORM, VERSION, missing=f"there is no rule {str(path)!r}: {advice}", advice=advice)
    names = list(had["networks"])
    needed = 2 if had["score"] == DISAGREEMENT else 1
    if not names or names[0] != had["suspect"] or len(names) < needed or len(had["classes"]) < 2:
        raise UserError(f"{path} names too few networks or classes for the score {had['score']}: {advice}")
    shares = {name: Share(had[name]["count"], had[name]["n"]) for name in ("cost", "caught")}
    return Rule(
        had["score"], float(had["threshold"]), had["networks"], tuple(had["classes"]), shares["cost"],
        shares["caught"], had["fitted"], tuple(had["scores"]), had["versions"],
    )  # fmt: skip


def as_rows(told: tuple[Told, ...]) -> tuple[dict[str, Any], ...]:
    """What `told_apart` says, as JSON has it."""
    return tuple(asdict(one) for one in told)
