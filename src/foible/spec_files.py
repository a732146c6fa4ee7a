"""The files that specs name: in full, so that they open from any working folder, and by their contents."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import parse_qsl, quote

from foible import specs
from foible.permission import PREFIXES, code_sha256

FILE_OPTIONS = ("weights", "checkpoint", "classes", "root", "generator")  # these may name a file or folder


def absolute_chain(spec: str) -> str:
    """A part of a run that can be made from any working folder: of each of a chain, the file or the network that it
    names in full. A name of ours stays, also where a folder of that name lies about."""
    return "+".join(map(_absolute_part, specs.chained(spec)))


def _absolute_part(part: str) -> str:
    head, question, tail = part.partition("?")
    if ".py:" in head or part.startswith(PREFIXES):
        return absolute(part)
    return head + question + _full_options(tail)


def absolute_data(spec: str) -> str:
    """Data that can be opened from any working folder. Here too a name stays, as that of `mnist` beside a folder
    `mnist`: data in a folder has its form before it."""
    head, question, tail = spec.partition("?")
    return absolute(spec) if ":" in head else head + question + _full_options(tail)


def _full_options(tail: str) -> str:
    """Options with the files and folders that they name in full."""
    options = dict(parse_qsl(tail.replace("+", "%2B")))
    files = {
        key: str(Path(text).resolve()) if Path(text).exists() else absolute(text)
        for key, text in options.items()
        if key in FILE_OPTIONS and (key == "generator" or Path(text).exists())
    }
    if not files:
        return tail
    return "&".join(f"{key}={quote(value, safe='/:,')}" for key, value in {**options, **files}.items())


def with_files(name: str, spec: str) -> dict[str, str]:
    """The settings that a spec stands for: user's files by their names and contents; where they lie is no setting."""
    parts, hashes = [], []
    for part in specs.chained(spec):
        prefix = next((prefix for prefix in PREFIXES if part.startswith(prefix)), "")
        parsed = specs.parse(part.removeprefix(prefix))
        if parsed.is_file:
            hashes.append(code_sha256(parsed.name))
            part = part.replace(parsed.name, Path(parsed.name).name, 1)
        generator = parsed.options.get("generator", "")  # what it draws is part of the settings, not where it lies
        file = specs.parse(generator).name if ".py:" in generator else ""
        if file or (generator and Path(generator.removeprefix("hf:")).is_dir()):
            place = Path(file or generator.removeprefix("hf:"))
            hashes.append(code_sha256(file) if file else _contents(place))
            part = part.replace(quote(str(place), safe="/:,"), place.name, 1)
        parts.append(part)
    return {name: "+".join(parts), **({f"{name}_sha256": "+".join(hashes)} if hashes else {})}


def _contents(folder: Path) -> str:
    """The hash of what a folder of weights and descriptions holds."""
    whole = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors")):
        with file.open("rb") as opened:
            whole.update(f"{file.relative_to(folder)}\n{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def absolute(spec: str) -> str:
    """A spec that can be opened from any working folder: its folders and files, those in options too, in full."""
    for prefix in PREFIXES:
        if spec.startswith(prefix):
            return prefix + absolute(spec.removeprefix(prefix))
    name, text = specs.split_name(spec)
    named = "" if name is None else f"{name}="
    path, question, tail = text.partition("?")
    tail = _full_options(tail)
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
