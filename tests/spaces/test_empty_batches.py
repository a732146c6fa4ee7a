"""No search hands an empty batch to a space: `max` of nothing, in a space of one's own, is an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from foible.search.shrink import _OneMove
from foible.spaces import Affine, Photometric
from foible.testing import check_space


def test_a_search_that_hands_over_an_empty_batch_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    check_space(Photometric())
    keep = _OneMove._keep

    def careless(self: Any, amounts: Tensor, tried: Tensor, rows: Tensor, kept: Tensor | None = None) -> Tensor:
        self.space.render(self.space.start(self.seeds[:0]))
        return keep(self, amounts, tried, rows, kept)

    monkeypatch.setattr(_OneMove, "_keep", careless)
    with pytest.raises(AssertionError, match="no empty batch"):
        check_space(Photometric())


def test_shrinking_leaves_nothing_to_try_without_asking_the_space() -> None:
    class Strict(Affine):
        def move(self, points: Any, uniforms: Tensor) -> Any:
            assert uniforms.max() < 100  # fails where there is nothing
            return super().move(points, uniforms)

    one = _OneMove(Strict(), lambda images, _: torch.ones(len(images), dtype=torch.bool), torch.rand(2, 1, 8, 8))
    amounts, whole = one.smallest(torch.zeros(2, Strict().draws).index_fill(1, torch.tensor([0]), 2.0))
    assert whole.all()
    assert (amounts.abs().sum(1) < 0.1).all()
