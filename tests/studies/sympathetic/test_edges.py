"""Edge cases: images just across a class boundary, several of each, as findings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.images import decode_png


class Flat:
    """A generator whose code is the image: shifts are changes of pixels."""

    spec = fingerprint = "flat"
    latent, shape = 4, (1, 2, 2)

    def encode(self, images: Tensor) -> Tensor:
        return images.flatten(1)

    def decode(self, codes: Tensor) -> Tensor:
        return codes.view(-1, 1, 2, 2)

    def to(self, _device: object) -> Flat:
        return self


def test_images_just_across_the_boundary_are_findings() -> None:
    """Class 1 where the sum of four pixels is above 2: the boundary is known."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0] * 4, [6.0] * 4]))
        layer.bias.copy_(torch.tensor([0.0, -12.0]))
    basket = Basket({"sum": nn.Sequential(nn.Flatten(), layer)}, classes=("dark", "light"), preprocess="inside",
                    shape=(1, 2, 2))  # fmt: skip
    images = torch.tensor([80, 60, 40], dtype=torch.uint8)[:, None, None, None].repeat(1, 1, 2, 2)
    data = Dataset("grey", "test", images, torch.tensor([1, 1, 0]), basket.classes)
    how = {"generator": Flat(), "effort": 0, "quiet": True, "device": "cpu", "images": 2}
    found = foible.explain(basket, data, search="edges?places=4&spread=0.5", **how)
    assert found.column("outcome") == ["found"] * len(found)
    assert len(found) > 4  # several places of an image; those beyond the box have none
    assert len(set(found.column("id"))) == len(found)
    made = torch.stack([decode_png(row["image"], "one") for row in found]).float() / 255
    sums = made.flatten(1).sum(1)
    assert (sums > 2).all()
    assert (sums < 2 + 4 / 255).all()  # a level less of every pixel, and the class is another one
    assert len({row["image"] for row in found}) == len(found) - 1  # both images' shortest ways end in the same grey
    again = foible.explain(basket, data, search="edges?places=4&spread=0.5", **how)
    assert again.column("image") == found.column("image")
    other = foible.explain(basket, data, search="edges?places=2", to="light", **how)
    assert other.column("target") == [1] * len(other)
    assert other.column("truth") == [0] * len(other)
