"""Distortions made larger: x + factor · r, clipped and on 8 bits, judged by everybody.

A minimal change of an image stands just behind the source's boundary, and hardly transfers. The rows of a run hold both
images, so that any multiple can be judged afterwards; what comes of it lies beside the shards.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import torch

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings.tally import tables
from foible.images import decode_png, settle, to_floats
from foible.permission import NOTHING, Permission
from foible.recipes.distort.bystander import AMPLIFIED, Bystander, amplified, check_factor
from foible.runs.reopen import open_again

BATCH = 64
_COLUMNS = ("id", "networks", "truth", "consensus", "outcome", "origin", "image")


def amplify(
    run: str | Path, factor: float, *, basket: Basket | None = None, may: Permission = NOTHING
) -> dict[str, Any]:
    """Judge every image that a run found at `factor` times its distortion, and keep what it came to with the run.

    factor: above 0; the images found are those at 1. basket: networks instead of those that the run names.
    Returns factor; images, how many were found; fooled, how many of them the source still gets wrong; rms, the mean
    size of the larger change; and transfer, a row for each other network as in the summary of the run.
    """
    check_factor(factor)
    task = open_again(run, basket=basket, may=may)
    if task.settings["layer"] is not None:
        raise UserError(f"the run {str(run)!r} distorted a layer, and not images: nothing can be amplified")
    told = _judged(run, factor, task.basket)
    others = [one for one in amplified(run) if one["factor"] != factor]
    kept = sorted([*others, told], key=lambda one: float(one["factor"]))
    write_atomically(Path(run) / AMPLIFIED, json.dumps(kept, indent=1).encode())
    return told


@torch.no_grad()
def _judged(run: str | Path, factor: float, basket: Basket) -> dict[str, Any]:
    judges = [Bystander() for _ in basket.names[1:]]
    images, fooled, sizes = 0, 0, 0.0
    for table in tables(run, _COLUMNS):
        found = table.filter(pc.equal(table.column("outcome"), "found"))
        for batch in found.to_batches(max_chunksize=BATCH):
            rows = batch.to_pylist()
            start, end = (
                to_floats(torch.stack([decode_png(row[name], row["id"]) for row in rows]).to(basket.device))
                for name in ("origin", "image")
            )
            far = settle(start + factor * (end - start))
            right = torch.tensor([row["consensus"] if row["truth"] is None else row["truth"] for row in rows])
            before, after = (answers(basket.judge(pixels)).cpu() for pixels in (start, far))
            images += len(rows)
            fooled += int((after[0] != right).sum())
            sizes += float((far - start).flatten(1).square().mean(1).sqrt().sum())
            for judge, was, now in zip(judges, before[1:], after[1:], strict=True):
                known = was == right
                judge.right += int(known.sum())
                judge.fooled += int((known & (now != right)).sum())
                judge.same += int((known & (now != right) & (now == after[0])).sum())
    return {
        "factor": factor, "images": images, "fooled": fooled, "rms": sizes / max(1, images),
        "transfer": [judge.as_row(name) for name, judge in zip(basket.names[1:], judges, strict=True)],
    }  # fmt: skip
