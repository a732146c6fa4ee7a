"""Deep networks (paper 1, Sec. 4, Fig. 8): five of one architecture each, trained to be robust, and hunted in turn.

The paper trained five GoogLeNets on ImageNet with crops of 8–100 %, aspect 3/4–4/3 and photometric distortion. Here:
five CIFAR ResNets and five small Inception networks in GoogLeNet's form on CIFAR-10, with the same augmentation; or,
with `--basket`, any networks on any images. Moves of light, crop and affine are one space, so that a mistake may be
made of any of them; what each network's mistakes are made of is compared with its peers'.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import load, open_data
from foible.data.catalogue import KNOWN
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.tally import summarise
from foible.networks import files, zoo
from foible.processes import one_thread
from foible.recipes.hunt.recipe import hunt
from foible.runs.record import settings_hash
from foible.sensitivity import Sensitivity, sensitivity
from foible.studies.common import Result, Row, basket_for, fewer, share_row
from foible.studies.peer_pressure.deep import figures as deep_figures
from foible.studies.peer_pressure.severe import SPACE as SEVERE_SPACE
from foible.studies.peer_pressure.severe import Severe, severe

SPACE = "photometric+crop+affine"
SUSCEPTIBLE = "networks with mistakes that all their peers get right"
ODDS = "kinds of a network's mistakes, odds ratio against its peers'"
GREY = ("digits", "mnist", "fashion-mnist", "usps")
NOTES = (
    "The paper trained GoogLeNets of 224×224 pixels on ImageNet; these networks are smaller, and a crop of 8 % of a "
    "32×32 image is 9×9 pixels.",
    "The paper's claims here: all networks are susceptible, each has failure modes of its own, and its network 1 was "
    "very sensitive to lighting, especially coupled with small rotations or crops. It gives no numbers.",
    "An odds ratio of 2 means: the odds that a mistake of this network contains this kind of move (in the smallest "
    "change that is still a mistake) are twice those of its peers' mistakes.",
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "networks": ("resnet:8,width=8", "inception:modules=3,width=4"),
        "seeds": 3, "epochs": 3, "batch": 32, "rate": 0.005, "trials": 16, "patience": 30, "images": 1000,
        "originals": 6, "severe": 12, "area": 50.0,
        "workers": 1,  # to start a second process takes longer than so small a hunt
    },
    "paper": {
        "networks": ("resnet:20", "inception:modules=6"),
        "seeds": 5, "epochs": 12, "batch": 256, "rate": 0.002, "trials": 500, "patience": 100, "images": 0,
        "originals": 40, "severe": 64, "area": 8.0, "workers": None,
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
    epochs: int = 0,
    trials: int = 0,
    seeds: int = 0,
    images: int = 0,
    networks: str = "",
    augment: str = "",
    workers: int = 0,
) -> Result:
    """epochs, trials (for each network), seeds (networks of each architecture): 0 takes the scale's own.

    images: so many of the training images (0: the scale's own). networks: specs of the zoo, with blanks between them.
    augment: as of `foible train`. workers: processes of a hunt (0: the scale's own).
    With `basket` (a folder, or specs with blanks between them) nothing is trained.
    """
    plan = dict(SCALES[scale])
    given = {"epochs": epochs, "trials": trials, "seeds": seeds, "images": images, "networks": networks.split()}
    plan |= {name: value for name, value in given.items() if value}
    named = data or ("cifar10" if KNOWN["cifar10"].find() is not None else "digits")
    grey = named in GREY
    few = plan["images"] and named in KNOWN and basket is None
    data = fewer(named, plan["images"], out, tested=plan["images"] // 4) if few else named
    augment = augment or ("paper?area=50&degrees=10" if grey else f"paper?area={plan['area']:g}&flip=true")
    settings: dict[str, Any] = {
        "data": named, "images": "all" if data == named else plan["images"], "split": "train", "space": SPACE,
        "severe_space": SEVERE_SPACE, "objective": "dissent", "search": f"hill-climb?patience={plan['patience']}",
        "trials": plan["trials"], "originals": plan["originals"], "severe_draws": plan["severe"],
    }  # fmt: skip
    if basket is None:
        how = {name: plan[name] for name in ("epochs", "batch", "rate")}
        settings |= {"networks": list(plan["networks"]), "seeds": plan["seeds"], "augment": augment, **how}
    result = Result("deep", scale, settings, seed)
    for name, group in _groups(plan, basket, data, out, seed, device, quiet, augment):
        if len(group) < 2:
            raise UserError(f"{name} is one network: a hunt needs a suspect and at least one peer")
        options = {
            "space": SPACE, "peer_confidence": 0.0, "patience": plan["patience"], "trials": plan["trials"],
            "seed": seed, "shrink": True,
            "realism": "none", "unit": plan["trials"] if group.device.type == "cuda" else None,
        }  # fmt: skip
        key = settings_hash({**options, "networks": group.fingerprints, "data": data})[:8]
        findings = hunt(
            group, data, out=out / f"hunt-{name}-{key}", workers=workers or plan["workers"], quiet=quiet, **options
        )
        originals, labels = _originals(findings, data, plan["originals"])
        with one_thread():
            hard = severe(group, originals, labels, seed=seed, draws=plan["severe"])
        known = sensitivity(findings)
        _add(result, name, group, findings, hard, known, out)
        original = (originals[hard.position], group.classes[int(labels[hard.position])])
        result.figures += deep_figures.draw(name, group.names, findings, known, hard, original, out)
    result.notes += NOTES
    return result


def _groups(
    plan: dict[str, Any], basket: str | None, data: str, out: Path, seed: int, device: str, quiet: bool, augment: str
) -> Iterator[tuple[str, Basket]]:
    """(name, basket) of each architecture in turn, trained as it is asked for; or the one basket that was given."""
    if basket is not None:
        opened = open_data(data, "train", quiet=True)
        yield "given", Basket.open(basket.split(), device=device, classes=opened.classes)
        return
    for spec in plan["networks"]:
        name = zoo.name_of(spec).split("-width")[0].split("-modules")[0]
        # On a CPU a small convolution on two threads beside a busy process takes many times as long.
        with one_thread() if plan["images"] else nullcontext():
            group = basket_for(
                [spec], data, out / name, seed=seed, device=device, quiet=quiet, epochs=plan["epochs"],
                batch=plan["batch"], rate=plan["rate"], augment=augment,
                seeds=list(range(plan["seeds"] * seed, plan["seeds"] * (seed + 1))),
            )  # fmt: skip
        yield name, group


def _originals(findings: Findings, data: str, count: int) -> tuple[Tensor, Tensor]:
    """The first seed images of a hunt, (n, channels, height, width) uint8, which all networks get right, and their
    labels."""
    first = {row["origin_index"]: row for row in findings.head(20 * count)}
    chosen = list(first.values())[:count]
    images = load(data, chosen[0]["origin_split"], quiet=True).images
    return images[[row["origin_index"] for row in chosen]], torch.tensor([row["truth"] for row in chosen])


def _add(
    result: Result, name: str, group: Basket, findings: Findings, hard: Severe, known: Sensitivity, out: Path
) -> None:
    """The rows and notes of one architecture, and everything about its sensitivity as a file."""
    called = {network: f"network {place}" for place, network in enumerate(group.names, 1)}
    result.settings[f"networks of {name}"] = {short: network for network, short in called.items()}
    result.rows += _accuracies(group, name, called)
    rows = summarise(findings)
    for row in rows:
        suspect, n = called[row["suspect"]], row["found"]
        result.rows.append(share_row(f"{name}: hunt", f"{suspect}: success %", None, n, row["trials"]))
        for quantity, key in (
            ("moves", "moves"), ("inferences spent", "inferences_spent"),
            ("inferences as the paper counts", "inferences_as_the_paper_counts"),
        ):  # fmt: skip
            result.rows.append(Row(f"{name}: hunt", f"{suspect}: {quantity}", None, row[key], n=n))
    susceptible = sum(row["found"] > 0 for row in rows)
    result.rows.append(Row(f"{name}: hunt", SUSCEPTIBLE, len(rows), susceptible, n=len(rows)))
    for theme, (right, drawn) in hard.counts.items():
        result.rows.append(share_row(f"{name}: severe changes that all survive, %", theme, None, right, drawn))
    short = known.renamed(called)
    for one in short.kinds:
        label, n = f"{one.network}: {one.kind}{' (any kind of it)' if one.group else ''}", one.mistakes
        odds = one.odds
        result.rows.append(Row(f"{name}: {ODDS}", label, None, odds.ratio, odds.low, odds.high, n + one.peers_mistakes))
    file = f"sensitivity-{name}.json"
    write_with_folder(out / file, (json.dumps(dataclasses.asdict(known), indent=1) + "\n").encode())
    result.notes += [f"{name}: {line}" for line in short.as_text().splitlines()]
    result.notes.append(
        f"{name}: {len(known.kinds)} network × kind, {len(known.classes)} network × class and {len(known.pairs)} pairs "
        f"of kinds were tested, p adjusted by Holm within each; those below 0.05 are above, all of them in {file}."
    )


def _accuracies(group: Basket, name: str, called: dict[str, str]) -> list[Row]:
    """What each network gets right as it is, by the record of its training; networks from elsewhere have none."""
    folder = Path((group.source or [""])[0])
    if not (folder / files.FILE).is_file():
        return []
    return [
        Row(f"{name}: accuracy", f"{called[network['name']]}: {split} accuracy %", None, 100 * accuracy)
        for network in files.read_record(folder)["networks"]
        for split, accuracy in sorted(network.get("accuracy", {}).items())
    ]
