"""Distributions that are learnt in place of labels: people's, smoothed labels, or what a teacher says.

One of them at a time. All become (n, classes) for the training images, rows that sum to one in the order of the data's
classes, and go through the one training loop; accuracy is still counted by labels.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError

if TYPE_CHECKING:
    from foible.recipes.train.config import TrainConfig

NEARLY = 1e-3  # rows of a file of distributions may miss one by so much


def check_soft(soft: str | None, smooth: float | None, teacher: str | None, temperature: float | None) -> None:
    """An error where settings do not go together."""
    given = [f"--{name}" for name, value in (("soft", soft), ("smooth", smooth), ("teacher", teacher)) if value]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} each say what is learnt in place of labels: give one of them")
    if smooth is not None and not 0 <= smooth < 1:
        raise UserError(f"smooth is {smooth}: expected a share of each label from 0 to below 1, such as 0.1")
    if temperature is not None and teacher is None:
        raise UserError("a temperature is that of a teacher: give --teacher too, or leave it out")
    if temperature is not None and not (math.isfinite(temperature) and temperature > 0):
        raise UserError(f"temperature is {temperature}: expected a number above 0, such as 2")


def distributions(config: TrainConfig, data: Dataset, device: torch.device) -> Tensor | None:
    """(n, classes) on the device, or None where labels are learnt as they are."""
    classes = len(data.classes)
    if config.soft is not None:
        return torch.from_numpy(from_file(Path(config.soft), len(data), classes)).to(device)
    if config.teacher is not None:
        return _taught(config.teacher, config.temperature or 1.0, data, device)
    if config.smooth:
        truth = F.one_hot(data.labels.to(device), classes).to(torch.float32)
        return truth * (1 - config.smooth) + config.smooth / classes
    return None


def from_file(file: Path, images: int, classes: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(images, classes) float32: the distributions of a NumPy file, or its counts by their sums."""
    try:
        held = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{file} cannot be read as a NumPy array ({error}): give a .npy file for --soft") from error
    if not isinstance(held, np.ndarray) or held.shape != (images, classes):
        shape = held.shape if isinstance(held, np.ndarray) else "of no single array"
        raise UserError(
            f"{file} has shape {shape}: expected {(images, classes)}, a row for each training image and a column for "
            "each class"
        )
    if held.dtype.kind not in "iuf":
        raise UserError(f"{file} holds {held.dtype}: expected numbers, shares that sum to one or counts")
    values = held.astype(np.float64)
    wrong = ~(np.isfinite(values) & (values >= 0)).all(1)
    if wrong.any():
        raise UserError(f"{file}, row {int(wrong.argmax())}: a number is below 0, infinite or missing")
    sums = values.sum(1)
    counts = (values == np.round(values)).all()
    wrong = sums == 0 if counts else np.abs(sums - 1) > NEARLY
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(f"{file}, row {row}: sums to {sums[row]:g}; expected shares that sum to 1, or whole counts")
    return np.asarray(values / sums[:, None], np.float32)


def _taught(teacher: str, temperature: float, data: Dataset, device: torch.device) -> Tensor:
    """The mean over the teacher's networks of the softmax of their logits by the temperature."""
    basket = Basket.open(teacher, device=device.type)
    place = [basket.classes.index(name) for name in data.classes]
    said = (basket.predict(data.images)[:, :, place].double() / temperature).softmax(2).mean(0)
    return (said / said.sum(1, keepdim=True)).float().to(device)


def soft_hashes(config: TrainConfig, data: Dataset) -> dict[str, str]:
    """What the settings do not say themselves: whose numbers they are. Nothing where labels are learnt; an error where
    they do not fit the data."""
    if config.soft is not None:
        try:
            held = Path(config.soft).read_bytes()
        except OSError as error:
            raise UserError(f"cannot read --soft {config.soft}: {error.strerror or error}") from error
        from_file(Path(config.soft), len(data), len(data.classes))
        return {"soft_sha256": hashlib.sha256(held).hexdigest()}
    if config.teacher is not None:
        basket = Basket.open(config.teacher)
        if set(basket.classes) != set(data.classes):
            raise UserError(
                f"the teacher {config.teacher} knows the classes {', '.join(basket.classes[:5])}…, the data has "
                f"{', '.join(data.classes[:5])}…: give a basket that was trained on these classes"
            )
        networks = "\n".join(basket.fingerprints.values())
        return {"teacher_sha256": hashlib.sha256(networks.encode()).hexdigest()}
    return {}


def soft_told(config: TrainConfig) -> dict[str, Any]:
    """What a network's record says of it; nothing where labels are learnt as they are."""
    if config.soft is not None:
        return {"soft": Path(config.soft).name}
    if config.teacher is not None:
        return {"teacher": config.teacher, "temperature": config.temperature or 1.0}
    return {"smooth": config.smooth} if config.smooth else {}
