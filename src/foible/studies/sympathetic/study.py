"""`foible study sympathetic`: paper 2's tables and figures on digits.

    VAEs of 2 and 10 dimensions → a classifier on each encoder, and networks on pixels → their mistakes, mended

Latent sympathetic examples are mistakes shifted to their class, x′ = g(z + e) + x − g(z); latent adversarial examples
are images that are right, shifted to each other class. Beyond the paper: what a PNG holds of x′, the closest shift
beside the first, restarts and momentum, five latent sizes, why descents fail in the plane, and whether to believe an
explanation (other networks, a second generator, plain descent on pixels).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset, load
from foible.data.catalogue import KNOWN
from foible.errors import UserError
from foible.processes import one_thread
from foible.studies.common import Result, basket_for, data_for, fewer, share_row
from foible.studies.sympathetic import figures, pixels, plane, success
from foible.studies.sympathetic.mending import Descent, Images, Mended, route, shifted
from foible.studies.sympathetic.parts import Case, case, generator_for, head_on

TWO, TEN = 2, 10  # the paper's latent sizes
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "images": 5000, "tested": 2000, "epochs": 6, "batch": 64, "rate": 0.004, "width": 200,
        "networks": ("mlp:40", "mlp:30", "mlp:20"), "network_epochs": 3,
        "sizes": (2, 5, 10), "mistakes": 30, "others": 8, "steps": 100, "restarts": 2,
        "effort": 30, "side": 25, "failures": 20, "rates": (0.1, 0.02), "head_iterations": 20,
    },
    "paper": {
        "images": 0, "tested": 0, "epochs": None, "batch": None, "rate": None, "width": 0,
        "networks": ("mlp:100", "mlp:50", "mlp:30"), "network_epochs": None,
        "sizes": (2, 5, 10, 20, 50), "mistakes": 87, "others": 100, "steps": 1000,
        "restarts": 5, "effort": 150, "side": 41, "failures": 60, "rates": (0.1, 0.01), "head_iterations": 50,
    },
}  # fmt: skip
NOTES = (
    "The paper does not say how many steps it takes at most, how its mistakes were chosen, nor the widths of its "
    "networks. Distances are means over what was reached.",
    "Unclipped is the paper's form: x′ may leave [0, 1]. As a PNG: what counts is x′ clipped and in 8 bits, and slopes "
    "are those of the clipped image.",
    "Shares have Wilson's interval, means Student's.",
)


@dataclass(frozen=True, eq=False)
class Cases:
    """By latent size. heads: a classifier on that generator's encoder. on_pixels: the network on pixels, explained by
    that generator. second: the same, explained by a generator of another seed."""

    heads: dict[int, Case]
    on_pixels: dict[int, Case]
    second: dict[int, Case]


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    generator2: str = "",
    generator10: str = "",
    epochs: int = 0,
    mistakes: int = 0,
    others: int = 0,
    steps: int = 0,
    side: int = 0,
    images: int = -1,
    networks: str = "",
    width: int = 0,
    sizes: str = "",
) -> Result:
    """generator2, generator10: folders of trained generators of 2 and 10 dimensions. epochs: of every generator (0: the
    scale's own). mistakes: most that are mended. others: images that are driven to each other class. steps: most of a
    descent. side: of the grid in two dimensions. images: train on so many (0: all). networks: specs of the zoo, with
    blanks between them; the first is explained, the others are asked whether they accept. With `basket` none are
    trained. width: of the generators' hidden layers. sizes: latent sizes, with blanks between them."""
    plan = dict(SCALES[scale])
    given = {"epochs": epochs, "mistakes": mistakes, "others": others, "steps": steps, "side": side}
    plan |= {name: value for name, value in given.items() if value} | ({"images": images} if images >= 0 else {})
    plan |= {"networks": tuple(networks.split())} if networks else {}
    if sizes:
        if not all(one.isascii() and one.isdigit() for one in sizes.split()):
            raise UserError(f"sizes is {sizes!r}: expected numbers of dimensions, as in --set 'sizes=2 5 10'")
        plan["sizes"] = tuple(int(one) for one in sizes.split())
    plan |= {"width": width or plan["width"]}
    for name in ("mistakes", "others", "steps", "side"):
        if plan[name] < 1:
            raise UserError(f"{name} is {plan[name]}: expected at least 1")
    named = data_for(data, scale)
    few = plan["images"] and named in KNOWN
    used = fewer(named, plan["images"], out, tested=plan["tested"]) if few else named
    training, test = load(used, "train", quiet=quiet), load(used, "test", quiet=quiet)
    if basket is not None:
        group = Basket.open(basket.split(), device=device, classes=test.classes)
    else:
        with one_thread():
            group = basket_for(
                plan["networks"], used, out, seed=seed, device=device, quiet=quiet, epochs=plan["network_epochs"]
            )
    made = _Made(plan, used, training, test, out, seed, device, quiet, {TWO: generator2, TEN: generator10})
    cases = _cases(made, group)
    settings = {
        "data": named, "images for training": len(training), "test images": len(test),
        "generators": "VAEs, two hidden layers on either side, z the encoder's mean",
        "classifier on the encoder": "linear, on the last hidden layer, L-BFGS",
        "networks on pixels": list(group.names),
        **plan, "λ": 0.1,
    }  # fmt: skip
    result = Result("sympathetic", scale, settings, seed)
    for name, one in (*((one.name, one) for one in cases.heads.values()), (group.names[0], cases.on_pixels[TEN])):
        result.rows.append(share_row("Accuracy", f"{name}: accuracy, %", None, *one.accuracy))
    how = Descent(steps=plan["steps"])
    mended = _mistakes(result, cases, how, plan, seed)
    driven = _driven(result, cases, how, seed)
    _plane(result, cases.heads[TWO], mended["2-D, head, unclipped"], driven, how, plan, out)
    on_pixels = {size: mended[f"{size}-D, pixels, as a PNG"] for size in (TWO, TEN)}
    _believe(result, cases, on_pixels, how, plan, seed)
    result.figures += [
        figures.beside([cases.on_pixels[TWO], cases.on_pixels[TEN]], [on_pixels[TWO], on_pixels[TEN]], out),
        _step_by_step(cases.heads[TEN], mended["10-D, head, unclipped"], how, out),
        figures.curves(mended, driven, plan["steps"], out),
    ]  # fmt: skip
    _sweep(result, made, cases, mended, how)
    result.notes += NOTES
    return result


@dataclass(frozen=True, eq=False)
class _Made:
    """What it takes to make a case."""

    plan: dict[str, Any]
    data: str
    training: Dataset
    test: Dataset
    out: Path
    seed: int
    device: str
    quiet: bool
    given: dict[int, str]

    def generator(self, size: int, seed: int) -> Any:
        """Of so many dimensions; one that was given is that of the study's own seed."""
        return generator_for(
            size, self.data, self.out, seed=seed, given=self.given.get(size, "") if seed == self.seed else "",
            device=self.device, quiet=self.quiet,
            **{name: self.plan[name] for name in ("width", "epochs", "batch", "rate")},
        )  # fmt: skip

    def case(self, name: str, generator: Any, basket: Basket) -> Case:
        drawn = {"mistakes": self.plan["mistakes"], "others": self.plan["others"], "seed": self.seed}
        return case(name, generator, basket, self.test, **drawn)

    def head(self, size: int, generator: Any) -> Case:
        basket = head_on(generator, self.training, self.device, self.plan["head_iterations"])
        return self.case(f"{size}-D, head", generator, basket)


def _cases(made: _Made, group: Basket) -> Cases:
    heads, on_pixels, second = {}, {}, {}
    for size in (TWO, TEN):
        generator, other = (made.generator(size, seed) for seed in (made.seed, made.seed + 1))
        heads[size] = made.head(size, generator)
        on_pixels[size] = made.case(f"{size}-D, pixels", generator, group)
        second[size] = made.case(f"{size}-D, pixels, second generator", other, group)
    return Cases(heads, on_pixels, second)


def _sweep(result: Result, made: _Made, cases: Cases, mended: dict[str, Mended], how: Descent) -> None:
    """The paper's two latent sizes and others; a generator is made when its turn comes."""
    for size in made.plan["sizes"]:
        one = cases.heads.get(size) or made.head(size, made.generator(size, made.seed))
        known = mended.get(f"{one.name}, unclipped")
        came = known or success.reached(one, one.wrong, replace(how, png=False), made.seed)
        result.rows += success.sweep_rows(one, came)


def _mistakes(result: Result, cases: Cases, how: Descent, plan: dict[str, Any], seed: int) -> dict[str, Mended]:
    """Latent sympathetic examples, in all forms: the paper's table, and what is made of the same descents."""
    mended: dict[str, Mended] = {}
    for size in (TEN, TWO):
        for one in (cases.heads[size], cases.on_pixels[size]):
            for png in (False, True):
                came = success.reached(one, one.wrong, replace(how, png=png), seed)
                mended[f"{one.name}, {success.FORMS[png]}"] = came
                result.rows += success.success_rows(success.LSE, one, came, png)
    for name in ("10-D, head, unclipped", "2-D, head, unclipped"):
        result.rows += success.step_rows(name, mended[name], how.steps)
    for size in (TEN, TWO):
        one = cases.heads[size]
        finer = replace(how, steps=how.steps * 2)
        result.rows += success.rate_rows(one, finer, plan["rates"], seed)
        result.rows += success.closest_rows(one, mended[f"{one.name}, as a PNG"], plan["effort"])[0]
    for size in (TEN, TWO):
        one = cases.heads[size]
        result.rows += success.rescue_rows(
            one, mended[f"{one.name}, unclipped"], replace(how, png=False), plan["restarts"], seed
        )
    return mended


def _driven(result: Result, cases: Cases, how: Descent, seed: int) -> dict[str, Mended]:
    """Latent adversarial examples."""
    driven: dict[str, Mended] = {}
    forms = [(cases.heads, False), (cases.heads, True), (cases.on_pixels, True)]
    for size in (TEN, TWO):
        for group, png in forms:
            one = group[size]
            came = success.reached(one, one.right, replace(how, png=png), seed)
            driven[f"{one.name}, {success.FORMS[png]}"] = came
            result.rows += success.success_rows(success.LAE, one, came, png)
    return driven


def _plane(
    result: Result, one: Case, came: Mended, driven: dict[str, Mended], how: Descent, plan: dict[str, Any], out: Path
) -> None:
    """Everything that takes two dimensions: failures by cause, g(z) against x′, and Figs. 2, 3, 4 and 9."""
    grid = plane.Plane(one, plan["side"])
    failed, there = plane.failures(grid, came, plan["failures"])
    result.rows += plane.failure_rows("mistakes", there)
    adversarial = driven["2-D, head, unclipped"]
    others, present = plane.failures(grid, adversarial, plan["failures"])
    result.rows += plane.failure_rows("images driven to other classes", present)
    result.rows += plane.difference_rows(grid, one.wrong[torch.arange(min(len(one.wrong), plan["failures"]))], came)
    absent = failed[~there]
    result.figures.append(figures.maps(grid, one.wrong[absent[:1] if len(absent) else torch.tensor([0])], out))
    shown: list[tuple[str, Images]] = []
    at = [step for step in (*range(9), 12, 16, 24, 36, 50, 70, 100, 150, 200) if step <= how.steps]
    mended = _stays(one, came, replace(how, png=False), at[-1])
    if mended is not None:
        shown.append(("mended", one.wrong[mended]))
    if bool(there.any()):
        shown.append(("local minimum", one.wrong[failed[there][:1]]))
    elif bool(present.any()):
        shown.append(("local minimum, another class", one.right[others[present][:1]]))
    if shown:
        result.figures.append(figures.ways(grid, shown, replace(how, png=False), at, out))


def _stays(one: Case, came: Mended, how: Descent, steps: int) -> Tensor | None:
    """(1,): which mistake a figure shows the way of: of those that took two steps or more and are still right after
    `steps`, the one in the middle; where there is none, of those that took two steps or more."""
    rows = (came.found & (came.steps >= 2)).nonzero()[:, 0].cpu()
    if not len(rows):
        return None
    rows = rows[came.steps.cpu()[rows].argsort(stable=True)]
    given = one.wrong[rows]
    end = route(one.space, one.basket, one.suspect, given, how, [steps])[0]
    space = replace(one.space, clip=how.png)
    right = success.says(one, shifted(space, given.images.to(end.device), end)) == given.aims
    kept = rows[right] if bool(right.any()) else rows
    return kept[len(kept) // 2][None]


def _believe(
    result: Result, cases: Cases, mended: dict[int, Mended], how: Descent, plan: dict[str, Any], seed: int
) -> None:
    """Where x′ differs, whether a second generator agrees, and whether other networks do."""
    group, descent = cases.on_pixels[TEN], pixels.pixel_descent(cases.on_pixels[TEN], how)
    changes = {f"{size}-D, {word}": one for size in (TWO, TEN) for word, one in (("first", mended[size]),)}
    for size in (TWO, TEN):
        rows, least = success.closest_rows(cases.on_pixels[size], mended[size], plan["effort"])
        result.rows += rows
        changes[f"{size}-D, closest"] = least
    changes["descent on pixels"] = descent
    for name, came in changes.items():
        done = came.mended
        result.rows += pixels.where_rows(name, pixels.map_of(done.change), done.given.images, done.change)
    wrong = group.wrong
    result.rows += pixels.where_rows("saliency", pixels.saliency(group, wrong).cpu(), wrong.images, None)
    result.rows.append(pixels.ink_row(wrong.images))
    for size in (TWO, TEN):
        again = success.reached(cases.second[size], cases.second[size].wrong, how, seed)
        result.rows += pixels.stable_rows(f"{size}-D", mended[size], again)
    result.rows += pixels.peer_rows("x as it is", group.basket, group.suspect, wrong.images, wrong.aims)
    for name, came in changes.items():
        done = came.mended
        result.rows += pixels.peer_rows(name, group.basket, group.suspect, done.changed, done.given.aims)


def _step_by_step(one: Case, came: Mended, how: Descent, out: Path) -> str:
    """The two mistakes that took the most steps, and no more than a figure has room for."""
    steps = torch.where(came.found, came.steps, -1).cpu()
    rows = steps.argsort(descending=True, stable=True)
    rows = rows[steps[rows] <= 40][:2]
    most = max(5, int(steps[rows].max())) if len(rows) else 5
    at = sorted({round(most * part / 8) for part in range(9)})
    picked = rows if len(rows) else torch.tensor([0])
    return figures.steps(one, one.wrong[picked], replace(how, png=False), at, out)
