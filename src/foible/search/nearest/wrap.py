"""Anybody's attack as a method of ours, and a method of ours as anybody's attack.

An attack is what the field's toolkits have: `attack(model, x, y) -> x_adv`. Small functions make theirs so:

    ours = wrap(adv_lib.attacks.alma)
    ours = wrap(lambda model, x, y: torchattacks.CW(model)(x, y))
    ours = wrap(lambda model, x, y: foolbox_attack(PyTorchModel(model, (0, 1)), x, y, epsilons=None)[1])

The attack sees the model through a counter: no image spends more than its budget, and what the attack hands back is
clipped to the box and judged here, whatever the attack itself thinks of it. An attack that is one of us, or that is to
run inside another toolkit, comes from `as_attack`.

How costs are counted. A query of as many rows as there are images costs each image one forward, and each backward pass
through it one backward (k of them for a Jacobian of k rows, `is_grads_batched` included). A query of fewer or more rows
cannot be told apart by image: its rows are shared out evenly, and it is not remembered. Judging what comes back is the
harness's own and costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, Nearest, length, margin
from foible.search.nearest.ledger import Ledger

Attack = Callable[..., Tensor]
Keep = Literal["smallest", "returned"]


class Method(Protocol):
    """See `foible.search.nearest`."""

    def __call__(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        *,
        targets: Tensor | None = None,
        low: float = 0.0,
        high: float = 1.0,
        budget: Budget | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> Nearest: ...


def wrap(attack: Attack, *, norm: str = "l2", keep: Keep = "smallest") -> Method:
    """A method that runs `attack(model, x, y) -> x_adv`.

    norm: what "smallest" is measured in, l2 or linf.
    keep: "smallest" remembers, for every image, the smallest query that already succeeded, so that an attack stopped by
        its budget keeps its best; "returned" judges only what the attack hands back, and one that was stopped has
        handed back nothing.

    With targets the attack is called as its parameters allow: with `targets` as `attack(model, x, labels,
    targets=targets)`, with `targeted` alone as `attack(model, x, targets, targeted=True)`. It is not told of the box.
    Its random draws are its own: one that draws gives another answer each time; and rows touch if it makes them.
    """
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected l2 or linf")
    if keep not in ("smallest", "returned"):
        raise UserError(f"keep is {keep!r}: expected smallest or returned")

    def method(
        model: Model,
        images: Tensor,
        labels: Tensor,
        *,
        targets: Tensor | None = None,
        low: float = 0.0,
        high: float = 1.0,
        budget: Budget | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> Nearest:
        if not len(images):
            none = torch.zeros(0, dtype=torch.int64, device=images.device)
            return Nearest(images, none.bool(), none.bool(), none, none.clone())
        queries, judged = (_Book(images, labels, targets, (low, high), norm) for _ in range(2))
        watched = _Watched(model, images, budget or Budget(), queries)
        try:
            with torch.enable_grad():
                back = _like(images, _call(attack, watched, images, labels, targets))
        except _Spent:
            back = images
        candidates = [images, back.clamp(low, high)]  # of two as near, the first
        if keep == "smallest":
            candidates.append(queries.ledger.best.view_as(images))
        for shown in candidates:
            with torch.no_grad():
                judged.enter(shown, model(shown))
        if tick:
            tick(len(images))
        ledger = judged.ledger
        ledger.invalid |= queries.ledger.invalid
        ledger.forwards += watched.cost("forwards")
        ledger.backwards += watched.cost("backwards")
        return ledger.close(images.shape[1:])

    return method


def as_attack(method: Method, **options: Any) -> Attack:
    """`attack(model, x, y, targets=None, targeted=False) -> x_adv` from a method and its options.

    y are labels to leave; with `targets` these are the classes to reach, with `targeted=True` alone y are. Rows where
    nothing was found come back as the method left them.
    """

    def attack(model: Model, x: Tensor, y: Tensor, targets: Tensor | None = None, targeted: bool = False) -> Tensor:
        return method(model, x, y, targets=y if targeted and targets is None else targets, **options).images

    return attack


class _Spent(BaseException):
    """The budget is spent. No Exception: an attack that catches those must not go on."""


class _Book:
    """The ledger of an attack's images, and what is asked of the points that are entered into it."""

    def __init__(
        self, origins: Tensor, labels: Tensor, targets: Tensor | None, box: tuple[float, float], norm: str
    ) -> None:
        self.shape, self.origins = origins.shape, origins.flatten(1)
        self.aim, self.box, self.norm = (labels, targets), box, norm
        self.ledger, self.every = Ledger(self.origins), torch.arange(len(origins), device=origins.device)

    def enter(self, points: Tensor, logits: Tensor) -> None:
        """points: as many as there are origins, with the model's answers. One outside the box is passed over, but for
        rounding: x + (clip(x') - x) is not always clip(x')."""
        points, logits = points.detach().flatten(1).to(self.origins), logits.detach()
        low, high = self.box
        inside = ((points >= low - 1e-6) & (points <= high + 1e-6)).all(1)
        points, by = points.clamp(low, high), margin(logits, *self.aim)
        size, sound = length(points - self.origins, self.norm), logits.isfinite().all(1)
        self.ledger.offer(self.every, points, by=by, hit=by > 0, size=size, sound=sound, counts=inside)


class _Watched(nn.Module):
    """The model as an attack sees it: it counts, remembers, and stops an attack that has spent its budget.

    The model itself is kept out of `modules()`: no toolkit can switch it to training, or move it.
    """

    def __init__(self, model: Model, images: Tensor, budget: Budget, queries: _Book) -> None:
        super().__init__()
        self._ask = (model,)
        self._n, self._budget, self._queries = len(images), budget, queries
        self._spent = {"forwards": 0, "backwards": 0}  # rows
        # Toolkits ask a model's first parameter where it lives.
        self.place = nn.Parameter(images.new_zeros(0), requires_grad=False)
        self.eval()

    def train(self, mode: bool = True) -> _Watched:  # noqa: ARG002
        return super().train(False)

    def forward(self, x: Tensor) -> Tensor:
        rows = len(x)
        self._spend("forwards", rows)
        logits = self._ask[0](x)
        if logits.requires_grad:
            logits.register_hook(lambda slope: self._spend("backwards", rows * _passes(slope)))
        if x.shape == self._queries.shape:
            self._queries.enter(x, logits)
        return logits

    def _spend(self, kind: str, rows: int) -> None:
        limit = getattr(self._budget, kind)
        if limit is not None and self._spent[kind] + rows > limit * self._n:
            raise _Spent
        self._spent[kind] += rows

    def cost(self, kind: str) -> int:
        """Forwards or backwards: every image's even share, rounded up."""
        return -(-self._spent[kind] // self._n)


def _passes(slope: Tensor) -> int:
    """How many backward passes a gradient is: under `is_grads_batched` as many as its hidden first axis has rows."""
    if torch._C._functorch.is_legacy_batchedtensor(slope):  # torch has no public word for this
        return len(torch._remove_batch_dim(slope, 1, 1, 0))
    return torch.func.debug_unwrap(slope, recurse=True).numel() // max(1, slope.numel())


def _call(attack: Attack, model: nn.Module, images: Tensor, labels: Tensor, targets: Tensor | None) -> Any:
    x, y = images.detach().clone(), labels.clone()  # an attack may write into what it is given
    if targets is None:
        return attack(model, x, y)
    try:
        takes = set(inspect.signature(attack).parameters)
    except (TypeError, ValueError):
        takes = set()
    if "targets" in takes:
        more = {"targeted": True} if "targeted" in takes else {}
        return attack(model, x, y, targets=targets.clone(), **more)
    if "targeted" in takes:
        return attack(model, x, targets.clone(), targeted=True)
    raise UserError(
        "targets were given, but the attack takes neither `targets` nor `targeted`: wrap a function such as "
        "`lambda model, x, y, targets=None: ...` that passes them on"
    )


def _like(images: Tensor, back: Any) -> Tensor:
    """What the attack gave back, where it can be images; broken rows are the images themselves."""
    if not isinstance(back, Tensor):
        raise UserError(
            f"the attack gave back a {type(back).__name__}: expected one tensor of changed images; pick it out, as in "
            "`lambda model, x, y: attack(model, x, y)[1]`"
        )
    if back.shape != images.shape:
        raise UserError(f"the attack gave back {tuple(back.shape)} for images {tuple(images.shape)}: expected the same")
    back = back.detach().to(images)
    whole = back.flatten(1).isfinite().all(1)
    return torch.where(whole.view(-1, *[1] * (images.ndim - 1)), back, images)
