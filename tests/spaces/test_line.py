"""Lines between codes: known places along them, the same bits in any company, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from linear_generator import Linear
from torch import Tensor

from foible.errors import UserError
from foible.generators.dcgan import Dcgan
from foible.generators.pixels import CrossFade
from foible.spaces.line import Line

CPU = torch.device("cpu")


class Draws:
    """A generator without an encoder."""

    shape, latent, spec, fingerprint = (1, 2, 2), 3, "draws", "draws"

    def decode(self, codes: Tensor) -> Tensor:
        return codes.sum(1)[:, None, None, None].expand(-1, 1, 2, 2)

    def to(self, _: object) -> Draws:
        return self


def codes(count: int, latent: int, seed: int = 0) -> Tensor:
    return torch.randn(count, latent, generator=torch.Generator().manual_seed(seed))


def test_straight_is_the_papers_equation_and_ends_are_the_ends() -> None:
    one, other = codes(4, 6), codes(4, 6, 1)
    points = Line(Linear()).between(one, other, 11)
    assert points.shape == (4, 11, 6)
    assert torch.equal(points[:, 0], one)
    assert torch.equal(points[:, -1], other)
    torch.testing.assert_close(points[:, 3], 0.7 * one + 0.3 * other)


def test_spherical_goes_along_the_arc() -> None:
    one, other = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    points = Line(Linear(2), "spherical").between(one, other, 4)[0]
    angles = torch.tensor([0.0, 30.0, 60.0, 90.0]) * math.pi / 180
    torch.testing.assert_close(points, 2 * torch.stack([angles.cos(), angles.sin()], 1), atol=1e-6, rtol=0)
    far = Line(Linear(), "spherical").between(codes(5, 6), codes(5, 6, 1), 7)
    assert torch.equal(far[:, 0], codes(5, 6))
    torch.testing.assert_close(far[:, -1], codes(5, 6, 1))


def test_where_there_is_no_arc_the_line_is_straight() -> None:
    one = codes(2, 6)
    for other in (3 * one, -one, one):
        points = Line(Linear(), "spherical").between(one, other, 5)
        torch.testing.assert_close(points, Line(Linear()).between(one, other, 5))


@pytest.mark.parametrize("generator", [Linear(), Dcgan((1, 12, 12), 6, width=2).eval()])
def test_a_code_is_drawn_alike_in_any_company(generator: Any) -> None:
    line, many = Line(generator), codes(40, 6)
    together = line.draw(many, generator.shape)
    for place in (0, 15, 16, 39):
        assert torch.equal(line.draw(many[place : place + 1], generator.shape)[0], together[place])
    if hasattr(generator, "encode"):
        images = together.clamp(0, 1)
        assert torch.equal(line.encode(images)[17], line.encode(images[17:18])[0])


def test_a_cross_fade_is_a_mean_of_pixels() -> None:
    images = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    line = Line("pixels")
    ends = line.encode(images)
    half = line.draw(line.between(ends[:1], ends[1:], 3)[0], (3, 4, 5))
    torch.testing.assert_close(half[1], images.mean(0))
    torch.testing.assert_close(half[0], images[0])
    assert line.on(CPU, (3, 4, 5)).latent == CrossFade((3, 4, 5)).latent == 60


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda: Line(Linear(), "round"), "path is 'round'.*straight or spherical"),
        (lambda: Line(), "boundary needs what draws the images"),
        (lambda: Line(Linear()).on(CPU, (3, 12, 12)), r"draws images of \(1, 12, 12\).*are \(3, 12, 12\)"),
        (lambda: Line(Draws()).encode(torch.zeros(1, 1, 2, 2)), "draws and does not encode"),
        (lambda: Line(Draws()).draw(torch.zeros(1, 5), (1, 2, 2)), "a code of 5 numbers.*have 3"),
        (lambda: Line("no-such-folder").on(CPU, (1, 2, 2)), "there is no generator 'no-such-folder'"),
    ],
)
def test_refused(what: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        what()
