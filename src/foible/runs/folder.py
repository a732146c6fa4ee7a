"""A run on disk: settings, shards, and a lock. Whatever happens, what is finished stays.

RUN/config.json   the settings, their hash, where the basket was found, how many lanes each part has
RUN/unreadable.txt  files that could not be read, where there are any
RUN/shards/       one Parquet file a unit, named by its lanes: written beside, synced, renamed
RUN/timings/      how long each unit took (apart, so that shards are the same bytes on every run)
RUN/unit-….safetensors  where a long unit stands, while it is under way
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible.disk import held, ordinary, write_atomically
from foible.errors import UserError
from foible.permission import remember
from foible.records import read_configs
from foible.runs.record import OLD_NAMES, extents, read_config, settings_hash, whole_hash
from foible.runs.spans import NUMBERED, Span, gaps, numbered
from foible.text import shown

HOLDS = {
    "hunt": "a hunt", "distort": "distortions", "compare": "a comparison", "rank": "a ranking", "pool": "a ranking",
}  # fmt: skip
OTHERS = {"basket.json": "a basket of networks", "suite.json": "a suite", "result.json": "a study"}  # by their files
BEGUN = (  # of a run without settings yet
    "run.lock", "seeds.safetensors", "ends.json", ".config.json.", ".seeds.safetensors.", ".ends.json."
)  # fmt: skip
STANDING = ".safetensors"
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
        new = not self.path.exists()
        self._make(self.path)
        with held(self.path / "run.lock", f"working on the run {str(self.path)!r}"):
            try:
                yield
            finally:
                if new and [file.name for file in self.path.iterdir()] == ["run.lock"]:  # refused: leave nothing behind
                    with suppress(OSError):
                        (self.path / "run.lock").unlink()
                        self.path.rmdir()

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
        begun = ("config.json", "run.lock", "unreadable.txt", "seeds.safetensors", "ends.json")
        files = (file for file in self.path.rglob("*") if not file.name.startswith("."))  # those are half-written ones
        return any(file.is_file() and file.name not in begun and not _stands(file) for file in files)

    def check_place(self, recipe: str) -> None:
        """Refuse a folder that holds something else than a run of this recipe, before any work is done for it."""
        if not self.path.is_dir():
            if self.path.exists():
                raise UserError(f"cannot make the folder {str(self.path)!r}, which is a file: give another --out")
            return
        if (self.path / "config.json").exists():
            there = str(self.config["settings"]["recipe"])
            if OLD_NAMES.get(there, there) != recipe and self._anything_done():
                held = HOLDS.get(there, f"a run of {shown(there)[:60]}")
                raise UserError(f"the folder {str(self.path)!r} holds {held}: give another --out")
        elif any(not entry.name.startswith(BEGUN) for entry in self.path.iterdir()):
            held = next((what for file, what in OTHERS.items() if (self.path / file).exists()), "")
            why = f"holds {held}" if held else "is not empty and not a run"
            raise UserError(f"the folder {str(self.path)!r} {why}: give another --out")

    def known(self, settings: Mapping[str, Any], *, early: bool = False) -> dict[str, Any]:
        """The settings of the run here, if it goes on with these; none where it begins, or begins anew. Other settings
        than the run was made with, and fewer trials than it has, are refused.

        early: before any network was asked; settings that are not among these are not known yet.
        """
        if not (self.path / "config.json").exists():
            return {}
        old, begun = self.config["settings"], self._anything_done()
        aside = {"unit", "together", *extents(settings)}
        names = [name for name in (settings if early else {**old, **settings}) if name not in aside]
        differ = [name for name in names if _as_text(old.get(name)) != _as_text(settings.get(name))]
        here, there = settings.get("together"), old.get("together", old.get("unit"))
        if here is not None and here != there:
            differ.append("together")
        if differ and begun:
            told = (f"{name}: {str(old.get(name))[:60]} there, {str(settings.get(name))[:60]} here" for name in differ)
            raise UserError(
                f"the run {str(self.path)!r} was made with other settings ({'; '.join(told)}): "
                "give another --out, or the old settings to go on with it"
            )
        # What comes after the first was counted.
        more = [name for name in extents(settings)[:1] if old.get(name) != settings[name]]
        for name in more if begun else ():
            self._check_extent(name, old.get(name, 0), settings[name], "unit" in old)
        return {} if differ or (more and "unit" in old) else dict(old)

    def _check_extent(self, name: str, there: int, here: int, numbered: bool) -> None:
        if numbered:
            raise UserError(
                f"the run {str(self.path)!r} is of {there} {name} and was made by an earlier Foible, whose runs cannot "
                f"be made longer or shorter: ask for {there} and not for {here}, or give another --out"
            )
        done = max((span.end for span in self.spans()), default=0)
        if here < done:
            raise UserError(
                f"the run {str(self.path)!r} has {done} {name} already, and {here} were asked for: ask for {done} or "
                "more, or give another --out; nothing there was changed"
            )

    def begin(
        self, settings: dict[str, Any], where: dict[str, Any], lanes: Sequence[int] | None, *, size: int | None = None,
        **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Write the settings, or check that they are those of the run already here. Returns those that the run has: of
        one that goes on they may be spelt as an earlier version did.

        lanes: of each part; None where they are not known yet; `note` tells them then. size: how many lanes a shard has
        that goes by its number. `more` is written beside them, for people and reports; no result depends on it.
        """
        self.check_place(settings["recipe"])
        file = self.path / "config.json"
        known = self.known(settings)
        old = self.config if known else {}
        settings = known if "unit" in known else settings
        hashes = {"hash": settings_hash(settings), "whole": whole_hash(settings)}
        content = {**old, **hashes, "settings": settings, "where": where, **more}
        if lanes is None:
            content.setdefault("lanes", [])
        else:
            content["lanes"] = list(lanes)
        if "units" in content and size is not None:
            content["numbered"] = size
        if not known or _as_text(old) != _as_text(content):
            write_atomically(file, json.dumps(content, indent=1, ensure_ascii=False).encode())
        for name in ("shards", "timings"):
            self.inside(name)
        self.sweep()
        remember(where.get("data", ""))
        return settings

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
        answers, done = (self.path / "answers").resolve(), {file.stem for file in (self.path / "shards").glob("unit-*")}
        for left in answers.glob("unit-*") if answers.is_relative_to(here) else ():
            ours = Span.called(left.stem) or NUMBERED.fullmatch(left.stem)
            if ours and left.stem not in done:  # of a unit that was not finished
                with suppress(OSError):
                    left.unlink()

    def list_unreadable(self, lines: list[str]) -> None:
        """Files that could not be read, one a line; no file where there are none."""
        if lines:
            write_atomically(self.path / "unreadable.txt", "".join(f"{shown(line)}\n" for line in lines).encode())

    def shard(self, span: Span) -> Path:
        return self.path / "shards" / f"{span.name}.parquet"

    def standing(self, span: Span) -> Path:
        """The file in which a unit may note where it stands; once its shard is written, it is removed."""
        return self.path / f"{span.name}{STANDING}"

    def begun(self, missing: Sequence[Span], most: int) -> list[Span]:
        """Of the units that note where they stand those that were broken off, and can go on as they are: all of their
        lanes are missing, and no more than `most`. The files of others are removed."""
        found: list[Span] = []
        for file in sorted(self.path.glob(f"unit-*{STANDING}")):
            span = _stands(file)
            fits = span is not None and span.size <= most and any(span.inside(gap) for gap in missing)
            if span is not None and fits and not any(span.part == one.part and span.first < one.end for one in found):
                found.append(span)
            elif span is not None:
                with suppress(OSError):
                    file.unlink()
        return found

    def spans(self) -> dict[Span, Path]:
        """The lanes whose shards are there, in order. What else lies among them, and lanes that come twice, are named.

        Of a run that no later version went on with, a number stands for the lanes."""
        config, folder = self.config, self.path / "shards"
        found: dict[Span, Path] = {}
        for file in folder.iterdir() if folder.is_dir() else ():
            span = self._span(file.stem, config) if file.suffix == ".parquet" and file.is_file() else None
            if span is not None:
                found[span] = file
            elif not file.name.startswith("."):  # those are half-written ones
                whose = f"the units of the run {str(self.path)!r}"
                raise UserError(f"{shown(file)} is none of {whose}: delete it, or move it away")
        ordered = sorted(found)
        for one, other in pairwise(ordered):
            if one.part == other.part and other.first < one.end:
                raise UserError(
                    f"{found[one]} and {found[other]} hold the same lanes: delete one of them and resume the run"
                )
        return {span: found[span] for span in ordered}

    def _span(self, name: str, config: dict[str, Any]) -> Span | None:
        number, lanes = NUMBERED.fullmatch(name), config.get("lanes")
        if number is None:
            span = Span.called(name)
            return span if span is not None and lanes is not None and span.within(lanes) else None
        if "units" not in config or int(number[1]) >= config["units"] or name != f"unit-{int(number[1]):06d}":
            return None
        if lanes is None or "numbered" not in config:
            return Span(0, int(number[1]), int(number[1]) + 1)
        return numbered(int(number[1]), lanes, config["numbered"])

    def shards(self) -> list[Path]:
        """The shards that are there, in the order of their rows. What else lies among them is named."""
        return list(self.spans().values())

    @property
    def lanes(self) -> list[int]:
        """Of each part; of a run that no later version went on with, its units."""
        config = self.config
        return list(config["lanes"] if "lanes" in config else [config["units"]])

    def missing(self, *, anew: bool = False) -> list[Span]:
        """Lanes without a shard, or with one that does not say whose it is; a shard of another run is named.

        anew: a shard that does not say whose it is, is cleared away: its lanes may be done in units of another size.
        """
        settings, there = self.config["settings"], self.spans()
        done = [span for span, file in there.items() if self._done(file, settings)]
        for span in there.keys() - done if anew else ():
            there[span].unlink()
        return gaps(done, self.lanes)

    def _done(self, file: Path, settings: dict[str, Any]) -> bool:
        try:
            metadata = pq.read_schema(ordinary(file)).metadata or {}
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{file} cannot be read as Parquet ({error}): delete it and resume the run") from error
        if CONFIGS in metadata:
            check_owner(metadata, settings, file)
        return CONFIGS in metadata

    def write(self, span: Span, table: pa.Table, timing: dict[str, float]) -> None:
        sink = pa.BufferOutputStream()
        leaves = {path: kind for field in table.schema for path, kind in _leaves(field.name, field.type)}
        floats = [path for path, kind in leaves.items() if pa.types.is_float32(kind)]
        # A float hardly comes twice, so a dictionary only costs; its bytes, each kind by itself, pack well.
        pq.write_table(
            table, sink, compression="zstd", write_page_checksum=True, use_byte_stream_split=floats,
            use_dictionary=[path for path in leaves if path not in floats],
        )  # fmt: skip
        write_atomically(self.path / "timings" / f"{span.name}.json", json.dumps(timing).encode())
        write_atomically(self.shard(span), sink.getvalue().to_pybytes())
        self.standing(span).unlink(missing_ok=True)


def _stands(file: Path) -> Span | None:
    """The unit that a file says where it stands of; None where it is another file."""
    return Span.called(file.stem) if file.suffix == STANDING else None


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
    """The hash of a run's settings, if a shard carries these settings and no others; how far the run went when the
    shard was written may differ."""
    key, aside = settings_hash(settings), extents(settings)
    if metadata.get(CONFIGS) == _as_text({key: settings}).encode():
        return key
    found = read_configs(metadata, str(file))
    if list(found) != [key] or any(
        (found[key].get(name), name in found[key]) != (settings.get(name), name in settings)
        for name in {**found[key], **settings}
        if name not in aside
    ):
        raise UserError(
            f"{file} belongs to another run, or its settings were changed; this run's are {key}: delete it and resume "
            "the run"
        )
    return key


def _as_text(settings: Any) -> str:
    return json.dumps(settings, sort_keys=True)
