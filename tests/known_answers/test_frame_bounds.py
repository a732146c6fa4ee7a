"""Frame bounds of convolutions against dense matrices, written out entry by entry."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from foible.inspect.spectrum import bounds, fourier, operators
from foible.inspect.spectrum.bounds import Effort, layer_bounds, linear_part
from foible.inspect.spectrum.calls import Call
from foible.inspect.spectrum.fourier import circular_bounds, enclosing_torus, papers_norm

# inputs, outputs, kernel, torus, stride, dilation, groups
CASES: list[tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = [
    (2, 3, (3, 3), (5, 5), (1, 1), (1, 1), 1),
    (3, 2, (3, 2), (6, 4), (1, 1), (1, 1), 1),
    (2, 3, (3, 3), (6, 6), (2, 2), (1, 1), 1),
    (1, 7, (3, 3), (6, 4), (2, 2), (1, 1), 1),
    (2, 2, (5, 3), (6, 6), (3, 2), (1, 1), 1),
    (2, 3, (3, 3), (7, 5), (1, 1), (2, 3), 1),
    (4, 6, (3, 3), (4, 4), (2, 1), (1, 1), 2),
    (3, 3, (3, 3), (4, 4), (1, 1), (1, 1), 3),
    (2, 2, (5, 5), (4, 3), (1, 1), (1, 1), 1),  # the kernel goes round the torus
    (3, 4, (5,), (8,), (1,), (1,), 1),
    (3, 4, (4,), (9,), (3,), (2,), 1),
    (1, 2, (2, 2, 2), (4, 2, 2), (2, 1, 1), (1, 1, 1), 1),
]

HOW: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}


def written_out(
    weight: Tensor, torus: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], groups: int
) -> np.ndarray[Any, Any]:
    """y[f, n] = Σ w[f, c, k] x[c, (n Δ + k d) mod N], as a matrix."""
    outputs, inputs, *kernel = weight.shape
    fewer = [side // step for side, step in zip(torus, stride, strict=True)]
    matrix = np.zeros((outputs, *fewer, inputs * groups, *torus))
    for f, c in itertools.product(range(outputs), range(inputs)):
        channel = f // (outputs // groups) * inputs + c
        for n in itertools.product(*map(range, fewer)):
            for k in itertools.product(*map(range, kernel)):
                x = tuple((n[a] * stride[a] + k[a] * dilation[a]) % torus[a] for a in range(len(torus)))
                matrix[(f, *n, channel, *x)] += float(weight[(f, c, *k)])
    return matrix.reshape(outputs * math.prod(fewer), -1)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("case", CASES)
def test_fourier_agrees_with_a_dense_svd_of_the_circular_operator(case: Any) -> None:
    inputs, outputs, kernel, torus, stride, dilation, groups = case
    weight = drawn(outputs, inputs // groups, *kernel)
    values = np.linalg.svd(written_out(weight, torus, stride, dilation, groups), compute_uv=False)
    found = circular_bounds(weight, torus, stride=stride, dilation=dilation, groups=groups)
    assert found == pytest.approx((values[-1], values[0]), rel=1e-10)


def test_few_frequencies_at_a_time_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, how = drawn(3, 2, 3, 3), HOW | {"stride": (2, 2)}
    whole = circular_bounds(weight, (8, 6), **how)
    monkeypatch.setattr(fourier, "ROOM", 1)
    assert circular_bounds(weight, (8, 6), **how) == pytest.approx(whole, rel=1e-12)


def test_kernels_whose_bounds_are_plain() -> None:
    how = HOW
    assert circular_bounds(torch.ones(1, 1, 1, 1), (4, 4), **how) == pytest.approx((1, 1))
    assert circular_bounds(torch.ones(1, 1, 3, 3), (6, 6), **how)[1] == pytest.approx(9)  # a constant image
    difference = torch.tensor([[[1.0, -1.0]]])
    low, high = circular_bounds(difference, (6,), stride=(1,), dilation=(1,))
    assert low == pytest.approx(0, abs=1e-12)  # a constant signal
    assert high == pytest.approx(2)  # an alternating one


def test_every_second_pixel_is_no_enlargement_and_the_papers_form_says_it_is() -> None:
    """Taking every second pixel has the norm 1: the shifts are 2πl/Δ and the norm is ‖A‖/Δ; the paper's form has Δ."""
    pixel, how = torch.ones(1, 1, 1, 1), HOW | {"stride": (2, 2)}
    assert circular_bounds(pixel, (6, 6), **how) == pytest.approx((1, 1))
    assert papers_norm(pixel, (6, 6), **how) == pytest.approx(2)


def test_without_stride_the_papers_form_is_the_same() -> None:
    weight, how = drawn(3, 2, 3, 3), HOW
    assert papers_norm(weight, (5, 6), **how) == pytest.approx(circular_bounds(weight, (5, 6), **how)[1], rel=1e-10)


def test_a_torus_that_the_stride_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="no multiple"):
        circular_bounds(torch.ones(1, 1, 3), (5,), stride=(2,), dilation=(1,))


def test_the_enclosing_torus_has_room_for_padding_and_for_every_output() -> None:
    assert enclosing_torus((8,), (1,), (1,), (8,)) == [9]
    assert enclosing_torus((8,), (1,), (2,), (4,)) == [10]
    assert enclosing_torus((8,), (3,), (1,), (14,)) == [14]  # a 1-pixel kernel with a wide padding


LAYERS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv2d(2, 3, 3, padding=1), (2, 6, 5)),
    (nn.Conv2d(2, 3, 3), (2, 6, 6)),
    (nn.Conv2d(2, 3, 5, stride=2, padding=2), (2, 7, 8)),
    (nn.Conv2d(2, 4, 3, stride=3, padding=2, dilation=2, groups=2), (2, 8, 9)),
    (nn.Conv2d(1, 2, 1, padding=3), (1, 4, 4)),
    (nn.Conv2d(1, 2, (4, 2), padding="same"), (1, 6, 5)),
    (nn.Conv2d(2, 2, 3, padding="valid"), (2, 6, 5)),
    (nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), (2, 5, 6)),
    (nn.Conv2d(2, 2, 3, padding=2, padding_mode="circular"), (2, 5, 6)),
    (nn.Conv2d(2, 2, 3, padding=2, padding_mode="reflect"), (2, 5, 6)),
    (nn.Conv2d(2, 2, 3, stride=2, padding=2, padding_mode="replicate"), (2, 5, 6)),
    (nn.Conv1d(3, 2, 5, stride=2, padding=1), (3, 11)),
    (nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), (3, 4, 4)),
    (nn.ConvTranspose2d(4, 2, 3, groups=2), (4, 4, 5)),
    (nn.ConvTranspose1d(2, 3, 4, stride=2), (2, 6)),
]


def called(layer: nn.Module, shape: tuple[int, ...], seed: int = 1) -> Call:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
        return Call("layer", layer, shape, tuple(layer(torch.zeros(1, *shape)).shape[1:]), True)


def matrix_of(layer: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The layer's matrix from the layer itself: its answers to unit images, less its bias's."""
    with torch.no_grad():
        unit = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
        made = layer.double()
        answers = (made(unit) - made(torch.zeros_like(unit[:1]))).flatten(1)
        layer.float()
    return np.asarray(answers)


@pytest.mark.filterwarnings("ignore:Using padding=:UserWarning")  # PyTorch's, of even kernels
@pytest.mark.parametrize(("layer", "shape"), LAYERS)
def test_the_circular_bound_holds_for_the_real_layer_and_the_real_values_are_its_own(
    layer: nn.Module, shape: tuple[int, ...]
) -> None:
    found = layer_bounds(called(layer, shape), Effort())
    values = np.linalg.svd(matrix_of(layer, shape), compute_uv=False)
    assert found.real_upper == pytest.approx(values[0], rel=1e-4)
    assert found.real_lower == pytest.approx(values[-1], rel=1e-5, abs=1e-6)
    assert found.upper is not None
    assert found.upper >= values[0] * (1 - 1e-9)
    assert found.strict
    assert not found.at_most


def test_a_circular_layer_is_exact() -> None:
    layer = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")
    found = layer_bounds(called(layer, (2, 6, 5)), Effort(real=False))
    values = np.linalg.svd(matrix_of(layer, (2, 6, 5)), compute_uv=False)
    assert (found.lower, found.upper) == pytest.approx((values[-1], values[0]), rel=1e-6)
    assert found.real_upper is None


def test_fewer_frequencies_are_said_to_be_no_strict_bound() -> None:
    call = called(nn.Conv2d(2, 3, 3, padding=1), (2, 16, 16))
    whole, part = layer_bounds(call, Effort(real=False)), layer_bounds(call, Effort(real=False, grid=4))
    assert whole.upper is not None
    assert part.upper is not None
    assert 0.5 * whole.upper < part.upper <= whole.upper
    assert not part.strict
    assert "no strict bound" in part.note


def random_operator(rows: int, columns: int) -> tuple[operators.Operator, np.ndarray[Any, Any]]:
    matrix = drawn(rows, columns, seed=3)
    return operators.operator(lambda x: x @ matrix.t(), (columns,)), np.linalg.svd(matrix.numpy(), compute_uv=False)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (3, 200)])
def test_lanczos_finds_the_largest(shape: tuple[int, int]) -> None:
    made, values = random_operator(*shape)
    found = operators.largest(made)
    assert found.settled
    assert found.value == pytest.approx(values[0], rel=1e-5)
    assert operators.largest(made, steps=2).value < values[0]
    assert not operators.largest(made, steps=2).settled or shape[0] == 3


def test_inverse_iteration_finds_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    made, values = random_operator(40, 90)
    whole = operators.smallest(made)
    assert whole is not None
    assert whole.value == pytest.approx(values[-1], rel=1e-9)
    assert (whole.settled, whole.steps) == (True, 0)
    monkeypatch.setattr(operators, "DENSE", 5)
    found = operators.smallest(made, applications=2000)
    assert found is not None
    assert found.settled
    assert found.value == pytest.approx(values[-1], rel=1e-2)
    few = operators.smallest(made, applications=3)
    assert few is not None
    assert not few.settled
    assert few.value > values[-1]
    assert operators.smallest(made) is None


def test_nothing_has_the_norm_nothing() -> None:
    made = operators.operator(lambda x: 0 * x, (5,))
    assert operators.largest(made).value == 0


@pytest.mark.parametrize("whole", [1500, 10])
def test_extremes_of_a_matrix_by_svd_and_by_gram(monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    monkeypatch.setattr(operators, "WHOLE", whole)
    matrix = drawn(30, 100)
    values = np.linalg.svd(matrix.numpy(), compute_uv=False)
    for one in (matrix, matrix.t()):
        assert operators.extremes(one) == pytest.approx((values[-1], values[0]), rel=1e-9)


def test_a_tiny_smallest_value_is_not_lost_in_the_gram_matrix() -> None:
    orthogonal = torch.linalg.qr(drawn(100, 20))[0]
    matrix = orthogonal * torch.logspace(0, -9, 20, dtype=torch.float64)
    assert operators.extremes(matrix)[0] == pytest.approx(1e-9, rel=1e-3)


def test_a_large_linear_layer_has_its_upper_bound_alone() -> None:
    layer = nn.Linear(70, 50)
    found = layer_bounds(called(layer, (70,)), Effort(most=20))
    values = np.linalg.svd(layer.weight.detach().double().numpy(), compute_uv=False)
    assert found.lower is None
    assert "most 20" in found.note
    assert found.upper == pytest.approx(values[0], rel=1e-3)
    whole = layer_bounds(called(layer, (70,)), Effort())
    assert (whole.lower, whole.upper) == pytest.approx((values[-1], values[0]), rel=1e-5)


@pytest.mark.parametrize("layer", [nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose2d(4, 6, 3, groups=2)])
def test_a_scale_multiplies_output_channels(layer: Any) -> None:
    call = called(layer, (4, 5, 5))
    scale = torch.tensor([1.0, -2, 3, 0.5, 4, 0.1], dtype=torch.float64)
    images = drawn(2, 4, 5, 5)
    plain, scaled = (linear_part(layer, bounds._scaled(layer, one))(images) for one in (None, scale))
    assert torch.allclose(scaled, plain * scale.view(1, -1, 1, 1))
    assert layer_bounds(call, Effort(), scale).upper != pytest.approx(layer_bounds(call, Effort()).upper)


def test_weights_that_are_not_finite_have_no_bounds() -> None:
    layer = nn.Linear(3, 3)
    call = called(layer, (3,))
    with torch.no_grad():
        layer.weight[0, 0] = torch.nan
    found = layer_bounds(call, Effort())
    assert (found.lower, found.upper) == (None, None)
    assert "not all finite" in found.note
