"""The folder that a basket is trained into: whose it is, what was asked, and whether it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foible.disk import held, write_atomically
from foible.errors import UserError
from foible.networks import files
from foible.records import check, read_json, short

TRAINING = ".training"  # holds config.json and one checkpoint for each fleet; gone when the basket is done


def is_finished(folder: Path, record: Mapping[str, Any]) -> bool:
    """Whether `folder` holds a basket made with the settings in `record`; one of other settings is an error."""
    if not (folder / files.FILE).exists():
        return False
    made_with = files.read_record(folder).get("config")
    if not isinstance(made_with, dict):
        raise UserError(f"{folder} holds a basket that was not made by `foible train`: give another --out")
    agree(folder, "a finished basket", made_with, record)
    return True


def once(folder: Path, record: Mapping[str, Any], make: Callable[[], list[files.Entry]]) -> list[files.Entry] | None:
    """What `make` trains, saved as the basket in `folder`; None where that basket is there already."""
    if is_finished(folder, record):
        return None
    with only_here(folder):
        if is_finished(folder, record):  # by another process, since the last look
            return None
        return files.save_basket(folder, make(), record)


def claim(folder: Path, names: Sequence[str], record: Mapping[str, Any]) -> None:
    """Begin in `folder`, or go on with the same settings."""
    where = folder / TRAINING / "config.json"
    advice = f"delete {where.parent} and train again"
    if where.exists():
        try:
            made_with = check(read_json(where, advice), dict, str(where), advice)
        except OSError as error:
            raise UserError(f"{where} cannot be read ({error}): {advice}") from error
        agree(folder, "unfinished training", made_with, record)
        return
    for name in names:
        if (folder / f"{name}.safetensors").exists():
            raise UserError(f"{folder} already has a {name}.safetensors that is part of no basket: give another --out")
    where.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(where, json.dumps(record, indent=1).encode())


@contextmanager
def only_here(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process; a second process gets an error at once."""
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: give a folder to train into")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}") from error
    with held(folder / ".lock", f"training into {folder}"):
        yield


def agree(folder: Path, what: str, had: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """An error where `folder` holds what was made with other settings."""
    asked = json.loads(json.dumps(asked))
    differing = [
        f"{short(key)[1:-1]} was {short(had.get(key))} and is now {short(asked.get(key))}"
        for key in sorted({*had, *asked})
        if had.get(key) != asked.get(key)
    ]
    if differing:
        raise UserError(
            f"{folder} holds {what} of other settings: {'; '.join(differing)}. "
            "Give the same settings, another --out, or delete the folder"
        )
