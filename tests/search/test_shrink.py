"""Shrinking, where the smallest change is known exactly, and on what a search found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.images import settle
from foible.objectives import Dissent
from foible.search import Trials, hill_climb
from foible.search.shrink import Shrunk, _width, shrink
from foible.search.task import FOUND
from foible.search.walking import Paths, walk
from foible.spaces import Affine, Chain, Crop, Photometric, Swaps, is_box
from foible.testing import Counting, linear_basket, linear_network, linear_trials

SIZE = 9
MIDDLE = SIZE * SIZE // 2


def looks_at(places: list[int], above: float) -> nn.Module:
    """Says 1 where the sum of these pixels is above a bound, else 0."""
    layer = nn.Linear(SIZE * SIZE, 2)
    weight = torch.zeros(2, SIZE * SIZE)
    weight[1, places] = 40.0
    layer.load_state_dict({"weight": weight, "bias": torch.tensor([0.0, -40.0 * above])})
    return nn.Sequential(nn.Flatten(), layer)


def basket_of(networks: dict[str, nn.Module]) -> Basket:
    return Basket(networks, classes=["0", "1"], preprocess="inside", shape=(1, SIZE, SIZE))


def test_the_least_brightness_and_nothing_else() -> None:
    """A flat grey image of value k/255 gets as bright as 153.5/255, where the suspect changes its mind: rounding to
    8 bits makes that exact. Contrast and gamma of a flat image are given and not needed."""
    basket = basket_of({"A": looks_at([MIDDLE], 153.75 / 255), "B": looks_at([MIDDLE], 200 / 255)})
    values = torch.tensor([80, 100, 120, 140])
    seeds = (values.view(4, 1, 1, 1).expand(4, 1, SIZE, SIZE)).to(torch.uint8)
    space = Photometric(brightness=5, gamma=3)
    given = [torch.full((7, 7), 0.5) for _ in range(4)]
    for path, value in zip(given, values.tolist(), strict=True):
        path[:, 0] += 0.5 * (180 - value) / 255 / 0.05 / 7
        path[:, 1] += 0.3
        path[3, 4] = 0.0
    shrunk = shrink(space, Dissent(), basket, seeds, torch.zeros(4, dtype=torch.int64), given, suspect="A")
    least = (153.5 - values) / 255 / 0.05
    amounts = 2 * shrunk.paths.draws - 1
    assert shrunk.kinds == [["brightness"]] * 4
    assert bool((amounts[:, 0] >= least - 1e-4).all())
    assert bool((amounts[:, 0] <= least * 1.02 + 1e-4).all())
    assert not amounts[:, 1:].any()
    assert torch.equal(shrunk.images, torch.full((4, 1, SIZE, SIZE), 154 / 255))


def ramps(count: int) -> tuple[Tensor, list[Tensor]]:
    """Images that get brighter by 12/255 a pixel from 128/255 in the middle, and paths that lead 6 to 8 pixels to the
    left, with turning, stretching and shearing on the way."""
    ramp = (128 + 12 * (torch.arange(SIZE) - SIZE // 2)).to(torch.uint8).expand(count, 1, SIZE, SIZE)
    generator = torch.Generator().manual_seed(0)
    paths = [torch.rand(8, 6, generator=generator) * 0.4 + 0.3 for _ in range(count)]
    for path in paths:
        path[:, 4] = 0.1 * torch.rand(8, generator=generator)
    return ramp, paths


def test_the_least_shift_and_nothing_else() -> None:
    """With the edges drawn out, the middle pixel of a ramp depends on the shift along it alone: turning and stretching
    leave the middle where it is. It rounds to 160 after 31.5/12 pixels."""
    basket = basket_of({"A": looks_at([MIDDLE], 159.75 / 255), "B": looks_at([MIDDLE], 230 / 255)})
    space, (seeds, given) = Affine(border="edge"), ramps(20)
    shrunk = shrink(space, Dissent(), basket, seeds, torch.zeros(20, dtype=torch.int64), given, suspect="A")
    amounts = 2 * shrunk.paths.draws - 1
    least = 31.5 / 12
    assert shrunk.kinds == [["shift"]] * 20
    assert not amounts[:, [0, 1, 2, 3, 5]].any()
    assert bool((-amounts[:, 4] >= least - 1e-4).all())
    assert bool((-amounts[:, 4] <= least * 1.02).all())
    assert torch.allclose(space.describe(shrunk.points)["shift x px"].float(), amounts[:, 4], atol=1e-4)


def test_what_never_held_is_given_back() -> None:
    basket = basket_of({"A": looks_at([MIDDLE], 180 / 255), "B": looks_at([MIDDLE], 230 / 255)})  # a ramp ends at 176
    for space in (Affine(border="edge"), Affine(border="edge", resample="each")):
        seeds, given = ramps(5)
        shrunk = shrink(space, Dissent(), basket, seeds, torch.zeros(5, dtype=torch.int64), given, suspect="A")
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(shrunk.paths, given, strict=True))


def test_a_peer_may_need_what_the_suspect_does_not() -> None:
    """Brighter makes the suspect wrong and the peer too; more contrast in a dark corner keeps the peer right."""
    image = torch.full((1, 1, SIZE, SIZE), 128, dtype=torch.uint8)
    image[..., 0, 0] = 64
    basket = basket_of({"A": looks_at([MIDDLE], 150 / 255), "B": looks_at([0], 65 / 255)})
    space = Photometric(gamma=0)
    path = torch.tensor([[0.5 + 3 * 0.5, 0.5 + 5 * 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]])
    shrunk = shrink(space, Dissent(), basket, image, torch.tensor([0]), [path], suspect="A")
    assert shrunk.kinds == [["contrast", "brightness"]]  # the larger part first
    before, after = 2 * path[0] - 1, 2 * shrunk.paths[0][0] - 1
    assert float(after.norm()) < 0.9 * float(before.norm())
    assert bool(Dissent().found(basket.judge(shrunk.images, ["A", "B"]), torch.tensor([0])).all())


def place(one: int, other: int) -> Tensor:
    return torch.tensor([(one + 0.5) / SIZE**2, (other + 0.5) / SIZE**2])


def test_the_two_swaps_that_matter() -> None:
    """The suspect is wrong once pixels 0 and 1 are bright. Two of a dozen swaps bring bright pixels there."""
    image = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.uint8)
    image.view(-1)[[30, 40]] = 255
    basket = basket_of({"A": looks_at([0, 1], 1.5), "B": looks_at([2], 0.5)})
    junk = [place(50 + i, 60 + i) for i in range(10)]
    paths = [
        torch.stack([*junk[:3], place(30, 0), *junk[3:8], place(40, 1), *junk[8:]]),
        torch.stack([place(30, 0), place(1, 40)]),
        torch.stack([place(30, 7), *junk, place(7, 0), place(1, 40)]),  # 30 → 7 → 0 takes two
    ]
    shrunk = shrink(
        Swaps(), Dissent(), basket, image.expand(3, -1, -1, -1), torch.zeros(3, dtype=torch.int64), paths, suspect="A"
    )
    assert torch.equal(shrunk.paths[0], torch.stack([place(30, 0), place(40, 1)]))
    assert torch.equal(shrunk.paths[1], paths[1])
    assert torch.equal(shrunk.paths[2], torch.stack([place(30, 7), place(7, 0), place(1, 40)]))
    assert shrunk.kinds == [["swap"]] * 3
    assert Swaps().describe(shrunk.points)["changed px"].tolist() == [4, 4, 4]


SPACES = [
    Affine(),
    Affine(shear=0),  # a box in which some paths are no single move
    Affine(resample="each"),
    Chain((Photometric(), Crop(), Affine(border="edge"))),
    Swaps(),
]


def searched(space: Any, basket: Basket, count: int = 40) -> tuple[Trials, list[Tensor]]:
    trials = linear_trials(linear_basket(), count)
    found = hill_climb(space, Dissent(), basket, trials, suspect="A", seed=3)
    rows = (found.outcome == FOUND).nonzero()[:, 0]
    return trials.rows(rows), [found.accepted.draws[found.accepted.row == row] for row in rows.tolist()]


def shrink_all(space: Any, basket: Basket, trials: Trials, paths: list[Tensor], **options: Any) -> Shrunk:
    return shrink(space, Dissent(), basket, trials.seeds, trials.aims, paths, suspect="A", **options)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_what_a_search_found_is_smaller_and_still_holds(space: Any) -> None:
    basket = linear_basket()
    trials, paths = searched(space, basket)
    shrunk = shrink_all(space, basket, trials, paths)
    assert len(paths) > 15
    assert bool(Dissent().found(basket.judge(shrunk.images, ["A", "B", "C"]), trials.aims).all())
    points = walk(space, trials.seeds / 255, *shrunk.paths.padded(space.draws, torch.device("cpu")))
    assert torch.equal(settle(space.render(points)), shrunk.images)  # the path is all that it takes
    assert sum(map(len, shrunk.paths)) < 0.8 * sum(map(len, paths))
    if is_box(space):
        ends = walk(space, trials.seeds / 255, *Paths.of(paths).padded(space.draws, torch.device("cpu")))
        before, after = ((2 * space.draws_of(p) - 1).norm(dim=1) for p in (ends, shrunk.points))
        assert bool((after <= before + 1e-4).all()) or not space.closed
        assert float(after.mean()) < 0.9 * float(before.mean())


@pytest.mark.parametrize("space", [SPACES[0], SPACES[4]], ids=str)
def test_rows_never_touch(space: Any) -> None:
    basket = linear_basket()
    trials, paths = searched(space, basket)
    whole = shrink_all(space, basket, trials, paths)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        index = torch.arange(len(paths))[half]
        part = shrink_all(space, basket, trials.rows(index), paths[half], width=16)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(part.paths, whole.paths[half], strict=True))
        assert torch.equal(part.forwards, whole.forwards[half])
        assert part.kinds == whole.kinds[half]


@pytest.mark.parametrize("space", [SPACES[0], SPACES[4]], ids=str)
def test_every_inference_is_counted_and_the_suspect_is_asked_first(space: Any) -> None:
    networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=["0", "1", "2"], preprocess="inside", shape=(1, 12, 12))
    trials, paths = searched(space, linear_basket(), 6)
    forwards = []
    for row in range(len(paths)):  # one row in a batch: every call is one inference
        forwards.append(shrink_all(space, basket, trials.rows(torch.tensor([row])), paths[row : row + 1]).forwards)
    calls = {name: len(network.calls) for name in "ABC" if isinstance(network := basket.network(name), Counting)}
    assert int(torch.cat(forwards).sum()) == sum(calls.values())
    assert torch.equal(torch.cat(forwards), shrink_all(space, basket, trials, paths).forwards)
    assert 0 < calls["B"] == calls["C"] < calls["A"]


def test_nothing_to_shrink() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 3)
    none = shrink_all(Affine(), basket, trials.rows(torch.tensor([], dtype=torch.int64)), [])
    assert (len(none.paths), none.kinds, len(none.images), len(none.forwards)) == (0, [], 0, 0)
    still = shrink_all(Affine(), basket, trials, [torch.empty(0, 6)] * 3)  # never moved, never wrong
    assert [len(path) for path in still.paths] == [0, 0, 0]
    assert torch.equal(still.images, trials.seeds / 255)


def test_paths_of_unlike_lengths_stand_in_one_tensor() -> None:
    given = [torch.rand(length, 3) for length in (2, 0, 5, 1)]
    paths = Paths.of(given)
    draws, lengths = paths.padded(3, torch.device("cpu"))
    assert lengths.tolist() == [2, 0, 5, 1]
    assert draws.shape == (4, 5, 3)
    for row, path in enumerate(given):
        assert torch.equal(draws[row, : len(path)], path)
        assert bool((draws[row, len(path) :] == 0.5).all())
    assert Paths.of([torch.empty(0, 3)]).padded(3, torch.device("cpu"))[0].shape == (1, 0, 3)
    assert torch.equal(Paths.unpadded(draws, lengths).draws, paths.draws)


def test_paths_are_a_sequence() -> None:
    given = [torch.rand(length, 3) for length in (2, 0, 5, 1)]
    paths = Paths.of(given)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(paths, given, strict=True))
    assert torch.equal(paths[-1], given[-1])
    some = paths[torch.tensor([2, 0])]
    assert some.lengths.tolist() == [5, 2]
    assert torch.equal(some.draws, torch.cat([given[2], given[0]]))
    assert torch.equal(paths[1:].draws, torch.cat(given[1:]))
    with pytest.raises(IndexError):
        paths[4]


def test_rows_of_a_batch_are_lanes_within_the_memory_of_a_cpu() -> None:
    """As on a CPU: two thousand small images, and as few as are needed of large ones."""
    basket = linear_basket()
    assert _width(basket, torch.empty(3, 1, 28, 28)) == 2000
    assert _width(basket, torch.empty(1, 1, 400, 4000)) == 10
