"""The images of a comparison on which all networks disagree with the label, the most telling first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foible.basket import Basket
from foible.errors import UserError
from foible.recipes.compare.against import Floats, kind_of, score, seen_before, summarise_against, weights
from foible.recipes.compare.answers import answer_files
from foible.recipes.compare.summary import summary_of
from foible.runs.task import Task

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Against:
    """n images with the same answer of all networks, which is not the label. index: (n,) places in the data;
    labels, said: (n,) classes of the basket; confidence, given: (networks, n) probabilities of these two."""

    index: Ints
    labels: Ints
    said: Ints
    confidence: Floats
    given: Floats

    def take(self, rows: Ints) -> Against:
        return Against(
            self.index[rows], self.labels[rows], self.said[rows], self.confidence[:, rows], self.given[:, rows]
        )

    def score(self, thresholds: Floats, weight: list[float]) -> Floats:
        """(n,) the score. thresholds: (networks, classes)."""
        return score(self.confidence, self.given, thresholds[:, self.said], thresholds[:, self.labels], weight)


def read_against(run: str | Path, networks: int, classes: int) -> tuple[Against, Floats | None]:
    """All such images of a run, in the order of the data; and the thresholds (networks, classes): the mean probability
    of a class over the images that have it as their label. These are None for a run that did not keep what they need.
    """
    sums, shown = np.zeros((networks, classes)), np.zeros((networks, classes))
    parts = []
    for table in answer_files(run, ("index", "label", "said", "confidence", "given")):
        labels = table.column("label").fill_null(-1).to_numpy().astype(np.int64)
        said, confidence, given = (by_network(table, name, networks) for name in ("said", "confidence", "given"))
        known = (labels >= 0) & np.isfinite(given)
        for k in range(networks):
            sums[k] += np.bincount(labels[known[k]], given[k][known[k]], classes)
            shown[k] += np.bincount(labels[known[k]], minlength=classes)
        rows = np.flatnonzero((said == said[0]).all(0) & (said[0] >= 0) & (labels >= 0) & (said[0] != labels))
        index = table.column("index").to_numpy().astype(np.int64)
        parts.append(Against(index, labels, said[0].astype(np.int64), confidence, given).take(rows))
    found = Against(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("index", "labels", "said")),
        *(np.concatenate([getattr(part, name) for part in parts], 1) for name in ("confidence", "given")),
    )
    if not shown.sum(1).all():
        return found, None
    overall = sums.sum(1, keepdims=True) / shown.sum(1, keepdims=True)  # for a class of which there is no image
    # Rounded, so that no last bit depends on how many units there are.
    return found, np.where(shown > 0, sums / np.maximum(shown, 1), overall).round(6)


def against_of(task: Task, run: Path) -> dict[str, Any] | None:
    """The part `against` of compare.json; None where the run did not keep what it needs."""
    basket, data = task.basket, task.matched.data
    found, thresholds = read_against(run, len(basket), len(basket.classes))
    if thresholds is None:
        return None
    kinds = [kind_of(_spec(basket, name)) for name in basket.names]
    seen = [seen_before(basket.training.get(name, {}), data.name, data.split) for name in basket.names]
    networks = [
        {"network": name, "kind": kind, "seen": known, "weight": weight, "thresholds": mean}
        for name, kind, known, weight, mean in zip(
            basket.names, kinds, seen, weights(kinds, seen), thresholds.tolist(), strict=True
        )
    ]
    return summarise_against(found.score(thresholds, [one["weight"] for one in networks]), networks)


def ranked(run: str | Path) -> tuple[Against, Floats]:
    """These images of a finished comparison and their scores, the highest first; of equals the first in the data."""
    summary = summary_of(run)
    if summary.get("against") is None:
        raise UserError(f"{str(run)!r} has no scores: give a comparison with labels, made with this version")
    networks = summary["against"]["networks"]
    found, _ = read_against(run, len(networks), len(summary["classes"]))
    scores = found.score(np.array([one["thresholds"] for one in networks]), [one["weight"] for one in networks])
    order = np.argsort(-scores, kind="stable")
    return found.take(order), scores[order]


def by_network(table: pa.Table, name: str, networks: int) -> NDArray[Any]:
    """(networks, n) of a column of lists."""
    flat: NDArray[Any] = table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False)
    values = flat.reshape(-1, networks).T
    return values.astype(np.float64) if values.dtype == np.float32 else values


def _spec(basket: Basket, name: str) -> str:
    """How a network was asked for; of one that was made in Python, its class."""
    return basket.specs.get(name) or type(basket.network(name)).__name__
