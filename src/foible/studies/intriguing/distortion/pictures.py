"""The pictures of `foible study distortion`: the heat map of Table 2, Figs. 5 and 7, and Fig. 5 at full size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from foible.basket import Basket
from foible.figures import save as save_figure
from foible.randomness import normals
from foible.studies.common import Result, Row, mean_row
from foible.studies.intriguing.distortion.figures import Shown, figure5, figure7
from foible.studies.intriguing.distortion.paper import (  # fmt: skip
    FIG5_DISTORTION,
    FIG5_IMAGES,
    FIG7_ACCURACY,
    FIG7_NOISE,
    NOISE2,
    TABLE2,
)
from foible.studies.intriguing.distortion.targets import TARGETS, Distorted
from foible.transfer import select
from foible.transfer.figures import heat_map
from foible.transfer.tables import grid


def heat(table: Any, out: Path) -> str:
    """Table 2 at every target, the paper's figures in brackets."""
    grids = [grid(table, target=target, noise=NOISE2, title=f"{target} target") for target in TARGETS]
    papers = [TABLE2] * len(grids)
    if select(table, norm="linf"):
        grids.append(grid(table, target="any", norm="linf", noise=NOISE2, title="least L∞, any wrong label"))
    return save_figure(heat_map(grids, papers=papers), out, "table2")


def pictures(
    basket: Basket, found: Mapping[str, Distorted], table: Any, nearest: str, out: Path, seed: int
) -> list[str]:
    """Figs. 5 and 7, of images that the network got right: of softmax1 and N200-200-10, or the first and the last."""
    wanted = [name for name in ("softmax1", "N200-200-10") if name in found]
    names = wanted if len(wanted) == 2 else list(dict.fromkeys([basket.names[0], basket.names[-1]]))
    blocks = {name: _shown(basket, name, found[name], nearest) for name in names}
    five = figure5([_shown(basket, name, found[name], "best") for name in names], out)
    origins = found[names[0]].asked.origins
    drawn = normals(seed, torch.arange(len(origins)), stream="transfer.noise", count=origins[0].numel())
    judge = names[-1]
    (one,) = select(table, kind="noise", amplification=FIG7_NOISE, clipped=False, judge=judge)
    accuracy = 100 * (1 - one["errors"] / max(one["n"], 1))
    noisy = Shown(
        f"Gaussian noise, σ = {FIG7_NOISE:g}: {judge} is right on {accuracy:.0f} %\n"
        f"(paper {FIG7_ACCURACY:g} %; judged unclipped, drawn clipped)",
        (origins + FIG7_NOISE * drawn.view_as(origins)).clamp(0, 1),
        origins,
    )
    return [five, figure7([*blocks.values(), noisy], out)]


def _shown(basket: Basket, name: str, found: Distorted, target: str) -> Shown:
    images, hit, sizes = found.taken(target)
    mean = float(sizes[hit].mean()) if bool(hit.any()) else 0.0
    seen = (hit & (sizes > 0)).nonzero()[:, 0]
    said = basket.predict(images[seen], [name])[0].argmax(1).tolist()
    words = [
        f"{basket.classes[was]} → {basket.classes[now]}"
        for was, now in zip(found.asked.labels[seen].tolist(), said, strict=True)
    ]
    return Shown(f"{name}, {target} target\nmean RMS {mean:.3f}", images[seen], found.asked.origins[seen], tuple(words))


def full_size(
    result: Result, network: str | None, photographs: str | None, out: Path, seed: int, device: str, quiet: bool
) -> None:
    """Fig. 5's mean distortion of full-size photographs, measured where the user has a network for them."""
    table, what = "Fig. 5: mean minimal distortion, full-size photographs (RMS)", f"{FIG5_IMAGES} images"
    if network is None or photographs is None:
        result.rows.append(Row(table, f"AlexNet, {what}", FIG5_DISTORTION, None))
        result.notes.append("Fig. 5's number needs a full-size network: --set network=SPEC --set photographs=DATA.")
        return
    from foible.studies.intriguing.distortion.photographs import distort_photographs

    made = distort_photographs(network, photographs, out, seed=seed, device=device, quiet=quiet)
    result.rows.append(mean_row(table, f"{made.network} (paper: AlexNet)", FIG5_DISTORTION, made.sizes, least=0))
    result.figures.append(figure5([made.shown], out, "figure5-photographs", rows=4))
