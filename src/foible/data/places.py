"""Where data sets are looked for: the folder that FOIBLE_DATA names, then the user's cache folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from foible.disk import cache_folder
from foible.errors import UserError
from foible.text import did_you_mean, shown


def data_folder() -> Path | None:
    """The folder that the environment variable FOIBLE_DATA names, whether or not it exists."""
    given = os.environ.get("FOIBLE_DATA")
    return Path(given).expanduser() if given else None


def roots() -> list[Path]:
    """The folders to look in, first the one that wins."""
    given = data_folder()
    return ([given] if given else []) + [cache_folder()]


def looked_in() -> str:
    """The folders looked in, for an error message."""
    given = data_folder()
    if given is None:
        return f"{cache_folder()} (set FOIBLE_DATA to look in a folder of your own too)"
    there = "" if given.is_dir() else ", which is not a folder"
    return f"{given} (from FOIBLE_DATA{there}) and {cache_folder()}"


def candidates(name: str, *inner: str) -> Iterator[Path]:
    """Folders that may hold the data set `name`: ROOT/name, ROOT/each of `inner`, then ROOT itself."""
    for root in roots():
        for part in (name, *inner):
            yield root / part
        # MNIST and Fashion-MNIST share their file names: lying bare in ROOT, only that folder's own name
        # can tell them apart.
        if ("fashion" in name) == ("fashion" in root.name.lower()):
            yield root


def first_file(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of `names` that is a file in `folder`."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def given_path(spec: str, argument: str) -> Path:
    """The path of `folder:PATH` and its like: from the working folder, else from FOIBLE_DATA."""
    if not argument:
        raise UserError(f"{spec!r} names no path: write {spec.partition(':')[0]}:PATH")
    path = Path(argument).expanduser()
    root = data_folder()
    if path.exists():
        return path
    if root and (root / path).exists():
        return root / path
    near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    also = f" or under {root} (FOIBLE_DATA)" if root and not path.is_absolute() else ""
    raise UserError(f"{spec}: there is nothing at {shown(path)}{also}{did_you_mean(path.name, near)}")
