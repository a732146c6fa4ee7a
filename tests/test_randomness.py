"""Draws are a function of (seed, stream, lane, member, step) alone, and they look random."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from foible.randomness import integers, normals, uniforms, words

LANES = torch.arange(4000)


def test_any_batch_split_draws_the_same() -> None:
    whole = words(7, LANES[:, None], torch.arange(5), stream="t", count=6)
    for lane in (0, 17, 3999):
        for step in (0, 4):
            alone = words(7, torch.tensor([lane]), step, stream="t", count=6)
            assert torch.equal(alone[0], whole[lane, step])


def test_fewer_words_are_a_prefix_of_more() -> None:
    assert torch.equal(words(1, LANES, stream="t", count=3), words(1, LANES, stream="t", count=11)[:, :3])


@pytest.mark.parametrize("change", [{"seed": 8}, {"stream": "u"}, {"step": 1}, {"member": 1}])
def test_every_coordinate_changes_the_draws(change: dict[str, int]) -> None:
    base = {"seed": 7, "stream": "t", "step": 0, "member": 0}
    first, second = (
        words(c["seed"], LANES, c["step"], member=c["member"], stream=c["stream"], count=4)  # type: ignore[arg-type]
        for c in (base, base | change)
    )
    assert (first == second).float().mean() < 0.001


def test_no_two_lanes_steps_or_members_share_words() -> None:
    drawn = words(
        0,
        torch.arange(64)[:, None, None],
        torch.arange(16)[:, None],
        member=torch.arange(8),
        stream="t",
        count=4,
    )
    assert len(drawn.flatten(0, -2).unique(dim=0)) == 64 * 16 * 8


def test_uniforms_are_uniform_and_exact() -> None:
    drawn = uniforms(3, LANES, stream="t", count=25)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert torch.equal(drawn * 2**24, (drawn * 2**24).round())
    assert stats.kstest(drawn.flatten().double().numpy(), "uniform").pvalue > 1e-3
    assert abs(float(torch.corrcoef(drawn[:, :2].t())[0, 1])) < 0.06


def test_integers_are_uniform() -> None:
    drawn = integers(3, LANES, stream="t", high=10, count=25)
    counts = drawn.flatten().bincount(minlength=10)
    assert len(counts) == 10
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_normals_have_the_moments_of_a_normal() -> None:
    drawn = normals(3, LANES, stream="t", count=25).flatten().double()
    assert stats.kstest(drawn.numpy(), "norm").pvalue > 1e-3
    assert abs(float(drawn.mean())) < 4 / math.sqrt(len(drawn))
    assert abs(float((drawn**4).mean()) - 3) < 0.15


@given(high=st.integers(1, 2**31), seed=st.integers(-(2**70), 2**70))
@settings(max_examples=50, deadline=None)
def test_integers_stay_below_high_for_any_seed(high: int, seed: int) -> None:
    drawn = integers(seed, LANES[:50], stream="t", high=high, count=3)
    assert drawn.min() >= 0
    assert drawn.max() < high


def test_integers_refuse_a_range_that_they_cannot_cover() -> None:
    with pytest.raises(ValueError, match="expected 1 to"):
        integers(0, LANES, stream="t", high=2**31 + 1, count=1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_bits_on_a_gpu() -> None:
    here = words(5, LANES[:, None], torch.arange(3), stream="t", count=7)
    there = words(5, LANES.cuda()[:, None], torch.arange(3, device="cuda"), stream="t", count=7)
    assert torch.equal(here, there.cpu())
    assert torch.equal(uniforms(5, LANES, stream="t", count=7), uniforms(5, LANES.cuda(), stream="t", count=7).cpu())
    gap = normals(5, LANES, stream="t", count=7) - normals(5, LANES.cuda(), stream="t", count=7).cpu()
    assert gap.abs().max() < 1e-5
