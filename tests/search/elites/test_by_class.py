"""MAP-Elites over classes: the archive never loses a better image, lanes never touch, and it goes on from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from foible.basket import Basket
from foible.images import settle
from foible.networks.progress_file import Checkpoint
from foible.objectives import Confidence, log_odds_of
from foible.search.elites.by_class import KEPT, Evolved, evolve, marks_of
from foible.search.elites.for_classes import distinct, judging
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
    torch.testing.assert_close(again, best, atol=1.5e-3, rtol=0)  # and it is that very image, but for the third digit
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


class Stopped(Exception):
    pass


def broken_off(encoding: Any, path: Path, generations: int, after: int) -> None:
    """Evolve until some generation has been judged; every one before it is noted."""
    every, judged = judge(), [0]
    path.unlink(missing_ok=True)

    def watched(images: Tensor) -> Tensor:
        judged[0] += 1
        if judged[0] > after:
            raise Stopped
        return every(images)

    with pytest.raises(Stopped):
        going(encoding, watched, generations, Checkpoint(path, 0.0, KEPT))


def going(encoding: Any, every: Any, generations: int, kept: Checkpoint | None) -> Evolved:
    return evolve(
        encoding, every, SHAPE, torch.arange(2), population=10, generations=generations, shown=[0, 3], kept=kept,
        about="this very one",
    )  # fmt: skip


def same(one: Evolved, other: Evolved) -> bool:
    """Every bit, the way included."""
    tensors = [[made.score, made.trace, made.broken, *made.genomes, *made.first, *made.way] for made in (one, other)]
    return all(torch.equal(a, b) for a, b in zip(*tensors, strict=True)) and one.marks == other.marks


@pytest.mark.parametrize("encoding", [Cppn(), Direct()])
def test_an_evolution_goes_on_from_any_generation(encoding: Any, tmp_path: Path) -> None:
    whole = going(encoding, judge(), 9, None)
    assert len(whole.way[0]) == 2 * len(whole.marks)
    for after in (1, 4, 8):
        broken_off(encoding, tmp_path / "kept", 9, after)
        asked: list[int] = []

        def every(images: Tensor, asked: list[int] = asked) -> Tensor:
            asked.append(len(images))
            return judge()(images)

        assert same(whole, going(encoding, every, 9, Checkpoint(tmp_path / "kept", 1e9, KEPT)))
        assert len(asked) == 9 - after + 1  # the first is one image, to see how many classes there are
    assert same(whole, going(encoding, judge(), 9, Checkpoint(tmp_path / "kept", 1e9, KEPT)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("genomes.source", 99), ("genomes.target", 1), ("first.hidden", 33), ("way.activation", 9),
        ("genomes.weight", float("nan")), ("genomes.target", 99), ("score", None), ("broken", None), ("more", None),
    ],
)  # fmt: skip
def test_a_note_that_is_no_genome_is_not_gone_on_from(field: str, value: Any, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    broken_off(Cppn(), file, 6, 3)
    tensors, record = Checkpoint(file, 0.0, KEPT).read() or ({}, {})
    if value is None:
        tensors[field] = torch.zeros(3, 3)
    else:
        tensors[field].view(-1)[:2] = value
    Checkpoint(file, 0.0, KEPT).write(lambda: tensors, record)
    assert set(load_file(file)) >= {field}
    asked: list[int] = []
    whole = going(Cppn(), lambda images: asked.append(len(images)) or judge()(images), 6, Checkpoint(file, 1e9, KEPT))
    assert same(whole, going(Cppn(), judge(), 6, None))
    assert asked.count(20) == 6  # from the beginning
    save_file(tensors, file)  # without a record
    assert same(whole, going(Cppn(), judge(), 6, Checkpoint(file, 1e9, KEPT)))


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 5, 7)])
def test_of_equal_images_one_is_judged(shape: tuple[int, int, int]) -> None:
    some = settle(torch.rand(4, *shape, generator=torch.Generator().manual_seed(0)))
    images = some[[2, 0, 2, 1, 0, 3, 3]]
    rows, back = distinct(images)
    assert sorted(rows.tolist()) == [0, 1, 3, 5]  # where each first stands
    assert torch.equal(images[rows][back], images)
    asked: list[int] = []

    class Asked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(shape[0], 3, 3)

        def forward(self, images: Tensor) -> Tensor:
            asked.append(len(torch.unique(images.flatten(1), dim=0)))
            return self.conv(images).mean((2, 3))

    basket = Basket({"A": Asked()}, classes=["a", "b", "c"], preprocess="inside", shape=shape)
    said = judging(basket, ["A"])(images)
    assert asked[-1] == 4
    torch.testing.assert_close(said, basket.judge(images))
