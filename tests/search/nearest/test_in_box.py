"""The smallest change in a box, where it is known."""

from __future__ import annotations

import torch
from linear_generator import Linear

from foible.basket import Basket
from foible.images import settle, to_floats
from foible.objectives import Restore
from foible.search import descend
from foible.search.nearest.in_box import exactly_nearest, nearest_in_box
from foible.search.task import FOUND, Trials
from foible.search.walking import Paths
from foible.spaces import Latent


def test_for_a_linear_generator_and_network_it_is_a_projection() -> None:
    generator = Linear(5)
    space = Latent(generator, step=1.0, reach=8.0)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 2)).requires_grad_(False)
    network[1].weight[1] += 6 * generator.columns.sum(1)
    network[1].bias[1] -= 3 * generator.columns.sum()
    basket = Basket({"A": network}, classes=["0", "1"], preprocess="inside", shape=generator.shape)
    seeds = torch.randint(80, 170, (40, *generator.shape), dtype=torch.uint8)
    aims = 1 - basket.predict(seeds, ["A"])[0].argmax(1)
    found = descend(space, Restore(), basket, Trials(torch.arange(40), seeds, aims), suspect="A", rate=0.01, steps=500)
    rows = (found.outcome == FOUND).nonzero()[:, 0]
    assert len(rows) > 30
    paths = Paths(found.accepted.draws, torch.bincount(found.accepted.row, minlength=40))[rows]
    seeds, aims = seeds[rows], aims[rows]
    least = nearest_in_box(space, Restore(), basket, seeds, aims, paths, suspect="A")
    assert bool((basket.judge(least.images, ["A"])[0].argmax(1) == aims).all())

    assert torch.equal(least.images, settle(space.render(least.points)))
    sign = torch.where(aims == 1, 1.0, -1.0)
    gap = sign * (network(to_floats(seeds)) @ torch.tensor([-1.0, 1.0]))  # below 0: by so much the class lacks
    slope = (network[1].weight[1] - network[1].weight[0]) @ generator.columns
    known = -gap / slope.norm()
    exact = exactly_nearest(space, basket, space.start(to_floats(seeds)), to_floats(seeds), aims, suspect="A")
    assert bool(exact.found.all())
    length = exact.images.norm(dim=1)
    assert bool((length < 1.01 * known).all())  # before rounding every one of them, however near
    assert bool((length > 0.999 * known).all())
    size = least.points.shift.norm(dim=1)
    far = known > 0.1  # nearer than that, 8 bits of the pixels are what counts
    assert int(far.sum()) > 15
    assert float((size / known)[far].median()) < 1.01
    assert bool((size[far] < 1.05 * known[far]).all())  # 8 bits ask for a little more now and then
    assert bool((size[far] > 0.99 * known[far]).all())
    given = torch.stack([(2 * path - 1).sum(0) for path in paths])
    assert bool((size <= given.norm(dim=1) + 1e-6).all())
    assert bool((size < 0.999 * given.norm(dim=1)).any())
