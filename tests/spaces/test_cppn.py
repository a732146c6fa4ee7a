"""CPPNs: known pictures, genomes that stay sound however they grow, and the same image alone and in a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from foible.errors import UserError
from foible.randomness import uniforms
from foible.spaces.cppn import Cppn, Genomes
from foible.spaces.cppn.genome import INPUTS, none
from foible.spaces.cppn.render import from_hls
from foible.spaces.direct import Direct

SHAPE = (1, 9, 12)
CPPN = Cppn(nodes=8, connections=24)


def draw_for(lanes: Tensor, step: int) -> Any:
    return lambda what, count: uniforms(0, lanes, step, stream=what, count=count)


def grown(count: int = 200, steps: int = 30, shape: tuple[int, int, int] = SHAPE, cppn: Cppn = CPPN) -> Genomes:
    lanes = torch.arange(count)
    genomes = cppn.fresh(draw_for(lanes, 0), shape)
    for step in range(1, steps + 1):
        genomes = cppn.children(genomes, genomes, draw_for(lanes, step), shape)
    return genomes


def one(genomes: Genomes, row: int) -> Genomes:
    return Genomes(*(field[row : row + 1] for field in genomes))


def test_a_genome_set_by_hand_draws_its_formula_batched_and_alone() -> None:
    # hidden 4: sin(0.5 x + 0.2 y); hidden 5: exp(−(2 d − h4)²); output: |tanh((h5 − 0.7 h4 + 0.1) / 2)|
    written = [1, 2, 1, 0, 2, 1, 0, 4, 0.5, 1, 4, 0.2, 2, 5, 2.0, 4, 5, -1.0, 5, 6, 1.0, 4, 6, -0.7, 3, 6, 0.1]
    genome = CPPN.read(written, SHAPE, "by hand")
    y, x = torch.meshgrid(torch.arange(9.0), torch.arange(12.0), indexing="ij")
    far = (((x - 5.5) / 5.5).square() + ((y - 4) / 4).square()).sqrt()
    first = torch.sin(0.5 * x + 0.2 * y)
    second = torch.exp(-(2 * far - first).square())
    wanted = torch.tanh((second - 0.7 * first + 0.1) / 2).abs()
    torch.testing.assert_close(CPPN.render(genome, SHAPE)[0, 0], wanted, atol=2e-6, rtol=0)
    others = grown(40)
    batch = Genomes(*(torch.cat([a[:20], b, a[20:]]) for a, b in zip(others, genome, strict=True)))
    assert torch.equal(CPPN.render(batch, SHAPE)[20], CPPN.render(genome, SHAPE)[0])


def test_at_another_size_it_is_the_same_picture() -> None:
    genome = CPPN.read([1, 0, 1, 3, 0, 4, 0.02, 1, 4, 0.03], SHAPE, "a ramp")  # |0.02 x + 0.03 y|
    small, large = CPPN.render(genome, SHAPE)[0, 0], CPPN.render(genome, SHAPE, (36, 48))[0, 0]
    means = torch.nn.functional.avg_pool2d(large[None, None], 4)[0, 0]
    torch.testing.assert_close(means[1:, 1:], small[1:, 1:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("shape", [SHAPE, (3, 8, 8)])
def test_genomes_stay_sound_and_draw_the_same_alone(shape: tuple[int, int, int]) -> None:
    genomes = grown(shape=shape)
    free = none(shape[0], CPPN.nodes)
    source, target, there = genomes.source.long(), genomes.target.long(), genomes.target < free
    assert int(genomes.hidden.max()) == CPPN.nodes  # it did grow
    assert bool((genomes.hidden <= CPPN.nodes).all())
    assert int(there.sum(1).max()) > INPUTS * shape[0]
    last = INPUTS + genomes.hidden[:, None].expand_as(source)
    inside = (source < last) & ((target < last) | (target >= INPUTS + CPPN.nodes)) & (target >= INPUTS)
    assert bool(inside[there].all())
    assert bool((source < target)[there].all())  # no cycle
    keys = (target * 1000 + source).masked_fill(~there, 10**9)
    assert bool((keys.diff(dim=1) > 0)[there[:, 1:]].all())  # in order, and none twice
    assert not bool(genomes.weight[~there].any())
    assert float(genomes.weight.abs().max()) <= 10
    drawn = CPPN.render(genomes, shape)
    assert drawn.shape == (200, *shape)
    assert float(drawn.min()) >= 0
    assert float(drawn.max()) <= 1
    assert torch.equal(drawn, torch.cat([CPPN.render(one(genomes, row), shape) for row in range(200)]))


def test_what_was_written_is_read_again() -> None:
    genomes = grown(50)
    drawn = CPPN.render(genomes, SHAPE)
    for row, values in enumerate(CPPN.written(genomes, SHAPE)):
        again = CPPN.read(torch.tensor(values).tolist(), SHAPE, "a row")  # as float32, as Parquet keeps it
        assert torch.equal(CPPN.render(again, SHAPE)[0], drawn[row])


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([2, 0, 1, 0], "version 2"),
        ([1, 2, 1, 0, 0, 0, 5, 4, 1.0], "cycle"),
        ([1, 1, 1, 0, 0, 4, 4, 1.0], "cycle"),
        ([1, 1, 1, 0, 0, 0, 9, 1.0], "leads to a node that there is not"),
        ([1, 1, 1, 0, 0, 5, 5, 1.0], "comes from a node that there is not"),
        ([1, 0, 1, 7], "activation"),
        ([1, 0, 3, 0, 0, 0], "1 outputs"),
        ([1, 99, 1, *[0] * 100], "up to 8 hidden"),
        ([1, 0, 1, 0, 0, 4], "source, target and weight"),
        ([1, 0, 1, 0, 0, 4, float("nan")], "NaN"),
        ([1, 0, 1, 0, 0, 4, 1.0, 0, 4, 2.0], "same nodes"),
        ([], "empty"),
    ],
)
def test_a_genome_that_cannot_be_drawn_is_refused(values: list[float], why: str) -> None:
    with pytest.raises(UserError, match=why):
        CPPN.read(values, SHAPE, "this one")


def test_rows_do_not_depend_on_who_is_beside() -> None:
    lanes, few = torch.arange(30), torch.tensor([3, 17])
    genomes = CPPN.fresh(draw_for(lanes, 0), SHAPE)
    whole = CPPN.children(genomes, genomes, draw_for(lanes, 1), SHAPE)
    some = Genomes(*(field[few] for field in genomes))
    part = CPPN.children(some, some, draw_for(few, 1), SHAPE)
    for a, b in zip(whole, part, strict=True):
        assert torch.equal(a[few], b)


def test_hue_lightness_saturation() -> None:
    import colorsys

    values = torch.rand(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    made = from_hls(values)
    for image in range(5):
        wanted = colorsys.hls_to_rgb(*values[image, :, 0, 0].tolist())
        assert made[image, :, 0, 0].tolist() == pytest.approx(wanted, abs=1e-5)


def test_pixels_change_by_polynomial_mutation_and_crossover() -> None:
    lanes, direct = torch.arange(400), Direct()
    first = direct.fresh(draw_for(lanes, 0), (1, 8, 8))
    mates = type(first)(first.pixels.flip(0))
    alone = direct.children(first, first, draw_for(lanes, 1), (1, 8, 8))
    changed = ((alone.pixels - first.pixels).abs() > 1e-5).float().mean()
    assert 0.08 < float(changed) < 0.12  # a tenth: crossed with itself a pixel stays (but for rounding)
    both = direct.children(first, mates, draw_for(lanes, 1), (1, 8, 8)).pixels
    crossed = ((both - first.pixels).abs() > 1e-4).float().mean(1)
    assert 0.4 < float((crossed > 0.25).float().mean()) < 0.6  # half of the children have two parents
    assert float(both.min()) >= 0
    assert float(both.max()) <= 1
    assert float((alone.pixels - first.pixels).abs().mean()) < 0.02  # η 15: small steps


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="nodes is 0"):
        Cppn(nodes=0)
    with pytest.raises(UserError, match="connections is 3"):
        Cppn(connections=3)
