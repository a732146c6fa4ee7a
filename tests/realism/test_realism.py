"""Realism: what is typical scores about 0, and what no camera made scores far below, whichever way it is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from foible import UserError, hunt, train
from foible.basket import Basket
from foible.data import load
from foible.images import to_bytes, to_floats
from foible.realism import Realism, fit, separation
from foible.spaces import Affine, Swaps


def fitted(images: Tensor, spec: str = "patches", **options: object) -> Realism:
    made = fit(spec, images, **options)  # type: ignore[arg-type]
    assert made is not None
    return made


@pytest.fixture(scope="module")
def digits() -> tuple[Realism, Tensor]:
    """Fitted to one part of the digits; another part, in [0, 1]."""
    return fitted(load("digits", "train").images), to_floats(load("digits", "test").images)


def swapped(images: Tensor, count: int) -> Tensor:
    """`count` pairs of pixels exchanged."""
    draw = torch.Generator().manual_seed(0)
    flat, rows = images.flatten(2).clone(), torch.arange(len(images))
    for _ in range(count):
        one, other = torch.randint(flat.shape[2], (2, len(images)), generator=draw)
        flat[rows, :, one], flat[rows, :, other] = flat[rows, :, other], flat[rows, :, one]
    return flat.view_as(images)


def test_clean_images_are_typical(digits: tuple[Realism, Tensor]) -> None:
    model, clean = digits
    score = model.score(clean)
    assert score.shape == (len(clean),)
    assert abs(float(score.mean())) < 0.5
    assert 0.5 < float(score.std()) < 2


def test_too_smooth_is_as_wrong_as_too_rough(digits: tuple[Realism, Tensor]) -> None:
    model, clean = digits
    blurred = torch.nn.functional.avg_pool2d(clean, 5, 1, 2)
    noisy = (clean + 0.1 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    typical = float(model.score(clean).median())
    assert float(model.score(torch.zeros_like(clean[:1]))) < -5
    assert float(model.score(blurred).median()) < typical - 2
    assert float(model.score(noisy).median()) < -5


def test_small_warps_and_dimmer_light_are_ordinary(digits: tuple[Realism, Tensor]) -> None:
    model, clean = digits
    space = Affine()
    points = space.start(clean)
    draw = torch.Generator().manual_seed(0)
    for _ in range(6):
        points = space.move(points, torch.rand(len(clean), space.draws, generator=draw))
    assert float(model.score(space.render(points)).median()) > -2
    assert float(model.score(clean * 0.8).median()) > -2
    assert float(model.score(swapped(clean, 10)).median()) < -20


def test_colour_images_of_any_size() -> None:
    draw = torch.Generator().manual_seed(0)
    rough = torch.randint(0, 256, (120, 3, 6, 5), generator=draw).float()
    smooth = torch.nn.functional.interpolate(rough, (48, 40), mode="bicubic").clamp(0, 255).to(torch.uint8)
    model, rest = fitted(smooth[:100]), to_floats(smooth[100:])
    assert float(model.score(rest).median()) > -3
    assert separation(model.score(rest), model.score(swapped(rest, 40))).auc > 0.9
    with pytest.raises(UserError, match=r"fitted to images of \(3, 48, 40\)"):
        model.score(rest[:, :1])


def test_a_wedge_that_was_not_there_counts_against_a_photograph(digits: tuple[Realism, Tensor]) -> None:
    """Turned by ten degrees: new black corners cost, a mirrored border or a frame that was there does not; nor do black
    corners of digits, whose border is black anyway."""
    photos = torch.randint(1, 256, (60, 3, 48, 48), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    turn = torch.tensor([[1.0, 0.5, 0.5, 0.5, 0.5, 0.5]])

    def cost(model: Realism, images: Tensor, border: str) -> Tensor:
        space = Affine(degrees=10, border=border)
        turned = to_floats(to_bytes(space.render(space.move(space.start(images), turn.expand(len(images), -1)))))
        return model.score(turned) - model.score(turned, images)

    model, rest = fitted(photos[:50]), to_floats(photos[50:])
    assert float(cost(model, rest, "black").min()) > 5
    assert float(cost(model, rest, "reflect").abs().max()) == 0
    framed = rest.clone()
    framed[..., :12], framed[..., 36:], framed[..., :12, :], framed[..., 36:, :] = 0, 0, 0, 0
    assert float(cost(model, framed, "black").abs().max()) == 0
    assert float(cost(*digits, "black").abs().max()) == 0


def test_the_same_images_give_the_same_bits(digits: tuple[Realism, Tensor]) -> None:
    model, clean = digits
    again = fitted(load("digits", "train").images)
    assert torch.equal(model.score(clean), again.score(clean))
    in_parts = torch.cat([model.score(clean[:7]), model.score(clean[7:7]), model.score(clean[7:])])
    assert torch.allclose(in_parts, model.score(clean), atol=1e-3)
    other = fitted(load("digits", "train").images, seed=1)
    assert not torch.equal(other.score(clean), model.score(clean))


def test_an_image_that_is_not_a_number_has_no_score(digits: tuple[Realism, Tensor]) -> None:
    model, clean = digits
    images = clean[:2].clone()
    images[1] = torch.nan
    assert model.score(images).isnan().tolist() == [False, True]


def test_nothing_to_go_by() -> None:
    images = load("digits", "train").images
    assert fit("none", images) is None
    assert fit("patches", images[:7]) is None
    assert float(fitted(images[:1].repeat(20, 1, 1, 1)).score(to_floats(images[1:2]))) < -5  # all clean ones the same
    for wrong in ("patch", "network:", "network", ""):
        with pytest.raises(UserError, match="expected patches, network:SPEC or none"):
            fit(wrong, images)


def test_a_held_out_network(tmp_path: Path) -> None:
    train(["mlp:8", "mlp:12"], "digits", out=tmp_path / "basket", epochs=3, quiet=True)
    images, clean = load("digits", "train").images, to_floats(load("digits", "test").images)
    spec = f"network:{tmp_path / 'basket' / 'mlp-8'}"
    model = fitted(images, spec, basket=Basket.open([str(tmp_path / "basket" / "mlp-12")]))
    assert abs(float(model.score(clean).mean())) < 0.5
    assert float(model.score(1 - clean).median()) < -2
    with pytest.raises(UserError, match="is 'mlp-8' of the basket"):
        fit(spec, images, basket=Basket.open(tmp_path / "basket"))


def study(name: str, folder: Path, **training: int) -> tuple[Tensor, Tensor]:
    """Realism of what a hunt finds by small warps, and by exchanging pixels: high-value and low-value mistakes."""
    whole = load(name, "train", quiet=True)
    data = replace(whole, images=whole.images[:4000], labels=whole.labels[:4000])
    train(["mlp:10", "mlp:15", "mlp:20"], data, out=folder / "basket", quiet=True, **training)
    model = fitted(data.images[::4])
    scores = []
    for space in (Affine(), Swaps()):
        how = {"space": space, "peer_confidence": 0, "shrink": False, "realism": "none"}
        found = hunt(folder / "basket", data, suspect="mlp-10", trials=40, quiet=True, **how)
        images = torch.stack(found.filter(outcome="found").images())
        scores.append(model.score(to_floats(images)))
    return scores[0], scores[1]


def test_it_tells_high_value_from_low_value_mistakes_on_digits(tmp_path: Path) -> None:
    warped, exchanged = study("digits", tmp_path, epochs=10)
    told = separation(warped, exchanged)
    assert min(told.n) >= 10
    assert told.low >= 0.9, told
    assert warped.median() > -3


def test_it_tells_high_value_from_low_value_mistakes_on_mnist(tmp_path: Path, real_data: Path) -> None:
    if not (real_data / "mnist").exists():
        pytest.skip("no MNIST at hand")
    warped, exchanged = study("mnist", tmp_path, epochs=3)
    told = separation(warped, exchanged)
    assert min(told.n) >= 10
    assert told.auc >= 0.9, told
    assert warped.median() > -3


def test_bytes_and_floats_are_the_same_images() -> None:
    images = load("digits", "train").images[:200]
    rest = load("digits", "test").images[:20]
    assert torch.equal(fitted(images).score(to_floats(rest)), fitted(to_floats(images)).score(to_floats(rest)))
    assert torch.equal(to_bytes(to_floats(rest)), rest)
