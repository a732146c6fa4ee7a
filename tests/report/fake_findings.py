"""Tables of findings made up by the schema, for tests of the report: digits, really turned and shrunk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from html_page import Page
from scipy import ndimage
from sklearn.datasets import load_digits

from foible.findings import SCHEMA, Findings, with_metadata
from foible.images import encode_png
from foible.report import write_report

HOSTILE = "</script><img src=x onerror=alert(1)>"
DIGITS = tuple("0123456789")
MLPS = ("mlp-10", "mlp-20", "mlp-30", "mlp-40", "mlp-50")
RATES = (0.68, 0.24, 0.20, 0.19, 0.24)
CONFIG: dict[str, Any] = {
    "space": "affine", "objective": "dissent", "search": "hill_climb", "data": "digits", "split": "train",
    "peer_confidence": 0.9, "suspect_confidence": None, "patience": 250, "trials": 1000, "seed": 0,
    "basket": {"folder": "basket", "sha256": {"mlp-10": "ab" * 32}}, "resample": "compose",
}  # fmt: skip


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    bunch = load_digits()
    return np.kron(bunch.images / 16, np.ones((1, 3, 3)))[:, :, :], bunch.target


def _warp(image: np.ndarray, degrees: float, stretch_x: float, stretch_y: float, shift: Sequence[float]) -> np.ndarray:
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turn @ np.diag([1 / (1 + stretch_y / 100), 1 / (1 + stretch_x / 100)])
    middle = np.array(image.shape) / 2 - 0.5
    return ndimage.affine_transform(image, matrix, middle - matrix @ middle - np.array(shift)[::-1], order=1)


def _png(image: np.ndarray, channels: int, side: int) -> bytes:
    """A grey float image as a PNG of this side; in colour with a gradient that does not compress well."""
    image = ndimage.zoom(np.pad(image, 2), side / 28, order=1) if side != 28 else np.pad(image, 2)
    pixels = np.repeat((image.clip(0, 1) * 255).astype(np.uint8)[None], channels, 0)
    if channels == 3:
        noise = np.random.default_rng(side).integers(0, 90, pixels.shape)
        pixels = np.maximum(pixels, noise).astype(np.uint8)
    return encode_png(pixels)


def found_row(
    rng: np.random.Generator, suspect: str, networks: Sequence[str], lane: int, classes: int, **options: Any
) -> dict[str, Any]:
    """One found trial: a digit drifting towards its mistake, shrinking more often than not."""
    channels, side = options.get("channels", 1), options.get("side", 28)
    images, labels = _digits()
    index = int(rng.integers(len(images)))
    truth = int(labels[index]) % classes
    moves = int(rng.integers(options.get("least", 1), 9))
    ends = rng.normal([3, -9, -2, 0.4, -0.2], [9, 6, 6, 1, 1])
    ways = np.linspace(0, 1, moves + 1)[:, None] * ends
    warped = [_warp(images[index], a, x, y, (dx, dy)) for a, x, y, dx, dy in ways]
    others = [label for label in range(classes) if label != truth]
    near = {4: 9, 9: 3, 7: 2, 3: 8, 8: 3, 0: 5, 1: 7}.get(truth, 0)
    said = near if near in others and rng.random() < 0.5 else int(rng.choice(others))
    own = networks.index(suspect)
    trace = np.clip(1 - 0.1 * rng.random((moves + 1, len(networks))), 0, 1)
    trace[:, own] = np.sort(rng.uniform(0.1, 0.98, moves + 1))[::-1]
    trace[-1, own] = rng.uniform(0.02, 0.4)
    before = np.full((len(networks), classes), 0.02 / classes)
    after = before.copy()
    before[:, truth], after[:, truth] = trace[0], trace[-1]
    after[own, said] = 0.95 - trace[-1, own]
    film = np.concatenate([np.pad(step, 2) for step in warped], 1)
    components = ("rotation °", "stretch x %", "stretch y %", "shift x px", "shift y px")
    candidates = int(rng.integers(40, 180))
    return {
        "id": f"{suspect}-{lane}", "config": "c0ffee", "suspect": suspect, "networks": list(networks),
        "lane": lane, "outcome": "found", "truth": truth, "consensus": truth, "said": said,
        "image": _png(warped[-1], channels, side), "origin": _png(warped[0], channels, side),
        "origin_data": "digits", "origin_split": "train", "origin_index": index,
        "before": before.tolist(), "after": after.tolist(), "trace": trace.tolist(), "path": [], "point": [],
        "moves": moves, "candidates": candidates, "forwards": candidates + 137, "backwards": 0,
        "change": list(zip(components, ends.tolist(), strict=True)),
        "film": encode_png((film.clip(0, 1) * 255).astype(np.uint8)[None]),
        "versions": json.dumps({"foible": "0.1.0", "torch": "2.13", "python": "3.11", "device": "cpu"}),
    }  # fmt: skip


def lost_row(
    rng: np.random.Generator, suspect: str, networks: Sequence[str], lane: int, classes: int, outcome: str
) -> dict[str, Any]:
    """A trial that found nothing, or that a network answered with NaN."""
    row = found_row(rng, suspect, networks, lane, classes)
    nan = np.full((len(networks), classes), np.nan).tolist()
    changed = {
        "outcome": outcome,
        "film": None,
        "said": row["truth"],
        "moves": 1,
        "trace": [[0.9] * len(networks)] * 2,
    }
    if outcome == "invalid":
        changed |= {"said": None, "consensus": None, "after": nan, "trace": None, "change": None}
    return row | changed


def table_of(
    rows: Sequence[dict[str, Any]], classes: Sequence[str] = DIGITS, config: dict[str, Any] | None = None
) -> pa.Table:
    table = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    return with_metadata(table, classes, {"c0ffee": CONFIG if config is None else config})


def realistic(trials: int = 60, networks: Sequence[str] = MLPS, classes: Sequence[str] = DIGITS) -> Findings:
    """A small version of the paper's Table 1: every network as suspect, each with its own success."""
    rng = np.random.default_rng(5)
    rows = []
    for place, suspect in enumerate(networks):
        for lane in range(trials):
            if lane < round(RATES[place % len(RATES)] * trials):
                rows.append(found_row(rng, suspect, networks, lane, len(classes)))
            else:
                outcome = "invalid" if lane == trials - 1 else "exhausted"
                rows.append(lost_row(rng, suspect, networks, lane, len(classes), outcome))
    return Findings(table_of(rows, classes))


def save_run(findings: Findings, folder: Path, shards: int = 3) -> Path:
    """A run folder with these rows in several shards."""
    (folder / "shards").mkdir(parents=True)
    size = -(-len(findings) // shards)
    for number in range(shards):
        pq.write_table(findings.table.slice(number * size, size), folder / "shards" / f"unit-{number:05d}.parquet")
    return folder


def rows(count: int = 1, networks: Sequence[str] = MLPS, **changed: Any) -> list[dict[str, Any]]:
    """Found rows of the first network, with some columns changed."""
    rng = np.random.default_rng(1)
    return [found_row(rng, networks[0], networks, lane, len(DIGITS)) | changed for lane in range(count)]


def written(table: pa.Table, folder: Path, **options: Any) -> Page:
    """The report of a table, taken apart."""
    return Page(write_report(Findings(table), folder / "report.html", **options))


KINDS = ("rotation", "stretch", "shift", "shear")


def shrunk(some: Sequence[dict[str, Any]], **changed: Any) -> list[dict[str, Any]]:
    """The same rows with the columns of schema 3: a smallest change, its kinds and size, a score and a realism."""
    rng = np.random.default_rng(3)
    made = []
    for number, row in enumerate(some):
        kinds = list(rng.permutation(KINDS)[: 1 + number % 3])
        amounts = rng.normal(0, 1.2, 6)
        made.append(
            row
            | {
                "label_from": "label", "score": float(rng.gamma(2, 0.5)), "size": float(np.linalg.norm(amounts) + 1),
                "kinds": kinds, "least_path": [(0.5 + 0.5 * amounts).tolist()], "least_image": row["origin"],
                "least_change": [("rotation °", 7.1), ("shift x px", 0.0), ("shift y px", 0.0)], "least_forwards": 60,
                "realism": float(rng.normal(-1, 1)),
            }
            | changed
        )  # fmt: skip
    return made
