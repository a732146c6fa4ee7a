"""`foible study split-transfer`: paper 3, Tables 3 and 4. Do networks that learnt from different images err on the same
distorted ones?

M1 and M1′ learn from one half of the training images, M2 from the other. Test images are distorted for each of them,
towards every wrong label, and shown to all: as found, and amplified to an RMS of 0.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from foible.basket import Basket
from foible.basket.matching import match
from foible.data import load
from foible.figures import save as save_figure
from foible.studies.common import Result, Row, data_for, share_row
from foible.studies.intriguing.distortion import rows as distortion_rows
from foible.studies.intriguing.distortion.paper import NOISE4, TABLE3, TABLE4
from foible.studies.intriguing.distortion.targets import TARGETS, counted, every_target, learnt_rows, some_images
from foible.studies.intriguing.networks.baskets import split_networks
from foible.studies.intriguing.networks.plans import TABLE3 as PLANS
from foible.studies.intriguing.networks.plans import parts, settings
from foible.transfer import save, transfer
from foible.transfer.figures import heat_map
from foible.transfer.tables import grid

IMAGES = {"quick": 64, "paper": 5000}  # of the test split; the paper distorted all 10,000
AMPLIFIED = 0.1
LEARNT_FROM = {"M1": "P1", "M1'": "P1", "M2": "P2"}


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
) -> Result:
    """images: how many test images are distorted."""
    source = data_for(data, scale)
    networks, halves = _networks(source, out, scale, seed, device, quiet, basket)
    test = load(source, "test", quiet=quiet)
    count = counted(images, IMAGES[scale], "images", len(test))
    asked = some_images(test, networks, count, seed, "split-transfer.images")
    found = {name: every_target(networks, name, asked, out, quiet=quiet) for name in networks.names}
    papers = {name: figures[3] for name, figures in TABLE3.items()}
    nearest = distortion_rows.nearest_target(found, papers)[0]
    table = transfer(
        {name: [one.source(target) for target in TARGETS] for name, one in found.items()},
        networks, amplifications=(None, AMPLIFIED), noise=NOISE4, splits=LEARNT_FROM, image_split="test", seed=seed,
    )  # fmt: skip
    save(table, out / "transfer.parquet")

    result = Result("split-transfer", scale, _settings(source, networks, count, halves, basket, scale), seed)
    result.rows += _error_rows(networks, source, halves, quiet)
    result.rows += distortion_rows.size_rows("Table 3: average minimal distortion (RMS)", found, papers)
    for target in TARGETS:
        for size, figures in TABLE4.items():
            how = "minimal distortion" if size is None else f"amplified to RMS {size:g}"
            title = f"Table 4: {how}, {target} target"
            result.rows += distortion_rows.transfer_rows(title, table, figures, target=target, amplification=size)
    clipped = f"Amplified to RMS {AMPLIFIED:g} and clipped to [0, 1], {nearest} target"
    result.rows += distortion_rows.transfer_rows(
        clipped, table, TABLE4[AMPLIFIED], target=nearest, amplification=AMPLIFIED, clipped=True
    )
    noise = {key: value for figures in TABLE4.values() for key, value in figures.items()}
    result.rows += distortion_rows.noise_rows("Table 4: Gaussian noise", table, noise, NOISE4)
    result.rows += distortion_rows.pocket_rows(f"The same size, at random ({nearest} target)", table, nearest)
    result.figures.append(_heat(table, out))
    result.notes += distortion_rows.nearest_words(found, papers) + distortion_rows.unfound_words(found)
    for size, figures in TABLE4.items():
        result.notes += distortion_rows.agreement_words("Table 4", table, figures, amplification=size)
    result.notes += _remarks(source)
    return result


def _networks(
    source: str, out: Path, scale: str, seed: int, device: str, quiet: bool, given: str | None
) -> tuple[Basket, dict[str, range]]:
    """The networks, and the rows of the training split that P1 and P2 are."""
    if given is None:
        networks, info = split_networks(source, out, scale=scale, seed=seed, device=device, quiet=quiet)
        return networks, info.halves
    networks = Basket.open(given, device=device)
    rows = learnt_rows(networks, len(load(source, "train", quiet=True)))
    return networks, parts(PLANS, rows)


def _error_rows(basket: Basket, source: str, halves: dict[str, range], quiet: bool) -> list[Row]:
    """Table 3: the errors of every network on either half and on the test images, undistorted."""
    training, test = load(source, "train", quiet=quiet), load(source, "test", quiet=quiet)
    judged = {name: (training, torch.tensor(half)) for name, half in halves.items()}
    judged["test"] = test, torch.arange(len(test))
    rows = []
    for place, (what, (data, index)) in enumerate(judged.items()):
        labels = match(data, basket).labels[index]
        wrong = (basket.predict(data.images[index]).argmax(2) != labels).sum(1).tolist()
        for name, errors in zip(basket.names, wrong, strict=True):
            paper = TABLE3[name][place] if name in TABLE3 else None
            rows.append(share_row("Table 3: errors", f"{name}: error on {what}, %", paper, errors, len(index)))
    return rows


def _heat(table: Any, out: Path) -> str:
    """Table 4 at every target, as found above and amplified below; the paper's figures in brackets."""
    grids, papers = [], []
    for size, noise in zip(TABLE4, NOISE4, strict=True):
        how = "as found" if size is None else f"amplified to RMS {size:g}"
        for target in TARGETS:
            grids.append(grid(table, target=target, amplification=size, noise=[noise], title=f"{how}, {target} target"))
            papers.append(TABLE4[size])
    return save_figure(heat_map(grids, papers=papers, across=len(TARGETS)), out, "table4")


def _settings(
    source: str, basket: Basket, count: int, halves: dict[str, range], given: str | None, scale: str
) -> dict[str, Any]:
    return {
        "data": source,
        "networks": f"{', '.join(basket.names)}{'' if given is None else ' (given)'}",
        "halves": ", ".join(
            f"{name} is training images {half.start} to {half.stop - 1}" for name, half in halves.items()
        ),
        "images": f"{count} of the test split, drawn by the seed (the paper: all of it; nine searches each)",
        "targets": "every wrong label; best, random and worst of them",
        "amplification": f"x + {AMPLIFIED:g} √d r / ‖r‖: an RMS of {AMPLIFIED:g}, unclipped and clipped",
        "tensor": "transfer.parquet",
        **(settings(scale) if given is None else {}),
    }


def _remarks(source: str) -> list[str]:
    remarks = [
        "How the networks are trained (divisor of the weight decay, rates, epochs, autoencoder) was chosen on MNIST "
        "while looking at the errors that the paper prints: that they agree is a fit; what is distorted and what "
        "transfers is not.",
        "Distortion: √(Σ (x′ − x)² / n) over the n pixels, pixels in [0, 1]. Images that a network gets wrong already "
        "need none, count as 0 towards the label it gives them, and are not amplified.",
        "transfer.parquet holds every source × judge × target × amplification, clipped and not, with the half that "
        "source and judge learnt from.",
    ]
    if source != "mnist":
        remarks.append(f"The paper's networks learnt MNIST; these learnt {source}, so the figures need not agree.")
    return remarks
