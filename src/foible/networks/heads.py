"""Heads on frozen features: what a probe learns, and how.

A linear head is multinomial logistic regression with a little weight decay, fitted by L-BFGS on all images at once.
That has one answer, so seeds must differ in what they are given: seed 0 gets all images and all features, every other
seed as many images drawn from each class with replacement, and a random half of the features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.networks.lbfgs import converge
from foible.networks.loop import Place, Schedule, descent, enough, loop
from foible.randomness import uniforms, words

LEAST_FEATURES = 16  # a random half is not less than this
DECAY = {"lbfgs": 1e-3, "adamw": 1e-2}  # of features that are standardised
ITERATIONS = 200  # of L-BFGS, at most
EPOCHS, LEAST_STEPS, BATCH, RATE = 20, 1500, 128, 1e-3  # of a hidden layer


class Head(nn.Module):
    """What a probe learns: features are standardised, `(features - mean) * scale`, and classified.

    A feature of scale 0 is not seen: it is constant, or it was not given to this probe.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int, classes: int, hidden: int = 0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.input = nn.Linear(features, hidden or classes)
        self.output = nn.Linear(hidden, classes) if hidden else None

    def forward(self, features: Tensor) -> Tensor:
        """(n, features) to logits (n, classes). The weights are scaled in place of the features, which are more."""
        weight = self.input.weight * self.scale
        outputs = F.linear(features, weight, self.input.bias - weight @ self.mean)
        return outputs if self.output is None else self.output(F.relu(outputs))


@dataclass(frozen=True, eq=False)
class Features:
    """One split as a backbone sees it. values: (n, d) float32; labels: (n,) int64."""

    values: Tensor
    labels: Tensor


def fit(
    seen: Features, classes: int, hidden: int = 0, seed: int = 0, *, epochs: int | None = None,
    batch: int | None = None, rate: float | None = None, weight_decay: float = 0.0,
) -> tuple[Head, dict[str, Any]]:  # fmt: skip
    """One head, in eval mode on the device of the features, and the record of its training."""
    rows, columns = drawn(seen, hidden, seed)
    mean, scale = _standardise(seen.values)
    with torch.random.fork_rng(devices=[]):
        digest = hashlib.sha256(f"probe:{hidden}\n{len(columns)}\n{seed}".encode()).digest()
        torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        head = Head(seen.values.shape[1], classes, hidden)
    head.to(seen.values.device)
    head.mean.copy_(mean)
    head.scale.copy_(torch.where(columns.to(mean.device), scale, 0))
    if hidden:
        kind, record = "adamw", _descend(head, seen, rows, seed, epochs, batch, rate, weight_decay or DECAY["adamw"])
    else:
        kind, record = "lbfgs", _regress(head, seen, rows, epochs or ITERATIONS, weight_decay or DECAY["lbfgs"])
    return head.eval().requires_grad_(False), {
        "optimiser": kind,
        "weight_decay": weight_decay or DECAY[kind],
        "drawn": "bootstrap" if seed else "all",
        "features": len(columns),
        "features_given": int(columns.sum()),
        **record,
    }


def drawn(seen: Features, hidden: int, seed: int) -> tuple[Tensor, Tensor]:
    """What a seed learns from: positions of images (n,), repeats among them, and which features (d,) it is given."""
    n, d = seen.values.shape
    if seed == 0:
        return torch.arange(n), torch.ones(d, dtype=torch.bool)
    lane = torch.tensor([seed])
    order = seen.labels.cpu().argsort(stable=True)  # drawn within each class: none is lost, however rare
    labels = seen.labels.cpu()[order]
    counts = labels.bincount()
    chance = uniforms(0, lane, stream=f"probe.images {hidden}", count=n)[0].double()
    rows = order[(counts.cumsum(0) - counts)[labels] + (chance * counts[labels]).long()]
    ranks = words(0, lane, stream=f"probe.features {hidden}", count=d)[0].argsort(stable=True)
    columns = torch.zeros(d, dtype=torch.bool)
    columns[ranks[: max(LEAST_FEATURES, (d + 1) // 2)]] = True
    return rows, columns


def _standardise(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation of each feature; 0 for one that does not vary."""
    total = torch.zeros(values.shape[1], dtype=torch.float64, device=values.device)
    for part in values.split(8192):
        total += part.double().sum(0)
    mean, squares = total / len(values), torch.zeros_like(total)
    for part in values.split(8192):
        squares += (part.double() - mean).square().sum(0)
    std = (squares / len(values)).sqrt()
    return mean.float(), torch.where(std > 1e-6 * (1 + mean.abs()), 1 / std, 0).float()


def _regress(head: Head, seen: Features, rows: Tensor, iterations: int, decay: float) -> dict[str, Any]:
    """Multinomial logistic regression: cross-entropy of all images plus decay / 2 · |weights|², by L-BFGS."""
    counts = rows.bincount(minlength=len(seen.labels)).to(seen.values.device, torch.float32)
    with torch.no_grad():
        for weight in head.parameters():
            weight.zero_()

    def parts() -> Iterator[Tensor]:
        yield decay / 2 * head.input.weight.square().sum()
        for values, labels, count in zip(*(t.split(16384) for t in (seen.values, seen.labels, counts)), strict=True):
            yield (F.cross_entropy(head(values), labels, reduction="none") * count).sum() / len(rows)

    weights = list(head.parameters())
    steps = converge(weights, parts, iterations, chunk=iterations, evaluations=2, tolerance=1e-5)
    with torch.no_grad():
        loss = float(sum(parts()))
    return {
        "epochs": steps,
        "steps": steps,
        "stopped_because": "epochs" if steps >= iterations else "converged",
        "history": [round(loss, 6)],
    }


def _descend(
    head: Head, seen: Features, rows: Tensor, seed: int, epochs: int | None, batch: int | None, rate: float | None,
    decay: float,
) -> dict[str, Any]:  # fmt: skip
    """Minibatches by AdamW of the images at `rows`, each epoch in an order of its own."""
    device, batch = seen.values.device, min(batch or BATCH, len(rows))
    epochs = epochs or enough(EPOCHS, LEAST_STEPS, len(rows), batch)
    schedule = Schedule(len(rows), batch, epochs, rate or RATE, stream="probe.order")
    given, history = rows.to(device), list[float]()

    def loss(places: Tensor) -> Tensor:
        index = given.index_select(0, places)
        return F.cross_entropy(head(seen.values.index_select(0, index)), seen.labels.index_select(0, index))

    def after(sums: Tensor | None) -> None:
        if sums is not None:
            history.append(round(float(sums) / schedule.per_epoch, 6))

    optimiser = torch.optim.AdamW(head.parameters(), weight_decay=decay)
    loop(schedule, Place.start([seed], device), descent(optimiser, loss), after)
    record = {"epochs": epochs, "steps": schedule.steps, "stopped_because": "epochs", "history": history}
    return record | {"batch": batch, "rate": schedule.rate}


@torch.no_grad()
def accuracy(head: Head, seen: Features) -> float:
    """The share of images that the head gets right."""
    parts = zip(seen.values.split(16384), seen.labels.split(16384), strict=True)
    return sum(int((head(values).argmax(1) == labels).sum()) for values, labels in parts) / len(seen.labels)
