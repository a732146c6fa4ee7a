"""A run on disk: settings, shards, and a lock. Whatever happens, what is finished stays.

RUN/config.json   the settings, their hash, where the basket was found, how many units there are
RUN/unreadable.txt  files that could not be read, where there are any
RUN/shards/       one Parquet file a unit: written beside, synced, renamed
RUN/timings/      how long each unit took (apart, so that shards are the same bytes on every run)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible.disk import held, ordinary, write_atomically
from foible.errors import UserError
from foible.permission import remember
from foible.records import read_configs
from foible.runs.record import OLD_NAMES, read_config, settings_hash
from foible.text import shown

HOLDS = {
    "hunt": "a hunt", "distort": "distortions", "compare": "a comparison", "rank": "a ranking", "pool": "a ranking",
}  # fmt: skip
OTHERS = {"basket.json": "a basket of networks", "suite.json": "a suite", "result.json": "a study"}  # by their files
SHARD = re.compile(r"unit-([0-9]{6,8})\.parquet")
CONFIGS = b"foible.configs"  # in a shard's metadata: settings by hash


class RunFolder:
    """One run. `open` makes it or goes on with it; `lock` keeps a second process out."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def config(self) -> dict[str, Any]:
        """`config.json`, every field checked, and its hash computed."""
        return read_config(self.path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run; another process gets a named error. The system frees it when the holder dies."""
        self._make(self.path)
        with held(self.path / "run.lock", f"working on the run {str(self.path)!r}"):
            yield

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder {str(path)!r}: {error.strerror or error}") from error

    def inside(self, name: str) -> Path:
        """A folder of the run, made where it is missing. A run may be anybody's: none may lead out of it."""
        folder = self.path / name
        self._make(folder)
        if not folder.resolve().is_relative_to(self.path.resolve()):
            raise UserError(f"{folder} leads out of the run, to {shown(folder.resolve())}: nothing is written there")
        return folder

    def _anything_done(self) -> bool:
        """Whether a unit has been finished here: a run that failed before its first may begin anew."""
        begun = ("config.json", "run.lock", "unreadable.txt")
        files = (file for file in self.path.rglob("*") if not file.name.startswith("."))  # those are half-written ones
        return any(file.is_file() and file.name not in begun for file in files)

    def check_place(self, recipe: str) -> None:
        """Refuse a folder that holds something else than a run of this recipe, before any work is done for it."""
        if not self.path.is_dir():
            return
        if (self.path / "config.json").exists():
            there = str(self.config["settings"]["recipe"])
            if OLD_NAMES.get(there, there) != recipe and self._anything_done():
                held = HOLDS.get(there, f"a run of {shown(there)[:60]}")
                raise UserError(f"the folder {str(self.path)!r} holds {held}: give another --out")
        elif any(not entry.name.startswith(("run.lock", ".config.json.")) for entry in self.path.iterdir()):
            held = next((what for file, what in OTHERS.items() if (self.path / file).exists()), "")
            why = f"holds {held}" if held else "is not empty and not a run"
            raise UserError(f"the folder {str(self.path)!r} {why}: give another --out")

    def begin(self, settings: dict[str, Any], where: dict[str, Any], units: int | None, **more: Any) -> bool:
        """Write the settings, or check that they are those of the run already here. True where it goes on.

        units: None where they are not known yet; `note` tells them then. `more` is written beside them, for people and
        reports; no result depends on it.
        """
        self.check_place(settings["recipe"])
        file = self.path / "config.json"
        if file.exists():
            old = self.config
            same = _as_text(old["settings"]) == _as_text(settings)
            if not same and self._anything_done():
                differ = _differences(old["settings"], settings)
                raise UserError(
                    f"the run {str(self.path)!r} was made with other settings ({differ}): "
                    "give another --out, or the old settings to go on with it"
                )
            if units is None:
                units = old["units"] if same else 1
            resumed, same_place = same, same and (old["where"], old["units"]) == (where, units)
        else:
            old, resumed, same_place = {}, False, False
        if not same_place:
            units = 1 if units is None else units
            known = {"hash": settings_hash(settings), "settings": settings, "where": where, "units": units}
            content = {**(old if resumed else {}), **known, **more}
            write_atomically(file, json.dumps(content, indent=1, ensure_ascii=False).encode())
        for name in ("shards", "timings"):
            self.inside(name)
        self.sweep()
        remember(where.get("data", ""))
        return resumed

    def note(self, **more: Any) -> None:
        """Add to what is written beside the settings."""
        content = {**self.config, **more}
        write_atomically(self.path / "config.json", json.dumps(content, indent=1, ensure_ascii=False).encode())

    def sweep(self) -> None:
        """Clear away what killed processes were writing; only while nobody writes."""
        here = self.path.resolve()
        for name in ("", "shards", "timings", "answers"):
            folder = (self.path / name).resolve()
            for left in folder.glob(".*.tmp") if folder.is_relative_to(here) else ():
                with suppress(OSError):
                    left.unlink()

    def list_unreadable(self, lines: list[str]) -> None:
        """Files that could not be read, one a line; no file where there are none."""
        if lines:
            write_atomically(self.path / "unreadable.txt", "".join(f"{shown(line)}\n" for line in lines).encode())

    def shard(self, unit: int) -> Path:
        return self.path / "shards" / f"unit-{unit:06d}.parquet"

    def shards(self) -> list[Path]:
        """The shards that are there, in the order of their units. What else lies among them is named."""
        units, folder = self.config["units"], self.path / "shards"
        found = {}
        for file in folder.iterdir() if folder.is_dir() else ():
            number = SHARD.fullmatch(file.name)
            unit = int(number[1]) if number else -1
            if 0 <= unit < units and file == self.shard(unit) and file.is_file():
                found[unit] = file
            elif not file.name.startswith("."):  # those are half-written ones
                whose = f"the {units} units of the run {str(self.path)!r}"
                raise UserError(f"{shown(file)} is none of {whose}: delete it, or move it away")
        return [found[unit] for unit in sorted(found)]

    def missing(self, units: int) -> list[int]:
        """Units without a shard, or with one that does not say whose it is; one of another run is named."""
        settings = self.config["settings"]
        there = (self.path / "shards").is_dir()
        return [unit for unit in range(units) if not (there and self._done(self.shard(unit), settings))]

    def _done(self, file: Path, settings: dict[str, Any]) -> bool:
        if not file.exists():
            return False
        try:
            metadata = pq.read_schema(ordinary(file)).metadata or {}
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{file} cannot be read as Parquet ({error}): delete it and resume the run") from error
        if CONFIGS in metadata:
            check_owner(metadata, settings, file)
        return CONFIGS in metadata

    def write(self, unit: int, table: pa.Table, timing: dict[str, float]) -> None:
        sink = pa.BufferOutputStream()
        leaves = {path: kind for field in table.schema for path, kind in _leaves(field.name, field.type)}
        floats = [path for path, kind in leaves.items() if pa.types.is_float32(kind)]
        # A float hardly comes twice, so a dictionary only costs; its bytes, each kind by itself, pack well.
        pq.write_table(
            table, sink, compression="zstd", write_page_checksum=True, use_byte_stream_split=floats,
            use_dictionary=[path for path in leaves if path not in floats],
        )  # fmt: skip
        write_atomically(self.path / "timings" / f"unit-{unit:06d}.json", json.dumps(timing).encode())
        write_atomically(self.shard(unit), sink.getvalue().to_pybytes())


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of numbers and texts that Parquet makes of one of Arrow's, by their paths."""
    if pa.types.is_map(kind):
        yield from _leaves(f"{name}.key_value.key", kind.key_type)
        yield from _leaves(f"{name}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{name}.{field.name}", field.type)
    else:
        yield name, kind


def check_owner(metadata: Mapping[bytes, bytes], settings: dict[str, Any], file: Path) -> str:
    """The hash of a run's settings, if a shard carries these settings and no others."""
    key = settings_hash(settings)
    expected = {key: settings}
    if metadata.get(CONFIGS) != _as_text(expected).encode() and read_configs(metadata, str(file)) != expected:
        raise UserError(
            f"{file} belongs to another run, or its settings were changed; this run's are {key}: delete it and resume "
            "the run"
        )
    return key


def _as_text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    """`trials: 1000 there, 2000 here`, for every setting that differs."""
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return "; ".join(f"{key}: {str(old.get(key))[:60]} there, {str(new.get(key))[:60]} here" for key in keys)
