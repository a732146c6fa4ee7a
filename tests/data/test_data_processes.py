"""Photographs decoded by processes are those that the caller's own thread would decode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from foible.data import Photographs, open_data, read
from foible.data.processes import decoded_apart
from foible.views import View

VIEWS = [View((8, 8)), View((6, 10), resize=12)]


@pytest.fixture
def data(tmp_path: Path) -> Photographs:
    random = np.random.default_rng(0)
    for number in range(9):
        home = tmp_path / "ab"[number % 2]
        home.mkdir(exist_ok=True)
        pixels = random.integers(0, 256, (20 + number, 30, 3), np.uint8)
        Image.fromarray(pixels).save(home / f"{number}.jpg")
    (tmp_path / "a" / "cut.jpg").write_bytes((tmp_path / "a" / "0.jpg").read_bytes()[:200])
    opened = open_data(f"folder:{tmp_path}", quiet=True)
    assert isinstance(opened, Photographs)
    return opened


def test_the_same_pixels_in_the_same_order(data: Photographs) -> None:
    index = torch.tensor([7, 0, 9, 2, 2, 5, 1])
    parts = list(decoded_apart(data, VIEWS, list(index.split(3)), 2))
    whole = read(data, index, VIEWS)
    assert torch.cat([part.index for part in parts]).tolist() == whole.index.tolist()
    for view in range(2):
        assert torch.equal(torch.cat([part.images[view] for part in parts]), whole.images[view])
    assert [problem for part in parts for problem in part.problems] == whole.problems


def test_what_cannot_be_read_is_listed_and_an_iterator_can_be_left(data: Photographs) -> None:
    batches = decoded_apart(data, VIEWS, list(torch.arange(len(data)).split(2)), 2)
    seen = next(batches)
    batches.close()
    assert len(seen.index) + len(seen.problems) == 2
    everything = list(decoded_apart(data, VIEWS, [torch.arange(len(data))], 1))
    assert [data.files[place] for place, _ in everything[0].problems] == ["a/cut.jpg"]
