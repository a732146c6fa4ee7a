"""Which part of the data is the train split, and which the test split."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from foible.data.dataset import UnsplitError, hold_out, with_option
from foible.errors import UserError
from foible.text import shown

HELD = ("test", "val", "valid", "validation")  # the first that is there is the test split
ALL = "all"  # the one part of data in which nothing says what is for training and what for testing
SPLIT_NAMES = {"train": ("train",), "test": HELD}
T = TypeVar("T")


def pick(named: Mapping[str, T]) -> dict[str, T]:
    """From parts under the names that people use to {"train": …, "test": …}, as far as they are there."""
    parts = {}
    for split, names in SPLIT_NAMES.items():
        found = next((named[name] for name in names if name in named), None)
        if found is not None:
            parts[split] = found
    return parts


def by_name(files: Sequence[Path], root: Path, problems: list[str]) -> dict[str, list[Path]]:
    """Files by split: how their names begin (`train-0.parquet`), else the folder they are in (`test/0.parquet`).
    Where no name says it, there is one part."""
    named: dict[str, list[Path]] = {}
    spare = []
    for file in files:
        begins = re.match(r"(train|test|validation|valid|val)(?=[-_.])", file.name)
        inner = file.relative_to(root).parts[:-1] if file.is_relative_to(root) else ()
        within = next((part for part in inner if part in ("train", *HELD)), None)
        split = begins[1] if begins else within
        if split:
            named.setdefault(split, []).append(file)
        else:
            spare.append(file)
    if not named:
        return {ALL: spare}
    problems += [f"{shown(file.name)}: not read, its name begins with no split (train-, test-)" for file in spare]
    return pick(named)


def choose(spec: str, parts: Collection[str], split: str, test: Fraction | None, expected: str) -> str:
    """The part that `split` is to be read from; `expected` says how a split is marked in this form."""
    if "test" in parts and test is not None:
        raise UserError(f"{spec} has its own test split: leave out test=")
    if ALL in parts:
        if split == "test" and test is None:
            raise UnsplitError(spec)
        return ALL
    if split == "test" and "test" not in parts and test is None:
        raise UserError(
            f"{spec} has a train split and no test split: give the other part too, take the train split "
            f"(--split train), or write {with_option(spec, 'test=0.2')} to hold out a fifth of each class"
        )
    part = "train" if test is not None else split
    if part not in parts:
        raise UserError(f"{spec} has nothing for the train split: expected {expected}")
    return part


def held_rows(labels: npt.NDArray[np.int64], split: str, test: Fraction | None) -> npt.NDArray[np.int64]:
    """The rows of `split`, where `test` of each class is held out; all of them where it is None."""
    if test is None:
        return np.arange(len(labels))
    held = hold_out(labels, test)
    return np.flatnonzero(held if split == "test" else ~held)
