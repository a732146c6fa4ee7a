"""Which answers of a comparison are worth a look, and how they become rows of findings with an empty path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.basket.judging import on_canvas
from foible.basket.matching import Matched
from foible.findings.rows import (
    agreed,
    answered,
    as_lists,
    as_offsets,
    as_pngs,
    as_table,
    cost,
    ended,
    identity,
    origin,
    unmoved,
)
from foible.objectives import of_class, probabilities
from foible.recipes.compare.against import TAG


@dataclass(frozen=True)
class Rule:
    """Who is compared with whom: positions of the networks, and whether the labels are known."""

    networks: int
    old: int
    new: int
    labelled: bool

    def tags(self, said: Tensor, labels: Tensor) -> dict[tuple[int, int], list[str]]:
        """(row, network that is wrong) -> its tags, in the order of rows, for said (networks, n) and labels (n,)."""
        wrong = said != labels
        found: dict[tuple[int, int], list[str]] = {}

        def add(rows: Tensor, network: int, tag: str) -> None:
            for row in rows.nonzero()[:, 0].tolist():
                found.setdefault((row, network), []).append(tag)

        if self.labelled:
            add(wrong[self.new] & ~wrong[self.old], self.new, "broken")
            add(wrong[self.old] & ~wrong[self.new], self.old, "fixed")
        for k in range(self.networks):
            if self.networks < 3 and (self.labelled or k != self.new):
                continue  # of two, each dissents from the other
            others = said[[j for j in range(self.networks) if j != k]]
            agree = (others == others[0]).all(0) & (others[0] >= 0)
            if self.labelled:
                agree &= others[0] == labels
            add(agree & (said[k] != others[0]), k, "dissent")
        if self.labelled:
            add((said == said[0]).all(0) & (said[0] >= 0) & wrong[0], self.new, TAG)
        return dict(sorted(found.items()))


@dataclass(frozen=True, eq=False)
class Flagged:
    """Rows worth a look. Several may be of one image, with different suspects."""

    position: Tensor  # (m,) in the data
    suspect: Tensor  # (m,) which network
    tags: list[list[str]]
    labels: Tensor  # (m,), -1 for none
    logits: Tensor  # (networks, m, classes), as each network saw the file
    pixels: Tensor  # (m, channels, height, width) uint8, the canvas

    @staticmethod
    def gather(parts: Sequence[Flagged]) -> Flagged:
        return Flagged(
            torch.cat([part.position for part in parts]), torch.cat([part.suspect for part in parts]),
            [tags for part in parts for tags in part.tags], torch.cat([part.labels for part in parts]),
            torch.cat([part.logits for part in parts], 1), torch.cat([part.pixels for part in parts]),
        )  # fmt: skip


def finding_rows(basket: Basket, matched: Matched, rule: Rule, rows: Flagged, key: str) -> pa.Table:
    """The findings: judged on the file (`before`) and again on the very pixels that are kept (`after`)."""
    count, names, positions = len(rows.tags), basket.names, rows.position.tolist()
    everybody = torch.arange(len(names)).expand(count, -1)
    others = everybody[everybody != rows.suspect[:, None]].view(count, -1)
    order = torch.cat([rows.suspect[:, None], others], 1).t()  # (networks, m), each row's suspect first
    after = on_canvas(basket, matched, rows.logits, rows.pixels)
    still = rule.tags(answers(after), rows.labels)
    said = answers(after).gather(0, order)
    before_p, after_p = (_ordered(probabilities(logits), order) for logits in (rows.logits, after))
    outcome = [
        _outcome(tags, still.get((row, suspect), []), answer)
        for row, (tags, suspect, answer) in enumerate(
            zip(rows.tags, rows.suspect.tolist(), said[0].tolist(), strict=True)
        )
    ]
    right = torch.where(rows.labels >= 0, rows.labels, agreed(said[1:]))
    trace = of_class(before_p, right.clamp_min(0)).t()[right >= 0]
    pngs = as_pngs(rows.pixels)
    return as_table(
        identity(
            [[names[k] for k in listed] for listed in order.t().tolist()], positions, config=key, device=basket.device
        ),
        origin(matched.data, positions, pngs),
        answered(
            before_p, after_p, said, truth=rows.labels,
            label_from=["label" if label >= 0 else "consensus" for label in rows.labels.tolist()],
        ),
        cost(len(names)),
        unmoved(count),
        ended(outcome, pngs, tags=rows.tags),
        {"trace": pa.ListArray.from_arrays(as_offsets((right >= 0).long()), as_lists(trace))},
        count=count,
    )  # fmt: skip


def _ordered(values: Tensor, order: Tensor) -> Tensor:
    """values (networks, m, classes) with each row's networks in its order (networks, m)."""
    return values.gather(0, order[..., None].expand(-1, -1, values.shape[2]))


def _outcome(tags: list[str], still: list[str], answer: int) -> str:
    """The kept pixels decide: a mistake on the file that they do not show is `unsettled`."""
    if not set(tags) & set(still):
        return "unsettled"
    if answer < 0:
        return "invalid"
    return "doubtful" if TAG in still else "found"
