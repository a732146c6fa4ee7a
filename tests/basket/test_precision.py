"""How much of an answer is noise: how it changes with the batch that an image is asked in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.precision import TIMES, noise
from foible.findings.rows import judged_again
from foible.objectives import Dissent
from foible.search.task import EXHAUSTED, FOUND, INVALID
from foible.testing import linear_basket, linear_trials


class Neighbourly(nn.Module):
    """Answers that hang on how many images are asked about."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :3] + len(images) / 1000


def test_rows_that_do_not_touch_have_next_to_no_noise() -> None:
    basket = linear_basket()
    seen = noise(basket, linear_trials(basket, 40).seeds / 255, basket.names)
    assert 0 <= seen < 1e-3


def test_noise_is_what_another_batch_changes() -> None:
    basket = Basket({"A": Neighbourly()}, classes=list("abc"), preprocess="inside", shape=(1, 4, 4))
    seen = noise(basket, torch.rand(60, 1, 4, 4), ["A"])
    assert torch.isclose(torch.tensor(seen), torch.tensor(TIMES * 0.04), rtol=1e-3)  # 60 together, or three times 20
    assert noise(basket, torch.rand(1, 1, 4, 4), ["A"]) == 0.0


def test_what_holds_by_less_than_noise_is_not_found() -> None:
    after = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])
    aims, claimed = torch.zeros(3, dtype=torch.int64), torch.tensor([FOUND, FOUND, INVALID])
    for firmly, want in (
        (None, [FOUND, FOUND, INVALID]),
        (torch.tensor([True, False, True]), [FOUND, EXHAUSTED, INVALID]),
    ):
        assert judged_again(Dissent(), claimed, after, aims, firmly).tolist() == want
