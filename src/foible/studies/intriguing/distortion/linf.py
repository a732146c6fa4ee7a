"""The same in another norm: distortions whose largest change of a pixel is least, and who they transfer to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from foible.basket import Basket
from foible.search.nearest import length
from foible.studies.common import Row, mean_row
from foible.studies.intriguing.distortion.targets import Asked, distorted
from foible.transfer import from_findings, transfer


def with_linf(
    table: pa.Table, basket: Basket, asked: Asked, out: Path, *, amplifications: Sequence[float | None], seed: int,
    quiet: bool = True,
) -> tuple[pa.Table, list[Row]]:  # fmt: skip
    """The transfer tensor with rows of norm "linf" below, target "any" (the label is to be left); and each network's
    average. Its clean and noise rows are those of the table that is given."""
    title = "Least L∞ distortion, any wrong label (largest change of a pixel)"
    how = {"norm": "linf", "target": "any", "places": asked.places.tolist(), "wrong": True, "split": asked.data.split}
    runs = [distorted(basket, name, asked.data, out, workers=1, quiet=quiet, **how) for name in basket.names]
    sources, rows = from_findings(*runs), []
    for name, (one,) in sources.items():
        sizes = length(one.images - one.origins, "linf")[one.found].tolist()
        rows.append(mean_row(title, name, None, sizes, least=0))
    splits = dict.fromkeys(basket.names, "train")
    more = transfer(sources, basket, amplifications=amplifications, splits=splits, image_split="train", seed=seed)
    more = more.filter(pc.is_in(more["kind"], value_set=pa.array(["distortion", "own-noise"])))
    return pa.concat_tables([table, more]), rows
