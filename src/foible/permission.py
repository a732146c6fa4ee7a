"""What may be run and fetched: what the user named on this very command, and nothing that only a file names.

A run, a basket or a suite may come from anybody, and its JSON may name Python files and networks on a hub. So the check
stands where code is run: `Permission.run` is the one function that runs a user's file, and it runs only files that were
typed (as an argument of the command or of the Python function), or any with `trust`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from foible import specs
from foible.disk import cache_folder, ordinary
from foible.errors import Untrusted, UserError
from foible.text import did_you_mean

PREFIXES = ("network:", "probe:")  # of specs that hold another one
HUBS = ("timm", "torchvision", "hf")
MOST_IMPORTS = 1000  # files beside a user's file that are followed
PLACES = "data-places.jsonl"  # in the user's cache folder


@dataclass(frozen=True)
class Permission:
    """files: Python files that may be run, in full. hubs: networks that may be fetched, as KIND:NAME.
    data: data sets that may be read wherever they lie. trust: anything may be run, fetched and read, and files may be
    loaded that can run code (pickles, TorchScript, .pt2)."""

    files: frozenset[str] = frozenset()
    hubs: frozenset[str] = frozenset()
    data: frozenset[str] = frozenset()
    trust: bool = False

    @staticmethod
    def typed(*given: object, trust: bool = False) -> Permission:
        """For what the user wrote: specs and lists of specs. What is no text (a network in memory) needs none."""
        named = [specs.parse(text) for text in _texts(given)]
        return Permission(
            frozenset(_full(one.name) for one in named if one.is_file),
            frozenset(f"{one.name}:{one.argument}" for one in named if one.name in HUBS),
            trust=trust,
        )

    def __or__(self, other: Permission) -> Permission:
        return Permission(
            self.files | other.files, self.hubs | other.hubs, self.data | other.data, self.trust or other.trust
        )

    def reading(self, data: str) -> Permission:
        """The same, and to read this data set, which was typed too."""
        return replace(self, data=self.data | {data})

    def run(self, path: str, name: str) -> Any:
        """The thing called `name` in the user's Python file `path`. Runs that file, if that is permitted."""
        if not self.trust and _full(path) not in self.files:
            raise Untrusted(
                f"a run, or another file that may come from anybody, names code, {f'{path}:{name}'!r}, which would be "
                "run: if that code is yours, or you have read it, add --trust"
            )
        return _run(path, name)

    def fetch(self, hub: str, name: str) -> None:
        """Refuse to let a library download a network, unless that is permitted."""
        if not self.trust and f"{hub}:{name}" not in self.hubs:
            raise Untrusted(
                f"a run, or another file that may come from anybody, names a network to download, "
                f"{f'{hub}:{name}'!r}: name it yourself, or, if you want it, add --trust"
            )


NOTHING = Permission()


def _texts(given: Iterable[object]) -> Iterator[str]:
    """Every spec in what was typed, without its NAME= and the prefixes that may stand before it."""
    for one in given:
        if isinstance(one, str | Path):
            for part in {str(one): None, **dict.fromkeys(specs.chained(str(one)))}:
                text = specs.split_name(part)[1]
                while text.startswith(PREFIXES):
                    text = specs.split_name(text.partition(":")[2])[1]
                if text and not text.partition("?")[0].endswith(".py"):
                    yield text
                    if "generator=" in text:
                        yield from _texts([specs.parse(text).options.get("generator", "")])
        elif isinstance(one, list | tuple):
            yield from _texts(one)


def _full(path: str) -> str:
    """In full; as it is, where it can be no file's name."""
    try:
        return str(Path(path).resolve())
    except (OSError, ValueError):
        return path


def _run(path: str, name: str) -> Any:
    file = Path(path)
    if not file.exists():
        raise UserError(f"there is no file {path!r}: give FILE.py:NAME with a file that exists")
    module_name = "foible_user_" + hashlib.sha256(_full(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(module_name, ordinary(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with beside(path):
            spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise UserError(f"{path} has nothing called {name!r}{did_you_mean(name, public)}")
    return getattr(module, name)


@contextmanager
def beside(path: str | Path) -> Iterator[None]:
    """While it lasts, import statements find what the file imports from its own folder: just the files that
    `code_sha256` sees, so that nothing runs that is not part of the hash. Afterwards nothing of it is left: two files
    may each have a `layers.py` of their own. Python's own modules and installed ones are never replaced."""
    home = Path(path).resolve().parent
    files = (file.relative_to(home).parts[0] for file in _with_neighbours(path) if file != Path(path).resolve())
    names = {Path(name).stem for name in files} - {"foible", *sys.stdlib_module_names}
    names = {name for name in names if not _is_installed(sys.modules.get(name))}
    before = _take(names)
    finder = _Beside(names, home)
    importlib.invalidate_caches()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take(names)
        sys.modules.update(before)


class _Beside:
    """Finds these modules in one folder."""

    def __init__(self, names: set[str], home: Path) -> None:
        self.names, self.home = names, home

    def find_spec(self, name: str, path: object = None, _: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(self.home)]) if path is None and name in self.names else None


def _take(names: set[str]) -> dict[str, Any]:
    """The modules of these names, and all below them, taken out of those that Python has loaded."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in names}


def _is_installed(module: Any) -> bool:
    return bool({"site-packages", "dist-packages"} & {*Path(getattr(module, "__file__", None) or "").parts})


def code_sha256(path: str | Path) -> str:
    """SHA-256 of a Python file and of what it imports from beside it, however deep; of the file alone if that is all.

    Seen are import statements of modules and packages that lie in the file's folder.
    """
    first = Path(path).resolve()
    files = _with_neighbours(path)
    hashes = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    if len(files) == 1:
        return hashes[first]
    lines = sorted(f"{file.relative_to(first.parent)} {hashes[file]}" for file in files if file != first)
    return hashlib.sha256("\n".join([hashes[first], *lines]).encode()).hexdigest()


def _with_neighbours(path: str | Path) -> list[Path]:
    """A Python file, and those in its folder that it imports, however deep; in full."""
    first = Path(path).resolve()
    files, left = {first: first.parent}, [first]
    while left and len(files) < MOST_IMPORTS:
        file = left.pop()
        for found, home in _imported(file, files[file]):
            if found not in files:
                files[found] = home
                left.append(found)
    return list(files)


def _imported(file: Path, home: Path) -> Iterator[tuple[Path, Path]]:
    """The files below `home` that a Python file's import statements name."""
    try:
        tree = ast.parse(ordinary(file).read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it cannot be imported either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [(home, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else home
            base = node.module or ""
            wanted = [(folder, f"{base}.{alias.name}".strip(".")) for alias in node.names]
        else:
            continue
        for folder, dotted in wanted:
            place = folder
            for step in dotted.split("."):
                place = place / step
                for found in (place.with_name(f"{step}.py"), place / "__init__.py"):
                    full = found.resolve()
                    if found.is_file() and full.is_relative_to(home):
                        yield full, home


# Data that a user has run something on may be read again by that user's later commands, wherever it lies.


def places_of(data: str) -> list[Path]:
    """The files and folders that a data spec names, in full; none for a data set by name."""
    head = data.partition("?")[0]
    named = [head.partition(":")[2] or head, specs.parse(data).options.get("root", "")]
    return [Path(name).resolve() for name in named if name and Path(name).exists()]


def remember(data: str) -> None:
    """Note, in the user's cache folder, where this data lies; a cache that cannot be written is no harm."""
    new = [str(place) for place in places_of(data) if not is_remembered(place)]
    with suppress(OSError, UnicodeEncodeError):
        if new:
            cache_folder().mkdir(parents=True, exist_ok=True)
            with (cache_folder() / PLACES).open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(place)}\n" for place in new)


def is_remembered(place: Path) -> bool:
    """Whether this very place was noted."""
    try:
        lines = ordinary(cache_folder() / PLACES).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError, UserError):
        return False
    return json.dumps(str(place)) in lines
