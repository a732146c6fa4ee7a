"""The files that specs name: in full, so that they open from any working folder, and by their contents."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, quote

from foible import specs
from foible.permission import PREFIXES, code_sha256

FILE_OPTIONS = ("weights", "checkpoint", "classes", "root")  # of networks and data: these may name a file or folder


def absolute_chain(spec: str) -> str:
    """A part of a run that can be made from any working folder: of each of a chain, the file or the network that it
    names in full. A name of ours stays, also where a folder of that name lies about."""
    parts = specs.chained(spec)
    return "+".join(absolute(part) if ".py:" in part or part.startswith(PREFIXES) else part for part in parts)


def with_files(name: str, spec: str) -> dict[str, str]:
    """The settings that a spec stands for: user's files by their names and contents; where they lie is no setting."""
    parts, hashes = [], []
    for part in specs.chained(spec):
        prefix = next((prefix for prefix in PREFIXES if part.startswith(prefix)), "")
        parsed = specs.parse(part.removeprefix(prefix))
        if parsed.is_file:
            hashes.append(code_sha256(parsed.name))
            part = part.replace(parsed.name, Path(parsed.name).name, 1)
        parts.append(part)
    return {name: "+".join(parts), **({f"{name}_sha256": "+".join(hashes)} if hashes else {})}


def absolute(spec: str) -> str:
    """A spec that can be opened from any working folder: its folders and files, those in options too, in full."""
    for prefix in PREFIXES:
        if spec.startswith(prefix):
            return prefix + absolute(spec.removeprefix(prefix))
    name, text = specs.split_name(spec)
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
