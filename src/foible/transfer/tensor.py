"""Who else errs? Distorted images of some networks shown to all of them: transfer as a tensor.

One row for each source × judge × norm × target × amplification, with what source and judge were trained on, and
controls beside: the images as they were, Gaussian noise, and random noise of each image's own size.

Paper 3's x + σ (x′ − x) / ‖x′ − x‖ is read as a distortion whose RMS over the pixels is σ (that is, σ √d times the
unit vector), as the row labels of its Table 4 say. Amplified and noisy images leave [0, 1]: unclipped, as the tables'
exact 0.1 and 0.3 require, and clipped beside.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from foible.basket import Basket
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.randomness import normals
from foible.statistics import wilson
from foible.text import did_you_mean
from foible.transfer.sources import Source, from_findings

__all__ = ["KINDS", "SCHEMA", "Source", "amplify", "from_findings", "load", "rms", "save", "select", "transfer"]
KINDS = ("clean", "distortion", "own-noise", "noise")
SCHEMA = pa.schema(
    [
        pa.field("source", pa.string()),  # whose distortions; null where nobody's: clean images, Gaussian noise
        pa.field("judge", pa.string()),
        pa.field("kind", pa.string()),  # one of KINDS
        pa.field("target", pa.string()),  # best, random, worst, or any (the label was to be left)
        pa.field("method", pa.string()),
        pa.field("norm", pa.string()),  # that was made small: l2 or linf
        pa.field("source_split", pa.string()),  # what the source learnt from; null where nobody said
        pa.field("judge_split", pa.string()),
        pa.field("image_split", pa.string()),  # where the images are from
        pa.field("amplification", pa.float64()),  # the RMS that was asked for; null: the distortion's own
        pa.field("clipped", pa.bool_()),  # to [0, 1] after it was added
        pa.field("rms", pa.float64()),  # mean over the images of the RMS of what was added
        pa.field("errors", pa.int64()),
        pa.field("n", pa.int64()),  # images, less the invalid ones
        pa.field("share", pa.float64()),  # errors / n, with Wilson's 95 % interval
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("right", pa.int64()),  # images that the judge got right undistorted,
        pa.field("turned", pa.int64()),  # and of these, how many it now gets wrong
        pa.field("invalid", pa.int64()),  # images that the judge answered with NaN or infinity: no errors
    ]
)


@dataclass(frozen=True)
class _Variant:
    """What is done to the images: one kind of row. `size` is the RMS asked for, or None for the distortion's own."""

    kind: str
    source: str | None
    part: Source | None
    size: float | None
    clipped: bool

    def added(self, first: Source, rows: slice, seed: int) -> tuple[Tensor, Tensor]:
        """(images, what was added to them) for some rows, (k, channels, height, width) each."""
        origins = first.origins[rows]
        if self.kind == "clean":
            return origins, torch.zeros_like(origins)
        if self.kind == "distortion":
            assert self.part is not None
            moved = self.part.images[rows]
            if self.size is None:
                return moved, moved - origins
            images = amplify(origins, moved, self.size)
        else:
            lanes = torch.arange(rows.start, rows.start + len(origins), device=origins.device)
            drawn = normals(seed, lanes, stream="transfer.noise", count=origins[0].numel()).view_as(origins)
            if self.kind == "noise":
                images = origins + float(self.size or 0.0) * drawn
            else:
                assert self.part is not None
                sizes = rms(self.part.images[rows] - origins)
                images = origins + drawn * (sizes / rms(drawn).clamp_min(1e-30)).view(-1, 1, 1, 1)
        images = images.clamp(0, 1) if self.clipped else images
        return images, images - origins


def rms(difference: Tensor) -> Tensor:
    """(n,): the root of the mean square over all pixels of (n, *shape): the paper's distortion."""
    return difference.flatten(1).norm(dim=1) / math.sqrt(difference[0].numel()) if len(difference) else torch.zeros(0)


def amplify(origins: Tensor, images: Tensor, size: float) -> Tensor:
    """Along each distortion, to RMS `size`, unclipped; where there is no distortion, the image as it was."""
    away = images - origins
    unit = away / rms(away).clamp_min(1e-30).view(-1, *[1] * (away.ndim - 1))
    return origins + size * unit


def transfer(
    sources: Mapping[str, Source | Sequence[Source]],
    judges: Basket,
    *,
    amplifications: Sequence[float | None] = (None,),
    noise: Sequence[float] = (),
    own_noise: bool = True,
    splits: Mapping[str, str] | None = None,
    image_split: str | None = None,
    seed: int = 0,
    batch: int = 1000,
) -> pa.Table:
    """Every judge's errors on every source's distortions and on the controls, as a table of `SCHEMA`.

    sources: name -> distortions, several where a network was distorted in several ways (norm, target, method). All
        must be of the same images, in the same order: shares can then be compared.
    amplifications: RMS values to scale each distortion to; None is the distortion as it is.
    noise: standard deviations of Gaussian noise. own_noise: also random noise of each distortion's own RMS.
    splits: name -> what that network was trained on. image_split: where the images are from.
    batch: images at a time; no figure depends on it.
    """
    listed = {name: [given] if isinstance(given, Source) else list(given) for name, given in sources.items()}
    first = _check(listed, amplifications, noise)
    known = splits or {}
    device = judges.device
    variants = list(_variants(listed, amplifications, noise, own_noise))
    tallies = torch.zeros(len(variants), 4, len(judges), dtype=torch.int64)  # errors, turned, right, invalid
    sizes = torch.zeros(len(variants), dtype=torch.float64)
    for start in range(0, len(first.labels), batch):
        rows = slice(start, start + batch)
        truth = first.labels[rows].to(device)
        was_right = _said(judges, first.origins[rows])[0] == truth
        for place, variant in enumerate(variants):
            images, added = variant.added(first, rows, seed)
            sizes[place] += rms(added).double().sum().cpu()
            said, valid = _said(judges, images)
            wrong = valid & (said != truth)
            counts = [wrong, wrong & was_right, valid & was_right, ~valid]
            tallies[place] += torch.stack([count.sum(1) for count in counts]).cpu()
    n, records = len(first.labels), []
    for variant, counted, size in zip(variants, tallies.tolist(), (sizes / n).tolist(), strict=True):
        for place, judge in enumerate(judges.names):
            errors, turned, right, invalid = (row[place] for row in counted)
            low, high = wilson(errors, n - invalid)
            part = variant.part
            records.append(
                {
                    "source": variant.source, "judge": judge, "kind": variant.kind,
                    "target": part and part.target, "method": part and part.method, "norm": part and part.norm,
                    "source_split": known.get(variant.source or ""), "judge_split": known.get(judge),
                    "image_split": image_split, "amplification": variant.size, "clipped": variant.clipped,
                    "rms": size, "errors": errors, "n": n - invalid,
                    "share": errors / (n - invalid) if n > invalid else None, "low": low, "high": high,
                    "right": right, "turned": turned, "invalid": invalid,
                }
            )  # fmt: skip
    return pa.Table.from_pylist(records, schema=SCHEMA).replace_schema_metadata({"foible.transfer": "1"})


def _variants(
    sources: Mapping[str, Sequence[Source]], amplifications: Sequence[float | None], noise: Sequence[float], own: bool
) -> Iterator[_Variant]:
    yield _Variant("clean", None, None, None, False)
    for size in amplifications:
        for name, parts in sources.items():
            for part in parts:
                for clipped in (False,) if size is None else (False, True):  # as found, it is in the box already
                    yield _Variant("distortion", name, part, size, clipped)
    for name, parts in sources.items() if own else ():
        for part in parts:
            for clipped in (False, True):
                yield _Variant("own-noise", name, part, None, clipped)
    for size in noise:
        for clipped in (False, True):
            yield _Variant("noise", None, None, size, clipped)


@torch.no_grad()
def _said(judges: Basket, images: Tensor) -> tuple[Tensor, Tensor]:
    """(networks, k) classes, and whether each answer is one: no NaN and no infinity."""
    logits = judges.judge(images.to(judges.device))
    return logits.argmax(2), logits.isfinite().all(2)


def _check(
    sources: Mapping[str, Sequence[Source]], amplifications: Sequence[float | None], noise: Sequence[float]
) -> Source:
    """The first source, once all of them are known to fit together."""
    every = [(name, part) for name, parts in sources.items() for part in parts]
    if not every or not len(every[0][1].labels):
        raise UserError("no distorted images to transfer: give at least one source with at least one image")
    for value in [*amplifications, *noise]:
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UserError(f"an amplification or a noise of {value}: expected an RMS of 0 or more, such as 0.1")
    first_name, first = every[0]
    for name, part in every:
        if part.images.shape != part.origins.shape or len(part.images) != len(part.labels):
            raise UserError(
                f"source {name!r} has images {tuple(part.images.shape)}, origins {tuple(part.origins.shape)} and "
                f"{len(part.labels)} labels: expected the same shape, and one label an image"
            )
        if not (torch.equal(part.origins, first.origins) and torch.equal(part.labels, first.labels)):
            raise UserError(
                f"sources {first_name!r} and {name!r} were made from different images: distort the same images for "
                "every source, so that the errors can be compared"
            )
    return first


def save(table: pa.Table, file: str | Path) -> Path:
    """Write the tensor as Parquet, whole or not at all."""
    data = io.BytesIO()
    pq.write_table(table, data, compression="zstd")
    write_with_folder(Path(file), data.getvalue())
    return Path(file)


def load(file: str | Path) -> pa.Table:
    """A tensor that `save` wrote."""
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{str(file)!r} cannot be read as Parquet: {error}") from error
    if table.schema.names != SCHEMA.names:
        raise UserError(f"{str(file)!r} is Parquet, but not a transfer table: its columns are {table.schema.names}")
    return table


def select(table: pa.Table, **wanted: Any) -> list[dict[str, Any]]:
    """The rows where every named column has the wanted value, as records; `select(table, kind="noise")`."""
    for name in wanted:
        if name not in table.column_names:
            raise UserError(f"a transfer table has no column {name!r}{did_you_mean(name, table.column_names)}")
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in wanted.items())]
