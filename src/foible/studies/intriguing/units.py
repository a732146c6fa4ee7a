"""`foible study units`: paper 3, Sec. 3, Figs. 1–4. What excites a unit, and what excites a random direction.

The paper shows rows of images and says what its authors see in them: "the natural basis is not better than a random
basis". Here the rows are measured too: class purity and coherence, natural units against as many random directions and
against images drawn at random. Figs. 1 and 2 are of a convolutional network and the MNIST test set; Figs. 3 and 4 of
AlexNet and ImageNet's validation set, at our size a small ResNet and CIFAR-10's test set, or with `--basket` any
network on any images.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, load
from foible.data.catalogue import KNOWN
from foible.inspect.unit.figures import draw
from foible.inspect.unit.tables import CHANCE, MEASURES, NATURAL, Units
from foible.inspect.unit.units import units
from foible.processes import one_thread
from foible.recipes.train.train import train
from foible.runs.record import settings_hash
from foible.studies.common import Result, Row, data_for

AGAINST = {"quick": ("random", "whitened"), "paper": ("random", "whitened", "positive")}
NAMES = {"purity": "class purity", "coherence": "coherence"}
KINDS = {
    NATURAL: "natural units", "random": "random directions", "whitened": "whitened random directions",
    "positive": "random directions without negative weights", CHANCE: "images drawn at random",
}  # fmt: skip
SURE = 0.05
FEW = 20_000  # training images up to which a second thread only waits
NOTES = (
    "The paper gives no numbers: it says of Figs. 1 and 2 that in both bases the images of a row share many high-level "
    "similarities, and of Figs. 3 and 4 that the rows appear semantically meaningful for the single unit and for the "
    "combination of units. Its conclusion: the natural basis is no better than a random one.",
    "Class purity: the share of a row's images of its commonest class. Coherence: the mean cosine similarity of a "
    "row's pairs in the centred features of a network that took no part in choosing them. p: two-sided permutation "
    "test of the means; rows share images, so that p is a little too sure of itself.",
    "Whitened random directions give every principal axis of the layer the same weight. Plain ones follow the axes of "
    "large variance, which are those that tell classes apart; subtracting the mean changes no row.",
)


@dataclass(frozen=True)
class Part:
    """Two figures of the paper. images: so many of the training images, 0 for all; held: take them from the test split,
    and inspect what is left of it. layers: "" is what the last layer with weights is given."""

    figures: str
    data: str
    network: str
    judge: str
    layers: tuple[str, ...]
    images: int = 0
    held: bool = False
    epochs: int | None = None
    judge_epochs: int | None = None
    batch: int | None = None


SCALES: dict[str, dict[str, Part]] = {
    "quick": {
        "grey": Part("Figs. 1, 2", "mnist", "conv", "mlp:100", ("",), 6000, False, 3, 10),
        "colour": Part("Figs. 3, 4", "cifar10", "resnet:8,width=8", "lenet", ("",), 4000, True, 4, 4, 32),
    },
    "paper": {
        "grey": Part("Figs. 1, 2", "mnist", "conv", "lenet", ("", "relu1")),
        "colour": Part("Figs. 3, 4", "cifar10", "resnet:8", "lenet", ("", "blocks.0", "blocks.1"), 0, False, 6, 6),
    },
}  # fmt: skip


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    network: str = "",
    judge: str = "",
    layer: str = "",
    over: str = "max",
    epochs: int = 0,
    images: int = 0,
    top: int = 10,
    rows: int = 4,
) -> Result:
    """data: one data set alone (else MNIST or digits, and CIFAR-10 where it is at hand).

    With `basket` nothing is trained: `network` of it is inspected (the first, if not said) and `judge` compares images
    (the second). Without, these are specs of the zoo. layer: one alone. over: "max", "mean" or "flat", of layers with
    positions. epochs, images (training images): 0 takes the scale's own. top: images in a row. rows: to show.
    """
    settings: dict[str, Any] = {"against": list(AGAINST[scale]), "over": over, "top": top}
    result = Result("units", scale, settings, seed)
    common: dict[str, Any] = {
        "over": over, "against": AGAINST[scale], "units": rows, "top": top, "seed": seed, "quiet": quiet, "most": 1000
    }  # fmt: skip
    if basket is not None:
        named = data_for(data, scale)
        given = Basket.open(basket, device=device)
        chosen = network or given.names[0]
        found = units(given, named, network=chosen, judge=judge or None, layer=layer or None, **common)
        _add(result, "Figs. 1–4", "given", found, out, figures=True)
    else:
        for name, part in _parts(scale, data):
            part = replace(
                part, network=network or part.network, judge=judge or part.judge, epochs=epochs or part.epochs,
                images=images or part.images, layers=(layer,) if layer else part.layers,
            )  # fmt: skip
            trained, seen = _trained(part, out, seed, device, quiet)
            settings[name] = {"data": part.data, "network": part.network, "judge": part.judge, "inspected": len(seen),
                              "training images": part.images or "all"}  # fmt: skip
            for place, one in enumerate(part.layers):
                found = units(
                    trained, seen, network=trained.names[0], judge=trained.names[1], layer=one or None, **common
                )
                _add(result, part.figures, f"{name}-{place}" if place else name, found, out, figures=not place)
        if data is None and not any(name == "colour" for name in settings):
            result.notes.append("CIFAR-10 is not at hand: Figs. 3 and 4 were left out (`foible data get cifar10`).")
    result.notes += NOTES
    return result


def _parts(scale: str, data: str | None) -> list[tuple[str, Part]]:
    """The parts to do, by what data there are."""
    plans = SCALES[scale]
    if data is None:
        first = replace(plans["grey"], data=data_for(None, scale))
        parts = [("grey", first)] + ([("colour", plans["colour"])] if KNOWN["cifar10"].find() is not None else [])
    else:
        colour = data not in ("digits", "mnist", "fashion-mnist", "usps")
        parts = [("colour" if colour else "grey", replace(plans["colour" if colour else "grey"], data=data))]
    # The bundled digits are few, and too small for LeNet.
    return [
        (name, replace(part, images=0, judge="mlp:100", epochs=None) if part.data == "digits" else part)
        for name, part in parts
    ]


def _trained(part: Part, out: Path, seed: int, device: str, quiet: bool) -> tuple[Basket, Dataset]:
    """The network and its judge, trained once into `out`, and the images to inspect, which neither has learnt."""
    test = load(part.data, "test", quiet=quiet)
    held = bool(part.images and part.held and len(test) > 2 * part.images)
    learn = test if held else load(part.data, "train", quiet=quiet)
    if part.images and len(learn) > part.images:
        learn = replace(learn, split="train", images=learn.images[: part.images], labels=learn.labels[: part.images])
    if held:
        test = replace(test, images=test.images[part.images :], labels=test.labels[part.images :])
    specs = []
    for spec, epochs in ((part.network, part.epochs), (part.judge, part.judge_epochs)):
        options = {"seeds": [seed], "epochs": epochs, "batch": part.batch}
        key = settings_hash({"spec": spec, "data": learn.sha256, **options})[:8]
        folder = out / "networks" / f"{spec.replace(':', '-').replace(',', '-').replace('=', '-')}-{key}"
        with one_thread() if len(learn) < FEW else nullcontext():
            train([spec], learn, test=test, out=folder, device=device, quiet=quiet, **options)  # type: ignore[arg-type]
        specs.append(str(folder))
    if part.network == part.judge:
        specs[1] = f"judge={specs[1]}"
    return Basket.open(specs, device=device), test


def _add(result: Result, which: str, stem: str, found: Units, out: Path, *, figures: bool) -> None:
    """Rows, notes and figures of one layer; its rows of images go into `out/STEM`."""
    table = f"{which}: {found.settings['network']} on {found.settings['data']}, {found.settings['layer']}"
    for measure in MEASURES:
        for kind, value in found.means[measure].items():
            result.rows.append(
                Row(table, f"{KINDS[kind]}: {NAMES[measure]}", None, value.mean, value.low, value.high, value.n)
            )
    for one in found.differences:
        if one["second"] == CHANCE:  # these are in units.json; the intervals above say as much
            continue
        label = f"{KINDS[one['first']]} − {KINDS[one['second']]}: {NAMES[one['measure']]}"
        result.rows.append(Row(table, label, None, one["difference"], one["low"], one["high"], one["n"]))
        result.rows.append(Row(table, f"{label}, p", None, one["p"], n=one["n"]))
    result.notes.append(f"{table}: {verdict(found)}")
    result.notes += [f"{table}: {note}" for note in found.notes]
    drawn = draw(found, out, f"{stem}-") if figures else []
    result.figures += drawn
    found.write(out / stem, [f"../{name}" for name in drawn])


def verdict(found: Units) -> str:
    """Whether the rows say what the paper says of them, measure by measure."""
    told = {(one["measure"], one["first"], one["second"]): one for one in found.differences}
    words = []
    for measure in MEASURES:
        better, related = told[measure, NATURAL, "random"], told[measure, "random", CHANCE]
        if better["p"] is None or related["p"] is None:
            continue
        alike = related["p"] < SURE and related["difference"] > 0
        meant = "have something in common" if alike else "have no more in common than images drawn at random"
        size = f"{better['difference']:+.3f}, {better['low']:+.3f} to {better['high']:+.3f}, p {better['p']:.2g}"
        if better["p"] >= SURE:
            basis = "natural units are not found to differ"
        else:
            basis = f"natural units have {'more' if better['difference'] > 0 else 'less'}"
        agrees = (
            "as the paper says" if alike and (better["p"] >= SURE or better["difference"] < 0) else "unlike the paper"
        )
        words.append(f"by {NAMES[measure]} the rows of random directions {meant}, and {basis} ({size}): {agrees}")
    return "; ".join(words) + "." if words else "too few rows to tell."
