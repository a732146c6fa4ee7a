"""Export: findings for other tools, as a folder of PNGs, one Parquet file, or CSV.

Files are written beside and renamed, so that an export is whole or absent. Names of classes and networks are data:
they are made safe before they become file names, and text that a spreadsheet would run is quoted.
"""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from foible.errors import UserError
from foible.findings import Findings, read_shard, shard_files

_TAKEN = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|findings\.csv|unlabelled")
FORMATS = ("folder", "parquet", "csv")
_PLAIN = (
    "id", "suspect", "outcome", "moves", "candidates", "forwards", "backwards",
    "origin_data", "origin_split", "origin_index", "config",
)  # fmt: skip


def safe_name(name: str) -> str:
    """A name that is a plain file name on every system; where it had to change, a hash keeps names apart.

    Capitals count as a change: on many disks `A` and `a` are one file. So do names that Windows or we ourselves use.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:80]
    if plain == name == name.lower() and not _TAKEN.fullmatch(name):
        return plain
    return f"{plain or 'class'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _cell(value: Any) -> Any:
    """Text that begins like a formula gets a quote before it; numbers are left alone."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _flat_rows(parts: Iterator[Findings], files: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows without images, with class names and the change spelt out."""
    for part in parts:
        for row in part:
            flat = {name: row[name] for name in _PLAIN}
            if files is not None:
                flat["file"] = files[row["id"]]
            for name in ("truth", "consensus", "said"):
                flat[name] = None if row[name] is None else part.classes[row[name]]
            flat["said_probability"] = None if row["said"] is None else row["after"][0][row["said"]]
            flat.update({name: value for name, value in row["change"] or [] if name not in flat})
            yield flat


def _parts(run: str | Path | Findings, everything: bool) -> Iterator[Findings]:
    parts = [run] if isinstance(run, Findings) else (Findings(read_shard(file)) for file in shard_files(run))
    for part in parts:
        yield part if everything else part.filter(outcome="found")


def _write_csv(rows: list[dict[str, Any]], file: Path) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names or list(_PLAIN))
        writer.writerow({name: _cell(name) for name in writer.fieldnames})
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _write_parquet(run: str | Path | Findings, everything: bool, file: Path) -> int:
    writer, count = None, 0
    for part in _parts(run, everything):
        writer = writer or pq.ParquetWriter(file, part.table.schema, compression="zstd")
        writer.write_table(part.table)
        count += len(part)
    if writer is not None:
        writer.close()
    return count


def _write_folder(run: str | Path | Findings, everything: bool, folder: Path) -> int:
    """One folder a class (the truth; the peers' answer where there is none), as image loaders read it."""
    files: dict[str, str] = {}
    for part in _parts(run, everything):
        for row in part:
            label = row["truth"] if row["truth"] is not None else row["consensus"]
            home = folder / ("unlabelled" if label is None else safe_name(part.classes[label]))
            home.mkdir(parents=True, exist_ok=True)
            file = home / f"{safe_name(row['id'])}.png"
            file.write_bytes(row["image"])
            files[row["id"]] = f"{home.name}/{file.name}"
    _write_csv(list(_flat_rows(_parts(run, everything), files)), folder / "findings.csv")
    return len(files)


def export(run: str | Path | Findings, to: str, out: str | Path, *, everything: bool = False) -> int:
    """Write the mistakes of a run (with `everything`, all trials) in one of FORMATS; how many were written."""
    if to not in FORMATS:
        raise UserError(f"cannot export to {to!r}: expected one of {', '.join(FORMATS)}")
    target = Path(out)
    if target.exists() and (target.is_file() or any(target.iterdir())):
        raise UserError(f"{str(out)!r} exists already: give another --out, so that nothing is overwritten")
    beside = target.with_name(f".{target.name}.part")
    _remove(beside)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if to == "folder":
            beside.mkdir()
            count = _write_folder(run, everything, beside)
        elif to == "parquet":
            count = _write_parquet(run, everything, beside)
        else:
            rows = list(_flat_rows(_parts(run, everything)))
            _write_csv(rows, beside)
            count = len(rows)
        if target.is_dir():
            target.rmdir()
        beside.replace(target)
    except OSError as error:
        raise UserError(f"cannot export to {str(out)!r}: {error.strerror or error}") from error
    finally:
        _remove(beside)
    return count


def _remove(path: Path) -> None:
    """A file or a folder that may be there."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()
