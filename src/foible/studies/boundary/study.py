"""`foible study boundary`: where networks and people agree and where not (paper 4), in two forms.

    --data cifar10 --humans cifar10h    some fifty real people an image of CIFAR-10's test images (`photographs.py`)
    --data mnist                        the paper's own: images between two digits (`between.py`)

Both end with "which metric?": what each network is worth by several measures, and which of them foretells a hunt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.studies.boundary.between import run_between
from foible.studies.boundary.photographs import run_photographs
from foible.studies.common import Result

HUMANS = "cifar10h"


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    humans: str = "",
    people: str = "",
    crowd: int = 10,
    generator: str = "",
    images: str = "",
    architectures: str = "",
    fleets: str = "",
    few: int = 0,
    targets: str = "",
    higher: str = "",
    repeats: int = 0,
    seeds: int = 0,
    crossed: int = 0,
    sets: int = 0,
    epochs: int = 0,
    trials: int = 0,
) -> Result:
    """humans, people: whose labels: cifar10h, or a file of counts (images of the test split, classes). crowd: of how
    many people an image is judged in the tables that have the paper's figures beside them, ten as in the paper. few:
    train on so many images of the test split and judge the others, where the training split is not at hand.

    The rest is of images between classes. generator: a folder that `foible generator train` wrote, or the spec of one
    to be trained. images: a run of `foible boundary make`. architectures: some of mlp4, cnn4, vit4, blanks between
    them; fleets: those of them that are trained from many seeds, none for none. targets: test accuracies, as
    0.975,0.98; higher: those of CNNs besides, none where targets are given alone. repeats, seeds: so many times so
    many networks of each architecture; crossed: so many of each of the nine recipes in the two-way table, 1 for the
    nine networks themselves; sets: how many other sets of ends are judged too; epochs: at most. trials: of the hunt
    against each network. 0 and nothing take the scale's own.
    """
    given = {
        "architectures": architectures.split(), "fleets": fleets.split(),
        "targets": _accuracies("targets", targets), "higher": _accuracies("higher", higher),
        "repeats": repeats, "seeds": seeds, "crossed": crossed, "sets": sets, "epochs": epochs, "trials": trials,
        "few": few,
    }  # fmt: skip
    how: dict[str, Any] = {
        "scale": scale, "out": out, "seed": seed, "device": device, "basket": basket, "quiet": quiet, "given": given,
    }  # fmt: skip
    for name, value in given.items():
        if isinstance(value, int) and value < 0:
            raise UserError(f"{name} is {value}: expected 0, which takes the scale's own, or more")
    if crowd < 2:
        raise UserError(f"crowd is {crowd}: expected two people or more")
    counted = people or ("" if humans == HUMANS else humans)
    if humans or people or data in (None, "cifar10"):
        if generator or images:
            raise UserError("--generator and --images are of images between classes: leave them out, or the people")
        return run_photographs(named=data or "cifar10", people=counted, crowd=crowd, **how)
    assert data is not None
    return run_between(named=data, generator=generator, images=images, **how)


def _accuracies(name: str, text: str) -> tuple[float, ...]:
    try:
        found = tuple(sorted({float(one) for one in text.split(",") if one.strip()}))
    except ValueError:
        found = (-1.0,)
    if any(not 0 < one < 1 for one in found):
        raise UserError(f"{name} is {text!r}: expected test accuracies with commas between them, such as 0.975,0.98")
    return found
