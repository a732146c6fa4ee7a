"""The same in another norm: distortions whose largest change of a pixel is least, and who they transfer to."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from foible.basket import Basket
from foible.search.nearest import length
from foible.search.nearest.closest import closest
from foible.studies.common import Row, mean_row
from foible.studies.intriguing.distortion.targets import Asked, Method, leave
from foible.transfer import Source, transfer


def with_linf(
    table: pa.Table, basket: Basket, asked: Asked, *, amplifications: Sequence[float | None], seed: int,
    method: Method = closest,
) -> tuple[pa.Table, list[Row]]:  # fmt: skip
    """The transfer tensor with rows of norm "linf" below, target "any" (the label is to be left); and each network's
    average. Its clean and noise rows are those of the table that is given."""
    title = "Least L∞ distortion, any wrong label (largest change of a pixel)"
    sources, rows = {}, []
    for name in basket.names:
        one = leave(method, basket, name, asked, norm="linf")
        images, origins = one.images[:, 0], asked.origins
        sources[name] = Source(images, origins, asked.labels, norm="linf", target="any")
        sizes = length(images - origins, "linf")[one.found[:, 0]].tolist()
        rows.append(mean_row(title, name, None, sizes, least=0))
    splits = dict.fromkeys(basket.names, "train")
    more = transfer(sources, basket, amplifications=amplifications, splits=splits, image_split="train", seed=seed)
    more = more.filter(pc.is_in(more["kind"], value_set=pa.array(["distortion", "own-noise"])))
    return pa.concat_tables([table, more]), rows
