"""Labels as a user's table has them, numbers or text, into class numbers and class names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foible.class_lists import read as read_classes
from foible.class_names import imagenet, positions
from foible.data.dataset import check_labels, numbered_classes
from foible.errors import UserError
from foible.records import TEXT
from foible.text import cut, did_you_mean, shown, some

CLASSES_FILE = "classes.txt"
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def column_of(values: Sequence[Any], where: str) -> pa.Array:
    """Python values (text, whole numbers, None) as one column: whole numbers where all are, else text."""
    there = [value for value in values if value is not None]
    wrong = next((v for v in there if not isinstance(v, (str, int)) or isinstance(v, bool)), None)
    if wrong is not None:
        raise UserError(f"{where} has the value {shown(wrong)[:80]!r}: expected text or a whole number")
    if all(isinstance(value, int) for value in there):
        edge = 2**62  # beyond it is out of range anyhow, and is to be reported as such
        return pa.array([None if v is None else max(-edge, min(v, edge)) for v in values], pa.int64())
    wrong = next((v for v in there if isinstance(v, str) and not TEXT.accepts(v)), None)
    if wrong is not None:
        raise UserError(f"{where} has the value {shown(wrong)[:80]!r}: expected {TEXT.expected}, in UTF-8")
    return pa.array([None if v is None else str(v) for v in values], pa.large_string())


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column of text from a file without types (CSV, .cls): blank is none, and all whole numbers are numbers."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    text = pc.if_else(pc.equal(text, ""), None, text)
    kinds = text.unique().drop_null().to_pylist()
    if kinds and all(_WHOLE.fullmatch(kind) for kind in kinds):
        return text.cast(pa.int64())
    return text


def is_text(column: pa.ChunkedArray | pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def alike(columns: Sequence[pa.ChunkedArray | pa.Array]) -> list[pa.ChunkedArray | pa.Array]:
    """Labels of several parts as one kind: all text where one is, so that 7 and "7" are the same class."""
    if any(map(is_text, columns)):
        return [column.cast(pa.large_string()) for column in columns]
    return list(columns)


def classes_of(columns: Sequence[tuple[str, pa.ChunkedArray | pa.Array]]) -> tuple[str, ...]:
    """Class names from the labels themselves, over all parts of the data: each is (where it is from, its labels)."""
    if any(is_text(column) for _, column in columns):
        return tuple(sorted({str(k) for _, column in columns for k in column.unique().drop_null().to_pylist()}))
    return max((numbered_classes(_whole(column), where) for where, column in columns), key=len, default=())


def numbers_of(column: pa.ChunkedArray | pa.Array, classes: Sequence[str], where: str) -> npt.NDArray[np.int64]:
    """Labels as class numbers, -1 where there is none."""
    absent = column.is_null().to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else _nulls(column)
    if is_text(column):
        coded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
        kinds = coded.dictionary.to_pylist()
        codes = pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        table = np.array([-1 if k is None else k for k in positions(kinds, classes)] or [-1], np.int64)
        numbers = np.where(absent, -1, table[codes])
        unknown = np.flatnonzero(~absent & (numbers < 0))
        if len(unknown):
            name = kinds[codes[unknown[0]]]
            raise UserError(
                f"{where}: row {unknown[0]} has the label {cut(name)!r}, which is no class name; the classes are "
                f"{some(classes)}{did_you_mean(name, classes)}"
            )
        return numbers
    whole = _whole(column)
    check_labels(whole, len(classes), where)
    return np.where(absent, -1, whole)


def class_file(spec: str, given: str, beside: Path) -> tuple[str, ...]:
    """Class names from the file that `?classes=FILE` gives (or ImageNet's), else from `classes.txt` in the folder
    `beside`; () where there is neither. A list is read as a network's is; the first is class 0."""
    if given == "imagenet":
        return imagenet()
    path = beside / CLASSES_FILE
    if given:
        path = next((p for p in (Path(given).expanduser(), beside / given) if p.is_file()), Path(given))
        if not path.is_file():
            raise UserError(
                f"{spec}: classes is {shown(given)!r}, which is no file: give a text file, a name a line, CSV or JSON"
            )
    elif not path.is_file():
        return ()
    return read_classes(path)


def _nulls(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.is_null().to_numpy()
    return found


def _whole(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers; a row without one gets 0."""
    filled = pc.fill_null(column, 0)
    values: npt.NDArray[Any]
    values = filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(zero_copy_only=False)
    return (np.minimum(values, 2**62) if values.dtype == np.uint64 else values).astype(np.int64)
