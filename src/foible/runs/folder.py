"""A run on disk: settings, shards, and a lock. Whatever happens, what is finished stays.

RUN/config.json   the settings, their hash, where the basket was found, how many units there are
RUN/unreadable.txt  files that could not be read, where there are any
RUN/shards/       one Parquet file a unit: written beside, synced, renamed
RUN/timings/      how long each unit took (apart, so that shards are the same bytes on every run)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from foible.data.dataset import shown
from foible.disk import write_atomically
from foible.errors import UserError


def settings_hash(settings: dict[str, Any]) -> str:
    """Twelve hex digits that change with any setting."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


class RunFolder:
    """One run. `open` makes it or goes on with it; `lock` keeps a second process out."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def config(self) -> dict[str, Any]:
        file = self.path / "config.json"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(config, dict) or not all(isinstance(config.get(k), dict) for k in ("settings", "where")):
                raise ValueError("no settings in it")
            return config
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{str(self.path)!r} is not a run: it has no config.json") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{file} is damaged ({error}): give another --out, or restore it") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run; another process gets a named error. The system frees it when the holder dies."""
        self._make(self.path)
        lock = FileLock(self.path / "run.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"another process is working on the run {str(self.path)!r}: wait for it, or give another --out"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder {str(path)!r}: {error.strerror or error}") from error

    def _anything_done(self) -> bool:
        """Whether a unit has been finished here: a run that failed before its first may begin anew."""
        begun = ("config.json", "run.lock", "unreadable.txt")
        files = (file for file in self.path.rglob("*") if not file.name.startswith("."))  # those are half-written ones
        return any(file.is_file() and file.name not in begun for file in files)

    def begin(self, settings: dict[str, Any], where: dict[str, Any], units: int, **more: Any) -> bool:
        """Write the settings, or check that they are those of the run already here. True where it goes on.

        `more` is written beside them, for people and reports; no result depends on it.
        """
        file = self.path / "config.json"
        if file.exists():
            old = self.config
            same = old.get("hash") == settings_hash(settings)
            if not same and self._anything_done():
                differ = _differences(old["settings"], settings)
                raise UserError(
                    f"the run {str(self.path)!r} was made with other settings ({differ}): "
                    "give another --out, or the old settings to go on with it"
                )
            resumed, same_place = same, same and old["where"] == where
        else:
            ours = ("run.lock", ".config.json.")
            if any(not entry.name.startswith(ours) for entry in self.path.iterdir()):
                raise UserError(f"the folder {str(self.path)!r} is not empty and not a run: give another --out")
            resumed = same_place = False
        if not same_place:
            content = {"hash": settings_hash(settings), "settings": settings, "where": where, "units": units, **more}
            write_atomically(file, json.dumps(content, indent=1, ensure_ascii=False).encode())
        for name in ("shards", "timings"):
            self._make(self.path / name)
        self.sweep()
        return resumed

    def note(self, **more: Any) -> None:
        """Add to what is written beside the settings."""
        content = {**self.config, **more}
        write_atomically(self.path / "config.json", json.dumps(content, indent=1, ensure_ascii=False).encode())

    def sweep(self) -> None:
        """Clear away what killed processes were writing; only while nobody writes."""
        for name in ("", "shards", "timings", "answers"):
            for left in (self.path / name).glob(".*.tmp"):
                with suppress(OSError):
                    left.unlink()

    def list_unreadable(self, lines: list[str]) -> None:
        """Files that could not be read, one a line; no file where there are none."""
        if lines:
            write_atomically(self.path / "unreadable.txt", "".join(f"{shown(line)}\n" for line in lines).encode())

    def shard(self, unit: int) -> Path:
        return self.path / "shards" / f"unit-{unit:06d}.parquet"

    def shards(self) -> list[Path]:
        return sorted((self.path / "shards").glob("*.parquet"))

    def missing(self, units: int) -> list[int]:
        return [unit for unit in range(units) if not self.shard(unit).exists()]

    def write(self, unit: int, table: pa.Table, timing: dict[str, float]) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        write_atomically(self.path / "timings" / f"unit-{unit:06d}.json", json.dumps(timing).encode())
        write_atomically(self.shard(unit), sink.getvalue().to_pybytes())


def _differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    """`trials: 1000 there, 2000 here`, for every setting that differs."""
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return "; ".join(f"{key}: {str(old.get(key))[:60]} there, {str(new.get(key))[:60]} here" for key in keys)
