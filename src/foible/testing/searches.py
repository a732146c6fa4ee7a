"""Does a search keep its promises?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from foible.basket import Basket, Budget
from foible.images import settle
from foible.objectives import Dissent, Objective
from foible.search.task import EXHAUSTED, FOUND, INVALID, Found, Trials
from foible.search.walking import retrace
from foible.spaces import Affine
from foible.testing.linear import CLASSES, SHAPE, Counting, linear_basket, linear_network, linear_trials
from foible.testing.promises import require


def check_search(search: Callable[..., Found], space: Any | None = None, objective: Objective | None = None) -> None:
    """A search: its claims hold, its paths replay, its costs are what the networks saw, its lanes do not touch."""
    space, objective = space or Affine(), objective or Dissent()
    basket = linear_basket()
    trials = linear_trials(basket, 40)
    options = {"suspect": "A", "seed": 3}
    found = search(space, objective, basket, trials, **options)
    count = len(trials.lanes)
    for name in ("outcome", "candidates", "forwards", "backwards"):
        require(getattr(found, name).shape == (count,), f"{name} must have one entry a trial")
    require(bool((found.outcome == FOUND).any()), "the search must find something on the linear basket")
    paths = [found.accepted.draws[found.accepted.row == row] for row in range(count)]
    points = retrace(space, trials.seeds.float() / 255, paths)
    logits = basket.judge(settle(space.render(points))[:count], ["A", "B", "C"])
    holds = objective.found(logits, trials.aims)
    require(
        bool(holds[found.outcome == FOUND].all()),
        "what is called found must be found on settled images, replayed from its path",
    )
    _check_lanes(search, space, objective, basket, trials, found, options)
    _check_costs(search, space, objective, trials, options)
    capped = search(space, objective, basket, trials, **options, budget=Budget(forwards=40))
    slack = 2 * len(basket) + 1  # the candidate under way may be finished
    require(
        bool((capped.forwards <= 40 + slack).all()),
        "a budget of 40 forwards must stop every lane about there",
    )
    broken = Basket({"A": _Broken(), "B": linear_network(1)}, classes=basket.classes, preprocess="inside", shape=SHAPE)
    bad = search(space, objective, broken, trials, **options)
    require(bool((bad.outcome == INVALID).all()), "a suspect that answers NaN must end in the outcome invalid")


def _check_lanes(
    search: Callable[..., Found],
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    whole: Found,
    options: Any,
) -> None:
    count = len(trials.lanes)
    parts = [torch.arange(count)[::2], torch.arange(count)[1::2]]
    for index in parts:
        part = search(space, objective, basket, trials.rows(index), **options)
        require(
            torch.equal(part.outcome, whole.outcome[index]),
            "lanes must not touch: part of the trials had other outcomes",
        )
        require(
            torch.equal(part.candidates, whole.candidates[index]),
            "lanes must not touch: other numbers of candidates",
        )
        for row, original in enumerate(index.tolist()):
            ours = part.accepted.draws[part.accepted.row == row]
            theirs = whole.accepted.draws[whole.accepted.row == original]
            require(torch.equal(ours, theirs), "lanes must not touch: a lane's path changed with its batch-mates")


def _check_costs(search: Callable[..., Found], space: Any, objective: Objective, trials: Trials, options: Any) -> None:
    """Nobody can have spent more than the networks saw (idle lanes and padding make them see more)."""
    networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    found = search(space, objective, basket, trials, **options)
    copies = [basket.network(name) for name in "ABC"]
    seen = sum(sum(copy.calls) for copy in copies if isinstance(copy, Counting))
    spent = int(found.forwards.sum())
    require(spent > 0, "forwards must be counted")
    require(spent <= seen, f"{spent} forwards were counted, but the networks judged only {seen} images")
    exhausted = found.outcome == EXHAUSTED
    require(
        bool((found.forwards >= found.candidates)[exhausted].all()),
        "every candidate costs at least one forward",
    )


class _Broken(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1)[:, :1] * torch.nan).expand(-1, CLASSES)
