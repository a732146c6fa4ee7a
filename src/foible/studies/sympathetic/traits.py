"""`foible study traits`: paper 2, Table 1 and Fig. 6: does success depend on the trait?

    a binary classifier on pixels for each trait → its mistakes, mended in the latent space of one generator

Traits are those of CelebA where it is at hand (`celeba:PATH`). Of other data with two classes the second is the trait
(`parquet:smiles`); CIFAR-10 has groups of its classes, such as "animal"; of any other data every class is one.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foible import figures
from foible.data import Dataset, load
from foible.data.celeba import IMAGES, TRAITS
from foible.data.places import candidates, data_folder
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.generators import open_generator, train_generator
from foible.permission import Permission
from foible.specs import parse
from foible.studies.common import Result, basket_for, mean_row, share_row
from foible.studies.labels.people import read_people
from foible.studies.sympathetic.figures import sheet, signed
from foible.studies.sympathetic.mending import Descent, Mended, mend
from foible.studies.sympathetic.parts import Case, case

PAPER: dict[str, float | None] = {  # success in %; three cells cannot be read in our copy
    "Male": 78, "Mustache": None, "Rosy Cheeks": None, "Sideburns": 30, "Smiling": 78, "Receding Hairline": 95,
    "Big Lips": None, "Wearing Earrings": 98, "Eyeglasses": 86, "Wearing Necktie": 94,
}  # fmt: skip
GROUPS = {  # of CIFAR-10's classes
    "animal": ("bird", "cat", "deer", "dog", "frog", "horse"), "flies": ("airplane", "bird"),
    "pet": ("cat", "dog"), "has wheels": ("automobile", "truck"),
}  # fmt: skip
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "images": 2000, "tested": 1000, "kind": "vae:16?width=200", "epochs": 20, "batch": 64, "rate": 0.004,
        "network": "mlp:32", "network_epochs": 15, "mistakes": 40, "steps": 300, "size": 32,
    },
    "paper": {
        "images": 0, "tested": 0, "kind": "vaegan:1024", "epochs": None, "batch": None, "rate": None,
        "network": "cnn4", "network_epochs": None, "mistakes": 100, "steps": 1000, "size": 64,
    },
}  # fmt: skip
TABLE, PEOPLE = "Mistakes mended, by trait (Table 1)", "CIFAR-10H: mistakes mended (as a PNG), by what people say"
SURE = 0.9  # of the people choose classes on the label's side of the trait


@dataclass(frozen=True, eq=False)
class Trait:
    """Images with (1) and without (0) a trait. data: a spec of both splits."""

    name: str
    data: str
    training: Dataset
    test: Dataset


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    generator: str = "",
    traits: str = "",
    images: int = -1,
    mistakes: int = 0,
    steps: int = 0,
    epochs: int = 0,
    network: str = "",
) -> Result:
    """generator: a folder that `foible generator train` wrote, FILE.py:NAME or hf:FOLDER; without it one is trained.
    traits: names with commas between them (default: all that the data has; of CelebA the paper's). images: train on so
    many (0: all). mistakes: most that are mended. steps: most of a descent. epochs: of the generator. network: a spec
    of the zoo."""
    if basket is not None:
        raise UserError("the study traits trains a classifier for each trait: leave --basket away")
    plan = dict(SCALES[scale])
    given = {"mistakes": mistakes, "steps": steps, "epochs": epochs, "network": network}
    plan |= {name: value for name, value in given.items() if value} | ({"images": images} if images >= 0 else {})
    named = data or _at_hand()
    wanted = tuple(name.strip() for name in traits.split(",") if name.strip())
    found = _traits(named, wanted, plan, out, quiet)
    one = found[0]
    drawn: Any = (
        open_generator(generator, may=Permission.typed(generator)) if generator else
        train_generator(
            plan["kind"], one.training, test=one.test, out=out / "generator", seed=seed, device=device, quiet=quiet,
            **{name: plan[name] for name in ("epochs", "batch", "rate")},
        )
    )  # fmt: skip
    settings = {
        "data": named, "traits": [one.name for one in found], "images for training": len(one.training),
        "test images": len(one.test), "generator": Path(generator).name or plan["kind"], "latent": drawn.latent,
        **{name: plan[name] for name in ("network", "network_epochs", "mistakes", "steps")}, "λ": 0.1,
    }  # fmt: skip
    result, shown = Result("traits", scale, settings, seed), list[tuple[Trait, Case, Mended]]()
    for one in found:
        group = basket_for(
            [plan["network"]], one.data, out / one.name.replace(" ", "-"), seed=seed, device=device, quiet=quiet,
            epochs=plan["network_epochs"],
        )  # fmt: skip
        at = case(one.name, drawn, group, one.test, mistakes=plan["mistakes"], others=0, seed=seed)
        shown.append((one, at, _rows(result, one, at, Descent(steps=plan["steps"]), seed)))
    if named == "cifar10" and not plan["tested"]:
        _people(result, shown)
    result.figures.append(figure6(shown, out))
    result.notes += [
        "The paper: 100 mistakes of each trait of CelebA, a VAE-GAN of 1,024 dimensions; Mustache, Rosy Cheeks and Big "
        "Lips cannot be read in our copy of its table.",
        "Unclipped is the paper's form: x′ may leave [0, 1]. As a PNG: what counts is x′ clipped and in 8 bits.",
    ]
    return result


def _at_hand() -> str:
    """CelebA where it is, else smiles, else CIFAR-10."""
    for folder in candidates("celeba"):
        if (folder / IMAGES).is_dir() and (folder / TRAITS).is_file():
            return f"celeba:{_short(folder)}"
    for folder in candidates("smiles"):
        if any(folder.glob("*.parquet")):
            return f"parquet:{_short(folder)}"
    return "cifar10"


def _short(folder: Path) -> str:
    """A folder as a user would write it: below FOIBLE_DATA by its name."""
    return folder.name if folder.parent == data_folder() else str(folder)


def _traits(named: str, wanted: Sequence[str], plan: dict[str, Any], out: Path, quiet: bool) -> list[Trait]:
    parsed = parse(named)
    if parsed.name == "celeba":
        size = f"size={plan['size']}"
        specs = {
            name: f"celeba:{parsed.argument}?trait={name.replace(' ', '_')}&{size}" for name in wanted or tuple(PAPER)
        }
        return [_limited(name, spec, spec, (1,), plan, out, quiet) for name, spec in specs.items()]
    classes = load(named, "test", quiet=quiet).classes
    if named == "cifar10":
        known = {name: tuple(classes.index(one) for one in members) for name, members in GROUPS.items()}
    elif len(classes) == 2:
        known = {"smiling" if "smiles" in named else classes[1]: (1,)}
    else:
        known = {name: (number,) for number, name in enumerate(classes)}
    for name in wanted:
        if name not in known:
            raise UserError(f"{named} has no trait {name!r}: it has {', '.join(known)}")
    whole = named if len(classes) == 2 else ""
    return [_limited(name, named, whole, known[name], plan, out, quiet) for name in wanted or known]


def _limited(
    name: str, source: str, whole: str, members: tuple[int, ...], plan: dict[str, Any], out: Path, quiet: bool
) -> Trait:
    """One trait: classes `members` of the source against the others, as a file of its own unless the source, `whole`,
    is that already."""
    training, test = load(source, "train", quiet=quiet), load(source, "test", quiet=quiet)
    if whole and not plan["images"] and not plan["tested"]:
        return Trait(name, whole, training, test)
    most = {"train": plan["images"] or len(training), "test": plan["tested"] or len(test)}
    arrays: dict[str, Any] = {"classes": np.array([f"not {name}", name])}
    parts = {}
    for split, part in (("train", training), ("test", test)):
        images = _small(part.images[: most[split]], plan["size"] if plan["images"] else 0)
        labels = torch.isin(part.labels[: most[split]], torch.tensor(members)).long()
        arrays |= {f"x_{split}": images.numpy(), f"y_{split}": labels.numpy()}
        parts[split] = Dataset(f"{source}: {name}", split, images, labels, (f"not {name}", name))
    file, held = out / f"{name.replace(' ', '-')}.npz", io.BytesIO()
    np.savez(held, **arrays)
    write_with_folder(file, held.getvalue())
    return Trait(name, f"npz:{file}", parts["train"], parts["test"])


def _small(images: Tensor, size: int) -> Tensor:
    """At most `size` pixels wide, by whole steps: a quick study is quick because its images are small too."""
    step = images.shape[3] // size if size else 1
    if step < 2:
        return images
    return torch.nn.functional.avg_pool2d(images.float(), step).round().byte()


def _rows(result: Result, one: Trait, at: Case, how: Descent, seed: int) -> Mended:
    right, n = at.accuracy
    has, sees = int((one.test.labels == 1).sum()), int((at.said == 1).sum())
    result.rows += [
        share_row("Accuracy", f"{one.name}: accuracy, %", None, right, n),
        share_row("Accuracy", f"{one.name}: images that have it, %", None, has, n),
        share_row("Accuracy", f"{one.name}: images that are said to have it, %", None, sees, n),
    ]
    if min(sees, n - sees) < 0.01 * n:
        result.notes.append(
            f"The classifier of {one.name!r} says the same of more than 99 % of the images: it has learnt next to "
            "nothing, and whether its mistakes can be mended says nothing of the trait."
        )
    came = {
        png: mend(at.space, at.basket, at.suspect, at.wrong, replace(how, png=png), seed=seed) for png in (False, True)
    }
    paper = PAPER.get(one.name if one.name in PAPER else one.name.capitalize())
    for png, words in ((False, "unclipped"), (True, "as a PNG")):
        done = came[png]
        result.rows += [
            share_row(
                TABLE, f"{one.name}, {words}: mended, %", None if png else paper, int(done.found.sum()), len(done.found)
            ),
            mean_row(TABLE, f"{one.name}, {words}: mean ‖e‖", None, done.mended.distances.tolist(), least=0),
        ]
    change = came[True].mended.change.flatten(1).square().mean(1).sqrt()
    result.rows.append(mean_row(TABLE, f"{one.name}, as a PNG: RMS of x′ − x", None, change.tolist(), least=0))
    return came[True]


def _people(result: Result, shown: Sequence[tuple[Trait, Case, Mended]]) -> None:
    """Does success fall where people disagree?"""
    known = load("cifar10", "test", quiet=True)
    classes = known.classes
    try:
        labels = known.labels[: len(shown[0][0].test)]  # of fewer there are no counts, and that is said
        counts = torch.from_numpy(read_people("", labels, len(classes))).double()
    except UserError as error:
        result.notes.append(f"What people say was not looked at: {error}")
        return
    for one, at, came in shown:
        has = torch.tensor([name in GROUPS[one.name] for name in classes])
        share = (counts * has).sum(1) / counts.sum(1)
        agree = torch.where(at.test.labels == 1, share, 1 - share)[at.wrong.index] >= SURE
        found = came.found.cpu()
        for words, rows in ((f"at least {SURE:.0%} side with the label", agree), ("fewer do", ~agree)):
            words = words.replace("%", " %")
            result.rows.append(
                share_row(PEOPLE, f"{one.name}, {words}: mended, %", None, int(found[rows].sum()), int(rows.sum()))
            )


def figure6(shown: Sequence[tuple[Trait, Case, Mended]], out: Path, most: int = 2) -> str:
    """Fig. 6: the first mended mistakes of each trait: x, x′ − x by its own least and greatest, signed, x′."""
    lines, words = list[Any](), list[tuple[str, str]]()
    for one, at, came in shown:
        done = came.mended
        for row in range(min(most, len(done.given))):
            images = [some[row].cpu() for some in (done.given.images, done.changed)]
            x, changed = (np.broadcast_to(figures.pixels(image[:3]).reshape(*image.shape[1:], -1), (
                *image.shape[1:], 3)) for image in images)  # fmt: skip
            change = done.change[row].mean(0).cpu().numpy()
            own = (change - change.min()) / max(float(np.ptp(change)), 1e-9)
            lines.append(np.stack([x, np.repeat(own[..., None], 3, 2), signed(change, np.abs(change).max()), changed]))
            names = one.test.classes
            words.append((names[int(at.said[done.given.index[row]])], names[int(done.given.aims[row])]))
    figure, axes = figures.new(size=(6.6, 1.2 * max(1, len(lines)) + 0.6))
    axis = axes[0, 0]
    figures.blank(axis)
    if lines:
        axis.imshow(sheet(lines), interpolation="nearest")
        tall = sheet(lines).shape[0] / len(lines)
        wide = sheet(lines).shape[1]
        for row, (was, right) in enumerate(words):
            axis.text(-2, (row + 0.5) * tall, was, ha="right", va="center")
            axis.text(wide, (row + 0.5) * tall, right, ha="left", va="center")
        axis.set_xlim(-0.4 * wide, 1.4 * wide)
    axis.set_title("x, x′ − x (min–max, and signed), x′", pad=6)
    return figures.save(figure, out, "figure6")
