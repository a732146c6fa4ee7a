"""One table for everyone's attacks: AttackBench's local optimality by hand, and nobody believed."""

# ruff: noqa: ARG001, ARG005 (attacks take what they are given)

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from foible.basket import Basket
from foible.errors import UserError
from foible.search.nearest import Nearest
from foible.search.nearest.one_judge import as_text, local_optimality, under_one_judge
from foible.search.nearest.wrap import wrap

INF = math.inf


def tensors(**rows: list[float]) -> dict[str, Tensor]:
    return {name: torch.tensor(values) for name, values in rows.items()}


def test_local_optimality_by_hand() -> None:
    # Best 1 2 4, so ε₀ = 4; area of the best (1+2+4)/3, of a: the same, of b: (2+2+4)/3, of c: (1+4+4)/3; of none 4.
    found = local_optimality(tensors(a=[1, 2, 4], b=[2, 2, 9], c=[1, INF, INF], none=[INF, INF, INF]))
    assert found["a"] == pytest.approx(1)
    assert found["b"] == pytest.approx(1 - (8 - 7) / (12 - 7))
    assert found["c"] == pytest.approx(1 - (9 - 7) / (12 - 7))
    assert found["none"] == pytest.approx(0)


def test_local_optimality_is_the_area_between_the_curves() -> None:
    values = {name: torch.rand(40, generator=torch.Generator().manual_seed(k)) for k, name in enumerate("abc")}
    values["a"][:5] = 0
    values["b"][:5] = 0
    values["c"][:5] = 0  # wrong to begin with: ρ(0) is 35/40
    best = torch.stack(list(values.values())).amin(0)
    grid = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000 * float(best.max())

    def area(distances: Tensor) -> float:
        return float((len(distances) - torch.searchsorted(distances.double().sort().values, grid)).double().mean()) / 40

    found = local_optimality(values)
    for name, distances in values.items():
        expected = 1 - (area(distances) - area(best)) / (35 / 40 - area(best))
        assert found[name] == pytest.approx(expected, abs=1e-3)


def test_the_best_of_two_can_beat_both() -> None:
    found = local_optimality(tensors(a=[1, 3, 2], b=[3, 1, 2], worse=[3, 3, 2]))  # best 1 1 2, ε₀ = 2
    assert found == pytest.approx({"a": 0.5, "b": 0.5, "worse": 0})


def test_images_that_nobody_solved_count_for_nobody() -> None:
    with_them = local_optimality(tensors(a=[1, 2, INF], b=[2, 2, INF]))
    assert with_them["a"] == pytest.approx(1)
    assert with_them["b"] < 1
    assert math.isnan(local_optimality(tensors(a=[INF, INF]))["a"])
    assert math.isnan(local_optimality(tensors(a=[0, 0]))["a"])


def test_one_distance_for_all() -> None:
    assert local_optimality(tensors(a=[2, 2], b=[2, 3])) == {"a": 1.0, "b": 0.0}


def threshold(at: float) -> Any:
    """One pixel: class 1 below `at`, class 0 above."""
    return lambda x: torch.stack([x.flatten(1)[:, 0] - at, at - x.flatten(1)[:, 0]], 1)


def three() -> Basket:
    networks = {"A": threshold(0.5), "B": threshold(0.4), "C": threshold(0.1)}
    return Basket(networks, classes=["0", "1"], preprocess="inside", shape=(1, 1, 1))


def test_the_table_by_hand() -> None:
    images, labels = torch.tensor([0.6, 0.7, 0.8, 0.9]).view(4, 1, 1, 1), torch.zeros(4, dtype=torch.int64)

    def to(value: float) -> Any:
        return wrap(lambda model, x, y: (model(x), torch.full_like(x, value))[1])

    def liar(model: Any, images: Tensor, labels: Tensor, **_: Any) -> Nearest:
        yes, cost = torch.ones(4, dtype=torch.bool), torch.zeros(4, dtype=torch.int64)
        return Nearest(images - torch.tensor([0.0, 0.0, 0.2, 5.0]).view(4, 1, 1, 1), yes, ~yes, cost, cost)

    near, far, lies = under_one_judge({"near": to(0.45), "far": to(0.2), "lies": liar}, three(), "A", images, labels)
    assert (near.success, far.success, lies.success) == (1, 1, 0)
    assert near.mean["l2"] == pytest.approx(0.3)
    assert near.mean["rms"] == near.mean["linf"] == near.mean["l2"]  # one pixel
    assert near.median["l2"] == pytest.approx(0.3)
    assert near.distances.tolist() == pytest.approx([0.15, 0.25, 0.35, 0.45])
    assert near.fools == {"B": 0, "C": 0}
    assert far.fools == {"B": 1, "C": 0}
    assert (near.forwards, near.backwards) == (1, 0)
    assert near.optimality == pytest.approx(1)
    # ε₀ = 0.45; far needs 0.4, then more than ε₀
    assert far.optimality == pytest.approx(1 - (0.4 + 3 * 0.45 - 1.2) / (4 * 0.45 - 1.2))
    assert lies.optimality == pytest.approx(0)
    assert math.isnan(lies.mean["l2"])
    text = as_text([far, near, lies]).splitlines()
    assert [row.split("|")[1].strip() for row in text[2:]] == ["near", "far", "lies"]
    assert len({row.count("|") for row in text}) == 1


def test_targets_are_judged_as_targets() -> None:
    images, labels = torch.tensor([0.6, 0.45]).view(2, 1, 1, 1), torch.tensor([0, 0])

    def zero(model: Any, x: Tensor, y: Tensor, targets: Tensor | None = None) -> Tensor:
        return x * 0

    (line,) = under_one_judge({"zero": wrap(zero)}, three(), "A", images, labels, torch.tensor([1, 0]))
    assert line.success == 0.5
    assert line.distances.tolist() == [pytest.approx(0.6), INF]


def test_wrong_things_are_named() -> None:
    images, labels = torch.rand(2, 1, 1, 1), torch.tensor([0, 0])
    with pytest.raises(UserError, match="no attack to judge"):
        under_one_judge({}, three(), "A", images, labels)
    with pytest.raises(UserError, match="norm is 'l1'"):
        under_one_judge({"x": wrap(lambda m, x, y: x)}, three(), "A", images, labels, norm="l1")
    with pytest.raises(UserError, match="no network 'D'"):
        under_one_judge({"x": wrap(lambda m, x, y: x)}, three(), "D", images, labels)
