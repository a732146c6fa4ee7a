"""`foible study spectrum`: paper 3, Sec. 4.3, Table 5. Frame bounds of every layer, and growth along distortions.

Table 5 is of an AlexNet that learnt ImageNet. The zoo has that architecture; its trained weights are not ours to ship:
without `--basket` the bounds are those of its first, untrained weights, which the paper's need not resemble. The same
is measured of networks trained here, with what the paper leaves out: how far single layers really enlarge the minimal
distortions, beside noise as long, and so which layer does the damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import load
from foible.data.catalogue import KNOWN
from foible.inspect.spectrum import spectrum
from foible.inspect.spectrum.bounds import Bounds, Effort
from foible.inspect.spectrum.figures import draw_all
from foible.inspect.spectrum.record import Spectrum, write
from foible.inspect.spectrum.spectrum import ASKED
from foible.networks.fresh import fresh_module
from foible.processes import one_thread
from foible.recipes.train.train import train
from foible.runs.record import settings_hash
from foible.studies.common import Result, Row, basket_for, data_for
from foible.studies.intriguing.distortion.targets import distorted
from foible.studies.intriguing.networks.baskets import paper_networks
from foible.studies.intriguing.spectrum.table5 import TABLE5, draw_table5, matches


@dataclass(frozen=True)
class Plan:
    """How much a scale does. images: distorted for each network. more: networks beside the paper's, their epochs, and
    how many training images they learn (0: all). colour: a network for CIFAR-10, where that is at hand."""

    images: int
    more: tuple[str, ...]
    epochs: int | None
    learn: int
    colour: str | None
    alexnet: Effort


PLANS = {
    "quick": Plan(16, ("conv",), 3, 6000, None, Effort(real=False, grid=8, most=1024)),
    "paper": Plan(256, ("conv", "lenet"), 5, 0, "resnet:20,width=8", Effort()),
}
COLOUR_EPOCHS = 4
SHOWN = ("N100-100-10", "N200-200-10", "AE400-10", "conv", "lenet")  # side by side in one figure
IMAGENET = (3, 224, 224)
MANY = 100  # images from which on it pays to start worker processes


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    images: int | None = None,
    alexnet: bool = True,
) -> Result:
    """images: to distort for each network. alexnet: also the AlexNet of 2012, with first weights.

    With `basket` every network of it is measured, an AlexNet beside Table 5, and nothing is trained; growth needs
    `data`, which has no default then.
    """
    with one_thread() if scale == "quick" else nullcontext():  # matrices this small make a second thread wait
        return _run(scale, data, out, seed, device, basket, quiet, images or PLANS[scale].images, alexnet)


def _run(
    scale: str, data: str | None, out: Path, seed: int, device: str, basket: str | None, quiet: bool, count: int,
    alexnet: bool,
) -> Result:  # fmt: skip
    plan = PLANS[scale]
    found: list[Spectrum] = []
    settings: dict[str, Any] = {"images for growth": count}
    result = Result("spectrum", scale, settings, seed)
    if basket is not None:
        settings |= {"networks": "given", "data": data}
        given = Basket.open(basket, device=device)
        found += [_measured(given, name, data, count, out, seed, quiet) for name in given.names]
        if data is None:
            result.notes.append("No data was given beside the basket: bounds alone, no growth.")
    else:
        source = data_for(data, scale)
        settings |= {
            "data": source,
            "split for growth": "test",
            "convolutional networks": f"{plan.epochs} epochs of {plan.learn or 'all'} images",
        }
        if alexnet:
            found.append(_alexnet(plan.alexnet, seed, device, quiet))
        for some, spec in _trained(scale, source, out, seed, device, quiet):
            found += [_measured(some, name, spec, count, out, seed, quiet) for name in some.names]
    for one in found:
        write(one, out / "networks" / one.network)
        paper = TABLE5 if matches(one) else None
        result.rows += bound_rows(one, paper) + growth_rows(one)
        result.notes += [f"{one.network}: {' '.join(one.words())}"]
        if paper:
            result.figures.append(draw_table5(one, out))
    result.figures += _figures(found, out)
    settings |= _settings(found)
    result.notes += _remarks(basket is None and alexnet)
    return result


def _measured(basket: Basket, name: str, data: str | None, count: int, out: Path, seed: int, quiet: bool) -> Spectrum:
    """One network's spectrum; with data also its growth along a run of distortions below `out`."""
    run, workers = None, 1 if count < MANY else None
    if data is not None:
        run = distorted(basket, name, data, out, images=count, seed=seed, workers=workers, quiet=quiet, **ASKED)
    return spectrum(basket, network=name, run=run, effort=Effort(seed=seed), quiet=quiet)


def bound_rows(found: Spectrum, paper: Sequence[tuple[str, str, float, float]] | None = None) -> list[Row]:
    """Bounds of every layer with weights, the paper's beside them where it has them, and their product."""
    table = f"Table 5: {found.network}" if paper else f"Frame bounds: {found.network}"
    rows = []
    layers = [one for one in found.bounds if one.weighted]
    for place, one in enumerate(layers):
        label, low, high = f"{one.name} ({one.size})", None, None
        if paper:
            word, _, low, high = paper[place]
            label = f"{word} ({one.size})"
        rows += [
            Row(table, f"{label}: lower bound", low, one.lower),
            Row(table, f"{label}: upper bound", high, one.upper),
        ]
        rows += _other_bounds(table, label, one)
    rows.append(Row(table, "product of upper bounds, pixels to logits", None, found.product))
    if found.real_product is not None:
        rows.append(Row(table, "product, real layers", None, found.real_product))
    return rows


def _other_bounds(table: str, label: str, one: Bounds) -> list[Row]:
    rows = []
    if one.papers_upper is not None:
        rows.append(Row(table, f"{label}: upper bound, the paper's own form", None, one.papers_upper))
    if one.real_upper is not None and one.real_upper != one.upper:
        rows.append(Row(table, f"{label}: upper bound, real layer", None, one.real_upper))
    if one.real_lower is not None and one.real_lower != one.lower:
        word = "lower bound, real layer" + (" (at most)" if one.at_most else "")
        rows.append(Row(table, f"{label}: {word}", None, one.real_lower))
    return rows


def growth_rows(found: Spectrum) -> list[Row]:
    """What each stage does to distortions and to noise."""
    table = f"Growth: {found.network}"
    rows = []
    for one in found.growth:
        rows += [
            Row(table, f"{one.stage}: along distortions", None, one.distortion, one.distortion_low,
                one.distortion_high, one.n),
            Row(table, f"{one.stage}: along noise as long", None, one.noise, one.noise_low, one.noise_high, one.n),
        ]  # fmt: skip
        if one.share is not None:
            rows.append(Row(table, f"{one.stage}: share of the gain over noise, %", None, 100 * one.share, n=one.n))
    return rows


def _alexnet(effort: Effort, seed: int, device: str, quiet: bool) -> Spectrum:
    network = fresh_module("alexnet", IMAGENET, 1000, seed)
    classes = [str(number) for number in range(1000)]
    basket = Basket(
        {"alexnet (first weights)": network}, classes=classes, preprocess="inside", shape=IMAGENET, device=device
    )
    return spectrum(basket, effort=effort, quiet=quiet)


def _trained(scale: str, source: str, out: Path, seed: int, device: str, quiet: bool) -> list[tuple[Basket, str]]:
    """Baskets, each with the data that it is for."""
    plan = PLANS[scale]
    paper = paper_networks(source, out / "dense", scale=scale, seed=seed, device=device, quiet=quiet)
    lesson = load(source, "train", quiet=quiet)
    if plan.learn:
        lesson = replace(lesson, images=lesson.images[: plan.learn], labels=lesson.labels[: plan.learn])
    options: dict[str, Any] = {"epochs": plan.epochs, "seeds": [seed]}
    folder = out / f"convolutional-{settings_hash({'data': lesson.sha256, **options})[:8]}"
    train(
        list(plan.more),
        lesson,
        test=load(source, "test", quiet=quiet),
        out=folder,
        device=device,
        quiet=quiet,
        **options,
    )
    found = [(paper, source), (Basket.open(folder, device=device), source)]
    if plan.colour and KNOWN["cifar10"].find() is not None:
        colour = basket_for(
            [plan.colour], "cifar10", out / "colour", seed=seed, device=device, quiet=quiet, epochs=COLOUR_EPOCHS
        )
        found.append((colour, "cifar10"))
    return found


def _figures(found: Sequence[Spectrum], out: Path) -> list[str]:
    """The networks of one figure side by side; each other that is no linear model alone."""
    grown = [one for one in found if one.growth]
    together = [one for one in grown if one.network in SHOWN]
    stems = [draw_all(together, out, "growth")] if together else []
    for one in grown:
        if one not in together and len(one.stages) > 1:
            stems.append(draw_all([one], out, f"growth-{one.network}"))
    return stems


def _settings(found: Sequence[Spectrum]) -> dict[str, Any]:
    first = found[0].settings if found else {}
    said = {"boundaries": first.get("boundaries")}
    for one in found:
        if one.growth:
            said[f"mean distortion of {one.network}, RMS"] = one.settings["mean distortion, RMS over pixels"]
            said["distortion"], said["noise"] = one.settings["distortion"], one.settings["noise"]
    return said


def _remarks(untrained: bool) -> list[str]:
    said = [
        "Lower bound: the smallest of the min(m, n) singular values. Strided convolutions: shifts of 2πl/Δ, and ‖A‖/Δ "
        "in two dimensions, as a dense SVD confirms; the paper prints shifts of πl/Δ and no division, and that form "
        "stands beside it: it is larger by about Δ, so that a bound computed by it (Conv. 1 has Δ = 4) is no norm.",
        "The lower bound of the softmax networks is 0 up to rounding: the gradients of their rows add up to 0, and so "
        "do rows that began at 0.",
        "Growth is of a layer with weights and all that follows it up to the next: geometric means over images, which "
        "multiply from layer to layer where the layers form a chain. Elsewhere each layer stands alone.",
        "The paper calls max pooling contractive. Where windows overlap it is not: one pixel can win several windows, "
        "and AlexNet's 3×3 pools at stride 2 have the constant 2, which the product of bounds counts.",
    ]
    if untrained:
        said.insert(
            0,
            "alexnet (first weights) is the architecture of Table 5 with random, untrained weights: its bounds are no "
            "measurement of the paper's network. For trained weights: --basket with an AlexNet in it.",
        )
    return said
