"""A hunt's parts (space, objective, search) from keywords and specs, and specs that open from anywhere."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from foible import specs
from foible.errors import UserError
from foible.networks.load import split_name
from foible.objectives import OBJECTIVES
from foible.recipes.config import HuntConfig, known_options
from foible.search import SEARCHES
from foible.spaces import SPACES

TABLES: dict[str, dict[str, Any]] = {"space": SPACES, "objective": OBJECTIVES, "search": SEARCHES}

ATLAS = "map-elites"
FILE_OPTIONS = ("weights", "checkpoint", "classes", "root")  # of networks and data: these may name a file or folder


def refuse_code(path: str | Path, named: list[str]) -> None:
    for spec in named:
        if any(specs.parse(part).is_file for part in specs.chained(split_name(spec)[1])):
            raise UserError(
                f"the run {str(path)!r} names code, {spec!r}, which would be run: read that file, and if you trust it "
                "add --trust"
            )


def read_options(options: dict[str, Any]) -> tuple[HuntConfig, dict[str, Any]]:
    """Keywords as settings, and the space, objective and search that they name (or that were given as objects)."""
    options, objects = dict(known_options(HuntConfig, options, "hunt")), {}
    for name, table in TABLES.items():
        given = options.get(name)
        if given is not None and not isinstance(given, str):
            objects[name] = given
            options[name] = specs.spec_of(given, table) or f"object:{getattr(given, '__name__', type(given).__name__)}"
    config = HuntConfig(**options)
    if config.atlas:
        if config.search == HuntConfig.search:
            config = dataclasses.replace(config, search=ATLAS)
        if not config.search.startswith(ATLAS):
            raise UserError(f"an atlas is drawn by the search {ATLAS!r}, not by {config.search!r}: leave one out")
    sugar: dict[str, dict[str, Any]] = {
        "objective": {
            "peer_confidence": config.peer_confidence,
            "suspect_confidence": config.suspect_confidence,
        },
        "search": {"patience": config.patience},
    }
    for name, extra in sugar.items():
        said = {key: value for key, value in extra.items() if value is not None}
        if said and name in objects:
            raise UserError(f"{', '.join(said)} beside a {name} of your own: set it there")
        spec = getattr(config, name)
        for key, value in said.items():
            spec += f"{'&' if '?' in spec else '?'}{key}={value}"
        config = dataclasses.replace(config, **{name: spec})
    return config, make_parts(dataclasses.asdict(config), objects)


def make_parts(named: dict[str, Any], objects: dict[str, Any] | None = None) -> dict[str, Any]:
    """Space, objective and search: from their specs, but for those given as objects."""
    made = dict(objects or {})
    for name, table in TABLES.items():
        if name not in made:
            if named[name].startswith("object:"):
                raise UserError(
                    f"the {name} of this run was an object in memory ({named[name][7:]}): it cannot be made again"
                )
            made[name] = specs.resolve(named[name], table, name)
    return made


def absolute_chain(spec: str) -> str:
    """The same, of each part of a chain."""
    return "+".join(absolute(part) for part in specs.chained(spec))


def with_files(name: str, spec: str) -> dict[str, str]:
    """The settings that a spec stands for: user's files by their names and contents; where they lie is no setting."""
    parts, hashes = [], []
    for part in specs.chained(spec):
        parsed = specs.parse(part)
        if parsed.is_file:
            file = Path(parsed.name)
            hashes.append(hashlib.sha256(file.read_bytes()).hexdigest())
            part = part.replace(parsed.name, file.name, 1)
        parts.append(part)
    return {name: "+".join(parts), **({f"{name}_sha256": "+".join(hashes)} if hashes else {})}


def absolute(spec: str) -> str:
    """A spec that can be opened from any working folder: its folders and files, those in options too, in full."""
    name, text = split_name(spec)
    named = "" if name is None else f"{name}="
    path, question, tail = text.partition("?")
    options = dict(parse_qsl(tail.replace("+", "%2B")))
    files = [key for key in FILE_OPTIONS if key in options and Path(options[key]).exists()]
    if files:
        options.update({key: str(Path(options[key]).resolve()) for key in files})
        tail = "&".join(f"{key}={quote(value, safe='/:,')}" for key, value in options.items())
    kind, colon, place = path.partition(":")
    one_of_a_basket = Path(path).name != path and (Path(path).parent / "basket.json").is_file()
    if Path(path).is_dir() or one_of_a_basket:
        path = str(Path(path).resolve())
    elif ".py:" in path:
        file, _, thing = path.rpartition(":")
        path = f"{Path(file).resolve()}:{thing}"
    elif colon and Path(place).exists():
        path = f"{kind}:{Path(place).resolve()}"
    return named + path + question + tail
