"""Where a report's rows come from: the shards of a run, or findings in memory, a few columns at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from foible.errors import UserError
from foible.findings import SCHEMA_VERSION, Findings, read_shard, shard_files


@dataclass(frozen=True)
class Source:
    """Tables that are read one after another: memory holds one shard, however many trials there are."""

    name: str  # of the run, for the title and for the commands that the report prints
    parts: tuple[Path | pa.Table, ...]
    units: int | None = None  # how many parts a finished run has, where that is known

    @classmethod
    def open(cls, run: str | Path | Findings) -> Source:
        if isinstance(run, Findings):
            return cls("RUN", (run.table,))
        return cls(Path(run).resolve().name, tuple(shard_files(run)), _units(Path(run) / "config.json"))

    def read(self, part: int, columns: Sequence[str]) -> pa.Table:
        """These columns of one part, in its order of rows."""
        what = self.parts[part]
        return what.select(list(columns)) if isinstance(what, pa.Table) else read_shard(what, columns)

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for part in range(len(self.parts)):
            yield self.read(part, columns)


def _units(config: Path) -> int | None:
    try:
        return int(json.loads(config.read_text("utf-8"))["units"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # findings without their run: nothing to compare with


@dataclass
class About:
    """What the tables say about themselves, gathered shard by shard."""

    classes: tuple[str, ...] = ()
    configs: dict[str, dict[str, Any]] | None = None
    schema_version: int = SCHEMA_VERSION

    def add(self, table: pa.Table) -> None:
        metadata = table.schema.metadata or {}
        classes = tuple(json.loads(metadata.get(b"foible.classes", b"[]")))
        if self.configs is None:
            self.classes, self.configs = classes, {}
            self.schema_version = int(metadata.get(b"foible.schema_version", SCHEMA_VERSION))
        if classes != self.classes:
            raise UserError(
                f"the shards speak of different tasks (classes {self.classes} and {classes}): "
                "report on one run at a time"
            )
        self.configs.update(json.loads(metadata.get(b"foible.configs", b"{}")))

    def class_name(self, index: int | None) -> str:
        """The name of a class; one that the list does not have is called by its number."""
        if index is None:
            return "?"
        return str(self.classes[index]) if 0 <= index < len(self.classes) else f"class {index}"
