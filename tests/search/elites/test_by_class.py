"""MAP-Elites over classes: the archive never loses a better image, and lanes never touch."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foible.images import settle
from foible.objectives import Confidence, log_odds_of
from foible.search.elites.by_class import evolve, marks_of
from foible.spaces.cppn import Cppn
from foible.spaces.direct import Direct

SHAPE = (1, 6, 6)


def judge(classes: int = 5) -> Any:
    weight = torch.randn(36, classes, generator=torch.Generator().manual_seed(3))
    # To three digits: the last bits of a product depend on how many rows it has.
    return lambda images: log_odds_of(4 * (images.flatten(1) - 0.3) @ weight).mul(1e3).round() / 1e3


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 1000), st.integers(1, 4), st.integers(1, 12), st.integers(1, 8), st.sampled_from([Cppn(), Direct()])
)
def test_the_archive_never_loses_a_better_image(
    seed: int, lanes: int, population: int, generations: int, encoding: Any
) -> None:
    seen: list[Tensor] = []
    every = judge()

    def watched(images: Tensor) -> Tensor:
        seen.append(every(images).view(lanes, population, -1))
        return every(images)

    done = evolve(
        encoding, watched, SHAPE, torch.arange(lanes), population=population, generations=generations, seed=seed
    )
    best = torch.stack(seen).amax((0, 2))
    assert torch.equal(done.score, best)  # the best of all that were ever tried
    again = every(settle(encoding.render(done.genomes, SHAPE))).view(lanes, 5, 5).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(again, best, atol=1e-4, rtol=1e-4)  # and it is that very image
    assert bool((done.trace.diff(dim=0) >= 0).all())
    assert done.marks == marks_of(generations)


def test_a_lane_is_the_same_whoever_is_beside() -> None:
    many = evolve(Cppn(), judge(), SHAPE, torch.arange(6), population=20, generations=6, rows=50)
    two = evolve(Cppn(), judge(), SHAPE, torch.tensor([1, 4]), population=20, generations=6)
    assert torch.equal(many.score[[1, 4]], two.score)
    rows = torch.tensor([5, 6, 7, 8, 9, 20, 21, 22, 23, 24])
    for a, b in zip(many.genomes, two.genomes, strict=True):
        assert torch.equal(a[rows], b)


def test_confidence_rises_and_an_answer_that_is_no_number_never_wins() -> None:
    every = judge()

    def sometimes(images: Tensor) -> Tensor:
        scores = every(images)
        scores[images.flatten(1).sum(1) > 18] = torch.nan
        return scores

    done = evolve(Cppn(), sometimes, SHAPE, torch.arange(2), population=40, generations=15)
    assert bool(done.broken.sum() > 0)
    assert bool(done.score.isfinite().all())
    assert bool((settle(Cppn().render(done.genomes, SHAPE)).flatten(1).sum(1) <= 18).all())
    assert float((done.trace[-1] - done.trace[0]).min()) >= 0
    assert float((done.trace[-1] - done.trace[0]).mean()) > 0.5
    nothing = evolve(
        Cppn(), lambda images: every(images) * torch.nan, SHAPE, torch.arange(2), population=4, generations=2
    )
    assert bool(nothing.score.isinf().all())


def test_log_odds_do_not_saturate() -> None:
    logits = torch.randn(40, 7, generator=torch.Generator().manual_seed(0)) * 40
    shares = logits.double().softmax(1)
    for row, wanted in zip(log_odds_of(logits), shares, strict=True):
        for place, value in enumerate(row.tolist()):
            others = torch.cat([wanted[:place], wanted[place + 1 :]]).sum()
            assert abs(value - float(wanted[place].log() - others.log())) < 1e-3


def test_whose_confidence() -> None:
    sure, unsure = torch.tensor([9.0, 0.0, 0.0]), torch.tensor([0.1, 0.0, 0.05])
    aim = torch.tensor([0])
    both = torch.stack([sure, unsure])[:, None]
    assert bool(Confidence().found(both, aim)[0])
    assert not bool(Confidence(of="all").found(both, aim)[0])  # the mean is (0.9998 + 0.35) / 2
    assert bool(Confidence(of="alone").found(both, aim)[0])
    assert not bool(Confidence(of="alone").found(torch.stack([sure, sure])[:, None], aim)[0])
    assert not bool(Confidence().found(both * torch.nan, aim)[0])
    mean = Confidence(of="all").every(both)[0].sigmoid()
    torch.testing.assert_close(mean, both.softmax(2).mean(0)[0], atol=1e-5, rtol=0)
    alone, crowd = (Confidence(of="alone").every(torch.stack([sure, other])[:, None])[0, 0] for other in (unsure, sure))
    assert float(alone) > float(crowd)
