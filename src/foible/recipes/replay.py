"""Replay: compute a finding's image again from its row, and have the basket judge it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import read
from foible.errors import UserError
from foible.findings import OUTCOMES, Findings
from foible.images import decode_png, encode_png, to_bytes, to_floats
from foible.meeting import Meeting
from foible.objectives import probabilities
from foible.recipes.compare import open_comparison
from foible.recipes.distort_units import Distorter, open_distorter
from foible.recipes.hunt import open_hunter
from foible.recipes.pool import open_pool
from foible.recipes.rows import retrace
from foible.runs import RunFolder
from foible.runs.local import one_thread
from foible.search.nearest import length, reached


@dataclass(frozen=True, eq=False)
class Replayed:
    """A row done again. `same_image`: every pixel as stored. `difference`: the largest change of any probability."""

    id: str
    image: Tensor  # uint8 (channels, height, width)
    same_image: bool
    difference: float
    stored: str  # outcome in the row
    now: str  # "found", or "not found"
    probabilities: Tensor  # (networks, classes)

    @property
    def holds(self) -> bool:
        """The same pixels, the same answers to float tolerance, and the same verdict."""
        verdict = self.stored == "invalid" or (self.stored == OUTCOMES[0]) == (self.now == OUTCOMES[0])
        return self.same_image and self.difference < 1e-4 and verdict


def replay_row(row: dict[str, Any], space: Any, objective: Any, basket: Basket) -> Replayed:
    """Replay one row of findings in a space, from its seed image and its path of moves alone."""
    seed = to_floats(decode_png(row["origin"]))[None].to(basket.device)
    draws = [torch.tensor(move["draws"], dtype=torch.float32) for move in row["path"]]
    with torch.no_grad(), one_thread():
        points, _ = retrace(space, seed, [torch.stack(draws) if draws else torch.empty(0, 0)])
        image = to_bytes(space.render(points)[:1])
        logits = basket.judge(to_floats(image), row["networks"])
        aim = torch.tensor([row["consensus"] if row["truth"] is None else row["truth"]], device=basket.device)
        found = bool(objective.found(logits, aim)[0])
    answers = probabilities(logits)[:, 0].cpu()
    return Replayed(
        id=row["id"],
        image=image[0].cpu(),
        same_image=encode_png(image[0].cpu()) == row["image"],
        difference=_difference(answers, torch.tensor(row["after"])),
        stored=row["outcome"],
        now=OUTCOMES[0] if found else "not found",
        probabilities=answers,
    )


def _difference(now: Tensor, stored: Tensor) -> float:
    """The largest change of any probability; what was no number and still is none has not changed."""
    both = now.isnan() & stored.isnan()
    return float((now - stored).abs().masked_fill(both, 0.0).nan_to_num(nan=torch.inf).max())


def _compared_row(row: dict[str, Any], basket: Basket, meeting: Meeting) -> Replayed:
    """A row of a comparison or of a pool has no path: its image is read from the data again, and judged again."""
    seen = read(meeting.data, torch.tensor([row["origin_index"]]), [meeting.canvas])
    if seen.problems:
        raise UserError(f"the image of {row['id']!r} cannot be read any more: {seen.problems[0][1]}")
    image, stored = seen.images[0][0], torch.tensor(row["after"])
    with torch.no_grad(), one_thread():
        logits = basket.judge(to_floats(image[None].to(basket.device)), row["networks"])
    now = probabilities(logits)[:, 0].cpu()
    same = bool((now.argmax(1) == stored.argmax(1)).all())
    return Replayed(
        id=row["id"],
        image=image,
        same_image=encode_png(image) == row["image"],
        difference=_difference(now, stored),
        stored=row["outcome"],
        now=row["outcome"] if same else "not found",
        probabilities=now,
    )


def _distorted_row(row: dict[str, Any], distorter: Distorter) -> Replayed:
    """A distorted image is what its PNG holds: its origin is read from the data again, and both are measured and
    judged again. Of a distorted layer the stored output is put in again, where the row has it."""
    basket, norm, layer = distorter.basket, distorter.settings["norm"], distorter.layer
    seen = read(distorter.meeting.data, torch.tensor([row["origin_index"]]), [distorter.meeting.canvas])
    if seen.problems:
        raise UserError(f"the image of {row['id']!r} cannot be read any more: {seen.problems[0][1]}")
    image, origin = decode_png(row["image"]), seen.images[0][0]
    same = encode_png(origin) == row["origin"]
    label = torch.tensor([row["consensus"] if row["truth"] is None else row["truth"]], device=basket.device)
    target = None if row["target"] is None else torch.tensor([row["target"]], device=basket.device)
    with torch.no_grad(), one_thread():
        logits = basket.judge(to_floats(image[None].to(basket.device)), row["networks"])
        if layer is None:
            distance = float(length(to_floats(image)[None] - to_floats(origin)[None], norm))
            same &= math.isclose(distance, row["distance"], rel_tol=1e-4, abs_tol=1e-6)
        elif row["point"] is not None:
            start = layer.points(to_floats(image[None].to(basket.device)))
            logits[0] = layer.model(torch.tensor(row["point"], device=start.device).view_as(start))
        found = bool(reached(logits[0], label, target)[0])
    now, told = probabilities(logits)[:, 0].cpu(), layer is None or row["point"] is not None
    return Replayed(
        id=row["id"],
        image=image,
        same_image=same,
        difference=_difference(now, torch.tensor(row["after"])) if told else 0.0,
        stored=row["outcome"],
        now=(OUTCOMES[0] if found else "not found") if told else row["outcome"],
        probabilities=now,
    )


def replay(
    run: str | Path, ids: list[str] | None = None, *, basket: Basket | None = None, trust: bool = False
) -> list[Replayed]:
    """Replay rows of a run on disk (all of them without `ids`), with the basket that it names or the one given.

    trust: run the Python files that the run names, where its space, objective or networks are a user's own.
    """
    findings = Findings.open(run)
    rows = findings if ids is None else [findings.get(id) for id in ids]
    recipe = RunFolder(run).config["settings"].get("recipe")
    if recipe == "distort":
        distorter = open_distorter(run, basket=basket, trust=trust)
        return [_distorted_row(row, distorter) for row in rows]
    judged = {"compare": open_comparison, "pool": open_pool}.get(recipe)
    if judged is not None:
        basket, meeting = judged(run, basket=basket, trust=trust)
        return [_compared_row(row, basket, meeting) for row in rows]
    hunter = open_hunter(run, basket=basket, trust=trust)
    return [replay_row(row, hunter.space, hunter.objective, hunter.basket) for row in rows]
