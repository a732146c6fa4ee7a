"""The runs that are looked at: found below some folders, opened once, and again when their files have changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.studio.rows import Rows, key_of


def find_runs(roots: Sequence[Path], deep: int = 3) -> dict[str, Path]:
    """The runs under some folders, by key; a root may be a run, or a file of findings, itself."""
    found: dict[str, Path] = {}

    def look(path: Path, left: int) -> None:
        if is_run(path):
            found[key_of(path)] = path
        elif left and path.is_dir():
            try:
                inner = sorted(one for one in path.iterdir() if one.is_dir() and not one.name.startswith("."))
            except OSError:
                return
            for one in inner:
                if not one.is_symlink():
                    look(one, left - 1)

    for root in roots:
        look(root, deep)
    return found


def is_run(path: Path) -> bool:
    if path.is_file():
        return path.suffix == ".parquet"
    return (
        (path / "suite.parquet").is_file()
        or ((path / "config.json").is_file() and (path / "shards").is_dir())
        or ((path / "shards").is_dir() and not (path / "basket.json").exists())
    )


class Shelf:
    """The runs that are looked at. The few used last stay open; one whose files have changed is opened again."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self._open: OrderedDict[str, tuple[Any, Rows]] = OrderedDict()
        self._lock = threading.Lock()

    def runs(self) -> dict[str, Path]:
        return find_runs(self.roots)

    def path(self, key: str) -> Path:
        """Raises KeyError for what is no run here."""
        there = self._open.get(key)
        return there[1].path if there is not None else self.runs()[key]

    def title(self, path: Path) -> str:
        """What a run is called: its place below the folder that was named, or its own name."""
        root = next((root for root in self.roots if root != path and path.is_relative_to(root)), None)
        return path.resolve().name if root is None else path.relative_to(root).as_posix()

    def open(self, key: str) -> Rows:
        path = self.path(key)
        now = identity(path)
        with self._lock:
            there = self._open.get(key)
            if there is None or there[0] != now:
                there = now, Rows(path)
                self._open[key] = there
                while len(self._open) > 4:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return there[1]


def identity(path: Path) -> Any:
    """What changes when a run's rows do: its files, with their sizes and times."""
    try:
        files = [path] if path.is_file() else [path / "config.json", path / "suite.parquet"]
        shards = path / "shards"
        files += list(shards.iterdir()) if path.is_dir() and shards.is_dir() else []
        there = [(file.name, file.stat()) for file in files if file.is_file() and not file.name.startswith(".")]
        return tuple(sorted((name, of.st_size, of.st_mtime_ns) for name, of in there))
    except OSError as error:
        raise UserError(f"{str(path)!r} is gone, or changes just now: {error.strerror or error}") from error
