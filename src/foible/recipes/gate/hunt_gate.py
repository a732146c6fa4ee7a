"""The nightly gate: hunt OLD and NEW with the same peers, on the same seed images, and pair them lane by lane.

A hunt starts from images that both get right, so it cannot see a class that NEW has lost. That is seen before any
move: among the images that all peers get right, those that NEW lost against those that it gained.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import Accuracy, answers, diagnoses, look_closer, none_read
from foible.basket.judging import judged
from foible.basket.matching import Matched, match, shape_of
from foible.data import Dataset, Photographs, open_data
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.findings import read_shard, shard_files
from foible.progress import progress
from foible.recipes.gate.checks import (
    MOST_IDS,
    Check,
    Gated,
    check_names,
    check_tolerances,
    decide,
    measure,
    measure_classes,
)
from foible.recipes.hunt.recipe import hunt

WANTED = "--network old=SPEC --network new=SPEC and at least one peer, --network PEER=SPEC"
HUNTED, BEFORE = "trials that found a mistake", "before any move"


def gate_hunt(
    networks: Basket | Sequence[str],
    data: str | Dataset | Photographs,
    *,
    out: str | Path,
    tolerance: float = 5.0,
    class_tolerance: float = 20.0,
    hunt_tolerance: float = 10.0,
    trials: int = 1000,
    peer_confidence: float | None = 0.9,
    split: str = "test",
    device: str = "auto",
    workers: int | None = None,
    trust: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Gated:
    """Hunt `old` and `new` against all other networks; the run stays in `out`/hunt and is resumed from there.

    tolerance: percentage points by which NEW's error before any move may exceed OLD's; class_tolerance: the same for
    any one class. hunt_tolerance: points by which the share of its trials that found a mistake may. The last is wider,
    because that share differs by several points between networks that differ in their seed alone.
    options: further settings of the hunt: seed, space, search, patience, canvas, …
    """
    check_tolerances(tolerance=tolerance, class_tolerance=class_tolerance, hunt_tolerance=hunt_tolerance)
    if not isinstance(networks, Basket) and not networks:
        check_names((), WANTED)
    data_set = open_data(data, split, whole=True, quiet=quiet)
    if not isinstance(networks, Basket):
        networks = Basket.open(
            networks, device=device, classes=data_set.classes, shape=shape_of(data_set), trust=trust
        )  # fmt: skip
    check_names(networks.names, WANTED)
    peers = [name for name in networks.names if name not in ("old", "new")]
    if "old" not in networks.names or not peers:
        raise UserError(
            f"a gate that hunts needs old, new and a peer, given {', '.join(networks.names)}: expected {WANTED}"
        )
    matched = match(data_set, networks, canvas=options.get("canvas"))
    clean = Accuracy(networks.names, networks.classes)
    checks, seeds = _before(networks, matched, peers, tolerance, class_tolerance, clean, quiet)
    look_closer(networks, clean, matched)
    notes = diagnoses(clean)
    lost: list[str] = []
    if seeds:
        place = Path(out) / "hunt"
        hunt(
            networks, data, out=place, suspect=("old", "new"), peers=tuple(peers), trials=trials, split=split,
            peer_confidence=peer_confidence, device=device, workers=workers, trust=trust, quiet=quiet, **options,
        )  # fmt: skip
        check, lost, invalid = _lanes(place, hunt_tolerance)
        if invalid:
            notes.append(f"{invalid} trials are left out: a network answered with NaN or infinity")
    else:
        check = measure("overall", HUNTED, 0, 0, 0, hunt_tolerance, unit="trials")
        notes.append("no image is right under all networks, so that nothing could be hunted from")
    checks = [check, *checks]
    notes += [*networks.notes, *matched.notes]
    gated = Gated(
        "hunt", decide(checks), "old", tuple(checks), tuple(notes), tuple(lost[:MOST_IDS]),
        networks=networks.specs_of_all,
    )  # fmt: skip
    write_with_folder(
        Path(out) / "gate.json", (json.dumps(gated.to_json(), indent=1, ensure_ascii=False) + "\n").encode()
    )
    return gated


def _before(
    networks: Basket, matched: Matched, peers: Sequence[str], tolerance: float, class_tolerance: float,
    clean: Accuracy, quiet: bool,
) -> tuple[list[Check], int]:  # fmt: skip
    """The checks before any move, and how many images are right under everybody; `clean` is filled."""
    counts = torch.zeros(3, len(networks.classes), dtype=torch.int64)  # right under all peers, broken, fixed
    seeds = 0
    problems: list[tuple[int, str]] = []
    old, new = (networks.names.index(name) for name in ("old", "new"))
    others = [networks.names.index(name) for name in peers]
    with progress("Judging before any move", len(matched.index), quiet=quiet) as bar:
        for part in judged(networks, matched.data, index=matched.index, canvas=matched.canvas, native=False):
            labels = matched.labels[part.index]
            said = answers(part.logits)
            right = said == labels
            clean.add(said, labels)
            agreed = right[others].all(0)
            for row, which in enumerate((agreed, agreed & right[old] & ~right[new], agreed & ~right[old] & right[new])):
                counts[row] += torch.bincount(labels[which], minlength=len(networks.classes))
            seeds += int(right.all(0).sum())
            problems += part.problems
            bar.advance(len(part.index) + len(part.problems))
    if len(problems) == len(matched.index):
        raise none_read(matched.data.name, len(problems), matched.told(problems[0]))
    by_class = {name: _three(counts[:, place]) for place, name in enumerate(networks.classes)}
    overall = measure("overall", BEFORE, *_three(counts.sum(1)), tolerance)
    return [overall, *measure_classes(by_class, class_tolerance)], seeds


def _three(counts: Tensor) -> tuple[int, int, int]:
    n, broken, fixed = counts.tolist()
    return n, broken, fixed


def _lanes(run: Path, tolerance: float) -> tuple[Check, list[str], int]:
    """Success rates, paired: lanes where only NEW was caught against lanes where only OLD was. The former's ids, too,
    and how many lanes are invalid under either."""
    outcomes: dict[int, dict[str, str]] = {}
    ids: dict[int, str] = {}
    for file in shard_files(run):
        for row in read_shard(file, ["id", "suspect", "lane", "outcome"]).to_pylist():
            outcomes.setdefault(row["lane"], {})[row["suspect"]] = row["outcome"]
            if row["suspect"] == "new":
                ids[row["lane"]] = row["id"]
    valid = {lane: by for lane, by in outcomes.items() if len(by) == 2 and "invalid" not in by.values()}
    broken = [lane for lane, by in sorted(valid.items()) if by["new"] == "found" != by["old"]]
    fixed = [lane for lane, by in valid.items() if by["old"] == "found" != by["new"]]
    check = measure("overall", HUNTED, len(valid), len(broken), len(fixed), tolerance, unit="trials")
    return check, [ids[lane] for lane in broken], len(outcomes) - len(valid)
