"""A small task whose networks are known planes, for hunts that take a moment."""

from __future__ import annotations

import pytest
import torch

from foible.basket import Basket
from foible.data import Dataset
from foible.testing import CLASSES, linear_basket, linear_trials


@pytest.fixture(scope="session")
def basket() -> Basket:
    return linear_basket()


@pytest.fixture(scope="session")
def data(basket: Basket) -> Dataset:
    trials = linear_trials(basket, 60)
    return Dataset("blobs", "train", trials.seeds, trials.aims, tuple(str(i) for i in range(CLASSES)), ())


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
