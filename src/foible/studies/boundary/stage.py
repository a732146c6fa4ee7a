"""What the paper's own study is made of: networks of matched accuracies, images between two classes, and people.

Everything is kept in the study's folder; what is there is not made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.tally import summarise
from foible.generators import train_generator
from foible.networks.loop import enough
from foible.recipes.boundary.reading import Interpolations, people_one_by_one
from foible.recipes.boundary.recipe import boundary
from foible.recipes.hunt.recipe import hunt
from foible.studies.boundary.metrics import Measured
from foible.studies.boundary.networks import RECIPES, WITHIN, Recipe, crowds, nine
from foible.studies.boundary.paper import ARCHITECTURES
from foible.studies.boundary.tables import Fleet, Nine, percent
from foible.studies.boundary.types import Bools, Floats, Ints, votes
from foible.text import some

LEAST_PEOPLE = 2
BATCH = 128  # of a VAE
DIGITS = tuple("0123456789")
# Every digit in three, as in the paper, and 1-3 is the walk of its Fig. 1. It does not name the others.
PAIRS = "0-2,1-3,2-4,3-5,4-6,5-7,6-8,7-9,0-8,1-9,0-5,1-6,2-7,3-8,4-9"
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "images": 3000, "tested": 500, "generator": "vae:10", "generator_epochs": 15, "generator_steps": 345,
        "ends": "images", "sure": 0.9,
        "targets": (0.8, 0.85), "higher": (), "repeats": 2, "seeds": 2, "epochs": 20, "within": 0.01,
        "fleets": ["mlp4", "cnn4"], "crossed": 1, "sets": 3, "trials": 8, "patience": 30,
        "specs": {"mlp4": "mlp:64", "cnn4": "lenet", "vit4": "vit4:patch=14"},
    },
    "paper": {
        "images": 0, "tested": 0, "generator": "dcgan", "generator_epochs": None, "ends": "samples", "sure": 0.99,
        "targets": (0.975, 0.98, 0.985), "higher": (0.99, 0.995), "repeats": 10, "seeds": 10, "epochs": None,
        "within": WITHIN, "crossed": 10, "sets": 10, "trials": 200, "patience": 250,
        "specs": {"vit4": "vit4:patch=7,width=128"},
    },
}  # fmt: skip


class People(NamedTuple):
    """one_by_one: (people, images) classes, of those who labelled every image. counts: (images, classes)."""

    one_by_one: Ints
    counts: Ints


class Judged(NamedTuple):
    """Nine networks on the images and on the test images: logits (networks, images, classes) and for each test image
    whether it was right, and how sure (networks, test images)."""

    nine: Nine
    logits: Floats
    right: Bools
    sure: Floats
    folder: str


def specs_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """By the paper's name, the spec of each architecture: the zoo's, or what the plan has in its place."""
    wanted = plan.get("architectures") or list(ARCHITECTURES)
    for one in wanted:
        if one not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise UserError(f"{one!r} is no architecture of this study: expected some of {known}, blanks between them")
    return {ARCHITECTURES[one]: plan["specs"].get(one, one) for one in wanted}


def recipes_of(plan: Mapping[str, Any]) -> dict[str, Recipe]:
    """The nine, of the plan's architectures."""
    specs = specs_of(plan)
    return {
        name: replace(recipe, spec=specs[kind])
        for name, recipe in RECIPES.items()
        if (kind := name.rstrip("123")) in specs
    }


def nine_of(plan: Mapping[str, Any], used: str, out: Path, how: Mapping[str, Any]) -> dict[float, str]:
    """By target, the folder of a basket of the nine that stand at it."""
    folders = nine(used, out / "nine", plan["targets"], recipes=recipes_of(plan), epochs=plan["epochs"],
                   within=plan["within"], **how)  # fmt: skip
    return {100 * target: str(folder) for target, folder in folders.items()}


def generator_of(plan: Mapping[str, Any], used: str, out: Path, generator: str, how: Mapping[str, Any]) -> str:
    """The folder of what draws the images: the one that is given, or one of that spec, or the plan's, trained now."""
    if generator and Path(generator).is_dir():
        return generator
    folder, epochs = out / "generator", plan["generator_epochs"]
    if epochs is not None:  # of few images more
        epochs = enough(epochs, plan["generator_steps"], len(load(used, "train", quiet=True)), BATCH)
    train_generator(generator or plan["generator"], used, out=folder, epochs=epochs, **how)
    return str(folder)


def made_between(
    plan: Mapping[str, Any], used: str, run: Path, generator: str, basket: str, how: Mapping[str, Any]
) -> Path:
    """A run of images between classes."""
    pairs = PAIRS if load(used, "test", quiet=True).classes == DIGITS else ""
    boundary(basket, used, out=run, generator=generator, ends=plan["ends"], sure=plan["sure"], pairs=pairs, workers=1,
             **how)  # fmt: skip
    return run


def judged(folder: str, target: float, made: Interpolations, test: Dataset, device: str) -> Judged:
    """What the networks of a folder say of the images, in the order of their classes, and of the test images."""
    group = Basket.open(folder, device=device)
    if len(group) < 2:
        raise UserError(f"{folder} has {len(group)} network: where networks disagree takes two or more")
    if set(group.classes) != set(made.classes) or set(test.classes) != set(made.classes):
        raise UserError(
            f"the networks in {folder} know other classes ({some(group.classes, 10)}) than the images between classes "
            f"({some(made.classes, 10)}): give --images of the same task"
        )
    logits = logits_of(group, made)
    chances = group.predict(test.images).softmax(2)
    truth = torch.tensor([group.classes.index(name) for name in test.classes])[test.labels]
    right = (chances.argmax(2) == truth).numpy()
    softmax = torch.from_numpy(logits).softmax(2)
    accuracy = 100 * right.mean(1)
    return Judged(
        Nine(round(target or float(accuracy.mean()), 4), group.names, softmax.argmax(2).numpy(),
             softmax.amax(2).numpy(), accuracy),
        logits, right, chances.amax(2).double().numpy(), folder,
    )  # fmt: skip


def logits_of(group: Basket, made: Interpolations) -> Floats:
    """(networks, images, classes), classes in the order of the images'."""
    place = [group.classes.index(name) for name in made.classes]
    return np.asarray(group.predict(made.images)[..., place].double().numpy())


def fleets_of(
    plan: Mapping[str, Any], used: str, images: Tensor, classes: Sequence[str], out: Path, how: Mapping[str, Any]
) -> tuple[list[Fleet], list[str]]:
    """Ten seeds, ten times, of each architecture and accuracy, on images (n, …) whose classes are numbered as here; and
    who did not arrive."""
    fleets, missed = [], []
    many = plan["seeds"]
    first = how["seed"] * plan["repeats"] * many
    known = load(used, "test", quiet=True).classes
    place = [known.index(name) for name in classes]
    wanted = plan.get("fleets") or plan.get("architectures")
    for name, spec in specs_of({**plan, "architectures": wanted}).items() if wanted != ["none"] else ():
        targets = (*plan["targets"], *(plan["higher"] if name == "CNN" else ()))
        for crowd in crowds(
            spec, used, images, targets, range(first, first + plan["repeats"] * many), out=out / "crowds",
            device=how["device"], quiet=how["quiet"], epochs=plan["epochs"], within=plan["within"],
        ):  # fmt: skip
            if crowd.missed:
                asked = f"{len(crowd.missed)} of {plan['repeats'] * many} seeds"
                missed.append(
                    f"{name}, {percent(100 * crowd.target)}: {asked} did not stand there, nor any in its place."
                )
            said = crowd.logits[..., place].argmax(2).astype(np.int64)
            # Those that did not arrive leave no gap: a repeat is the next `many` that did.
            whole = len(said) // many * many
            if whole:
                fleets.append(
                    Fleet(name, round(100 * crowd.target, 4), said[:whole].reshape(-1, many, said.shape[1]),
                          100 * crowd.accuracy[:whole].reshape(-1, many))
                )  # fmt: skip
    return fleets, missed


def crossed_of(
    plan: Mapping[str, Any], used: str, images: Tensor, classes: Sequence[str], out: Path, how: Mapping[str, Any]
) -> tuple[list[dict[str, Ints]], list[str]]:
    """Every recipe from several seeds, for the two-way table: at each target, what each recipe's seeds say of the
    images, (seeds, images); and how many of them do not stand at all targets, which are left out."""
    known = load(used, "test", quiet=True).classes
    place = [known.index(name) for name in classes]
    pools: list[dict[str, Ints]] = [{} for _ in plan["targets"]]
    missed = []
    for number, (name, recipe) in enumerate(recipes_of(plan).items()):
        first = (how["seed"] * len(RECIPES) + number) * plan["crossed"]  # a seed is of one recipe alone
        made = crowds(
            recipe.spec, used, images, plan["targets"], range(first, first + plan["crossed"]), out=out / "crossed",
            device=how["device"], quiet=how["quiet"], epochs=plan["epochs"], within=plan["within"], recipe=recipe,
        )  # fmt: skip
        stood = set.intersection(*(set(crowd.seeds) for crowd in made))
        if len(stood) < plan["crossed"]:
            missed.append(f"{name}: {plan['crossed'] - len(stood)} of {plan['crossed']} seeds of the two-way table did "
                          "not stand at all accuracies; it has as many of each recipe as the least.")  # fmt: skip
        for pool, crowd in zip(pools, made, strict=True):
            rows = [row for row, seed in enumerate(crowd.seeds) if seed in stood]
            pool[name] = crowd.logits[rows][..., place].argmax(2).astype(np.int64)
    return pools, missed


def drawn_with(run: Path) -> dict[str, Any]:
    """How the images of a run were made, for the settings of a study."""
    findings = Findings.open(run)
    [own, *_] = findings.configs.values()
    names = findings.classes
    pairs = [f"{names[one]}-{names[other]}" for one, other in own["pairs"] if one >= 0 and max(one, other) < len(names)]
    wanted = ("space", "space_sha256", "ends", "sure", "samples", "seed", "steps")
    return {name: own[name] for name in wanted if name in own} | {"pairs": pairs}


def told(fleet: Fleet) -> str:
    """How many networks a fleet has, and their mean accuracy."""
    repeats, seeds, _ = fleet.said.shape
    return f"{repeats} × {seeds} of {fleet.accuracy.mean():.2f} %"


def people_of(run: Path, made: Interpolations) -> People:
    """Those who labelled every image; nobody where fewer than two did."""
    everyone = people_one_by_one(run)
    whole = everyone[(everyone >= 0).all(1)]
    if len(whole) < LEAST_PEOPLE:
        whole = whole[:0]
    return People(whole, votes(whole, len(made.classes)))


def hunted(
    basket: Basket | str, used: str, out: Path, plan: Mapping[str, Any], how: Mapping[str, Any]
) -> dict[str, Measured]:
    """By network the share of trials, in %, that find a mistake of it: each in turn the suspect, the others its peers,
    from the same images with the same draws."""
    hunt(basket, used, out=out, trials=plan["trials"], patience=plan["patience"], split="test", shrink=False,
         realism="none", **how)  # fmt: skip
    return {
        row["suspect"]: Measured(100 * row["success"], 100 * row["low"], 100 * row["high"], row["trials"])
        for row in summarise(out)
        if row["trials"]
    }
