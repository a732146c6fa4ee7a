"""Anybody's attack under our budget and judge: honest costs, nobody believed, the best of a stopped attack kept."""

# ruff: noqa: ARG001, ARG005 (attacks take what they are given)

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import length
from foible.search.nearest.closest import closest
from foible.search.nearest.wrap import as_attack, wrap

WEIGHT = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0]])  # the answer is 0 right of the middle, else 1; 2 far up
BIAS = torch.tensor([-0.5, 0.5, -3.0])


def line(x: Tensor) -> Tensor:
    """Two pixels: class 0 where the first is above 0.5, class 1 below, class 2 where the second is near 1."""
    return x.flatten(1) @ WEIGHT.T + BIAS


def seeds(n: int = 4) -> tuple[Tensor, Tensor]:
    """Two-pixel images right of the boundary, 0.1 and more from it."""
    x = torch.stack([torch.linspace(0.6, 0.9, n), torch.zeros(n)], 1).view(n, 1, 1, 2)
    return x, torch.zeros(n, dtype=torch.int64)


def walk(model: Any, x: Tensor, y: Tensor, steps: int = 40, size: float = 0.02) -> Tensor:
    """A gradient walk that never stops: it ends far beyond the boundary."""
    at = x.clone()
    for _ in range(steps):
        at = at.detach().requires_grad_()
        loss = nn.functional.cross_entropy(model(at), y, reduction="sum")
        at = (at + size * torch.autograd.grad(loss, at)[0].sign()).clamp(0, 1)
    return at.detach()


def first_pixel(images: Tensor) -> list[float]:
    return [round(value, 4) for value in images[:, 0, 0, 0].tolist()]


def test_the_smallest_query_is_kept_and_not_what_came_back() -> None:
    x, y = seeds()
    kept, returned = wrap(walk)(line, x, y), wrap(walk, keep="returned")(line, x, y)
    assert kept.found.all()
    assert returned.found.all()
    # The second pixel goes along at the same rate, and 0.02 divides 0.1, 0.2, 0.3, 0.4 up to one step.
    assert bool(((kept.images - x)[:, 0, 0, 0].abs() <= x[:, 0, 0, 0] - 0.5 + 0.0201).all())
    assert first_pixel(returned.images) == [0.0, 0.0, 0.0, 0.1]
    assert kept.forwards.tolist() == kept.backwards.tolist() == [40] * 4


def test_an_attack_may_ask_in_another_dtype() -> None:
    x, y = seeds()
    kept = wrap(lambda model, x, y: walk(model, x.double(), y))(lambda x: line(x.float()).double(), x, y)
    assert kept.images.dtype == x.dtype
    assert kept.found.all()
    assert bool((kept.images[:, 0, 0, 0] >= 0.5 - 0.0201).all())  # within a step of the boundary


def test_a_stopped_attack_keeps_its_best() -> None:
    x, y = seeds()
    full = wrap(walk)(line, x, y)
    cut = wrap(walk)(line, x, y, budget=Budget(forwards=13))
    assert cut.found.tolist() == [True, True, False, False]  # 12 steps of 0.02 pass 0.1 and 0.2
    assert torch.equal(cut.images[:2], full.images[:2])
    assert cut.forwards.tolist() == [13] * 4
    assert bool((cut.images[2:, 0, 0, 0] < x[2:, 0, 0, 0]).all())  # the best effort
    none = wrap(walk, keep="returned")(line, x, y, budget=Budget(forwards=13))
    assert not none.found.any()
    assert torch.equal(none.images, x)


def test_backwards_are_budgeted_too_also_where_the_attack_catches_errors() -> None:
    def stubborn(model: Any, x: Tensor, y: Tensor) -> Tensor:
        for _ in range(30):
            try:
                walk(model, x, y, steps=1)
            except Exception:
                continue
        return x

    x, y = seeds()
    cut = wrap(stubborn)(line, x, y, budget=Budget(backwards=7))
    assert cut.backwards.tolist() == [7] * 4
    assert cut.forwards.tolist() == [8] * 4


def test_a_jacobian_costs_a_backward_for_each_of_its_rows() -> None:
    def jacobian(model: Any, x: Tensor, _: Tensor, batched: bool) -> Tensor:
        at = x.clone().requires_grad_()
        logits = model(at)
        rows = torch.eye(3)[:, None].expand(3, len(x), 3)
        if batched:
            torch.autograd.grad(logits, at, rows, is_grads_batched=True)
        else:
            for row in rows:
                torch.autograd.grad(logits, at, row, retain_graph=True)
        return x

    x, y = seeds()
    for batched in (False, True):
        spent = wrap(lambda model, x, y, batched=batched: jacobian(model, x, y, batched))(line, x, y)
        assert (spent.forwards.tolist(), spent.backwards.tolist()) == ([1] * 4, [3] * 4), batched
        cut = wrap(lambda model, x, y, batched=batched: jacobian(model, x, y, batched))(
            line, x, y, budget=Budget(backwards=2)
        )
        assert int(cut.backwards.max()) <= 2, batched


def test_other_batches_are_shared_out_evenly_and_not_remembered() -> None:
    def in_parts(model: Any, x: Tensor, y: Tensor) -> Tensor:
        for part in (x[:1], x[1:3], x[:0], x.repeat(2, 1, 1, 1)):  # 1 + 2 + 0 + 8 rows for 4 images
            model(torch.zeros_like(part))  # class 1: what is asked for
        return x

    x, y = seeds()
    spent = wrap(in_parts)(line, x, y)
    assert spent.forwards.tolist() == [3] * 4  # 11 / 4, rounded up
    assert not spent.found.any()
    assert wrap(in_parts)(line, x, y, budget=Budget(forwards=1)).forwards.tolist() == [1] * 4  # 3 / 4, then stopped


def test_a_full_batch_in_another_order_is_judged_for_the_image_in_its_place() -> None:
    def shuffled(model: Any, x: Tensor, y: Tensor) -> Tensor:
        model(torch.stack([x[3] * 0, x[2], x[1], x[0]]))
        return x

    x, y = seeds()
    result = wrap(shuffled)(line, x, y)
    assert result.found.tolist() == [True, False, False, False]
    assert bool((line(result.images).argmax(1) == torch.tensor([1, 0, 0, 0])).all())


@pytest.mark.parametrize(
    "lie",
    [
        lambda model, x, y: x,  # nothing changed
        lambda model, x, y: x + 0.01,  # changed, and not enough
        lambda model, x, y: x * torch.nan,
        lambda model, x, y: torch.full_like(x, -torch.inf),
    ],
)
def test_no_attack_is_believed(lie: Any) -> None:
    x, y = seeds()
    result = wrap(lie)(line, x, y)
    assert not result.found.any()
    assert result.images.isfinite().all()


def test_what_leaves_the_box_is_clipped_before_it_is_judged() -> None:
    x, y = seeds()

    def up(model: Any, x: Tensor, y: Tensor) -> Tensor:  # class 2 is reached at 1.17 for an image at 1
        return x + torch.tensor([0.4, 3.0])

    assert line(up(None, x, y)).argmax(1).tolist() == [2] * 4
    result = wrap(up)(line, x, y)
    assert not result.found.any()
    assert float(result.images.max()) <= 1
    asked = wrap(lambda model, x, y: (model(up(None, x, y)), x)[1])(line, x, y)  # nor does a query outside count
    assert not asked.found.any()


def test_images_that_are_wrong_already_have_distance_0() -> None:
    x, y = seeds()
    result = wrap(walk)(line, x, 1 - y)
    assert result.found.all()
    assert torch.equal(result.images, x)


def test_nan_is_invalid_unless_something_was_found() -> None:
    def broken(x: Tensor) -> Tensor:  # right of 0.75 there is no answer
        return torch.where(x.flatten(1)[:, :1] > 0.75, torch.nan, line(x))

    x, y = seeds()  # 0.6, 0.7, 0.8, 0.9

    def left(model: Any, x: Tensor, y: Tensor) -> Tensor:
        model(x)
        return x - torch.tensor([0.35, 0.0])

    result = wrap(left)(broken, x, y)
    assert result.found.tolist() == [True, True, True, False]
    assert result.invalid.tolist() == [False, False, False, True]
    stuck = wrap(lambda model, x, y: x)(broken, x, y)
    assert stuck.invalid.tolist() == [False, False, True, True]
    assert not stuck.found.any()


def test_targets_go_where_the_attack_takes_them() -> None:
    x, y = seeds()
    targets = torch.full((4,), 1)

    def by_flag(model: Any, x: Tensor, y: Tensor, targeted: bool = False) -> Tensor:
        assert targeted
        assert torch.equal(y, targets)
        return x * 0

    def by_name(model: Any, x: Tensor, y: Tensor, targets: Tensor | None = None) -> Tensor:
        assert targets is not None
        assert y.tolist() == [0] * 4
        return x * 0

    for attack in (by_flag, by_name):
        assert wrap(attack)(line, x, y, targets=targets).found.all()
        assert not wrap(attack)(line, x, y, targets=targets).images.any()
    with pytest.raises(UserError, match="takes neither `targets` nor `targeted`"):
        wrap(lambda model, x, y: x)(line, x, y, targets=targets)


def test_l2_and_linf_choose_differently() -> None:
    def two(model: Any, x: Tensor, y: Tensor) -> Tensor:
        model(x - torch.tensor([0.2, 0.0]))  # l2 0.2, linf 0.2
        model(x + torch.tensor([-0.18, 0.18]))  # l2 0.25, linf 0.18
        return x

    x, y = seeds(1)
    assert first_pixel(wrap(two)(line, x, y).images) == [0.4]
    assert first_pixel(wrap(two, norm="linf")(line, x, y).images) == [0.42]


def test_the_model_handed_over_is_a_module_in_eval_mode_and_stays_so() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(2, 3)).eval()

    def meddling(model: Any, x: Tensor, y: Tensor) -> Tensor:
        assert isinstance(model, nn.Module)
        assert next(model.parameters()).device == x.device
        model.train()
        assert not model.training
        x.zero_()  # it may write into what it was given
        return x

    x, y = seeds()
    before = x.clone()
    wrap(meddling)(network, x, y)
    assert not network.training
    assert torch.equal(x, before)


def test_it_works_where_gradients_are_off() -> None:
    x, y = seeds()
    with torch.no_grad():
        assert wrap(walk)(line, x, y).found.all()


def test_no_images() -> None:
    x, y = seeds()
    result = wrap(lambda model, x, y: pytest.fail("asked about nothing"))(line, x[:0], y[:0])
    assert result.images.shape == (0, 1, 1, 2)
    assert len(result.found) == 0


def test_wrong_things_are_named() -> None:
    x, y = seeds()
    with pytest.raises(UserError, match="gave back a tuple"):
        wrap(lambda model, x, y: (x, x))(line, x, y)  # type: ignore[arg-type,return-value]
    with pytest.raises(UserError, match="gave back \\(2, 1, 1, 2\\) for images \\(4, 1, 1, 2\\)"):
        wrap(lambda model, x, y: x[:2])(line, x, y)
    with pytest.raises(UserError, match="norm is 'l1'"):
        wrap(walk, norm="l1")
    with pytest.raises(UserError, match="keep is 'last'"):
        wrap(walk, keep="last")  # type: ignore[arg-type]


def test_closest_there_and_back() -> None:
    x, y = seeds()
    own = closest(line, x, y)
    again = wrap(as_attack(closest))(line, x, y)
    assert torch.equal(again.found, own.found)
    # A query of its own may be nearer by the little that it stays clear of the boundary.
    assert torch.allclose(again.images, own.images, atol=1e-3)
    assert bool((length(again.images - x) <= length(own.images - x)).all())
    # It asks about part of the batch, so the counter shares out what closest says of each image.
    for counted, said in ((again.forwards, own.forwards), (again.backwards, own.backwards)):
        assert counted.tolist() == [-(-int(said.sum()) // 4)] * 4
    attack = as_attack(closest)
    targets = torch.full((4,), 1)
    assert torch.equal(attack(line, x, targets, targeted=True), attack(line, x, y, targets=targets))
    assert line(attack(line, x, targets, targeted=True)).argmax(1).tolist() == [1] * 4


def test_foolbox_through_a_lambda_finds_what_foolbox_finds() -> None:
    foolbox = pytest.importorskip("foolbox")
    x, y = seeds()

    def deepfool(model: Any, x: Tensor, y: Tensor) -> Tensor:
        return foolbox.attacks.L2DeepFoolAttack()(foolbox.PyTorchModel(model, (0, 1)), x, y, epsilons=None)[1]  # type: ignore[no-any-return]

    result = wrap(deepfool)(line, x, y)
    assert result.found.all()
    assert torch.allclose(result.images[:, 0, 0, 0], torch.tensor(0.5), atol=0.02)  # its overshoot is 2 %
    assert int(result.forwards[0]) >= int(result.backwards[0]) >= 1
