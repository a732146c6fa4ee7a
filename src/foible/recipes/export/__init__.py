"""Export: findings for people and other tools, each format as its tool reads it.

Files are written beside and renamed, so that an export is whole or absent; a lock keeps a second process out. Rows
are read one shard at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from foible.disk import held
from foible.errors import UserError
from foible.findings import Findings
from foible.recipes.export.fiftyone import write_fiftyone
from foible.recipes.export.folder import write_folder
from foible.recipes.export.huggingface import write_imagefolder, write_parquet
from foible.recipes.export.label_studio import write_label_studio
from foible.recipes.export.rows import Chosen, safe_name
from foible.recipes.export.spreadsheet import write_csv

__all__ = ["FORMATS", "export", "safe_name"]


def _write_findings(chosen: Chosen, file: Path) -> int:
    """The table of findings itself, in one Parquet file: whatever takes a run takes it."""
    writer, count = None, 0
    with ExitStack() as opened:
        for part in chosen.parts():
            if writer is None:
                writer = pq.ParquetWriter(file, part.table.schema, compression="zstd", write_page_checksum=True)
                opened.enter_context(writer)
            writer.write_table(part.table)
            count += len(part)
    return count


_WRITERS: dict[str, Any] = {
    "folder": write_folder,
    "hf": write_imagefolder,
    "parquet": write_parquet,
    "csv": write_csv,
    "label-studio": write_label_studio,
    "fiftyone": write_fiftyone,
    "findings": _write_findings,
}
FORMATS = tuple(_WRITERS)


def export(
    run: str | Path | Findings,
    to: str,
    out: str | Path,
    *,
    everything: bool = False,
    tags: Sequence[str] = (),
    predictions: bool = False,
    split: str | None = None,
    trust: bool = False,
) -> int:
    """Write what a run found in one of FORMATS; how many rows were written.

    everything: all rows, whatever their outcome. tags: only rows that carry one of these, such as "broken".
    predictions: with the networks' answers, for "label-studio". split: "train" (default), "validation" or "test", for
    "hf". trust: where rows that keep no image are to be shown again, run the files that the run names.
    """
    if to not in FORMATS:
        raise UserError(f"cannot export to {to!r}: expected one of {', '.join(FORMATS)}")
    if predictions and to != "label-studio":
        raise UserError(
            f"predictions are for label-studio: what the networks said is in every other export ({to}) anyway"
        )
    if split is not None and to != "hf":
        raise UserError(f"a split is for hf: an export to {to} has none")
    target = Path(out)
    chosen = Chosen(run, everything, tuple(tags), trust)
    options: dict[str, dict[str, Any]] = {"hf": {"split": split}, "label-studio": {"predictions": predictions}}
    try:
        with _alone(target):
            beside = target.with_name(f".{target.name}.part")
            _remove(beside)  # of a process that was killed
            try:
                count: int = _WRITERS[to](chosen, beside, **options.get(to, {}))
                if not count and tags:
                    raise chosen.explain_none()
                _check_free(target)
                if target.is_dir():
                    target.rmdir()
                beside.replace(target)
            finally:
                _remove(beside)
    except OSError as error:
        raise UserError(f"cannot export to {str(out)!r}: {error.strerror or error}") from error
    return count


def _check_free(target: Path) -> None:
    """Refuse a file that is there, or a folder with anything in it."""
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise UserError(f"{str(target)!r} exists already: give another --out, so that nothing is overwritten")


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Hold the place of an export; another process gets a named error. The system frees it when the holder dies."""
    _check_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = target.with_name(f".{target.name}.lock")
    with held(lock, f"exporting to {str(target)!r}"):
        try:
            _check_free(target)  # it may have come while we asked for the lock
            yield
        finally:
            with suppress(OSError):
                lock.unlink()  # while it is held: a later export makes its own


def _remove(path: Path) -> None:
    """A file or a folder that may be there."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()
