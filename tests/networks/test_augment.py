"""Augmentation: what it does to pixels, against known answers; and that its draws belong to (seed, step, place)."""

from __future__ import annotations

import colorsys
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from foible.data import Dataset
from foible.errors import Interrupted, UserError
from foible.networks.augment import DRAWS, Crops, Paper, augmentation, draws_for
from foible.networks.files import read_record
from foible.networks.progress_file import Checkpoint
from foible.recipes.train.train import train

MIDDLE = 0.5  # the draw that changes nothing, but for the area (0 is the smallest crop, 1 the whole image)


def middle(n: int = 1, **places: float) -> torch.Tensor:
    """Draws that leave an image as it is, but for those named d0 … d9."""
    draws = torch.full((n, DRAWS), MIDDLE)
    draws[:, 0] = 1.0
    for name, value in places.items():
        draws[:, int(name[1:])] = value
    return draws


def test_the_whole_image_is_left_alone() -> None:
    images = torch.rand(5, 3, 12, 16)
    assert torch.allclose(Crops()(images, middle(5)), images, atol=1e-5)
    assert torch.allclose(Paper()(images, middle(5)), images, atol=1e-5)


def test_a_crop_of_a_quarter_is_that_quarter_enlarged() -> None:
    ramp = torch.linspace(0, 1, 33).expand(1, 1, 33, 33)
    cut = Crops(area=25)(ramp, middle(d0=0.0, d2=1.0))  # the smallest crop, as far right as it goes
    assert torch.allclose(cut[0, 0, 16], torch.linspace(0.5, 1, 33), atol=1e-5)
    left = Crops(area=25)(ramp, middle(d0=0.0, d2=0.0))
    assert torch.allclose(left[0, 0, 16], torch.linspace(0, 0.5, 33), atol=1e-5)


def test_flips_and_rotations() -> None:
    images = torch.rand(1, 3, 9, 9)
    assert torch.allclose(Crops(flip=True)(images, middle(d5=0.1)), images.flip(3), atol=1e-5)
    assert torch.allclose(Crops(flip=True)(images, middle(d5=0.9)), images, atol=1e-5)
    turned = Crops(degrees=90)(images, middle(d4=1.0))
    assert torch.allclose(turned, images.rot90(1, (2, 3)), atol=1e-4)
    assert torch.allclose(Crops()(images, middle(d4=1.0)), images, atol=1e-5)


def test_areas_and_aspects_are_those_asked_for_and_no_crop_leaves_the_image() -> None:
    draws = torch.rand(4000, DRAWS)
    matrix = Crops().matrix(draws, 32, 32)
    wide, high = matrix[:, 0, 0], matrix[:, 1, 1]
    area = wide * high
    assert 0.08 <= area.min() < 0.1
    assert area.max() > 0.95
    assert (wide / high).max() <= 4 / 3 + 1e-5
    assert (wide / high).min() >= 3 / 4 - 1e-5
    corner = 15.5
    for middle_of, half in ((matrix[:, 0, 2], wide), (matrix[:, 1, 2], high)):
        assert (middle_of.abs() + half * corner).max() <= corner + 1e-4


def test_colours_against_hand_values() -> None:
    images = torch.rand(1, 3, 6, 6) * 0.4 + 0.3
    luma = (images * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
    how = Paper(brightness=20, contrast=50, saturation=100, hue=180)
    assert torch.allclose(how.coloured(images, middle(d6=1.0)), images * 1.2, atol=1e-5)
    mean = luma.mean()
    assert torch.allclose(how.coloured(images, middle(d7=0.0)), mean + 0.5 * (images - mean), atol=1e-5)
    assert torch.allclose(how.coloured(images, middle(d8=0.0)), luma.expand_as(images), atol=1e-4)
    opposite = how.coloured(images, middle(d9=1.0))  # hue by 180°: chroma changes its sign
    assert torch.allclose(opposite, (2 * luma - images).clamp(0, 1), atol=1e-3)
    bright = how.coloured(torch.ones(1, 3, 2, 2), middle(d6=1.0))
    assert bright.max() == 1.0


def test_hue_turns_as_colorsys_does() -> None:
    """YIQ's own plane of chroma, so a colour's angle there moves by the degrees asked for."""
    image = torch.tensor([0.6, 0.4, 0.35]).view(1, 3, 1, 1)
    turned = Paper(hue=30).coloured(image, middle(d9=1.0)).flatten().tolist()
    angles = [
        torch.atan2(torch.tensor(q), torch.tensor(i)) for _, i, q in map(_yiq, (image.flatten().tolist(), turned))
    ]
    assert (angles[1] - angles[0]).rad2deg().item() == pytest.approx(30, abs=1.0)
    assert _yiq(turned)[0] == pytest.approx(_yiq(image.flatten().tolist())[0], abs=1e-2)


def _yiq(rgb: list[float]) -> tuple[float, float, float]:
    return colorsys.rgb_to_yiq(*rgb)


def test_grey_images_have_no_colour_to_change() -> None:
    grey = torch.rand(2, 1, 8, 8)
    assert torch.allclose(Paper().coloured(grey, middle(2, d8=0.0, d9=1.0)), grey, atol=1e-6)


def test_draws_belong_to_seed_step_and_place() -> None:
    both = draws_for(torch.tensor([3, 8]), 5, 16)
    assert both.shape == (2, 16, DRAWS)
    assert torch.equal(draws_for(torch.tensor([8]), 5, 16)[0], both[1])
    assert torch.equal(draws_for(torch.tensor([3]), 5, 4)[0], both[0, :4])
    assert not torch.equal(draws_for(torch.tensor([3]), 6, 16)[0], both[0])
    assert not torch.equal(both[0], both[1])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("papers", "did you mean 'paper'"),
        ("paper?flipped=true", "did you mean 'flip'"),
        ("crops?hue=3", "no option 'hue'"),
        ("crops?area=0", "area of an augmentation is 0"),
        ("paper:x", "unknown augmentation"),
        ("own.py:Thing", "unknown augmentation"),
    ],
)
def test_wrong_augmentations_are_answered(spec: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        train("mlp:3", "digits", augment=spec)
    assert augmentation("none") is None


def blobs(n: int, seed: int) -> Dataset:
    """Two classes: a bright square anywhere in the upper or in the lower half of a 16×16 colour image."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 60, (n, 3, 16, 16), generator=generator, dtype=torch.uint8)
    labels = torch.arange(n) % 2
    for row in range(n):
        left = int(torch.randint(0, 11, (1,), generator=generator))
        images[row, :, 2 + 8 * int(labels[row]) :, left : left + 5][:, :5] = 220
    return Dataset("blobs", "train", images, labels, ("up", "down"))


def test_augmented_training_is_the_same_alone_and_in_a_fleet_and_is_recorded(tmp_path: Path) -> None:
    data = blobs(64, 0)
    options = {"augment": "paper?area=60&degrees=5", "epochs": 2, "batch": 16, "device": "cpu", "quiet": True}
    together = train("mlp:4", data, seeds=3, **options)
    [alone] = train("mlp:4", data, seeds=[2], **options)
    for name, weight in together[2].module.state_dict().items():
        assert torch.allclose(weight, alone.module.state_dict()[name], atol=1e-6)
    [plain] = train("mlp:4", data, seeds=[2], **{**options, "augment": "none"})
    assert not torch.allclose(plain.module[1].weight, alone.module[1].weight, atol=1e-4)
    kept = train("mlp:4", data, seeds=[2], out=tmp_path / "basket", **options)
    assert torch.equal(kept[0].module[1].weight, alone.module[1].weight)
    record = read_record(tmp_path / "basket")
    assert record["config"]["augment"] == options["augment"]
    assert (
        record["networks"][0]["training"]["augment"] | {"area": 60.0, "hue": 18.0}
        == (record["networks"][0]["training"]["augment"])
    )
    json.dumps(record)
    with pytest.raises(UserError, match="augment was"):
        train("mlp:4", data, seeds=[2], out=tmp_path / "basket", **{**options, "augment": "crops"})


@pytest.mark.parametrize("spec", ["mlp:4", "inception:modules=3,width=4"])
def test_a_stopped_training_goes_on_to_the_same_bits(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after its third checkpoint, in the second epoch; auxiliary heads and dropout included."""
    options: dict[str, Any] = {"augment": "paper?area=60", "epochs": 2, "batch": 16, "device": "cpu", "quiet": True}
    [whole] = train(spec, blobs(32, 0), **options)
    with monkeypatch.context() as patch:
        write, left = Checkpoint.write, 3

        def stopping(self: Checkpoint, tensors: Any, record: Any) -> None:
            nonlocal left
            write(self, tensors, record)
            left -= 1
            if not left:
                raise KeyboardInterrupt

        patch.setattr(Checkpoint, "write", stopping)
        with pytest.raises(Interrupted):
            train(spec, blobs(32, 0), out=tmp_path / "b", checkpoint_seconds=0, **options)
    [again] = train(spec, blobs(32, 0), out=tmp_path / "b", **options)
    for name, value in whole.module.state_dict().items():
        assert torch.equal(value, again.module.state_dict()[name]), name


def test_augmented_training_still_learns() -> None:
    data = blobs(256, 1)
    [entry] = train(
        "conv", data, test=blobs(128, 2), augment="paper?area=60", epochs=6, batch=32, device="cpu", quiet=True
    )
    assert entry.accuracy["test"] > 0.9


def test_probes_take_no_augmentation() -> None:
    with pytest.raises(UserError, match="--augment is for networks of the zoo"):
        train("probe:basket", "digits", augment="crops")
