"""`foible study distortion`: paper 3, Tables 1 and 2, Figs. 5 and 7. How little it takes to make a network err, and
which other networks then err too.

Training images are distorted, as in the paper, towards every wrong label; the averages are printed for the best, a
random and the worst one, as the paper does not say which it means. Beside the paper's tables: L-BFGS, the paper's
method, on the same images; the exact answer where a network is linear; distances that survive 8 bits; noise controls;
and (paper scale) transfer across seeds, depths, activations and to a convolutional network.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.basket.matching import match
from foible.data import Dataset, load
from foible.errors import UserError
from foible.studies.common import Result, Row, data_for, share_row
from foible.studies.intriguing.distortion import beside
from foible.studies.intriguing.distortion import linf as distortion_linf
from foible.studies.intriguing.distortion import others as distortion_others
from foible.studies.intriguing.distortion import pictures as drawn
from foible.studies.intriguing.distortion import rows as distortion_rows
from foible.studies.intriguing.distortion.paper import FIG7_ACCURACY, FIG7_NOISE, NOISE2, TABLE1, TABLE2  # fmt: skip
from foible.studies.intriguing.distortion.targets import (  # fmt: skip
    TARGETS,
    counted,
    every_target,
    first_rows,
    learnt_rows,
    some_images,
)
from foible.studies.intriguing.networks.baskets import paper_networks
from foible.studies.intriguing.networks.plans import settings
from foible.transfer import save, select, transfer
from foible.transfer.figures import draw

IMAGES = {"quick": 64, "paper": 2000}  # the paper distorted all 60,000: nine searches each, for six networks
SAMPLE = {"quick": 8, "paper": 200}  # images for L-BFGS
LINF = {"quick": 0, "paper": 100}  # images for L∞, which takes longer
OTHERS = 200  # images for the networks that the paper does not have
AMPLIFIED = (None, 0.1, 0.3)


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
    sample: int | None = None,
    linf: int | None = None,
    others: bool | None = None,
    network: str | None = None,
    photographs: str | None = None,
) -> Result:
    """images: how many training images are distorted. sample: of these, how many by L-BFGS too. linf: and how many
    in the norm L∞ (0: none; the default at quick scale). others: also transfer
    across seeds, depths and activations and for Conv (default: at paper scale). network, photographs: a full-size
    network and data for it, such as timm:resnet18 and folder:PATH, for the number of Fig. 5."""
    if (network is None) != (photographs is None):
        raise UserError("Fig. 5 needs both --set network=SPEC and --set photographs=DATA: give the other one too")
    source = data_for(data, scale)
    networks = _networks(source, out, scale, seed, device, quiet, basket)
    training, test = load(source, "train", quiet=quiet), load(source, "test", quiet=quiet)
    training = first_rows(training, learnt_rows(networks, len(training)))
    count = counted(images, IMAGES[scale], "images", len(training))
    few = counted(sample, SAMPLE[scale], "sample", count)
    asked = some_images(training, networks, count, seed, "distortion.images")
    found = {name: every_target(networks, name, asked, out, quiet=quiet) for name in networks.names}
    papers = {name: figures[2] for name, figures in TABLE1.items()}
    nearest = distortion_rows.nearest_target(found, papers)[0]
    table = transfer(
        {name: [one.source(target) for target in TARGETS] for name, one in found.items()},
        networks, amplifications=AMPLIFIED, noise=(*NOISE2, FIG7_NOISE), splits=dict.fromkeys(networks.names, "train"),
        image_split="train", seed=seed,
    )  # fmt: skip
    largest: list[Row] = []
    if (LINF[scale] if linf is None else linf) > 0:
        some = asked.head(LINF[scale] if linf is None else linf)
        table, largest = distortion_linf.with_linf(
            table, networks, some, out, amplifications=AMPLIFIED, seed=seed, quiet=quiet
        )
    save(table, out / "transfer.parquet")

    result = Result("distortion", scale, _settings(source, networks, count, few, basket, nearest, scale), seed)
    result.rows += error_rows(networks, {"training": training, "test": test})
    result.rows += distortion_rows.size_rows("Table 1: average minimal distortion (RMS)", found, papers)
    result.rows += beside.exact_rows(found, networks, papers)
    result.rows += beside.methods_rows(found, networks, asked, few, out, quiet)
    result.rows += beside.lattice_rows(found, networks)
    for target in TARGETS:
        result.rows += distortion_rows.transfer_rows(f"Table 2: {target} target", table, TABLE2, target=target)
    result.rows += distortion_rows.noise_rows("Table 2: Gaussian noise", table, TABLE2, NOISE2)
    result.rows += distortion_rows.pocket_rows(f"The same size, at random ({nearest} target)", table, nearest)
    result.rows += largest + _noise_accuracy(table)
    result.notes += distortion_rows.nearest_words(found, papers) + distortion_rows.unfound_words(found)
    result.notes += distortion_rows.agreement_words("Table 2", table, TABLE2)
    result.figures.append(drawn.heat(table, out))
    result.figures += drawn.pictures(networks, found, table, nearest, out, seed)
    drawn.full_size(result, network, photographs, out, seed, device, quiet)
    if scale == "paper" if others is None else others:
        _others(result, source, training, out, seed, device, quiet, nearest, min(count, OTHERS))
    result.notes += _remarks(source, nearest)
    return result


def _networks(source: str, out: Path, scale: str, seed: int, device: str, quiet: bool, given: str | None) -> Basket:
    if given is not None:
        return Basket.open(given, device=device)
    return paper_networks(source, out, scale=scale, seed=seed, device=device, quiet=quiet)


def error_rows(basket: Basket, splits: Mapping[str, Dataset]) -> list[Row]:
    """Training and test error of every network, undistorted."""
    rows = []
    for place, (split, data) in enumerate(splits.items()):
        met = match(data, basket)
        wrong = basket.predict(data.images[met.index]).argmax(2) != met.labels[met.index]
        for name, errors in zip(basket.names, wrong.sum(1).tolist(), strict=True):
            paper = TABLE1[name][place] if name in TABLE1 else None
            rows.append(share_row("Table 1: errors", f"{name}: {split} error, %", paper, errors, len(met.index)))
    return rows


def _noise_accuracy(table: Any) -> list[Row]:
    """Fig. 7c: who is still right under noise of σ = 1. The paper does not say whose 51 % it is."""
    rows = []
    for clipped in (False, True):
        title = f"Fig. 7: accuracy under Gaussian noise, σ = {FIG7_NOISE:g}" + (
            ", clipped to [0, 1]" if clipped else ""
        )
        for one in select(table, kind="noise", amplification=FIG7_NOISE, clipped=clipped):
            rows.append(share_row(title, f"{one['judge']}, %", FIG7_ACCURACY, one["n"] - one["errors"], one["n"]))
    return rows


def _others(
    result: Result, source: str, training: Dataset, out: Path, seed: int, device: str, quiet: bool, target: str,
    count: int,
) -> None:  # fmt: skip
    basket = distortion_others.networks(source, out, seed=seed, device=device, quiet=quiet)
    table = distortion_others.tensor(basket, training, count, out, seed=seed, quiet=quiet)
    save(table, out / "transfer-others.parquet")
    result.rows += distortion_others.rows(table, target)
    result.figures.append(draw(table, out, "transfer-others", target=target, kinds=("distortion", "clean")))


def _settings(
    source: str, basket: Basket, count: int, few: int, given: str | None, nearest: str, scale: str
) -> dict[str, Any]:
    return {
        "data": source,
        "networks": f"{', '.join(basket.names)}{'' if given is None else ' (given)'}",
        "images": f"{count} of the training split, drawn by the seed (the paper: all of it; nine searches each)",
        "targets": "every wrong label; best, random and worst of them",
        "methods": f"closest; lbfgs on {few} of the images",
        "amplification": "along each distortion to that RMS, unclipped and clipped",
        "target in figures 7 and in controls": nearest,
        "tensor": "transfer.parquet",
        **(settings(scale) if given is None else {}),
    }


def _remarks(source: str, nearest: str) -> list[str]:
    remarks = [
        "How the networks are trained (divisor of the weight decay, rates, epochs, autoencoder) was chosen on MNIST "
        "while looking at the errors that the paper prints: that they agree is a fit; what is distorted and what "
        "transfers is not.",
        "Distortion: √(Σ (x′ − x)² / n) over the n pixels, pixels in [0, 1]. Images that a network gets wrong already "
        "need none, and count as 0 towards the label it gives them.",
        f"transfer.parquet holds every source × judge × norm × target × amplification, clipped and not; Fig. 7, the "
        f"controls and the last tables show the {nearest} target.",
        "Fig. 7c: the paper does not say which network keeps 51 %; it stands beside all of them.",
    ]
    if source != "mnist":
        remarks.append(f"The paper's networks learnt MNIST; these learnt {source}, so the figures need not agree.")
    return remarks
