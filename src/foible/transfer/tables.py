"""The transfer tensor as people read it: one source a row, one judge a column, as in paper 3's Tables 2 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from foible.errors import UserError
from foible.transfer import KINDS

SHOWN = ("distortion", "noise")  # what the paper's tables have


@dataclass(frozen=True)
class Grid:
    """One slice of the tensor. `cells` holds a record of the tensor for each row and column, or None."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[dict[str, Any] | None, ...], ...]
    controls: int  # how many of the rows, at the end, are controls and nobody's distortion

    @property
    def sizes(self) -> tuple[float | None, ...]:
        """The mean RMS of each row."""
        return tuple(next((cell["rms"] for cell in row if cell), None) for row in self.cells)


def grid(
    table: pa.Table,
    *,
    target: str | None = None,
    norm: str | None = None,
    method: str | None = None,
    amplification: float | None = None,
    clipped: bool = False,
    noise: Sequence[float] | None = None,
    kinds: Sequence[str] = SHOWN,
    title: str | None = None,
) -> Grid:
    """The slice of the tensor at one target, norm, method and amplification.

    target, norm, method: None takes the first that the table has. noise: which Gaussian rows (None: all).
    clipped: what is amplified or noisy is shown clipped to [0, 1].
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"kind is {kind!r}: expected {', '.join(KINDS)}")
    records = table.to_pylist()
    made = [record for record in records if record["kind"] == "distortion"]
    asked = {"target": target, "norm": norm, "method": method}
    for name, value in asked.items():
        asked[name] = (made[0][name] if made else None) if value is None else value
    asked_words = ", ".join(f"{name} {value}" for name, value in asked.items())
    columns = tuple(dict.fromkeys(record["judge"] for record in records))
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    controls: set[str] = set()
    for kind in sorted(kinds, key=lambda one: one != "distortion"):  # controls come after
        for record in records:
            if record["kind"] != kind or not _wanted(record, asked, amplification, clipped, noise):
                continue
            rows.setdefault(row_name(record), {})[record["judge"]] = record
            if kind != "distortion":
                controls.add(row_name(record))
    if not rows:
        raise UserError(f"the table has no row of {asked_words}, amplification {amplification}: see its columns")
    cells = tuple(tuple(found.get(judge) for judge in columns) for found in rows.values())
    how = "minimal distortion" if amplification is None else f"amplified to RMS {amplification:g}"
    words = f"{how}, {asked['target']} target" + ("" if asked["norm"] == "l2" else f", {asked['norm']}")
    words += ", clipped" if clipped else ""
    return Grid(words if title is None else title, tuple(rows), columns, cells, len(controls))


def _wanted(
    record: dict[str, Any], asked: dict[str, str | None], amplification: float | None, clipped: bool,
    noise: Sequence[float] | None,
) -> bool:  # fmt: skip
    kind = record["kind"]
    if kind == "clean":
        return True
    if kind == "noise":
        return record["clipped"] == clipped and (noise is None or record["amplification"] in noise)
    if any(record[name] != value for name, value in asked.items()):
        return False
    if kind == "own-noise":
        return bool(record["clipped"] == clipped)
    return bool(record["amplification"] == amplification and (amplification is None or record["clipped"] == clipped))


def row_name(record: dict[str, Any]) -> str:
    """What a row of the tensor is called: a source by its name, a control by what it is."""
    if record["kind"] == "noise":
        return f"Gaussian noise, σ = {record['amplification']:g}"
    if record["kind"] == "own-noise":
        return f"noise as large as {record['source']}'s"
    return "undistorted" if record["kind"] == "clean" else str(record["source"])


def markdown(grid: Grid) -> str:
    """The grid as a Markdown table: errors in percent with their 95 % interval, and each row's mean distortion."""
    lines = [f"| {grid.title} | {' | '.join(map(_escaped, grid.columns))} | mean RMS |"]
    lines += ["|---|" + "--:|" * (len(grid.columns) + 1)]
    for name, cells, size in zip(grid.rows, grid.cells, grid.sizes, strict=True):
        lines.append(f"| {_escaped(name)} | {' | '.join(map(percent, cells))} | {decimals(size)} |")
    return "\n".join(lines) + "\n"


def percent(cell: dict[str, Any] | None) -> str:
    """`26.2 (22.1–30.8)`."""
    if cell is None or cell["share"] is None:
        return "–"
    share, low, high = (f"{100 * cell[name]:.1f}".removesuffix(".0") for name in ("share", "low", "high"))
    return f"{share} ({low}–{high})"


def decimals(size: float | None) -> str:
    """A mean RMS as the paper prints it: `0.062`, `0.0065`; `–` where there is none."""
    return "–" if size is None else f"{size:.3f}" if size >= 0.01 or not size else f"{size:.2g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
