"""A run of a comparison made up by its schema: what networks of known strength say of digits, or of coloured fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fake_findings import _digits
from fake_runs import genuine
from html_page import Page, says
from scipy.stats import binomtest

from foible.findings import SCHEMA, with_metadata
from foible.images import encode_png
from foible.statistics import wilson

Painter = Callable[[int, int], bytes]  # (position, class) to a PNG
TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FOUR = ("march", "june", "probe", "vit")
VERSIONS = json.dumps({"foible": "0.2.0", "torch": "2.13", "python": "3.11", "device": "cpu"})


def digit(position: int, _: int) -> bytes:
    """A grey digit, 28×28."""
    image = np.pad(_digits()[0][position % 1797], 2)
    return encode_png((image.clip(0, 1) * 255).astype(np.uint8)[None])


def field(side: int) -> Painter:
    """A coloured field with a disc and some grain, side×side: it compresses like a photograph."""

    def paint(position: int, label: int) -> bytes:
        rng = np.random.default_rng(position)
        y, x = np.mgrid[:side, :side] / side
        ground = np.stack([x, y, 1 - x]) * rng.uniform(0.3, 1, (3, 1, 1))
        disc = (x - rng.uniform(0.3, 0.7)) ** 2 + (y - 0.5) ** 2 < 0.02 * (1 + label % 5)
        image = np.where(disc, rng.uniform(0, 1, (3, 1, 1)), ground) + rng.normal(0, 0.02, (3, side, side))
        return encode_png((image.clip(0, 1) * 255).astype(np.uint8))

    return paint


def save_comparison(
    folder: Path,
    networks: Sequence[str] = ("old", "new"),
    classes: Sequence[str] = TEN,
    *,
    images: int = 600,
    strengths: Sequence[float] = (0.9, 0.86, 0.88, 0.84),
    labelled: bool = True,
    paint: Painter = digit,
    side: int = 28,
    files: str | None = None,
    unsettled: int = 0,
    unreadable: int = 0,
    units: int = 3,
    finished: bool = True,
    keep: Callable[[dict[str, Any]], bool] = lambda row: True,  # noqa: ARG005
    **changed: Any,
) -> Path:
    """A run folder: shards, compare.json, config.json. The first network is the old one, the second the new one.

    files: the names of files, with {} for the number; `changed` replaces keys of compare.json.
    """
    rng = np.random.default_rng(3)
    labels = np.arange(images) % len(classes)
    hard = rng.random(images)  # the same images are hard for all
    chances = np.zeros((len(networks), images, len(classes)))
    for k in range(len(networks)):
        noise = rng.normal(0, 0.08, images)
        weak = np.where(labels == 3, 0.25, 0.0) if k == 1 else 0.0
        wrong = hard + noise + weak > strengths[k % len(strengths)]
        doubt = hard > 0.985  # a wrong label: all say the next class
        said = np.where(doubt, labels + 1, np.where(wrong, labels + 1 + rng.integers(1, 4, images), labels))
        sure = rng.uniform(0.45, 0.999, images)
        chances[k] = ((1 - sure) / (len(classes) - 1))[:, None]
        chances[k, np.arange(images), said % len(classes)] = sure
    said = chances.argmax(2)
    settings = {
        "recipe": "compare", "data": "fake", "split": "test", "names": list(networks), "old": networks[0],
        "new": networks[1], "labelled": labelled, "unit": images // units, "device": "cpu",
        "canvas": {"size": [side, side], "resize": None, "interpolation": "bilinear"},
    }  # fmt: skip
    rows = [row for row in _rows(networks, labels, said, chances, labelled, paint, files) if keep(row)]
    for row in [row for row in rows if row["outcome"] == "found"][:unsettled]:
        row["outcome"] = "unsettled"
    (folder / "shards").mkdir(parents=True)
    size = -(-max(1, len(rows)) // units)
    for unit in range(units if finished else units - 1):
        table = pa.Table.from_pylist(rows[unit * size : (unit + 1) * size], SCHEMA)
        table = with_metadata(table, classes, {"c0ffee": settings})
        pq.write_table(table, folder / "shards" / f"unit-{unit:06d}.parquet")
    genuine(folder, settings, units=units, notes=[])
    if unreadable:
        (folder / "unreadable.txt").write_text("".join(f"f{n}.jpg: broken\n" for n in range(unreadable)))
    summary = _summary(networks, classes, labels, said, labelled)
    summary |= {
        "unreadable": unreadable, "unsettled": unsettled, "canvas": settings["canvas"], "left_out": {}, "seconds": 1.2,
    }  # fmt: skip
    if finished:
        (folder / "compare.json").write_text(json.dumps(summary | changed), "utf-8")
    return folder


def _rows(
    networks: Sequence[str],
    labels: np.ndarray,
    said: np.ndarray,
    chances: np.ndarray,
    labelled: bool,
    paint: Painter,
    files: str | None,
) -> list[dict[str, Any]]:
    rows = []
    for position, label in enumerate(labels.tolist()):
        given = said[:, position].tolist()
        for k, suspect in enumerate(networks):
            others = given[:k] + given[k + 1 :]
            agreed = len(set(others)) == 1
            tags = []
            if labelled and k == 1 and given[0] == label != given[1]:
                tags.append("broken")
            if labelled and k == 0 and given[1] == label != given[0]:
                tags.append("fixed")
            if len(networks) > 2 and agreed and given[k] != others[0] and (not labelled or others[0] == label):
                tags.append("dissent")
            if labelled and k == 1 and agreed and given[k] == others[0] != label:
                tags.append("against-label")
            if not tags:
                continue
            order = [k, *(j for j in range(len(networks)) if j != k)]
            png = paint(position, label)
            probabilities = chances[order, position].tolist()
            rows.append({
                "id": f"{suspect}-{position:06d}", "config": "c0ffee", "suspect": suspect,
                "networks": [networks[j] for j in order], "lane": position, "tags": tags,
                "outcome": "doubtful" if "against-label" in tags else "found", "image": png, "origin": png,
                "origin_data": "fake", "origin_split": "test", "origin_index": position,
                "origin_file": None if files is None else files.format(position),
                "truth": label if labelled else None, "consensus": others[0] if agreed else None, "said": given[k],
                "before": probabilities, "after": probabilities, "moves": 0, "candidates": 1,
                "forwards": len(networks), "backwards": 0, "path": [], "trace": [], "point": [], "change": [],
                "film": None, "versions": VERSIONS,
            })  # fmt: skip
    return rows


def _share(right: np.ndarray) -> dict[str, Any]:
    low, high = wilson(int(right.sum()), len(right))
    return {"right": int(right.sum()), "n": len(right), "share": float(right.mean()), "low": low, "high": high}


def _summary(
    networks: Sequence[str], classes: Sequence[str], labels: np.ndarray, said: np.ndarray, labelled: bool
) -> dict[str, Any]:
    right, n = said == labels, len(labels)
    common = {"networks": list(networks), "old": networks[0], "new": networks[1], "classes": list(classes)}
    common |= {"labelled": labelled, "images": n}
    alone = {}
    for k, name in enumerate(networks):
        others = np.delete(said, k, 0)
        some = (others == others[0]).all(0) & (said[k] != others[0])
        alone[name] = int((some & (others[0] == labels)).sum() if labelled else some.sum())
    agree = (said == said[0]).all(0)
    if not labelled:
        split = n - int(agree.sum()) - (sum(alone.values()) if len(networks) > 2 else 0)
        nothing = dict.fromkeys(("accuracy", "per_class", "flips", "doubtful"))
        consensus = {"agree": int(agree.sum()), "dissent": alone, "split": split}
        return common | nothing | {"dissent": alone, "consensus": consensus}
    broken, fixed = int((right[0] & ~right[1]).sum()), int((~right[0] & right[1]).sum())
    low, high = wilson(broken, n)
    points, half = 100 * (fixed - broken) / n, 196 * (fixed + broken) ** 0.5 / n
    return common | {
        "accuracy": [{"network": name} | _share(right[k]) for k, name in enumerate(networks)],
        "per_class": [
            {
                "class": name, "n": int((labels == c).sum()),
                "networks": [{"network": who} | _share(right[k, labels == c]) for k, who in enumerate(networks)],
                "fixed": int((~right[0] & right[1])[labels == c].sum()),
                "broken": int((right[0] & ~right[1])[labels == c].sum()),
            }
            for c, name in enumerate(classes)
        ],
        "flips": {
            "n": n, "both_right": int((right[0] & right[1]).sum()), "fixed": fixed, "broken": broken,
            "both_wrong": int((~right[0] & ~right[1]).sum()),
            "negative_flip_rate": {"share": broken / n, "low": low, "high": high},
            "difference": {"points": points, "low": points - half, "high": points + half},
            "mcnemar_p": float(binomtest(broken, broken + fixed).pvalue) if broken + fixed else 1.0,
        },
        "doubtful": int((agree & ~right[0]).sum()), "dissent": alone,
    }  # fmt: skip


def cards(page: Page, tag: str) -> list[str]:
    """What the cards of one gallery say."""
    return [says(element) for element in page.inside(page.find("section", id=tag)[0], "article")]
