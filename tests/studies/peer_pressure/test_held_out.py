from __future__ import annotations

import torch

from foible.basket import Basket
from foible.data import load
from foible.findings import Findings
from foible.studies.peer_pressure.held_out import SWAPS, changed, says


def test_changed_images_are_moved_swapped_both_or_neither() -> None:
    data = load("digits", "test")
    once = changed(data, seed=0)
    assert torch.equal(once.labels, data.labels)
    same = (once.images == data.images).flatten(1).all(1)
    kept = (once.images.flatten(1).sort(1).values == data.images.flatten(1).sort(1).values).all(1)
    assert 0.15 < same.float().mean() < 0.35  # a quarter, and where swaps exchanged black with black
    assert 0.4 < kept.float().mean() < 0.6  # swaps alone keep every pixel's value
    differ = (once.images != data.images).flatten(1).sum(1)[kept]
    assert differ.max() <= 2 * SWAPS
    assert differ.max() > SWAPS / 2


def test_every_copy_is_changed_in_its_own_way_and_always_the_same() -> None:
    data = load("digits", "test")
    twice = changed(data, seed=0, copies=2)
    first, second = twice.images.split(len(data))
    assert torch.equal(first, changed(data, seed=0).images)
    assert (first != second).flatten(1).any(1).float().mean() > 0.8
    assert not torch.equal(first, changed(data, seed=1).images)
    assert torch.equal(twice.labels, data.labels.repeat(2))


def test_says_speaks_of_the_findings_classes(findings: Findings, networks: Basket) -> None:
    for name in networks.names:
        rows = findings.filter(suspect=name, outcome="found")  # what found nothing keeps no image
        assert says(networks, name, rows) == rows.column("said")
