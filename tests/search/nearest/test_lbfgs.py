"""The paper's minimal distortion: known answers on linear networks, scipy's on others, honest costs, bad input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from foible.basket import Budget
from foible.errors import UserError
from foible.randomness import normals, uniforms
from foible.search.nearest import length, reached
from foible.search.nearest.exact import exact
from foible.search.nearest.lbfgs import lbfgs

CLASSES, PIXELS = 5, 30


def draws(name: str, *shape: int) -> Tensor:
    return normals(0, torch.arange(shape[0]), 0, stream=f"test.{name}", count=int(np.prod(shape[1:]))).view(shape)


def problem(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (n, 1, 5, 6), many pixels at a bound; a linear softmax's weight and bias; its labels."""
    pixels = uniforms(0, torch.arange(n), 0, stream="test.images", count=PIXELS)
    images = (1.6 * pixels - 0.3).clamp(0, 1).view(n, 1, 5, 6)
    weight, bias = draws("weight", CLASSES, PIXELS), draws("bias", CLASSES, 1)[:, 0]
    return images, weight, bias, (images.flatten(1) @ weight.t() + bias).argmax(1)


def linear(weight: Tensor, bias: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda images: images.flatten(1) @ weight.t() + bias


def sigmoids(dtype: torch.dtype = torch.float32) -> nn.Module:
    """A sigmoid network whose boundaries are not planes."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 20), nn.Sigmoid(), nn.Linear(20, CLASSES))
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    scale = {"1.weight": 1.0, "1.bias": 0.5, "3.weight": 2.0, "3.bias": 0.1}
    network.load_state_dict({name: scale[name] * draws(name, *shape, 1)[..., 0] for name, shape in shapes.items()})
    return network.to(dtype)


def scipys(model: Callable[[Tensor], Tensor], image: Tensor, target: int) -> float:
    """The least length by scipy's L-BFGS-B and 14 bisections of log c, for one image."""
    origin = image.double().flatten().numpy()

    def function(point: np.ndarray, c: float) -> tuple[float, np.ndarray]:
        at = torch.from_numpy(point).view(1, *image.shape).requires_grad_()
        loss = nn.functional.cross_entropy(model(at), torch.tensor([target]))
        slope = torch.autograd.grad(loss, at)[0].flatten().numpy()
        return loss.item() + c * float(((point - origin) ** 2).sum()), slope + 2 * c * (point - origin)

    low, high, least = -4.0, 3.0, np.inf
    for _ in range(14):
        middle = (low + high) / 2
        bounds = [(0, 1)] * len(origin)
        ended = minimize(function, origin, args=(10**middle,), jac=True, bounds=bounds, method="L-BFGS-B").x
        if int(model(torch.from_numpy(ended).view(1, *image.shape)).argmax()) == target:
            low, least = middle, min(least, float(np.linalg.norm(ended - origin)))
        else:
            high = middle
    return least


def test_two_classes_and_a_plane_between_them() -> None:
    """Away from the box's bounds the least length is |margin| / ‖w‖."""
    images = 0.45 + 0.1 * uniforms(1, torch.arange(20), 0, stream="test.images", count=PIXELS)
    weight = draws("weight", 2, PIXELS)
    model = linear(weight, torch.zeros(2))
    logits, normal = model(images), weight[1] - weight[0]
    labels = logits.argmax(1)
    for targets in (1 - labels, None):
        found = lbfgs(model, images, labels, targets=targets)
        assert bool(reached(model(found.images), labels, targets).all())
        expected = (logits[:, 1] - logits[:, 0]).abs() / normal.norm()
        torch.testing.assert_close(length(found.images - images), expected, rtol=0.002, atol=1e-5)


def test_close_to_the_exact_answer_of_a_linear_softmax() -> None:
    images, weight, bias, labels = problem(40)
    targets = (labels + 1) % CLASSES
    found = lbfgs(linear(weight, bias), images, labels, targets=targets)
    least = exact(weight, bias, images, targets)
    assert bool((found.found == least.found).all())
    ok = found.found
    ratio = length(found.images - images)[ok] / length(least.images - images)[ok]
    assert ratio.min() > 1 - 1e-5
    assert ratio.mean() < 1.04  # the loss also pushes classes that are no rivals: the method's own, see scipy below
    assert bool(((found.images >= 0) & (found.images <= 1)).all())


@pytest.mark.parametrize("kind", ["linear", "sigmoid"])
def test_no_longer_than_scipy_with_bisection_over_c(kind: str) -> None:
    images, weight, bias, labels = (tensor.double() for tensor in problem(9))
    model = linear(weight, bias) if kind == "linear" else sigmoids(torch.float64)
    labels = model(images).argmax(1)
    targets = (labels + 1) % CLASSES
    theirs = np.array([scipys(model, image, int(target)) for image, target in zip(images, targets, strict=True)])
    found = lbfgs(model, images, labels, targets=targets)
    assert bool((found.found.numpy() >= np.isfinite(theirs)).all())
    both = np.isfinite(theirs)
    assert both.sum() >= 6
    ours = length(found.images - images).numpy()[both]
    assert ours.mean() < 1.015 * theirs[both].mean()
    assert float(found.backwards.double().mean()) < 100  # a tenth of what scipy asks for


def test_untargeted_is_near_the_best_target() -> None:
    images, *_ = problem(16)
    model = sigmoids()
    labels = model(images).argmax(1)
    found = lbfgs(model, images, labels)
    assert bool(found.found.all())
    assert bool((model(found.images).argmax(1) != labels).all())
    each = [lbfgs(model, images, labels, targets=torch.full_like(labels, k)) for k in range(CLASSES)]
    lengths = torch.stack([length(one.images - images).where(one.found, torch.inf) for one in each])
    best = lengths.scatter(0, labels[None], torch.inf).amin(0)
    assert length(found.images - images).mean() < 1.03 * best.mean()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-7), (torch.float32, 5e-3)])
def test_no_row_depends_on_its_batch_mates(dtype: torch.dtype, tolerance: float) -> None:
    """In float32 the network's last bits change with the batch, and now and then a whole decision with them."""
    images, model = problem(24)[0].to(dtype), sigmoids(dtype)
    labels = model(images).argmax(1)
    targets = (labels + 1) % CLASSES
    whole = lbfgs(model, images, labels, targets=targets)
    sizes = length(whole.images - images)
    order = torch.arange(24).flip(0)
    for rows in (order, order[:7], order[23:]):
        part = lbfgs(model, images[rows], labels[rows], targets=targets[rows])
        assert part.found.tolist() == whole.found[rows].tolist()
        torch.testing.assert_close(length(part.images - images[rows]), sizes[rows], rtol=tolerance, atol=1e-7)
    split = lbfgs(model, images, labels, targets=targets, width=16)
    torch.testing.assert_close(length(split.images - images), sizes, rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize("budget", [None, Budget(25), Budget(backwards=10), Budget(1), Budget(2), Budget(3, 2)])
def test_costs_are_what_the_network_saw_and_budgets_hold(budget: Budget | None) -> None:
    images, *_ = problem(20)
    network, rows, slopes = sigmoids(), [0], [0]
    labels = network(images).argmax(1)
    targets = (labels + 1) % CLASSES

    def model(given: Tensor) -> Tensor:
        rows[0] += len(given)
        if given.requires_grad:
            given.register_hook(lambda slope: slopes.__setitem__(0, slopes[0] + len(slope)))
        return network(given)

    told: list[int] = []
    found = lbfgs(model, images, labels, targets=targets, budget=budget, tick=told.append)
    assert int(found.forwards.sum()) == rows[0]
    assert int(found.backwards.sum()) == slopes[0]
    assert sum(told) == 20
    if budget is not None:
        assert int(found.forwards.max()) <= (budget.forwards or 10**6)
        assert int(found.backwards.max()) <= (budget.backwards or 10**6)
    assert found.found.tolist() == reached(network(found.images), labels, targets).tolist()


def test_a_label_that_the_network_never_gives() -> None:
    images, weight, bias, labels = problem(10)
    bias[2] = -1000.0
    model, targets = linear(weight, bias), torch.full((10,), 2)
    labels = model(images).argmax(1)
    found = lbfgs(model, images, labels, targets=targets, budget=Budget(200))
    assert not bool(found.found.any())
    assert not bool(found.invalid.any())
    assert int(found.forwards.max()) <= 200
    gap = (model(images) - model(images)[:, 2:3]).amax(1)
    now = (model(found.images) - model(found.images)[:, 2:3]).amax(1)
    assert bool((now < gap - 1).all())  # the best effort is kept


def test_an_image_that_has_the_label_already_costs_one_forward() -> None:
    images, weight, bias, labels = problem(8)
    targets = torch.where(torch.arange(8) < 4, labels, (labels + 1) % CLASSES)
    found = lbfgs(linear(weight, bias), images, labels, targets=targets)
    assert found.forwards[:4].tolist() == [1] * 4
    assert found.backwards[:4].tolist() == [0] * 4
    assert bool(found.found.all())
    assert bool((found.images[:4] == images[:4]).all())
    assert bool((length(found.images - images)[4:] > 0).all())


def test_nan_answers_and_nan_gradients_are_invalid_in_their_own_rows_only() -> None:
    images, weight, bias, labels = problem(9)
    targets = (labels + 1) % CLASSES
    images[0, 0, 0, 0] = torch.nan
    images[3, 0, 0, 0] = 0.0
    images[[1, 2, 4, 5, 6, 7, 8], 0, 0, 0] = 0.5

    def model(given: Tensor) -> Tensor:
        root = given[:, 0, 0, 0].clamp_min(0).sqrt()  # its slope at 0 is infinite, and 0 · ∞ is NaN
        return given.flatten(1) @ weight.t() + bias + (root * 0)[:, None]

    labels = model(images).argmax(1)
    found = lbfgs(model, images, labels, targets=targets)
    assert bool(found.invalid[0])
    assert bool(found.invalid[3])
    assert not bool(found.found[[0, 3]].any())
    rest = [1, 2, 4, 5, 6, 7, 8]
    alone = lbfgs(model, images[rest], labels[rest], targets=targets[rest])
    assert found.found[rest].tolist() == alone.found.tolist()
    assert int(alone.found.sum()) >= 5
    assert found.invalid[rest].tolist() == alone.invalid.tolist()


def test_images_of_one_pixel() -> None:
    """Class 1 from 0.6 on, class 2 never: log-odds 8 (x − 0.6), and −50."""
    images = torch.tensor([0.1, 0.5, 0.59, 0.7]).view(4, 1, 1, 1)

    def model(given: Tensor) -> Tensor:
        x = given.flatten(1)
        return torch.cat([0 * x, 8 * (x - 0.6), 0 * x - 50], 1)

    labels = model(images).argmax(1)
    found = lbfgs(model, images, labels, targets=torch.ones(4, dtype=torch.int64))
    assert bool(found.found.all())
    torch.testing.assert_close(found.images.flatten(), torch.tensor([0.6, 0.6, 0.6, 0.7]), atol=2e-3, rtol=0)
    assert bool((found.images.flatten() >= 0.6).all())
    left = lbfgs(model, images, labels)
    torch.testing.assert_close(left.images.flatten(), torch.full((4,), 0.6), atol=2e-3, rtol=0)
    assert bool(left.found.all())


def test_no_images_and_a_box_of_its_own() -> None:
    images, weight, bias, labels = problem(6)
    model, none = linear(weight, bias), torch.zeros(0, dtype=torch.int64)
    assert lbfgs(model, images[:0], none).images.shape == (0, 1, 5, 6)
    wide = lbfgs(model, images, labels, targets=(labels + 1) % CLASSES, low=-1.0, high=2.0)
    box = lbfgs(model, images, labels, targets=(labels + 1) % CLASSES)
    assert bool(wide.found.all())
    assert bool((wide.images < 0).any())
    assert length(wide.images - images).sum() < length(box.images - images).sum()


def test_what_cannot_be_searched_is_refused() -> None:
    images, weight, bias, labels = problem(4)
    model = linear(weight, bias)
    with pytest.raises(UserError, match=r"outside \[0, 1\]"):
        lbfgs(model, 255 * images, labels)
    with pytest.raises(UserError, match="gives no gradient"):
        lbfgs(lambda given: model(given.detach()), images, labels)
    with pytest.raises(UserError, match="rounds is 0"):
        lbfgs(model, images, labels, rounds=0)
