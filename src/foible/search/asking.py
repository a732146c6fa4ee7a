"""Whom a search asks, in which order, and what it costs: the suspect about every candidate, the peers about what the
suspect leaves open, and everybody once more about the image that a PNG will hold.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foible.basket import Basket, Precision
from foible.images import settle
from foible.objectives import Objective, asks_all, of_class, probabilities


class Asker:
    """The networks of a basket, asked on behalf of one objective.

    images: (n, channels, height, width) in [0, 1]. aim: (n,), the class that each must keep. What networks say are
    logits (networks, n, classes), the suspect's first. Costs are inferences a row.
    """

    def __init__(self, objective: Objective, basket: Basket, suspect: str, precision: Precision = "float32") -> None:
        self.objective, self.basket, self.precision = objective, basket, precision
        self.searching: Precision = "folded" if precision == "float32" else precision
        self.peers = basket.peers(suspect)
        self.everyone = [suspect, *self.peers]
        self.all = asks_all(objective)
        self.first = self.everyone if self.all else [suspect]  # whose answers a score takes

    def score(self, said: Tensor, aim: Tensor) -> Tensor:
        """(n,), from what at least the `first` said."""
        return self.objective.score(said if self.all else said[0], aim)

    def ask(self, images: Tensor, aim: Tensor, precision: Precision | None = None) -> tuple[Tensor, Tensor]:
        """What the `first` say, and the score (n,); each row costs `len(first)`."""
        said = self.basket.judge(images, self.first, precision or self.searching)
        return said, self.score(said, aim)

    def allowed(self, images: Tensor, aim: Tensor, said: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Which of these rows all peers allow, what everybody said of those, and what each of `rows` cost.

        said: what the `first` said of all images. The first peer is asked alone: what it refuses need not be shown to
        anybody else.
        """
        said, aim = said.index_select(1, rows), aim.index_select(0, rows)
        if self.all:
            kept = self.objective.allows(said[1:], aim).nonzero()[:, 0]
            return rows[kept], said[:, kept], torch.zeros_like(rows)
        (first, rest), shown = (self.peers[:1], self.peers[1:]), images.index_select(0, rows)
        costs = torch.full_like(rows, len(first))
        if not first or not len(rows):
            return rows, said, costs
        said, kept = self._hold(first, shown, aim, said)
        if rest and len(kept):
            costs[kept] += len(rest)
            said, still = self._hold(rest, shown.index_select(0, kept), aim.index_select(0, kept), said)
            kept = kept.index_select(0, still)
        return rows.index_select(0, kept), said, costs

    def _hold(self, peers: list[str], images: Tensor, aim: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        """What was `said` with the answers of these peers below it, of the images that all of them allow; and which
        images those are."""
        answers = self.basket.judge(images, peers, self.searching)
        kept = self.objective.allows(answers, aim).nonzero()[:, 0]
        return torch.cat([said, answers]).index_select(1, kept), kept

    def settled(self, images: Tensor, aim: Tensor) -> tuple[Tensor, Tensor]:
        """Found means found on what a PNG will hold, in float32: (n,) bool, and what everybody said of it; each row
        costs `len(everyone)`. Whoever writes it down judges it once more."""
        said = self.basket.judge(settle(images), self.everyone, "folded")
        return self.objective.found(said, aim), said

    def still_found(self, images: Tensor, aim: Tensor, precision: Precision = "float32") -> tuple[Tensor, Tensor]:
        """The same where most rows will fail: the peers are asked only where the suspect alone would be found. (n,)
        bool, and what each row cost."""
        found, costs = torch.zeros_like(aim, dtype=torch.bool), torch.ones_like(aim)
        if not len(aim):
            return found, costs
        images = settle(images)
        said = self.basket.judge(images, self.everyone[:1], precision)
        rows = self.objective.found(said, aim).nonzero()[:, 0]
        if rows.numel():
            shown = images.index_select(0, rows)
            said = torch.cat([said.index_select(1, rows), self.basket.judge(shown, self.peers, precision)])
            costs[rows] += len(self.peers)
            found[rows] = self.objective.found(said, aim[rows])
        return found, costs


def trace_of(said: Tensor, aim: Tensor) -> Tensor:
    """(n, networks): the probability that each network gives the class aimed at, for the record."""
    return of_class(probabilities(said), aim).t()
