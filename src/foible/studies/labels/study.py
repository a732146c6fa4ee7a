"""Where all networks disagree with the label, is the label wrong? Some fifty people an image say so (CIFAR-10H).

    networks → foible compare → the images where all disagree with the label, ranked → the majority of people

A label counts as wrong where most people chose the class that the networks say. What comes out of it for four ResNets
is what `foible compare` tells of other data (`recipes/compare/against.py`); its score is compared here with simpler
ones.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from foible.basket import Basket
from foible.data import open_data
from foible.data.catalogue import KNOWN
from foible.errors import UserError
from foible.processes import one_thread
from foible.recipes.compare.against import BANDS, in_bands
from foible.recipes.compare.answers import answer_files
from foible.recipes.compare.ranked import by_network, ranked
from foible.recipes.compare.recipe import compare
from foible.runs.record import settings_hash
from foible.studies.common import Result, Row, basket_for, fewer, share_row
from foible.studies.labels import figures
from foible.studies.labels.people import Ints, majority, read_people
from foible.studies.labels.rankings import OURS, auc, auc_intervals, first, rankings

LIST, NUMBER, TENTHS, IN_BANDS, PRECISION, AREA = (
    "All networks disagree with the label",
    "By the number of networks, mean over their subsets",
    "Tenths of the list: people side with the networks, %",
    "Bands of the score: people side with the networks, %",
    "Among the first of the list: people side with the networks, %",
    "Wrong labels above right ones: area under the ROC curve",
)
FIRST = (50, 100, 200)
NOTES = (
    "A label counts as wrong where the class that most people chose is the one that all networks say.",
    "Areas of two rankings differ by more than chance where the interval of their difference leaves out 0. Intervals: "
    "Wilson's for shares; for areas a bootstrap over images.",
    "Better networks, other data and other people give other shares.",
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "networks": ("cnn4", "resnet:8,width=8", "mlp:64"), "images": 2000, "tested": 4000,
        "epochs": 2, "batch": 32, "rate": 0.002, "augment": None,
    },
    "paper": {
        "networks": ("resnet:20", "resnet:32", "resnet:44", "resnet:56"), "images": 0, "tested": 0,
        "epochs": None, "batch": None, "rate": None, "augment": "crops?area=50&flip=true",
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
    images: int = 0,
    tested: int = 0,
    networks: str = "",
    people: str = "",
) -> Result:
    """epochs: 0 takes the scale's own. networks: specs of the zoo, with blanks between them.

    images, tested: train on so many images of the test split and judge so many others of it (0: the scale's own).
    people: a NumPy file of counts (images of the test split, classes); without it that of CIFAR-10H.
    With `basket` (a folder, or specs with blanks between them) nothing is trained, and the whole split is judged.
    """
    plan = dict(SCALES[scale])
    given = {"epochs": epochs, "images": images, "tested": tested, "networks": tuple(networks.split())}
    plan |= {name: value for name, value in given.items() if value}
    named = data or "cifar10"
    whole = open_data(named, "test", quiet=quiet)
    counts = read_people(people, whole.labels, len(whole.classes))
    if basket is not None:
        used, start = named, 0
        group = Basket.open(basket.split(), device=device, classes=whole.classes)
    else:
        few = plan["images"] and named in KNOWN and plan["images"] + plan["tested"] <= len(whole)
        used = fewer(named, plan["images"], out, tested=plan["tested"]) if few else named
        start = plan["images"] if few else 0
        how = {name: plan[name] for name in ("epochs", "batch", "rate", "augment")}
        with one_thread():
            group = basket_for(plan["networks"], used, out, seed=seed, device=device, quiet=quiet, **how)
    if len(group) < 2:
        raise UserError(f"{group.names[0]!r} is one network: give at least two with --basket, better three or more")
    key = settings_hash({"networks": group.fingerprints, "data": used})[:8]
    summary = compare(group, used, out=out / f"compare-{key}", quiet=quiet)
    settings: dict[str, Any] = {
        "data": named, "split": "test", "images": summary["images"], "people": Path(people).name or "CIFAR-10H",
        "people an image": f"{counts.sum(1).min()} to {counts.sum(1).max()}",
        "bands of the score": [band.least for band in BANDS[:-1]],
    }  # fmt: skip
    if basket is None:
        settings |= {"trained on": used.partition(":")[0] if start else named, "images for training": start, **how}
    settings |= {one["network"]: _about(one) for one in summary["against"]["networks"]}
    result = Result("labels", scale, settings, seed)
    place = np.array([whole.classes.index(name) for name in summary["classes"]])
    _add(result, out / f"compare-{key}", summary, majority(counts)[start:], place, out)
    result.notes += NOTES
    return result


def _about(one: dict[str, Any]) -> str:
    return f"{one['kind']}, weight {one['weight']:.3g}, {one['seen']}"


def _add(result: Result, folder: Path, summary: dict[str, Any], most: Ints, place: Ints, out: Path) -> None:
    """All rows and figures. most: (images,) what most people say; place: (classes,) of the basket's classes among the
    data's, which are those that people chose from."""
    result.rows += [
        share_row("Accuracy", f"{row['network']}: accuracy %", None, row["right"], row["n"])
        for row in summary["accuracy"]
    ]
    found, scores = ranked(folder)
    n, choice = len(found.index), most[found.index]
    wrong, label = choice == place[found.said], choice == place[found.labels]
    result.rows += [
        Row(LIST, "images", None, n, n=summary["images"]),
        share_row(LIST, "people side with the networks, %", None, int(wrong.sum()), n),
        share_row(LIST, "people side with the label, %", None, int(label.sum()), n),
        share_row(LIST, "people say something else, or are divided, %", None, int((~wrong & ~label).sum()), n),
        *_by_number(folder, len(summary["networks"]), most, place),
    ]
    tenths = [
        (f"{scores[rows].min():.2f} to {scores[rows].max():.2f}", int(wrong[rows].sum()), len(rows))
        for rows in np.array_split(np.arange(n), min(10, n))
    ] if n else []  # fmt: skip
    bands = [
        (_range(least, above), int(wrong[inside].sum()), int(inside.sum())) for least, above, inside in in_bands(scores)
    ]
    for table, parts in ((TENTHS, tenths), (IN_BANDS, bands)):
        result.rows += [share_row(table, f"score {name}", None, some, many) for name, some, many in parts]
    orders = rankings(found, scores)
    areas = auc_intervals(orders, wrong, result.seed)
    for name, values in orders.items():
        for count in FIRST:
            if count <= n:
                result.rows.append(
                    share_row(PRECISION, f"first {count}: {name}", None, first(values, wrong, count), count)
                )
    for name, values in orders.items():
        low, high, least, greatest = areas[name]
        area = auc(values, wrong)
        result.rows.append(Row(AREA, name, None, area, low, high, n))
        if name != OURS:
            difference = area - auc(orders[OURS], wrong)
            result.rows.append(Row(AREA, f"{name}, less ours", None, difference, least, greatest, n))
    if n < max(FIRST):
        none = " or ".join(str(count) for count in FIRST if count > n)
        result.notes.append(f"The list has {n} images: there are no first {none} of it.")
    result.figures += [figures.shares(tenths, bands, out), figures.curves(orders, wrong, out)]


def _range(least: float, above: float) -> str:
    if np.isinf(above):
        return f"{least:g} and more"
    return f"below {above:g}" if np.isinf(least) else f"{least:g} to {above:g}"


def _by_number(folder: Path, networks: int, most: Ints, place: Ints) -> list[Row]:
    """What fewer networks would have told: of every subset of as many, up to six networks; of the first ones beyond."""
    tables = list(answer_files(folder, ("index", "label", "said")))
    said = np.concatenate([by_network(table, "said", networks) for table in tables], 1)
    labels, index = (np.concatenate([table.column(name).to_numpy() for table in tables]) for name in ("label", "index"))
    people = most[index]
    rows = []
    for count in range(1, networks + 1):
        chosen = list(combinations(range(networks), count)) if networks <= 6 else [tuple(range(count))]
        images, shares = [], []
        for some in chosen:
            told = said[list(some)]
            against = (told == told[0]).all(0) & (told[0] >= 0) & (told[0] != labels)
            images.append(int(against.sum()))
            shares.append(float((people[against] == place[told[0][against]]).mean()) if against.any() else np.nan)
        what = f"{count} {'network' if count == 1 else 'networks'}"
        rows.append(Row(NUMBER, f"{what}: images", None, float(np.mean(images)), n=len(chosen)))
        mean = 100 * float(np.nanmean(shares)) if np.isfinite(shares).any() else None
        rows.append(Row(NUMBER, f"{what}: people side with them, %", None, mean, n=len(chosen)))
    return rows
