"""Does an objective keep its promises?"""

from __future__ import annotations

import torch
from torch import nn

from foible.objectives import Objective, asks_all, slack_of
from foible.testing.promises import require


def check_objective(objective: Objective) -> None:
    """An objective: whom it asks, shapes, NaN never found, rows apart from each other, no peers allowed."""
    count, classes = 24, 5
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(4, count, classes, generator=generator) * 3
    aim = torch.randint(classes, (count,), generator=generator)
    asked = logits if asks_all(objective) else logits[0]
    score = objective.score(asked, aim)
    require(score.shape == (count,) and score.is_floating_point(), "score must be one float a row")
    slack = slack_of(objective, logits, aim)
    require(
        slack is None or (slack.shape == (4, count) and slack.is_floating_point()),
        "slack must be one float for each network and row: (networks, n)",
    )
    for name, answer in (
        ("allows", objective.allows(logits[1:], aim)),
        ("found", objective.found(logits, aim)),
    ):
        require(answer.shape == (count,) and answer.dtype == torch.bool, f"{name} must be one bool a row")
    require(bool(objective.allows(logits[:0], aim).all()), "with no peers, allows must be true for every row")
    broken = torch.full_like(logits, torch.nan)
    require(not bool(objective.found(broken, aim).any()), "NaN logits must never be found")
    for network in range(4):
        partly = logits.clone()
        partly[network] = torch.nan
        require(
            not bool(objective.found(partly, aim).any()),
            f"NaN logits of network {network} must never be found",
        )
    require(not bool(objective.allows(broken[1:], aim).any()), "NaN logits must never be allowed")
    likely = logits + 6 * nn.functional.one_hot(aim, classes)
    allowed = objective.allows(likely[1:], aim)
    for peer in range(1, 4):
        alone = objective.allows(likely[peer : peer + 1], aim)
        require(
            bool(alone[allowed].all()), "what all peers allow, each must allow: some may be asked before the others"
        )
    order = torch.randperm(count, generator=generator)
    require(
        torch.equal(objective.found(logits[:, order], aim[order]), objective.found(logits, aim)[order]),
        "rows must not touch (found)",
    )
    require(
        torch.allclose(objective.score(asked[..., order, :], aim[order]), score[order]),
        "rows must not touch (score)",
    )
