"""Rows that both transfer studies print: average distortions at every target, and slices of the transfer tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

from foible.studies.common import Row, mean_row, share_row
from foible.studies.intriguing.distortion.targets import TARGETS, Distorted
from foible.transfer import select
from foible.transfer.tables import grid

Papers = Mapping[tuple[str, str], float]


def size_rows(table: str, found: Mapping[str, Distorted], papers: Mapping[str, float]) -> list[Row]:
    """The average minimal distortion of every network, at the best, random and worst target."""
    return [
        mean_row(table, f"{name}: {target} target", papers.get(name), one.found_sizes(target), least=0)
        for name, one in found.items()
        for target in TARGETS
    ]


def nearest_target(found: Mapping[str, Distorted], papers: Mapping[str, float]) -> tuple[str, dict[str, str]]:
    """Which target's averages come nearest to the paper's: over all networks, and for each.

    Nearness is by ratio. "random" and nothing more where the paper has none of these networks.
    """
    misses: dict[str, dict[str, float]] = {}
    for name, one in found.items():
        if name in papers:
            means = {target: one.found_sizes(target) for target in TARGETS}
            misses[name] = {
                target: abs(math.log(max(math.fsum(sizes) / len(sizes), 1e-12) / papers[name]))
                for target, sizes in means.items()
                if sizes
            }
    each = {name: min(miss, key=miss.__getitem__) for name, miss in misses.items() if miss}
    if not each:
        return "random", {}
    total = {target: sum(miss.get(target, math.inf) for miss in misses.values()) for target in TARGETS}
    return min(total, key=total.__getitem__), each


def nearest_words(found: Mapping[str, Distorted], papers: Mapping[str, float]) -> list[str]:
    """The same as a note."""
    overall, each = nearest_target(found, papers)
    if not each:
        return ["The paper has none of these networks: there is no average of its to compare with."]
    said = "; ".join(
        f"{target}: {', '.join(names)}"
        for target in TARGETS
        if (names := [name for name, near in each.items() if near == target])
    )
    return [
        f"Which target do the paper's averages mean? Over all networks the {overall} target comes nearest (by the "
        f"ratio of averages); network by network: {said}."
    ]


def unfound_words(found: Mapping[str, Distorted]) -> list[str]:
    """A note where a target could not be reached: averages are over what was found."""
    missed = {name: int((~one.found).sum()) for name, one in found.items() if not bool(one.found.all())}
    total = {name: found[name].found.numel() for name in missed}
    if not missed:
        return []
    said = ", ".join(f"{name} {count} of {total[name]}" for name, count in missed.items())
    return [f"Targets that were not reached (averages leave them out, transfer counts their best effort): {said}."]


def transfer_rows(
    title: str, table: pa.Table, papers: Papers, *, kinds: Sequence[str] = ("distortion",), **where: object
) -> list[Row]:
    """A slice of the tensor as rows: errors in percent for every row and judge."""
    slice_ = grid(table, kinds=kinds, **where)  # type: ignore[arg-type]
    return [
        share_row(title, f"{name} → {judge}, %", papers.get((name, judge)), cell["errors"], cell["n"])
        for name, cells in zip(slice_.rows, slice_.cells, strict=True)
        for judge, cell in zip(slice_.columns, cells, strict=True)
        if cell is not None
    ]


def agreement_words(what: str, table: pa.Table, papers: Papers, *, amplification: float | None = None) -> list[str]:
    """A note: how far each target's shares are from the paper's, over the networks other than the source itself."""
    misses: dict[str, list[float]] = {}
    for one in select(table, kind="distortion", norm="l2", amplification=amplification, clipped=False):
        paper = papers.get((one["source"], one["judge"]))
        if paper is not None and one["source"] != one["judge"] and one["share"] is not None:
            misses.setdefault(one["target"], []).append(abs(100 * one["share"] - paper))
    if not misses:
        return []
    means = {target: math.fsum(values) / len(values) for target, values in misses.items()}
    how = "" if amplification is None else f", amplified to RMS {amplification:g}"
    said = ", ".join(f"{target} target {mean:.1f}" for target, mean in means.items())
    return [f"{what}{how}: mean distance of the transfer shares from the paper's, in points: {said}."]


def noise_rows(title: str, table: pa.Table, papers: Papers, noise: Sequence[float]) -> list[Row]:
    """Gaussian noise, unclipped with the paper's figures beside, then clipped to [0, 1]."""
    rows = transfer_rows(title, table, papers, kinds=("noise",), noise=noise)
    return rows + transfer_rows(
        f"{title}, clipped to [0, 1]", table, papers, kinds=("noise",), noise=noise, clipped=True
    )


def pocket_rows(title: str, table: pa.Table, target: str) -> list[Row]:
    """Each network on the images as they were, on its own distortions, and on random noise of just that size."""
    rows = []
    for judge in dict.fromkeys(record["judge"] for record in select(table)):
        (clean,) = select(table, kind="clean", judge=judge)
        (own,) = select(
            table, kind="distortion", source=judge, judge=judge, target=target, norm="l2", amplification=None
        )
        (noisy,) = select(table, kind="own-noise", source=judge, judge=judge, target=target, norm="l2", clipped=False)
        for what, one in (("undistorted", clean), ("its distortions", own), ("noise as large, image by image", noisy)):
            rows.append(share_row(title, f"{judge}: {what}, %", None, one["errors"], one["n"]))
    return rows
