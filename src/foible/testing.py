"""The conformance kit: does your own space, objective, search or recipe keep the promises that the rest relies on?

    from foible.testing import check_space
    check_space(MySpace())

Each check raises AssertionError with the promise that was broken. `linear_basket` is a basket whose boundaries are
known exactly, and `Counting` a network that counts the images it was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from foible.basket import Basket, Budget
from foible.findings import Findings
from foible.images import settle
from foible.objectives import Dissent, Objective, asks_all, slack_of
from foible.runs.recipe import Recipe
from foible.search.task import EXHAUSTED, FOUND, INVALID, Found, Trials
from foible.spaces import at, is_box

CLASSES = 3
SHAPE = (1, 12, 12)


class Counting(nn.Module):
    """A network that notes how many rows each call had, padding included."""

    calls: list[int]

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.calls = []

    def forward(self, images: Tensor) -> Tensor:
        self.calls.append(len(images))
        answer: Tensor = self.inner(images)
        return answer


def linear_network(seed: int, shape: tuple[int, int, int] = SHAPE, classes: int = CLASSES) -> nn.Module:
    """logits = W x: each class is a blob at its own place, with a tilt that depends on the seed."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(shape[0] * shape[1] * shape[2], classes)
    weight = blobs(classes, shape).flatten(1) + 0.15 * torch.randn(layer.weight.shape, generator=generator)
    layer.load_state_dict({"weight": weight, "bias": torch.zeros(classes)})
    return nn.Sequential(nn.Flatten(), layer)


def blobs(classes: int = CLASSES, shape: tuple[int, int, int] = SHAPE) -> Tensor:
    """(classes, channels, height, width): a bright blob around each class's place on a ring."""
    channels, height, width = shape
    y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    angle = torch.arange(classes) * (2 * torch.pi / classes)
    distance = (x - 0.5 * angle.cos()[:, None, None]) ** 2 + (y - 0.5 * angle.sin()[:, None, None]) ** 2
    return torch.exp(-distance / 0.1)[:, None].repeat(1, channels, 1, 1)


def linear_basket(networks: int = 3, **options: Any) -> Basket:
    """Networks A, B, C, … whose decision boundaries are known planes."""
    members = {chr(ord("A") + i): linear_network(i) for i in range(networks)}
    settings = {"classes": [str(i) for i in range(CLASSES)], "preprocess": "inside", "shape": SHAPE}
    return Basket(members, **(settings | options))


def linear_trials(basket: Basket, count: int) -> Trials:
    """Seed images near class boundaries that all of a `linear_basket` get right."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(8 * count) % CLASSES
    mixed = torch.rand(len(labels), 1, 1, 1, generator=generator) * 0.35
    images = (1 - mixed) * blobs()[labels] + mixed * blobs()[(labels + 1) % CLASSES]
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8)
    right = (basket.predict(pixels).argmax(2) == labels).all(0).nonzero()[:, 0][:count]
    return Trials(torch.arange(len(right)), pixels[right], labels[right])


def _require(holds: bool | Tensor, promise: str) -> None:
    if not bool(holds):
        raise AssertionError(promise)


def _same(ours: Any, theirs: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _rows(points: Any, index: Tensor) -> Any:
    return type(points)(*(field[index] for field in points))


def _copy(points: Any) -> Any:
    return type(points)(*(field.clone() for field in points))


def check_space(space: Any, images: Tensor | None = None) -> None:
    """A space that can be walked: `draws`, `start`, `move`, `render`, `describe` where it has one, and where it is a
    box what a box promises."""
    if images is None:
        images = settle(torch.rand(20, *SHAPE, generator=torch.Generator().manual_seed(0)))
    count = len(images)
    _require(isinstance(space.draws, int) and space.draws > 0, "draws must be a positive int: uniforms per move")
    points = space.start(images)
    _require(isinstance(points, tuple) and hasattr(points, "_fields"), "start must return a NamedTuple of tensors")
    _require("image" in points._fields, "points must hold the image of their lane as `image`")
    for name, field in zip(points._fields, points, strict=True):
        _require(isinstance(field, Tensor), f"points.{name} must be a tensor")
        _require(len(field) == count, f"points.{name} must have one row a lane")
    rendered = space.render(points)
    _require(
        rendered.shape == images.shape,
        f"render must keep the shape {tuple(images.shape)}, got {tuple(rendered.shape)}",
    )
    _require(
        torch.equal(settle(rendered), settle(images)),
        "rendering the start must give the seed images back (to 8 bits)",
    )
    draws = torch.rand(count, space.draws, generator=torch.Generator().manual_seed(1))
    before = _copy(points)
    moved = space.move(points, draws)
    _require(_same(points, before), "move must not change the points it is given")
    _require(isinstance(moved, type(points)), "move must return points of the same kind")
    _require(_same(moved, space.move(points, draws)), "move must depend on its arguments alone: the same twice")
    further = space.move(moved, draws.flip(0))
    shown = space.render(further)
    _require(bool(shown.isfinite().all()), "render must give finite pixels")
    _require(torch.equal(shown, space.render(further)), "render must depend on its argument alone: the same twice")
    order = torch.arange(count).flip(0)
    shuffled = space.render(space.move(_rows(moved, order), draws.flip(0)[order]))
    _require(torch.equal(shuffled[order], shown), "lanes must not touch: another order of rows gave other images")
    part = space.render(space.move(_rows(moved, order[:17]), draws.flip(0)[order[:17]]))
    _require(
        torch.allclose(part, shuffled[:17], atol=1e-6),
        "lanes must not touch: part of the rows gave other images",
    )
    for extreme in (0.0, 1.0 - 2**-24):
        edge = space.render(space.move(points, torch.full_like(draws, extreme)))
        _require(bool(edge.isfinite().all()), f"a move with all uniforms at {extreme} must give finite pixels")
    if hasattr(space, "describe"):
        for name, values in space.describe(further).items():
            _require(values.shape == (count,), f"describe()[{name!r}] must be one number a lane")
            _require(bool(values.isfinite().all()), f"describe()[{name!r}] must be finite")
    if is_box(space):
        _check_box(space, images, further)


def _check_box(space: Any, images: Tensor, walked: Any) -> None:
    """One large move leads anywhere, says where it leads, and can be differentiated."""
    count = len(images)
    for name, kind in (("kinds", str), ("reaches", float)):
        values = getattr(space, name)
        fits = isinstance(values, tuple) and len(values) == space.draws and all(isinstance(v, kind) for v in values)
        _require(fits, f"{name} must be a tuple of one {kind.__name__} a draw")
    _require(all(reach >= 1 for reach in space.reaches), "a box must reach at least one largest move each way")
    stay = space.draws_of(space.start(images))
    _require(stay.shape == (count, space.draws), "draws_of must give one row of draws a lane")
    _require(torch.allclose(stay, torch.full_like(stay, 0.5), atol=1e-4), "draws_of must call the start no move: 0.5")
    generator = torch.Generator().manual_seed(3)
    places = (2 * torch.rand(count, space.draws, generator=generator) - 1).requires_grad_()
    far_off = at(space, places, images)
    shown = space.render(far_off)
    _require(bool(shown.isfinite().all()), "every place in the box must give finite pixels")
    (slope,) = torch.autograd.grad(shown.square().sum(), places, allow_unused=True)
    _require(slope is not None and bool(slope.isfinite().all()), "pixels must be differentiable by places in the box")
    with torch.no_grad():
        reached = [far_off] + ([walked] if getattr(space, "closed", True) else [])
        for points in reached:
            back = space.render(space.move(space.start(images), space.draws_of(points)))
            _require(
                torch.allclose(back, space.render(points), atol=1e-3),
                "draws_of must give the one move from the start that leads to the same image "
                "(say closed = False where several moves can do what no one move does)",
            )


def check_objective(objective: Objective) -> None:
    """An objective: whom it asks, shapes, NaN never found, rows apart from each other, no peers allowed."""
    count, classes = 24, 5
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(4, count, classes, generator=generator) * 3
    aim = torch.randint(classes, (count,), generator=generator)
    asked = logits if asks_all(objective) else logits[0]
    score = objective.score(asked, aim)
    _require(score.shape == (count,) and score.is_floating_point(), "score must be one float a row")
    slack = slack_of(objective, logits, aim)
    _require(
        slack is None or (slack.shape == (4, count) and slack.is_floating_point()),
        "slack must be one float for each network and row: (networks, n)",
    )
    for name, answer in (
        ("allows", objective.allows(logits[1:], aim)),
        ("found", objective.found(logits, aim)),
    ):
        _require(answer.shape == (count,) and answer.dtype == torch.bool, f"{name} must be one bool a row")
    _require(bool(objective.allows(logits[:0], aim).all()), "with no peers, allows must be true for every row")
    broken = torch.full_like(logits, torch.nan)
    _require(not bool(objective.found(broken, aim).any()), "NaN logits must never be found")
    for network in range(4):
        partly = logits.clone()
        partly[network] = torch.nan
        _require(
            not bool(objective.found(partly, aim).any()),
            f"NaN logits of network {network} must never be found",
        )
    _require(not bool(objective.allows(broken[1:], aim).any()), "NaN logits must never be allowed")
    likely = logits + 6 * nn.functional.one_hot(aim, classes)
    allowed = objective.allows(likely[1:], aim)
    for peer in range(1, 4):
        alone = objective.allows(likely[peer : peer + 1], aim)
        _require(
            bool(alone[allowed].all()), "what all peers allow, each must allow: some may be asked before the others"
        )
    order = torch.randperm(count, generator=generator)
    _require(
        torch.equal(objective.found(logits[:, order], aim[order]), objective.found(logits, aim)[order]),
        "rows must not touch (found)",
    )
    _require(
        torch.allclose(objective.score(asked[..., order, :], aim[order]), score[order]),
        "rows must not touch (score)",
    )


def check_search(search: Callable[..., Found], space: Any | None = None, objective: Objective | None = None) -> None:
    """A search: its claims hold, its paths replay, its costs are what the networks saw, its lanes do not touch."""
    from foible.recipes.hunt.rows import retrace
    from foible.spaces import Affine

    space, objective = space or Affine(), objective or Dissent()
    basket = linear_basket()
    trials = linear_trials(basket, 40)
    options = {"suspect": "A", "seed": 3}
    found = search(space, objective, basket, trials, **options)
    count = len(trials.lanes)
    for name in ("outcome", "candidates", "forwards", "backwards"):
        _require(getattr(found, name).shape == (count,), f"{name} must have one entry a trial")
    _require(bool((found.outcome == FOUND).any()), "the search must find something on the linear basket")
    paths = [found.accepted.draws[found.accepted.row == row] for row in range(count)]
    points, _ = retrace(space, trials.seeds.float() / 255, paths)
    logits = basket.judge(settle(space.render(points))[:count], ["A", "B", "C"])
    holds = objective.found(logits, trials.aims)
    _require(
        bool(holds[found.outcome == FOUND].all()),
        "what is called found must be found on settled images, replayed from its path",
    )
    _check_lanes(search, space, objective, basket, trials, found, options)
    _check_costs(search, space, objective, trials, options)
    capped = search(space, objective, basket, trials, **options, budget=Budget(forwards=40))
    slack = 2 * len(basket) + 1  # the candidate under way may be finished
    _require(
        bool((capped.forwards <= 40 + slack).all()),
        "a budget of 40 forwards must stop every lane about there",
    )
    broken = Basket({"A": _Broken(), "B": linear_network(1)}, classes=basket.classes, preprocess="inside", shape=SHAPE)
    bad = search(space, objective, broken, trials, **options)
    _require(bool((bad.outcome == INVALID).all()), "a suspect that answers NaN must end in the outcome invalid")


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
        _require(
            torch.equal(part.outcome, whole.outcome[index]),
            "lanes must not touch: part of the trials had other outcomes",
        )
        _require(
            torch.equal(part.candidates, whole.candidates[index]),
            "lanes must not touch: other numbers of candidates",
        )
        for row, original in enumerate(index.tolist()):
            ours = part.accepted.draws[part.accepted.row == row]
            theirs = whole.accepted.draws[whole.accepted.row == original]
            _require(torch.equal(ours, theirs), "lanes must not touch: a lane's path changed with its batch-mates")


def _check_costs(search: Callable[..., Found], space: Any, objective: Objective, trials: Trials, options: Any) -> None:
    """Nobody can have spent more than the networks saw (idle lanes and padding make them see more)."""
    networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    found = search(space, objective, basket, trials, **options)
    copies = [basket.network(name) for name in "ABC"]
    seen = sum(sum(copy.calls) for copy in copies if isinstance(copy, Counting))
    spent = int(found.forwards.sum())
    _require(spent > 0, "forwards must be counted")
    _require(spent <= seen, f"{spent} forwards were counted, but the networks judged only {seen} images")
    exhausted = found.outcome == EXHAUSTED
    _require(
        bool((found.forwards >= found.candidates)[exhausted].all()),
        "every candidate costs at least one forward",
    )


class _Broken(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1)[:, :1] * torch.nan).expand(-1, CLASSES)


def write_linear_task(folder: Path) -> tuple[str, str]:
    """The linear basket and the images of `linear_trials` on disk: what opens the basket, and what opens the data."""
    import numpy as np

    from foible.networks.files import Entry, save_basket
    from foible.networks.preprocess import Preprocess
    from foible.networks.zoo import build

    classes = tuple(str(i) for i in range(CLASSES))
    entries = []
    for number, name in enumerate("ABC"):
        module, layer = build("softmax", SHAPE, CLASSES), linear_network(number)[1]  # type: ignore[index]
        module.load_state_dict({f"output.{key}": value for key, value in layer.state_dict().items()})
        entries.append(Entry(name, module, Preprocess(), classes, SHAPE, "softmax"))
    save_basket(folder / "basket", entries)
    trials = linear_trials(linear_basket(), 60)
    images, labels = trials.seeds.numpy(), trials.aims.numpy()
    np.savez(folder / "data.npz", images=images, labels=labels, classes=np.array(classes))
    return str(folder / "basket"), f"npz:{folder / 'data.npz'}"


def check_recipe(recipe: str | Recipe, *, basket: str = "", data: str = "", **options: Any) -> None:
    """A recipe: its units are pure, a run of it resumes and replays, and whatever takes findings takes its own.

    recipe: a name, FILE.py:NAME (then worker processes are tried too), or a `Recipe`. basket, data: what it needs,
    where the linear networks A, B and C and 60 images that they get right will not do. options: of its config, for a
    run of several units that takes a moment.
    """
    from foible.recipes.cite import cite
    from foible.recipes.export import export
    from foible.recipes.replay import replay
    from foible.report import write_report
    from foible.runs.job import run

    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        linear = write_linear_task(here)
        networks, images = basket or linear[0], data or linear[1]

        def shards(out: str, workers: int = 1) -> dict[str, bytes]:
            run(recipe, networks, images, out=here / out, workers=workers, quiet=True, **options)
            return {file.name: file.read_bytes() for file in sorted((here / out / "shards").iterdir())}

        whole = shards("whole")
        _require(shards("again") == whole, "units must be pure: the same settings gave other bytes")
        for name in list(whole)[::2]:
            (here / "again" / "shards" / name).unlink()
        _require(shards("again") == whole, "a run must resume: missing units came out otherwise than the first time")
        if isinstance(recipe, str):
            _require(shards("apart", workers=2) == whole, "worker processes must give the same bytes")
        findings = Findings.open(here / "whole")
        _require(len(findings) > 0, "it must have rows")
        if isinstance(recipe, str):
            differ = [one.id for one in replay(here / "whole", trust=True) if not one.holds]
            _require(not differ, f"every row must replay: {', '.join(differ[:5])} did not")
        write_report(here / "whole")
        export(here / "whole", "csv", here / "table.csv", everything=True)
        cite(here / "whole")
