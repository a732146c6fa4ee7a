"""Distributions in place of labels: of a file, smoothed, or of a teacher; through the one loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.networks.losses import cross_entropy
from foible.networks.zoo.grouped import _cross_entropy
from foible.recipes.train.config import TrainConfig
from foible.recipes.train.soft import distributions
from foible.recipes.train.train import train

CLASSES = ("a", "b", "c")


def pictures(n: int, split: str) -> Dataset:
    generator = torch.Generator().manual_seed(n)
    images = torch.randint(0, 60, (n, 1, 12, 12), generator=generator, dtype=torch.uint8)
    labels = torch.arange(n) % 3
    for label in range(3):
        images[labels == label, :, 4 * label : 4 * label + 4] += 60
    return Dataset("pictures", split, images, labels, CLASSES)


DATA, TEST = pictures(96, "train"), pictures(60, "test")
KWARGS: dict[str, Any] = {"test": TEST, "epochs": 3, "batch": 16, "rate": 0.01, "quiet": True}
SURE = F.one_hot(DATA.labels, 3).numpy()


def states(entries: list[Any]) -> list[dict[str, Tensor]]:
    return [entry.module.state_dict() for entry in entries]


@pytest.mark.parametrize("spec", ["mlp:6", "conv"])  # the gradient that is written out, and autograd's
@pytest.mark.parametrize("counts", [1, 7])
def test_a_file_of_certainties_is_the_labels(spec: str, counts: int, tmp_path: Path) -> None:
    np.save(tmp_path / "soft.npy", SURE * counts if counts > 1 else SURE.astype(np.float32))
    plain = train(spec, DATA, seeds=2, **KWARGS)
    soft = train(spec, DATA, seeds=2, soft=tmp_path / "soft.npy", **KWARGS)
    for one, other in zip(states(plain), states(soft), strict=True):
        assert all(torch.allclose(one[name], other[name], rtol=0, atol=1e-6) for name in one)
    assert [entry.accuracy for entry in plain] == [entry.accuracy for entry in soft]
    assert soft[0].training["soft"] == "soft.npy"
    assert "soft" not in plain[0].training


def test_what_is_learnt_is_the_distribution(tmp_path: Path) -> None:
    """All images alike and half of the people of two minds: a network can do no better than say so."""
    same = Dataset("same", "train", DATA.images[:1].expand(96, -1, -1, -1).clone(), DATA.labels, CLASSES)
    np.save(tmp_path / "soft.npy", np.tile([0.5, 0.3, 0.2], (96, 1)))
    [entry] = train("softmax", same, test=TEST, soft=tmp_path / "soft.npy", epochs=60, rate=0.05, quiet=True)
    said = entry.module(entry.preprocess(same.floats()[:1])).softmax(1)[0]
    assert said.tolist() == pytest.approx([0.5, 0.3, 0.2], abs=0.01)


def test_losses_of_distributions_are_their_definition() -> None:
    drawn = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5, 3, generator=drawn, dtype=torch.float64, requires_grad=True)
    soft = torch.rand(2, 5, 3, generator=drawn, dtype=torch.float64)
    soft = soft / soft.sum(2, keepdim=True)
    wanted = -(soft * logits.log_softmax(2)).sum(2).mean(1)
    assert torch.allclose(cross_entropy(logits, logits, soft), wanted)
    losses, slope = _cross_entropy(logits.detach(), soft)
    assert torch.allclose(losses, wanted)
    assert torch.allclose(slope, torch.autograd.grad(wanted.sum(), logits)[0])


def test_smoothing_spreads_a_share_of_the_label() -> None:
    found = distributions(TrainConfig(("mlp:3",), smooth=0.3), DATA, torch.device("cpu"))
    assert found is not None
    assert found[1].tolist() == pytest.approx([0.1, 0.8, 0.1])
    [entry] = train("mlp:6", DATA, smooth=0.3, **KWARGS)
    assert entry.training["smooth"] == 0.3


def test_a_teacher_is_taken_by_class_name_at_its_temperature(tmp_path: Path) -> None:
    turned = Dataset("turned", "train", DATA.images, (DATA.labels + 1) % 3, ("c", "a", "b"))
    train("mlp:6", turned, seeds=2, **KWARGS, out=tmp_path / "teacher")
    config = TrainConfig(("softmax",), teacher=str(tmp_path / "teacher"), temperature=2.0)
    found = distributions(config, DATA, torch.device("cpu"))
    assert found is not None
    logits = Basket.open(tmp_path / "teacher").predict(DATA.images)[:, :, [1, 2, 0]]
    assert torch.allclose(found, (logits / 2).softmax(2).mean(0), atol=1e-6)
    assert float((found.argmax(1) == DATA.labels).float().mean()) > 0.8
    [student] = train("softmax", DATA, teacher=tmp_path / "teacher", out=tmp_path / "student", **KWARGS)
    assert student.training["temperature"] == 1
    train("mlp:6", turned, seeds=[5], **KWARGS, out=tmp_path / "other")
    (tmp_path / "teacher").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "teacher")
    with pytest.raises(UserError, match="teacher_sha256"):  # another teacher in the same place
        train("softmax", DATA, teacher=tmp_path / "teacher", out=tmp_path / "student", **KWARGS)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"soft": "a.npy", "smooth": 0.1}, "--soft and --smooth each say"),
        ({"smooth": 1.0}, "smooth is 1.0"),
        ({"temperature": 2.0}, "give --teacher too"),
        ({"teacher": "x", "temperature": 0.0}, "temperature is 0.0"),
        ({"soft": "nowhere.npy"}, "cannot read --soft nowhere.npy"),
        ({"teacher": "nowhere"}, "nowhere"),
    ],
)
def test_wrong_settings_are_answered_before_training(kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        train("mlp:5", DATA, **KWARGS, **kwargs)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (SURE[:5], "expected \\(96, 3\\)"),
        (np.where(np.arange(96)[:, None] == 4, -1, SURE), "row 4: a number is below 0"),
        (np.where(np.arange(96)[:, None] == 7, np.nan, SURE), "row 7"),
        (np.where(np.arange(96)[:, None] == 9, 0, SURE), "row 9: sums to 0"),
        (np.where(np.arange(96)[:, None] == 2, 0.3, SURE), "row 2: sums to 0.9"),
        (SURE.astype(bool), "holds bool"),
    ],
)
def test_wrong_files_are_answered(rows: Any, says: str, tmp_path: Path) -> None:
    np.save(tmp_path / "soft.npy", rows)
    with pytest.raises(UserError, match=says):
        train("mlp:5", DATA, soft=tmp_path / "soft.npy", out=tmp_path / "basket", **KWARGS)
    assert not (tmp_path / "basket").exists(), "refused before anything is made"
