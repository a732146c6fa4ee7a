"""How often the class is reached and how far away: latent sympathetic and adversarial examples (Sec. 3.2), step sizes,
restarts and momentum, first against closest, and the sweep over latent sizes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from foible.images import settle
from foible.studies.common import Row, mean_row, share_row
from foible.studies.sympathetic.mending import Descent, Images, Mended, mend, nearest
from foible.studies.sympathetic.parts import HEAD, Case

LSE, LAE = "Latent sympathetic examples (Sec. 3.2.1)", "Latent adversarial examples (Sec. 3.2.2)"
PAPER: dict[tuple[str, int], tuple[float, float]] = {  # success in %, mean distance
    (LSE, 10): (95.40, 0.217), (LSE, 2): (78.16, 0.10), (LAE, 10): (91.11, 1.53), (LAE, 2): (22.34, 0.52),
}  # fmt: skip
FORMS = {False: "unclipped", True: "as a PNG"}
STEPS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def reached(case: Case, given: Images, how: Descent, seed: int) -> Mended:
    """`mend`, for a case."""
    return mend(case.space, case.basket, case.suspect, given, how, seed=seed)


def success_rows(table: str, case: Case, came: Mended, png: bool) -> list[Row]:
    """The paper's two figures. Its classifier stands on the encoder, and its pixels are not clipped."""
    papers = case.suspect == HEAD and not png
    share, far = PAPER.get((table, case.latent), (None, None)) if papers else (None, None)
    name, done = f"{case.name}, {FORMS[png]}", came.mended
    rows = [
        share_row(table, f"{name}: reached, %", share, int(came.found.sum()), len(came.found)),
        mean_row(table, f"{name}: mean ‖e‖ of those", far, done.distances.tolist(), least=0),
    ]
    if not png:
        held = says(case, settle(done.changed)) == done.given.aims.cpu()
        rows.append(share_row(table, f"{name}: of those, still reached as a PNG, %", None, int(held.sum()), len(held)))
    return rows


def says(case: Case, images: Tensor) -> Tensor:
    """(n,): what the classifier says of images."""
    return case.basket.predict(images, [case.suspect])[0].argmax(1)


def step_rows(name: str, came: Mended, most: int) -> list[Row]:
    """Success against steps, as a table."""
    n = len(came.found)
    return [
        share_row(
            "Success against steps, %", f"{name}: within {steps} step{'' if steps == 1 else 's'}", None,
            int((came.found & (came.steps <= steps)).sum()), n,
        )
        for steps in STEPS if steps <= most
    ]  # fmt: skip


def rate_rows(case: Case, how: Descent, rates: tuple[float, ...], seed: int) -> list[Row]:
    """The paper's step against smaller ones: do its small distances come from there?"""
    rows, table = [], "Smaller steps, mistakes mended (unclipped)"
    for rate in rates:
        came = reached(case, case.wrong, replace(how, rate=rate, png=False), seed)
        name = f"{case.name}, λ = {rate:g}"
        rows += [
            share_row(table, f"{name}: mended, %", None, int(came.found.sum()), len(came.found)),
            mean_row(table, f"{name}: mean ‖e‖", None, came.mended.distances.tolist(), least=0),
            mean_row(table, f"{name}: mean steps", None, came.mended.steps.tolist(), least=0),
        ]
    return rows


def closest_rows(case: Case, first: Mended, effort: int) -> tuple[list[Row], Mended]:
    """The first shift that mends a mistake (as a PNG), and the smallest."""
    table, least = "First against closest, mistakes mended (as a PNG)", nearest(
        case.space, case.basket, case.suspect, first, effort
    )  # fmt: skip
    far, near = first.mended.distances, least.distances
    some = far > 1e-9  # rounding alone mended the others
    return [
        mean_row(table, f"{case.name}: ‖e‖ of the first", None, far.tolist(), least=0),
        mean_row(table, f"{case.name}: ‖e‖ of the closest", None, near.tolist(), least=0),
        mean_row(table, f"{case.name}: closest ÷ first, mean of ratios", None, (near / far)[some].tolist(), least=0),
    ], least


def rescue_rows(case: Case, plain: Mended, how: Descent, restarts: int, seed: int) -> list[Row]:
    """What restarts and momentum do for mistakes that plain descent does not mend, and what they cost in distance.
    plain: of all mistakes, in the form of `how`."""
    table = f"Restarts and momentum, mistakes mended ({FORMS[how.png]})"
    failed = (~plain.found).nonzero()[:, 0].cpu()
    usual = plain.mended.distances
    rows = [mean_row(table, f"{case.name}, plain: mean ‖e‖", None, usual.tolist(), least=0)]
    ways = {
        f"{restarts} restarts": replace(how, restarts=restarts),
        "momentum 0.9": replace(how, momentum=0.9),
        f"{restarts} restarts, momentum 0.9": replace(how, momentum=0.9, restarts=restarts),
    }
    for words, way in ways.items():
        if len(failed):
            came = reached(case, case.wrong[failed], way, seed)
            saved, far = int(came.found.sum()), came.mended.distances
        else:
            saved, far = 0, torch.empty(0)
        rows += [
            share_row(table, f"{case.name}, {words}: failures rescued, %", None, saved, len(failed)),
            share_row(
                table, f"{case.name}, {words}: mended with them, %", None, int(plain.found.sum()) + saved,
                len(plain.found),
            ),
            mean_row(table, f"{case.name}, {words}: mean ‖e‖ of the rescued", None, far.tolist(), least=0),
        ]  # fmt: skip
    return rows


def sweep_rows(case: Case, came: Mended) -> list[Row]:
    """One latent size: the paper's form."""
    table, size = "Latent sizes, mistakes mended (classifier on the encoder, unclipped)", f"{case.latent} dimensions"
    right, n = case.accuracy
    changed = came.mended.change.flatten(1).norm(dim=1)
    return [
        share_row(table, f"{size}: the classifier is right, %", None, right, n),
        share_row(table, f"{size}: mended, %", None, int(came.found.sum()), len(came.found)),
        mean_row(table, f"{size}: mean ‖e‖", None, came.mended.distances.tolist(), least=0),
        mean_row(table, f"{size}: mean ‖x′ − x‖", None, changed.tolist(), least=0),
    ]
