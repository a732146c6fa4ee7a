"""The page of an inspection: what it came to, its table and its figures, in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible import __version__
from foible.disk import write_with_folder
from foible.inspect.spectrum.record import Spectrum
from foible.report import words as told
from foible.report.page import template
from foible.report.pictures import whole

FILE = "report.html"


def write_units(summary: dict[str, Any], out: Path) -> Path:
    """The page of `foible inspect units`. summary: the content of units.json."""
    settings, means = summary["settings"], summary["means"]
    rows = [
        (kind, f"{counts['alive']:,}", *(_mean(means[measure][kind]) for measure in ("purity", "coherence")))
        for kind, counts in summary["rows"].items()
    ]
    words = [
        f"{one['measure'].capitalize()}, {one['first']} − {one['second']}: {told.plus(one['difference'], 3)} "
        f"({_three(one['low'])} to {_three(one['high'])}), p = {one['p']:.2g}."
        for one in summary["differences"]
        if one["p"] is not None
    ]
    about = f"Means with 95 % intervals; coherence by {settings['judge']}; chance: images drawn at random."
    return _write(
        out, settings, f"What excites {settings['layer']} of {settings['network']}", words,
        columns=("rows", "n", "class purity", "coherence"), rows=rows, notes=[about, *summary["notes"]],
        pictures=sorted(file.name for file in out.glob("*.png")), files=("units.json", "rows.parquet"),
    )  # fmt: skip


def write_spectrum(found: Spectrum, out: Path) -> Path:
    """The page of `foible inspect spectrum`."""
    named = [one for one in found.bounds if one.weighted or one.first < 0]
    grown = {one.stage: (one.distortion, one.noise, one.gain) for one in found.growth}
    nothing = (None, None, None)
    rows = []
    for one in named:
        measured = grown.get(one.name, nothing) if found.growth else ()
        bounds = (one.lower, one.upper, one.real_upper)
        rows.append((one.name, one.size or one.kind, *(_three(value, "g") for value in (*bounds, *measured))))
    columns = ("layer", "size", "lower", "upper", "real", *(("distortion", "noise", "gain") if found.growth else ()))
    notes = ["Lower, upper: frame bounds with circular boundaries; real: the upper one of the layer as it is."]
    notes += [f"{one.name}: {one.note}" for one in found.bounds if one.note and one.weighted]
    return _write(
        out, found.settings, f"What each layer of {found.network} does to a small change", found.words(),
        columns=columns, rows=rows, notes=notes, pictures=["spectrum.png"], files=("spectrum.json", "spectrum.parquet"),
    )  # fmt: skip


def _write(
    out: Path, settings: dict[str, Any], headline: str, words: Sequence[str], *, columns: Sequence[str],
    rows: Sequence[Sequence[str]], notes: Sequence[str], pictures: Sequence[str], files: Sequence[str],
) -> Path:  # fmt: skip
    page = template("inspect.html").render(
        title=f"Foible inspect: {out.resolve().name}", headline=headline, words=words, columns=columns, rows=rows,
        notes=notes, files=files, filters=(), specs=(), versions=[f"foible {__version__}"], schema_version=None,
        figures=[(name, whole((out / name).read_bytes())) for name in pictures],
        config_json=json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False, default=str),
    )  # fmt: skip
    write_with_folder(out / FILE, page.encode("utf-8", "replace"))
    return out / FILE


def _mean(of: dict[str, float | None]) -> str:
    return f"{_three(of['mean'])} ({_three(of['low'])} to {_three(of['high'])})"


def _three(value: float | None, form: str = "f") -> str:
    """Three digits, after the point or in all."""
    if value is None or form == "f":
        return "–" if value is None else told.number(value, 3)
    return f"{value:.3g}"
