"""The one training loop: who sees what and when, against a loop that is written out, and from any break."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.networks.loop import Place, Schedule, Turn, descent, enough, loop, order

CPU = torch.device("cpu")
INPUTS = torch.randn(23, 4, generator=torch.Generator().manual_seed(0))
TRUTH = torch.arange(23) % 3


def network() -> nn.Linear:
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, 12).view(3, 4))
        layer.bias.zero_()
    return layer


def loss_of(layer: nn.Linear, rows: Tensor) -> Tensor:
    return F.cross_entropy(layer(INPUTS[rows]), TRUTH[rows])


def test_it_is_the_plain_loop() -> None:
    """Three epochs of four batches of five (three images are left over in each), Adam, half a cosine."""
    schedule = Schedule(23, 5, 3, 0.1, decay=True)
    plain, losses, sums = network(), [], []
    optimiser = torch.optim.Adam(plain.parameters())
    for epoch in range(3):
        rows = order(torch.tensor([7]), epoch, 23)[0]
        for number in range(4):
            optimiser.param_groups[0]["lr"] = 0.1 * 0.5 * (1 + math.cos(math.pi * (4 * epoch + number) / 12))
            optimiser.zero_grad()
            loss = loss_of(plain, rows[5 * number : 5 * number + 5])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        sums.append(sum(losses[-4:]))
    ours, seen = network(), list[Tensor | None]()
    step = descent(torch.optim.Adam(ours.parameters()), lambda rows: loss_of(ours, rows))
    loop(schedule, Place.start([7], CPU), step, seen.append)
    assert torch.equal(ours.weight, plain.weight)
    assert torch.equal(ours.bias, plain.bias)
    assert [number for number, one in enumerate(seen, 1) if one is not None] == [4, 8, 12]
    assert [float(one) for one in seen if one is not None] == pytest.approx(sums, rel=1e-6)


@pytest.mark.parametrize("broken_off", [1, 4, 6, 11])
def test_from_any_break_it_goes_on_to_the_same_bits(broken_off: int) -> None:
    schedule = Schedule(23, 5, 3, 0.1, decay=True)
    whole, sums = network(), list[Tensor | None]()
    loop(schedule, Place.start([7], CPU), sgd(whole), sums.append)
    part, place, late = network(), Place.start([7], CPU), list[Tensor | None]()

    def breaking(sums: Tensor | None) -> None:
        late.append(sums)
        if place.step == broken_off:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop(schedule, place, sgd(part), breaking)
    again = Place(place.seeds.clone(), place.losses.clone(), place.step)  # what a checkpoint holds: no order
    loop(schedule, again, sgd(part), late.append)
    assert again.step == 12
    assert torch.equal(part.weight, whole.weight)
    assert [None if one is None else one.tolist() for one in late] == [
        None if one is None else one.tolist() for one in sums
    ]


def sgd(layer: nn.Linear) -> object:
    return descent(torch.optim.SGD(layer.parameters()), lambda rows: loss_of(layer, rows))


def test_whoever_is_kept_goes_on_with_its_own_images_and_nobody_is_the_end() -> None:
    schedule, place, turns = Schedule(10, 3, 4, 1.0), Place.start([4, 9, 2], CPU), list[Turn]()
    left = {2: [2, 0], 7: []}  # after these steps, the second of them in the middle of an epoch

    def step(turn: Turn) -> Tensor:
        turns.append(turn)
        return place.seeds.float()

    def after(sums: Tensor | None) -> None:
        if sums is not None:
            assert sums.tolist() == [3 * seed for seed in place.seeds.tolist()]
        if place.step in left:
            place.keep(left[place.step])

    loop(schedule, place, step, after)
    assert [turn.number for turn in turns] == list(range(7))
    for turn in turns:
        seeds = torch.tensor([4, 9, 2] if turn.number < 2 else [2, 4])
        epoch, number = divmod(turn.number, 3)
        assert torch.equal(turn.rows, order(seeds, epoch, 10)[:, 3 * number : 3 * number + 3])
    assert len(place.losses) == 0


def test_a_step_may_take_several_optimisers() -> None:
    """As a GAN's: x lowers x·y and y raises it, y first, each by its own; by hand beside it."""
    x, y = (torch.tensor([start], requires_grad=True) for start in (1.0, 2.0))
    raising = descent(torch.optim.SGD([y]), lambda rows: -(x.detach() * y).sum() * len(rows))
    lowering = descent(torch.optim.SGD([x]), lambda rows: (x * y.detach()).sum() * len(rows))

    def step(turn: Turn) -> Tensor:
        raising(turn)
        return lowering(turn)

    loop(Schedule(4, 2, 3, 0.01), Place.start([0], CPU), step)
    one, other = 1.0, 2.0
    for _ in range(6):
        other += 0.02 * one
        one -= 0.02 * other
    assert (x.item(), y.item()) == pytest.approx((one, other), rel=1e-5)


def test_rates_and_epochs() -> None:
    falling = Schedule(100, 10, 2, 0.5, decay=True)
    assert (falling.per_epoch, falling.steps) == (10, 20)
    assert [falling.rate_at(step) for step in (0, 10, 20)] == pytest.approx([0.5, 0.25, 0])
    assert Schedule(100, 10, 2, 0.5).rate_at(19) == 0.5
    assert enough(3, 60, 600, 100) == 10
    assert enough(3, 60, 60_000, 100) == 3
    loop(Schedule(100, 10, 0, 0.5, decay=True), Place.start([0], CPU), lambda _: pytest.fail("no step was asked for"))


def test_another_stream_is_another_order() -> None:
    seeds = torch.tensor([3])
    assert not torch.equal(order(seeds, 0, 50), order(seeds, 0, 50, "probe.order"))
    seen = list[Tensor]()

    def step(turn: Turn) -> Tensor:
        seen.append(turn.rows[0])
        return torch.zeros(1)

    loop(Schedule(50, 10, 1, 0.1, stream="probe.order"), Place.start([3], CPU), step)
    assert torch.equal(torch.cat(seen), order(seeds, 0, 50, "probe.order")[0])
