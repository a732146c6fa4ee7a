"""Where a report's rows and settings come from: a run, or findings in memory, a few columns at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible.errors import UserError
from foible.findings import SCHEMA_VERSION, Findings, read_shard, shard_files
from foible.findings.labels import Labels, labels_of
from foible.records import SETTINGS, check, read_classes, read_configs, read_json
from foible.runs.folder import RunFolder
from foible.runs.recipe import Recipe, recipe_called, recipe_of
from foible.runs.record import CONFIG, check_hash, further
from foible.runs.told import there, unfinished

SUMMARY = "compare.json"  # what a comparison came to
UNREADABLE = "unreadable.txt"  # the files that a run could not read, one a line


@dataclass(frozen=True)
class OpenRun:
    """Tables that are read one after another: memory holds one shard, however many trials there are.

    An opened run, whose shards are checked: it may be given wherever the path of a run may be.
    """

    name: str  # of the run, for the title and for the commands that the report prints
    parts: tuple[Path | pa.Table, ...]
    config: dict[str, Any] = field(default_factory=dict)  # config.json of the run; empty where there is none
    folder: Path | None = None  # of the run
    path: Path | None = None  # of the run, or of the file of findings

    @classmethod
    def open(cls, run: str | Path | Findings) -> OpenRun:
        if isinstance(run, Findings):
            return cls("RUN", (run.table,))
        path = Path(run)
        if (path / SUMMARY).exists() and not any((path / "shards").glob("*.parquet")):
            parts: list[Path] = []  # a comparison that had nothing to keep
        else:
            parts = shard_files(run)
        return cls(path.resolve().name, tuple(parts), _config(path), path if path.is_dir() else None, path)

    def __fspath__(self) -> str:
        if self.path is None:
            raise UserError("these findings are in memory: they have no path")
        return str(self.path)

    @property
    def recipe(self) -> Recipe:
        """What made the rows; a hunt, where nothing says it, several did, or a recipe that we do not know."""
        settings = self.config.get("settings")
        made = [settings] if isinstance(settings, dict) else [*_configs(self.parts[0]).values()] if self.parts else []
        recipes = {str(one.get("recipe")): recipe_of(one) for one in made}
        return (recipes.popitem()[1] if len(recipes) == 1 else None) or recipe_called("hunt")

    @cached_property
    def here(self) -> tuple[int, int, str] | None:
        """How much of a run is here, of how much, and of what: trials, images or units. None where it is not known."""
        if self.folder is None or not self.config:
            return None
        _, done, whole, what = there(RunFolder(self.folder))
        return done, whole, what

    @cached_property
    def unfinished(self) -> str:
        """What of a run that is not finished is here, in words; nothing of any other."""
        return "" if self.folder is None or not self.config else unfinished(self.folder)

    @property
    def notes(self) -> list[str]:
        """What the run had to say about its networks and data, and how far people have labelled it."""
        notes = self.config.get("notes")
        people = [self.labels.words] if self.labels.words else []
        return [*(str(note) for note in notes), *people] if isinstance(notes, list) else people

    @cached_property
    def labels(self) -> Labels:
        """What people said of its findings."""
        return Labels() if self.folder is None else labels_of(self.folder)

    @property
    def specs(self) -> list[tuple[str, str]]:
        """What opens each network, as the user wrote it, where the run says it."""
        given = self.config.get("specs")
        return [(str(name), str(spec)) for name, spec in given.items()] if isinstance(given, dict) else []

    @property
    def clean(self) -> list[dict[str, Any]]:
        """Each network's accuracy on the images as they are, where the run says it."""
        rows = self.config.get("clean")
        wanted = ("right", "n", "share", "low", "high", "chance")
        return [
            {
                "network": str(name),
                "near_chance": bool(row.get("near_chance")),
                "behind": bool(row.get("far_behind")),
                "hint": str(row.get("hint", "")),
                **{key: row[key] for key in wanted},
            }
            for name, row in (rows.items() if isinstance(rows, dict) else ())
            if isinstance(row, dict) and all(isinstance(row.get(key), int | float) for key in wanted)
        ]

    @property
    def unreadable(self) -> int:
        """How many files the run lists as unreadable."""
        try:
            with (self.folder / UNREADABLE).open("rb") as lines:  # type: ignore[operator]
                return sum(1 for line in lines if line.strip())
        except (OSError, TypeError):
            return 0

    def read(self, part: int, columns: Sequence[str]) -> pa.Table:
        """These columns of one part, in its order of rows."""
        what = self.parts[part]
        return what.select(list(columns)) if isinstance(what, pa.Table) else read_shard(what, columns)

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for part in range(len(self.parts)):
            yield self.read(part, columns)


def _config(folder: Path) -> dict[str, Any]:
    """config.json, of which a report takes what it can read; only settings that were changed are refused."""
    try:
        config = check(read_json(folder / CONFIG, ""), {"settings?": SETTINGS}, CONFIG)
    except (OSError, UserError):
        return {}  # findings without their run: nothing to say about it
    if "hash" in config and "settings" in config:
        check_hash(config, folder)
    return dict(config)


def _configs(part: Path | pa.Table) -> dict[str, dict[str, Any]]:
    """The settings that a part carries; none from a damaged one, which is named when its rows are read."""
    try:
        schema = part.schema if isinstance(part, pa.Table) else pq.read_schema(part)
        return read_configs(schema.metadata, "findings")
    except (pa.ArrowException, OSError, UserError):
        return {}


@dataclass
class About:
    """What the tables say about themselves, gathered shard by shard."""

    classes: tuple[str, ...] = ()
    configs: dict[str, dict[str, Any]] | None = None
    schema_version: int = SCHEMA_VERSION

    def add(self, table: pa.Table) -> None:
        metadata = table.schema.metadata or {}
        classes = read_classes(metadata, "findings")
        if self.configs is None:
            self.classes, self.configs = classes, {}
            self.schema_version = int(metadata.get(b"foible.schema_version", SCHEMA_VERSION))
        if classes != self.classes:
            raise UserError(
                f"the shards speak of different tasks (classes {self.classes} and {classes}): "
                "report on one run at a time"
            )
        for key, settings in read_configs(metadata, "findings").items():
            self.configs[key] = further(self.configs.get(key, settings), settings)

    def class_name(self, index: int | None) -> str:
        """The name of a class; one that the list does not have is called by its number."""
        if index is None:
            return "?"
        return str(self.classes[index]) if 0 <= index < len(self.classes) else f"class {index}"
