"""The latent space of a generator."""

from __future__ import annotations

import pytest
import torch
from linear_generator import Linear

from foible import specs
from foible.errors import UserError
from foible.images import settle
from foible.spaces import SPACES, Latent
from foible.testing import SHAPE, check_space


def images(count: int = 20) -> torch.Tensor:
    return settle(torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(3)))


@pytest.mark.parametrize("clip", [True, False])
def test_keeps_the_promises_of_a_box(clip: bool) -> None:
    check_space(Latent(Linear(), clip=clip), images())


def test_what_the_generator_cannot_draw_stays() -> None:
    generator = Linear()
    space, seeds = Latent(generator, step=1.0, clip=False), images()
    shift = torch.randn(len(seeds), generator.latent, generator=torch.Generator().manual_seed(1))
    points = space.move(space.start(seeds), 0.5 + 0.5 * shift)
    drawn = generator.decode(generator.encode(seeds) + shift)
    assert torch.allclose(space.render(points), drawn + seeds - generator.decode(generator.encode(seeds)), atol=1e-6)
    assert torch.allclose(2 * space.draws_of(points) - 1, shift, atol=1e-6)
    assert torch.allclose(space.describe(points)["latent distance"], shift.norm(dim=1))
    assert torch.allclose(space.describe(points)["pixel distance"], shift.norm(dim=1), rtol=1e-4)  # orthogonal columns


def test_clipped_to_what_a_png_holds() -> None:
    space, seeds = Latent(Linear(), step=9.0), images()
    shown = space.render(space.move(space.start(seeds), torch.ones(len(seeds), 6)))
    assert float(shown.min()) == 0.0
    assert float(shown.max()) == 1.0


def test_words() -> None:
    with pytest.raises(UserError, match="needs a generator"):
        specs.resolve("latent", SPACES, "space")
    with pytest.raises(UserError, match="no generator 'nowhere'"):
        specs.resolve("latent?generator=nowhere", SPACES, "space").start(images())
    with pytest.raises(UserError, match="has no option 'may'"):
        specs.resolve("latent?generator=x&may=y", SPACES, "space")
    with pytest.raises(UserError, match="step is 0"):
        Latent(Linear(), step=0.0)
    with pytest.raises(UserError, match="draws images of 1 channel, 4×4 and the images are 1 channel, 12×12"):
        Latent(Linear(shape=(1, 4, 4))).start(images())
