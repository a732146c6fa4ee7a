"""What studies share: rows of "paper" beside "measured", the files they are written to, and the baskets they train."""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from foible.basket import Basket
from foible.data import load
from foible.data.catalogue import KNOWN
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.statistics import wilson

_PACKAGES = ("torch", "numpy", "pyarrow", "scipy", "matplotlib")


@dataclass(frozen=True)
class Row:
    """One quantity. `paper` is None where the paper has no figure, `measured` where there was nothing to measure;
    `low` and `high` are a 95 % interval of `measured`, from `n` trials or values."""

    table: str
    quantity: str
    paper: float | None
    measured: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass
class Result:
    """What a study came to. `figures` are file stems: each is STEM.png and STEM.svg in the study's folder."""

    study: str
    scale: str
    settings: dict[str, Any]
    seed: int
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)


def share_row(table: str, quantity: str, paper: float | None, successes: int, trials: int) -> Row:
    """A share in percent, with Wilson's interval."""
    if not trials:
        return Row(table, quantity, paper, None, n=0)
    low, high = wilson(successes, trials)
    return Row(table, quantity, paper, 100 * successes / trials, 100 * low, 100 * high, trials)


def mean_row(
    table: str,
    quantity: str,
    paper: float | None,
    values: Iterable[float],
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> Row:
    """A mean, with Student's interval; none where there are fewer than two values.

    least, most: what the quantity can be; the interval ends there.
    """
    from scipy.stats import t

    seen = [float(value) for value in values]
    n = len(seen)
    if not n:
        return Row(table, quantity, paper, None, n=0)
    mean = math.fsum(seen) / n
    if n == 1:
        return Row(table, quantity, paper, mean, n=1)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in seen) / (n - 1) / n)
    half = float(t.ppf(0.975, n - 1)) * spread
    return Row(table, quantity, paper, mean, max(least, mean - half), min(most, mean + half), n)


def versions() -> dict[str, str]:
    """What the figures were made with."""
    from foible import __version__

    found = {"foible": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        found[name] = metadata.version(name)
    return found


def as_json(result: Result) -> dict[str, Any]:
    """The content of `result.json`."""
    return {
        "study": result.study,
        "scale": result.scale,
        "settings": _plain(result.settings),
        "seed": result.seed,
        "versions": versions(),
        "rows": [_plain(asdict(row)) for row in result.rows],
    }


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def write(result: Result, out: Path) -> None:
    """`result.json` for programs and `table.md` for people, both in the folder `out`."""
    for stem in result.figures:
        for kind in ("png", "svg"):
            if not (out / f"{stem}.{kind}").is_file():
                raise FileNotFoundError(f"the study {result.study} lists a figure that it did not draw: {stem}.{kind}")
    text = json.dumps(as_json(result), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_with_folder(out / "table.md", markdown(result).encode())
    write_with_folder(out / "result.json", text.encode())


def markdown(result: Result) -> str:
    """Tables of paper | measured, then notes, figures and settings."""
    made = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = [f"# {result.study}, {result.scale} scale", "", f"Seed {result.seed}; {made}.", ""]
    for table, rows in tables(result.rows).items():
        lines += [f"## {_cell(table)}", ""]
        lines += ["| | paper | measured | 95 % interval | n |", "|---|--:|--:|--:|--:|"]
        lines += [
            f"| {_cell(row.quantity)} | {shown(row.paper)} | {shown(row.measured)} | {interval(row)} | "
            f"{'–' if row.n is None else f'{row.n:,}'} |"
            for row in rows
        ]
        lines.append("")
    if result.notes:
        lines += ["## Notes", "", *[f"- {note}" for note in result.notes], ""]
    if result.figures:
        lines += ["## Figures", ""]
        for stem in result.figures:
            lines += [f"![{stem}]({stem}.png)", "", f"[{stem} as SVG]({stem}.svg)", ""]
    lines += ["## Settings", "", "| setting | value |", "|---|---|"]
    lines += [f"| {_cell(key)} | {_cell(_value(value))} |" for key, value in result.settings.items()]
    return "\n".join(lines) + "\n"


def tables(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by their table, in the order in which tables first appear."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.table, []).append(row)
    return found


def shown(value: float | None) -> str:
    """A number as people read it, to about three figures: `63`, `5.12`, `1,208`, `0.0312`; `–` where there is none.
    What is almost 100 is not shown as 100: `99.99`, `99.9998`."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    if 99.5 <= size < 100:
        digits = min(5, max(2, math.ceil(-math.log10(100 - size))))
        return f"{math.copysign(min(size, 99.99999), value):.{digits}f}"
    if value == round(value) or size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.0995 else f"{value:.2g}"


def interval(row: Row) -> str:
    """`61.2 to 65.9`, or `–`."""
    ends = [shown(row.low), shown(row.high)]
    return "–" if "–" in ends else " to ".join(ends)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_value(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else "–" if value is None else str(value)


def data_for(data: str | None, scale: str) -> str:
    """The data that was asked for; else MNIST where it is at hand, as in the paper; else the bundled digits."""
    del scale  # the same for both: a quick run is quick because it makes fewer trials
    if data is not None:
        return data
    return "mnist" if KNOWN["mnist"].find() is not None else "digits"


def fewer(data: str, count: int, out: Path, *, tested: int) -> str:
    """Few images of a data set as a file of their own in `out`: all from its test split, which is the quicker to read.

    The first `count` are for training, the next `tested` for testing; where there are not so many, all of the data.
    """
    file = out / f"{data}-{count}.npz"
    if not file.exists():
        whole = load(data, "test", quiet=True)
        if len(whole) < count + tested:
            return data
        place = {"x_train": slice(count), "x_test": slice(count, count + tested)}
        arrays: dict[str, Any] = {name: whole.images[rows].numpy() for name, rows in place.items()}
        arrays |= {name.replace("x", "y"): whole.labels[rows].numpy() for name, rows in place.items()}
        held = io.BytesIO()
        np.savez(held, classes=np.array(whole.classes), **arrays)
        write_with_folder(file, held.getvalue())
    return f"npz:{file}"


def basket_for(
    specs: Sequence[str],
    data: str,
    out: Path,
    *,
    seed: int,
    device: str = "auto",
    quiet: bool = False,
    given: str | None = None,
    **options: Any,
) -> Basket:
    """The networks of a study: those of the basket folder `given`, or `specs`, trained once into `out/basket`.

    A basket of the same settings in `out` is opened and not trained again; one of other settings is left as it is,
    and the networks are trained into `out/basket-HASH` beside it.
    options: of `foible.train`; `seeds` is `[seed]` unless given.
    """
    if given is not None:
        return Basket.open(given, device=device)
    from foible.recipes.train.train import train

    options = {"seeds": [seed], **options}
    asked = hashlib.sha256(json.dumps([list(specs), data, options], sort_keys=True, default=str).encode()).hexdigest()
    last: UserError | None = None
    for folder in (out / "basket", out / f"basket-{asked[:8]}"):
        try:
            train(list(specs), data, out=folder, device=device, quiet=quiet, **options)
        except UserError as error:
            if "of other settings" not in str(error):
                raise
            last = error
            continue
        return Basket.open(str(folder), device=device)
    raise last or AssertionError("unreachable")
