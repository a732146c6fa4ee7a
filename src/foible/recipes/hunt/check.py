"""What can be said to be wrong with a hunt before any image is judged for it."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor

from foible import specs
from foible.basket import Basket, Budget
from foible.errors import UserError
from foible.images import to_floats
from foible.realism import fit
from foible.runs.defaults import check_images
from foible.runs.task import Task
from foible.search import Trials


def check_task(task: Task) -> None:
    """Space, objective and search must get on with each other and with images of this size; every network must answer,
    with a gradient where one is followed; and a network that tells what is typical must be there."""
    _rehearse(task)
    images = check_images(task)
    if images is None:
        return
    if task.named["realism"].startswith("network:"):
        fit(task.named["realism"], images, basket=task.basket, may=task.may)
    if specs.parse(task.named["search"]).name == "gradient":
        _check_gradients(task.basket, to_floats(images[:1].to(task.basket.device)))


def _rehearse(task: Task) -> None:
    """A step of the search on a grey image, with stand-ins for the networks: what the parts refuse is said now. Other
    errors may be of the stand-ins' making, and are left to the search itself."""
    names, classes = task.basket.names, task.basket.classes

    def answer(images: Tensor) -> Tensor:
        return images.flatten(1).mean(1, keepdim=True) * torch.arange(len(classes), device=images.device).flip(0)

    basket = Basket(dict.fromkeys(names, answer), classes=classes, preprocess="inside")
    grey = torch.full((1, *task.matched.shape), 128, dtype=torch.uint8)
    one = torch.zeros(1, dtype=torch.int64)
    try:
        task.parts["search"](
            task.parts["space"], task.parts["objective"], basket, Trials(one, grey, one), suspect=names[0], seed=0,
            precision="float32", budget=Budget(forwards=1), tick=lambda _: None,
        )  # fmt: skip
    except UserError:
        raise
    except Exception:  # of a part of the user's own, which may ask for more than a stand-in has
        return


def _check_gradients(basket: Basket, image: Tensor) -> None:
    """Refuse a network whose answer has no gradient, in the words of the search that follows it."""
    for name in basket.names:
        place = image.clone().requires_grad_()
        with suppress(RuntimeError):  # one that fails otherwise is named by the search
            if not basket.judge(place, [name]).requires_grad:
                raise UserError(f"network {name!r} gives no gradient: use the search hill-climb or strategy")
