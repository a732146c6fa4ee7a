"""What findings without labels are worth: how many kinds of mistake they cover, and how often their consensus is the
truth."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from foible.findings import Findings
from foible.statistics import wilson
from foible.studies.peer_pressure.held_out import Judge


@dataclass
class ConsensusFinds:
    """The findings with one number of peers, over all suspects: (label, consensus, suspect's answer, judge's)."""

    peers: int
    trials: int = 0
    found: list[tuple[int, int, int, int]] = field(default_factory=list)
    misnamed: int = 0  # trials whose seed image suspect and peers all called something else than its label
    misnamed_found: int = 0

    def add(self, findings: Findings, labels: Sequence[int], judge: Judge) -> None:
        """labels: of every image of the data, as indices into the findings' classes."""
        found = findings.filter(outcome="found")
        self.trials += len(findings)
        truth = [labels[index] for index in found.column("origin_index")]
        aims = torch.tensor(findings.column("before"))[:, 0].argmax(1).tolist()
        for aim, index, outcome in zip(aims, *map(findings.column, ("origin_index", "outcome")), strict=True):
            self.misnamed += aim != labels[index]
            self.misnamed_found += aim != labels[index] and outcome == "found"
        self.found += zip(truth, found.column("consensus"), found.column("said"), judge.says(found), strict=True)

    @property
    def by_label(self) -> int:
        return sum(label == consensus for label, consensus, _, _ in self.found)

    @property
    def by_judge(self) -> int:
        return sum(judged == consensus for _, consensus, _, judged in self.found)

    @property
    def by_both(self) -> int:
        return sum(label == consensus == judged for label, consensus, _, judged in self.found)

    @property
    def pairs(self) -> Counter[tuple[int, int]]:
        """How often each (true class, suspect's answer) was found, of findings whose consensus is the label."""
        return Counter((label, said) for label, consensus, said, _ in self.found if label == consensus)


def rarefied(counts: Counter[tuple[int, int]], draws: int) -> float:
    """How many kinds `draws` finds without replacement would show on average (Hurlbert's rarefaction, 1971): coverage
    at an equal number of finds."""
    total = counts.total()
    if draws >= total:
        return float(len(counts))

    def missing(count: int) -> float:
        if total - count < draws:
            return 0.0
        return math.exp(_log_choose(total - count, draws) - _log_choose(total, draws))

    return sum(1 - missing(count) for count in counts.values())


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def difference(first: int, of_first: int, last: int, of_last: int) -> tuple[float, float, float]:
    """last share − first share, with its 95 % interval by Newcombe's hybrid of two Wilson intervals (1998)."""
    one, other = first / max(of_first, 1), last / max(of_last, 1)
    low_one, high_one = wilson(first, of_first)
    low_other, high_other = wilson(last, of_last)
    change = other - one
    below = math.hypot(other - low_other, high_one - one)
    above = math.hypot(high_other - other, one - low_one)
    return change, change - below, change + above


def trend(counts: Sequence[tuple[float, int, int]]) -> float:
    """How steadily a share rises with x: z by Cochran and Armitage, from (x, successes, trials) of every group. Beyond
    ±1.96 it is no accident (two-sided, 5 %); 0 where all shares are the same."""
    total = sum(of for _, _, of in counts)
    mean = sum(wins for _, wins, _ in counts) / max(total, 1)
    score = sum(x * (wins - of * mean) for x, wins, of in counts)
    spread = sum(of * x * x for x, _, of in counts) - sum(of * x for x, _, of in counts) ** 2 / max(total, 1)
    variance = mean * (1 - mean) * spread
    return score / math.sqrt(variance) if variance > 1e-12 else 0.0
