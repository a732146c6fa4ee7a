"""Which answers of a comparison are worth a look, and how they become rows of findings with an empty path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.clean import answers
from foible.images import encode_pngs
from foible.judging import on_canvas
from foible.meeting import Meeting
from foible.objectives import probabilities
from foible.recipes.rows import as_lists, as_nested, as_offsets, as_table, versions


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
            add((said == said[0]).all(0) & (said[0] >= 0) & wrong[0], self.new, "label-error")
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


def finding_rows(basket: Basket, meeting: Meeting, rule: Rule, rows: Flagged, key: str) -> pa.Table:
    """The findings: judged on the file (`before`) and again on the very pixels that are kept (`after`)."""
    count, names, data = len(rows.tags), basket.names, meeting.data
    everybody = torch.arange(len(names)).expand(count, -1)
    others = everybody[everybody != rows.suspect[:, None]].view(count, -1)
    order = torch.cat([rows.suspect[:, None], others], 1)
    after = on_canvas(basket, meeting, rows.logits, rows.pixels)
    said = answers(after)
    before_p, after_p = (_ordered(probabilities(logits), order) for logits in (rows.logits, after))
    voted = said.t().gather(1, others)
    consensus = torch.where((voted == voted[:, :1]).all(1), voted[:, 0], -1)
    answer = said.t().gather(1, rows.suspect[:, None])[:, 0]
    right = torch.where(rows.labels >= 0, rows.labels, consensus)
    still = rule.tags(said, rows.labels)
    outcome = [
        _outcome(tags, still.get((row, suspect), []), int(answer[row]))
        for row, (tags, suspect) in enumerate(zip(rows.tags, rows.suspect.tolist(), strict=True))
    ]
    pngs = pa.array(encode_pngs(rows.pixels.numpy()), pa.binary())
    positions = rows.position.tolist()
    trace = before_p.gather(2, right.clamp_min(0)[:, None, None].expand(-1, len(names), 1))[..., 0]
    listed = [[names[k] for k in places] for places in order.tolist()]
    columns: dict[str, Any] = {
        "id": [f"{row[0]}-{position:06d}" for row, position in zip(listed, positions, strict=True)],
        "config": [key] * count,
        "suspect": [row[0] for row in listed],
        "networks": listed,
        "lane": positions,
        "outcome": outcome,
        "tags": rows.tags,
        "image": pngs,
        "origin": pngs,
        "origin_data": [data.name] * count,
        "origin_split": [data.split] * count,
        "origin_index": positions,
        "origin_file": [None if data.files is None else data.files[position] for position in positions],
        "truth": _known(rows.labels),
        "label_from": ["label" if label >= 0 else "consensus" for label in rows.labels.tolist()],
        "consensus": _known(consensus),
        "said": _known(answer),
        "before": as_nested(before_p),
        "after": as_nested(after_p),
        "moves": [0] * count,
        "candidates": [1] * count,
        "forwards": [len(names)] * count,
        "backwards": [0] * count,
        "path": [[]] * count,
        "trace": pa.ListArray.from_arrays(as_offsets((right >= 0).long()), as_lists(trace[right >= 0])),
        "point": [[]] * count,
        "change": [[]] * count,
        "film": [None] * count,
        "versions": [versions(basket.device)] * count,
    }
    return as_table(columns, count)


def _ordered(values: Tensor, order: Tensor) -> Tensor:
    """(networks, m, classes) as (m, networks, classes), each row's suspect first."""
    return values.transpose(0, 1).gather(1, order[..., None].expand(-1, -1, values.shape[2]))


def _known(values: Tensor) -> pa.Array:
    """Class numbers, null for -1."""
    return pa.array(values.numpy(), mask=(values < 0).numpy()).cast(pa.int32())


def _outcome(tags: list[str], still: list[str], answer: int) -> str:
    """The kept pixels decide: a mistake on the file that they do not show is `unsettled`."""
    if not set(tags) & set(still):
        return "unsettled"
    if answer < 0:
        return "invalid"
    return "doubtful" if "label-error" in still else "found"
