"""Which images of a pool dissent, how they rank, and how the best become rows of findings with an empty path."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.basket.judging import Judged, on_canvas
from foible.basket.matching import Matched
from foible.errors import UserError
from foible.findings.rows import agreed, answered, as_nested, as_pngs, as_table, cost, ended, identity, origin, unmoved
from foible.images import to_floats
from foible.objectives import Dissent, of_class, probabilities
from foible.records import COUNT, TEXT, check, parse_json
from foible.runs.folder import CONFIGS

_COUNTS = b"foible.counts"
COUNTS = {
    **dict.fromkeys(("images", "invalid", "agree"), COUNT),
    **{name: [COUNT] for name in ("dissent", "found", "known", "right")},
    "unreadable": [TEXT],
}
TO_LABEL = "to-label"  # the tag of a row whose label people are to give


@dataclass(frozen=True)
class Side:
    """A suspect and its peers, as positions among a basket's networks, the suspect first."""

    places: tuple[int, ...]

    def aims(self, logits: Tensor) -> Tensor:
        """(n,) the class that all peers give; -1 where they differ or one gives none. logits: of the whole basket."""
        return agreed(answers(logits[list(self.places[1:])]))

    def dissents(self, logits: Tensor, aims: Tensor, objective: Dissent) -> Tensor:
        """(n,) bool: the peers agree on `aims`, and the suspect says something else."""
        mine = logits[list(self.places)]
        valid = (aims >= 0) & (answers(mine) >= 0).all(0)
        return valid & objective.found(mine, aims.clamp_min(0))

    def score(self, logits: Tensor, aims: Tensor, objective: Dissent) -> Tensor:
        """(n,) by how much an image is found, in log-odds, the worst over the networks; -inf for no number."""
        worst = objective.slack(logits[list(self.places)], aims).amin(0)
        return torch.where(worst.isnan(), -torch.inf, worst)


@dataclass
class Ranking:
    """The best of one suspect so far: scores and positions, best first, ties by position. Bounded by `top`."""

    top: int
    score: Tensor = field(default_factory=lambda: torch.empty(0))
    position: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    aim: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    def add(self, score: Tensor, position: Tensor, aim: Tensor) -> None:
        score, position, aim = (
            torch.cat(pair) for pair in ((self.score, score), (self.position, position), (self.aim, aim))
        )
        order = torch.from_numpy(np.lexsort((position.numpy(), -score.numpy())))[: self.top]
        self.score, self.position, self.aim = score[order], position[order], aim[order]


@dataclass
class Counts:
    """What all images of a pool came to; lists have an entry for each suspect."""

    images: int = 0
    invalid: int = 0  # a network answered with NaN or infinity
    agree: int = 0  # all networks say the same
    dissent: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)  # those that the kept pixels show too
    known: list[int] = field(default_factory=list)  # of the found, those whose truth the data tells
    right: list[int] = field(default_factory=list)  # and of these, those whose consensus is the truth
    unreadable: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(value, list) and name != "unreadable":
                value = [one + more for one, more in zip(mine or [0] * len(value), value, strict=True)]
                setattr(self, name, value)
            else:
                setattr(self, name, mine + value)


def rank_batch(
    basket: Basket, matched: Matched, truths: Tensor, sides: Sequence[Side], objective: Dissent, seen: Judged,
    rankings: Sequence[Ranking],
) -> Counts:  # fmt: skip
    """Add a batch to the rankings, one a suspect; what it came to. truths: (images of the pool,), -1 for none."""
    assert seen.canvas is not None
    said = answers(seen.logits)
    files = matched.data.files
    counts = Counts(
        len(seen.index), int((said < 0).any(0).sum()), int(((said == said[0]).all(0) & (said[0] >= 0)).sum()),
        unreadable=[f"{files[place] if files else place}: {why}" for place, why in seen.problems],
    )  # fmt: skip
    for side, ranking in zip(sides, rankings, strict=True):
        aims = side.aims(seen.logits)
        rows = side.dissents(seen.logits, aims, objective).nonzero()[:, 0]
        aims, after = aims[rows], on_canvas(basket, matched, seen.logits[:, rows], seen.canvas[rows])
        holds = side.dissents(after, aims, objective)
        ranking.add(side.score(after, aims, objective), seen.index[rows], aims)
        truth = truths[seen.index[rows]]
        known = holds & (truth >= 0)
        counts.dissent.append(len(rows))
        counts.found.append(int(holds.sum()))
        counts.known.append(int(known.sum()))
        counts.right.append(int((known & (truth == aims)).sum()))
    return counts


def as_shard(rankings: Sequence[Ranking], counts: Counts, configs: dict[str, dict[str, Any]]) -> pa.Table:
    """A unit's ranking, as it lies on disk: a few numbers an image, no pixels. configs: settings by hash."""
    return pa.table(
        {
            "suspect": pa.array(np.repeat(np.arange(len(rankings), dtype=np.int32), [len(r.score) for r in rankings])),
            "score": pa.array(torch.cat([ranking.score for ranking in rankings]).numpy()),
            "position": pa.array(torch.cat([ranking.position for ranking in rankings]).numpy()),
            "aim": pa.array(torch.cat([ranking.aim for ranking in rankings]).numpy()),
        }
    ).replace_schema_metadata({_COUNTS: json.dumps(vars(counts)), CONFIGS: json.dumps(configs, sort_keys=True)})


def gather(shards: Iterable[pa.Table], suspects: int, top: int) -> tuple[list[Ranking], Counts]:
    """The rankings of all units as one, and what all images came to; never more than `top` of each in memory."""
    rankings, counts = [Ranking(top) for _ in range(suspects)], Counts()
    for shard in shards:
        counts.add(_read_counts(shard, suspects))
        suspect, score, position, aim = (torch.tensor(shard.column(name).to_numpy()) for name in shard.column_names)
        for number, ranking in enumerate(rankings):
            mine = suspect == number
            ranking.add(score[mine], position[mine], aim[mine])
    return rankings, counts


def _read_counts(shard: pa.Table, suspects: int) -> Counts:
    """What a unit's images came to, with one count for each suspect."""
    where = "a shard in ranking/"
    read = check(parse_json((shard.schema.metadata or {}).get(_COUNTS, b"null"), where), COUNTS, where)
    counts = Counts(**{name: read[name] for name in COUNTS})
    listed = (counts.dissent, counts.found, counts.known, counts.right)
    if any(len(one) != suspects for one in listed) or not counts.images + len(counts.unreadable):
        raise UserError(f"{where} is of other suspects, or of no image: delete ranking/, and the same command goes on")
    return counts


def finding_rows(
    basket: Basket, matched: Matched, truths: Tensor, side: Side, objective: Dissent, seen: Judged, aims: Tensor,
    realism: Any, *, people: bool, key: str,
) -> pa.Table:  # fmt: skip
    """The findings: judged on the file (`before`) and again on the very pixels that are kept (`after`).

    aims: (n,) the peers' class for each file. people: no label is claimed. realism: what scores the images, or None.
    """
    assert seen.canvas is not None
    count, order, positions = len(seen.index), list(side.places), seen.index.tolist()
    names = [basket.names[place] for place in order]
    everybody = on_canvas(basket, matched, seen.logits, seen.canvas)
    before, after = (probabilities(logits[order]) for logits in (seen.logits, everybody))
    said, holds = answers(everybody[order]), side.dissents(everybody, aims, objective)
    outcome = [
        "invalid" if bad else "found" if good else "unsettled"
        for bad, good in zip((said < 0).any(0).tolist(), holds.tolist(), strict=True)
    ]
    pngs = as_pngs(seen.canvas)
    return as_table(
        identity([names] * count, positions, config=key, device=basket.device),
        origin(matched.data, positions, pngs),
        answered(before, after, said, truth=truths[seen.index], label_from=None if people else "consensus"),
        cost(len(names)),
        unmoved(count),
        ended(
            outcome, pngs, tags=[["dissent", TO_LABEL] if people else ["dissent"]] * count,
            score=side.score(everybody, aims, objective),
            realism=None if realism is None else realism.score(to_floats(seen.canvas)),
        ),
        {"trace": as_nested(of_class(before, aims).t()[:, None])},
        count=count,
    )  # fmt: skip
