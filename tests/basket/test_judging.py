"""Any number of images, judged in order, each network through its own view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from foible import Basket, Preprocess, UserError, View
from foible.basket.judging import judged
from foible.basket.matching import match
from foible.data import Dataset, Photographs, open_data, read
from foible.networks.classes import shared_classes

CLASSES = ("a", "b", "c")


class Means(nn.Module):
    """Mean brightness of the image, and its size: what it was shown can be told from what it says."""

    def forward(self, images: Tensor) -> Tensor:
        sides = images.new_tensor(images.shape[2:]).expand(len(images), -1)
        return torch.cat([images.mean((1, 2, 3))[:, None], sides], 1)


@pytest.fixture
def photographs(tmp_path: Path) -> Photographs:
    random = np.random.default_rng(0)
    for number in range(23):
        home = tmp_path / "abc"[number % 3]
        home.mkdir(exist_ok=True)
        shape = (*random.integers(20, 50, 2), 3)
        Image.fromarray(random.integers(0, 256, shape, np.uint8)).save(home / f"{number:02}.png")
    (tmp_path / "b" / "bad.png").write_bytes(b"no picture")
    data = open_data(f"folder:{tmp_path}", quiet=True)
    assert isinstance(data, Photographs)
    return data


def two() -> Basket:
    return Basket(
        {"small": Means(), "large": Means(), "any": Means()},
        classes=CLASSES,
        preprocess={
            "small": Preprocess(size=(8, 10)), "large": Preprocess(size=(16, 16), resize=20), "any": "inside",
        },
    )  # fmt: skip


@pytest.mark.parametrize(("batch", "workers"), [(1, 1), (4, 3), (64, 2)])
def test_every_network_sees_its_own_view_in_order(photographs: Photographs, batch: int, workers: int) -> None:
    basket = two()
    index = torch.tensor([20, 3, 3, 0, 7, 11, 19])
    parts = list(
        judged(basket, photographs, index=index, canvas=basket.canvas, keep=True, batch=batch, workers=workers)
    )
    assert torch.cat([part.index for part in parts]).tolist() == index.tolist()
    logits = torch.cat([part.logits for part in parts], 1)
    for row, name in enumerate(basket.names):
        view = basket.views[name] or basket.canvas
        assert view is not None
        pixels = read(photographs, index, [view]).images[0].float() / 255
        assert torch.allclose(logits[row, :, 0], pixels.mean((1, 2, 3)), atol=1e-6)
        assert logits[row, 0, 1:].tolist() == list(view.size)
    kept = torch.cat([part.canvas for part in parts if part.canvas is not None])
    assert torch.equal(kept, read(photographs, index, [View((16, 16), 20)]).images[0])


def test_on_the_canvas_all_see_the_same_pixels(photographs: Photographs) -> None:
    basket = two()
    canvas = View((24, 32))
    [part] = judged(basket, photographs, index=torch.arange(5), canvas=canvas, native=False)
    assert part.logits[0, 0, 1:].tolist() == [8, 10]
    assert part.logits[1, 0, 1:].tolist() == [16, 16]
    assert part.logits[2, 0, 1:].tolist() == [24, 32]
    assert torch.allclose(part.logits[0, :, 0], part.logits[2, :, 0], atol=0.05)


def test_what_cannot_be_read_is_named_and_the_rest_go_on(photographs: Photographs) -> None:
    basket = two()
    parts = list(judged(basket, photographs, canvas=basket.canvas, batch=5))
    problems = [photographs.files[place] for part in parts for place, _ in part.problems]
    assert problems == ["b/bad.png"]
    assert sum(len(part.index) for part in parts) == 23


def test_an_iterator_can_be_left(photographs: Photographs) -> None:
    basket = two()
    threads = torch.get_num_threads()
    walk = judged(basket, photographs, canvas=basket.canvas, batch=2)
    next(walk)
    walk.close()  # type: ignore[attr-defined]
    assert torch.get_num_threads() == threads


def test_an_error_of_a_network_reaches_the_caller(photographs: Photographs) -> None:
    basket = Basket({"wrong": nn.Flatten()}, classes=CLASSES, preprocess=Preprocess(size=(4, 4)))
    with pytest.raises(UserError, match="gives 48 numbers an image, its list has 3 classes"):
        list(judged(basket, photographs, canvas=basket.canvas))


def test_a_canvas_is_the_largest_input_or_what_was_asked_for(photographs: Photographs) -> None:
    basket = two()
    assert match(photographs, basket).canvas == View((16, 16), 20)
    assert match(photographs, basket, canvas="32x24").size == (24, 32)
    plain = Dataset("d", "test", torch.zeros(3, 3, 16, 16, dtype=torch.uint8), torch.arange(3), CLASSES)
    assert match(plain, basket).canvas is None
    with pytest.raises(UserError, match="give --canvas"):
        match(photographs, basket.only(["any"]))


def test_part_of_a_basket_shares_its_networks() -> None:
    basket = two()
    part = basket.only(["large", "small"])
    assert part.names == ("large", "small")
    assert part.peers("large") == ["small"]
    assert part.network("small") is basket.network("small")
    assert list(part.fingerprints) == ["large", "small"]
    assert basket.names == ("small", "large", "any")
    with pytest.raises(UserError, match="no network 'smal' in the basket; did you mean 'small'"):
        basket.only(["smal"])


def test_lists_meet_by_name() -> None:
    classes, columns, notes = shared_classes({"A": ("cat", "dog", "cow"), "B": ("dog", "Cat", "eel")})
    assert classes == ("cat", "dog")
    assert columns == {"A": [0, 1], "B": [1, 0]}
    assert [("cow" in note, "eel" in note) for note in notes] == [(True, False), (False, True)]
    with pytest.raises(UserError, match="the networks share 1 classes"):
        shared_classes({"A": ("cat", "dog"), "B": ("cat", "eel")})
