"""What speaks for an answer, where it is known: planes, whose slopes are their weights."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from foible.basket import Basket
from foible.inspect.saliency import GRADIENT, OCCLUSION, saliency
from foible.testing import linear_basket, linear_trials
from foible.testing.linear import CLASSES, SHAPE, linear_network

BASKET = linear_basket(2)
IMAGES = linear_trials(BASKET, 20).seeds / 255  # more than are differentiated at once
SAYS, INSTEAD = torch.zeros(20, dtype=torch.long), torch.ones(20, dtype=torch.long)


def spoken() -> Tensor:
    """(n, height, width): what each pixel adds to the lead of class 0 over class 1 in network A, exactly."""
    weight = linear_network(0)[1].weight.detach()  # type: ignore[index]
    return ((weight[0] - weight[1]) * IMAGES.flatten(1)).view(20, *SHAPE[1:])


def test_a_plane_is_explained_by_its_weights() -> None:
    maps, how = saliency(BASKET, "A", IMAGES, SAYS, INSTEAD)
    assert how == GRADIENT
    exact = spoken() / spoken().abs().amax((1, 2), keepdim=True)
    assert torch.allclose(maps, exact, atol=0.1)  # but for the slight blur
    assert torch.allclose(maps.abs().amax((1, 2)), torch.ones(20))
    other, _ = saliency(BASKET, "A", IMAGES, INSTEAD, SAYS)
    assert torch.allclose(other, -maps, atol=1e-5)


def test_what_has_no_slope_is_covered_patch_by_patch() -> None:
    network = linear_network(0)

    @torch.no_grad()
    def closed(images: Tensor) -> Tensor:
        answer: Tensor = network(images)
        return answer

    basket = Basket({"A": closed}, classes=[str(n) for n in range(CLASSES)], preprocess="inside", shape=SHAPE)
    maps, how = saliency(basket, "A", IMAGES, SAYS, INSTEAD)
    assert how == OCCLUSION
    weight = (network[1].weight[0] - network[1].weight[1]).detach().view(SHAPE)  # type: ignore[index]
    one = (weight * (IMAGES - IMAGES.mean((2, 3), keepdim=True)))[:, 0]
    edges, lost = [0, 1, 3, 4, 6, 7, 9, 10, 12], torch.zeros_like(one)  # eight patches a side, of twelve pixels
    for top, bottom in pairwise(edges):
        for left, right in pairwise(edges):
            lost[:, top:bottom, left:right] = one[:, top:bottom, left:right].sum((1, 2), keepdim=True)
    assert torch.allclose(maps, lost / lost.abs().amax((1, 2), keepdim=True), atol=1e-4)
