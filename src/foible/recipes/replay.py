"""Replay: compute a finding's image again from its row, and have the basket judge it again."""

from __future__ import annotations

import json
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
from foible.images import MOST_JUDGED, decode_png, encode_png, to_floats
from foible.objectives import probabilities
from foible.permission import Permission
from foible.processes import one_thread
from foible.recipes.distort.units import layer_of
from foible.runs.recipe import load
from foible.runs.reopen import open_again
from foible.runs.task import Task
from foible.search.nearest import length, reached
from foible.search.walking import recorded, takes_doubles
from foible.text import shown


@dataclass(frozen=True, eq=False)
class Replayed:
    """A row done again. `same_image`: every pixel as stored, where any are. `difference`: the largest change of any
    probability."""

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


def replay_row(
    row: dict[str, Any], space: Any, objective: Any, basket: Basket, origin: Tensor | None = None
) -> Replayed:
    """Replay one row of findings in a space, from its seed image and its path of moves alone.

    origin: the seed image, uint8 (channels, height, width), where the row does not keep it.
    """
    if origin is None:
        origin = decode_png(row["origin"], repr(row["id"]), MOST_JUDGED)
    seed, on_a_cpu = origin[None], made_on_a_cpu(row)
    if not (on_a_cpu and takes_doubles(space)):  # what was made there is made there again
        seed = seed.to(basket.device)
    draws = [torch.tensor(move["draws"], dtype=torch.float32) for move in row["path"] or ()]
    with torch.no_grad(), one_thread():
        try:
            path = torch.stack(draws) if draws else torch.empty(0, 0)
            _, made = recorded(space, seed, [path], precise=not on_a_cpu)
            image = made.to(basket.device)
        except (RuntimeError, ValueError, IndexError) as error:
            raise odd(row, f"its path does not fit the space: {error}") from error
        logits = basket.judge(to_floats(image), row["networks"])
        aim = torch.tensor([_label(row) if row["target"] is None else row["target"]], device=basket.device)
        found = bool(objective.found(logits, aim)[0])
    return replayed(row, image[0].cpu(), logits, found)


def made_on_a_cpu(row: dict[str, Any]) -> bool:
    """Where a row says that it was made; one that does not say was made on a CPU."""
    try:
        return bool(json.loads(row.get("versions") or "{}").get("device", "cpu") == "cpu")
    except (AttributeError, TypeError, ValueError, RecursionError):  # a row may be anybody's
        return True


def replayed(row: dict[str, Any], image: Tensor, logits: Tensor, found: bool) -> Replayed:
    """A row whose image (channels, height, width), uint8, was made again; logits: (networks, 1, classes), of it."""
    answers = probabilities(logits)[:, 0].cpu()
    return Replayed(
        id=row["id"],
        image=image,
        same_image=row["image"] is None or encode_png(image) == row["image"],
        difference=difference(answers, torch.tensor(row["after"])),
        stored=row["outcome"],
        now=OUTCOMES[0] if found else "not found",
        probabilities=answers,
    )


def odd(row: dict[str, Any], why: str) -> UserError:
    """What is said of a row that cannot be as it is."""
    return UserError(f"finding {shown(row['id'])!r} cannot be replayed, {why}: the run is damaged or not ours")


def _label(row: dict[str, Any]) -> int:
    """The class aimed at."""
    label: int | None = row["consensus"] if row["truth"] is None else row["truth"]
    if label is None:
        raise odd(row, "nobody says what would be right")
    return label


def seed_of(row: dict[str, Any], task: Task) -> Tensor:
    """The image that a row began with, from the data: uint8 (channels, height, width)."""
    matched = task.matched
    place, count = row["origin_index"], len(matched.data)
    if place is None or place >= count:
        raise odd(row, f"its image is number {place} of {count}")
    seen = read(matched.data, torch.tensor([place]), [matched.canvas])
    if seen.problems:
        raise UserError(f"the image of {row['id']!r} cannot be read any more: {seen.problems[0][1]}")
    return seen.images[0][0]


def difference(now: Tensor, stored: Tensor) -> float:
    """The largest change of any probability; what was no number and still is none has not changed."""
    both = now.isnan() & stored.isnan()
    return float((now - stored).abs().masked_fill(both, 0.0).nan_to_num(nan=torch.inf).max())


def along_the_path(row: dict[str, Any], task: Task) -> Replayed:
    """A row of a search, from its seed image and its path of moves. One that found nothing keeps no images."""
    origin = seed_of(row, task) if row["origin"] is None else None
    return replay_row(row, task.parts["space"], task.parts["objective"], task.basket, origin)


def as_it_is(row: dict[str, Any], task: Task) -> Replayed:
    """A row of a comparison or of a ranking has no path: its image is read from the data again, and judged again."""
    basket, image, stored = task.basket, seed_of(row, task), torch.tensor(row["after"])
    with torch.no_grad(), one_thread():
        logits = basket.judge(to_floats(image[None].to(basket.device)), row["networks"])
    now = probabilities(logits)[:, 0].cpu()
    same = bool((now.argmax(1) == stored.argmax(1)).all())
    return Replayed(
        id=row["id"],
        image=image,
        same_image=encode_png(image) == row["image"],
        difference=difference(now, stored),
        stored=row["outcome"],
        now=row["outcome"] if same else "not found",
        probabilities=now,
    )


def distorted(row: dict[str, Any], task: Task) -> Replayed:
    """A distorted image is what its PNG holds: its origin is read from the data again, and both are measured and
    judged again. Of a distorted layer the stored output is put in again, where the row has it."""
    basket, norm, layer = task.basket, task.settings["norm"], layer_of(task, task.settings["layer"])
    origin = seed_of(row, task)
    image = decode_png(row["image"], repr(row["id"]), MOST_JUDGED)
    if image.shape != origin.shape:
        shapes = f"{tuple(image.shape)}, and the image that it was made from {tuple(origin.shape)}"
        raise UserError(f"the image of {row['id']!r} has the shape {shapes}: the run is damaged or not ours")
    same = encode_png(origin) == row["origin"]
    label = torch.tensor([_label(row)], device=basket.device)
    target = None if row["target"] is None else torch.tensor([row["target"]], device=basket.device)
    with torch.no_grad(), one_thread():
        logits = basket.judge(to_floats(image[None].to(basket.device)), row["networks"])
        if layer is None:
            distance = float(length(to_floats(image)[None] - to_floats(origin)[None], norm))
            stored = math.nan if row["distance"] is None else row["distance"]
            same &= math.isclose(distance, stored, rel_tol=1e-4, abs_tol=1e-6)
        elif row["point"] is not None:
            start = layer.points(to_floats(image[None].to(basket.device)))
            if len(row["point"]) != start.numel():
                raise odd(row, f"its layer has {start.numel()} values, and not {len(row['point'])}")
            logits[0] = layer.model(torch.tensor(row["point"], device=start.device).view_as(start))
        found = bool(reached(logits[0], label, target)[0])
    now, told = probabilities(logits)[:, 0].cpu(), layer is None or row["point"] is not None
    return Replayed(
        id=row["id"],
        image=image,
        same_image=same,
        difference=difference(now, torch.tensor(row["after"])) if told else 0.0,
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
    task = open_again(run, basket=basket, may=Permission(trust=trust))
    again = load(task.recipe.replay)
    return [again(row, task) for row in rows]
