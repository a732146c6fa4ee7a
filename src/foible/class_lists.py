"""Lists of classes as people keep them: one reader for networks and data."""

from __future__ import annotations

import ast
import csv
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foible.class_names import WNID, as_number, imagenet, is_synset
from foible.disk import ordinary
from foible.errors import UserError
from foible.text import cut, some

KEYS = ("classes", "class_names", "class_to_idx", "idx_to_class", "id2label", "label2id", "names")
HOW = "classes=FILE (a name a line, CSV or JSON), classes=imagenet, or classes=data (the data's classes, in its order)"
MOST_BYTES = 64 * 2**20
NAMED = ("name", "names", "class", "classes", "class_name", "label", "labels", "category")  # columns of names
NUMBER_FIRST = re.compile(r"\s*([0-9]{1,6})\s*[\s,;:=-]\s*(\S.*)")  # 7 horse; 7: horse; 7,horse; 7 - horse
NUMBER_LAST = re.compile(r"\s*(\S.*?)\s*[\s,;:=]\s*([0-9]{1,6})\s*")  # horse 7


def from_record(record: Mapping[Any, Any], where: str) -> tuple[str, ...] | None:
    """The class list in a checkpoint's dictionary, a configuration or a file's metadata, or None where it has none."""
    for key in KEYS:
        value = record.get(key)
        if isinstance(value, str):  # metadata of safetensors and ONNX files is text
            value = _parsed(value)
        names = names_in(value)
        if names is not None:
            return checked(names, f"{where}: {key}")
    return None


def names_in(value: Any) -> tuple[str, ...] | None:
    """Names from a list, {0: name} or {name: 0}; None for anything else, and for LABEL_0, LABEL_1, …: no names."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
        if pairs and all(isinstance(name, str) and type(number) is int for name, number in pairs):
            pairs = [(number, name) for name, number in pairs]
        by_number = {as_number(key): name for key, name in pairs}
        if set(by_number) != set(range(len(pairs))):
            return None
        value = [by_number[number] for number in range(len(pairs))]
    if not isinstance(value, list | tuple) or not value:
        return None
    names = [one[0] if _is_pair(one) else one for one in value]  # as Keras lists ImageNet: [number in WordNet, name]
    if not all(isinstance(name, str) or type(name) is int for name in names):
        return None
    if all(re.fullmatch(r"LABEL_\d+", str(name)) for name in names):
        return None
    return tuple(str(name) for name in names)


def read(file: str | Path) -> tuple[str, ...]:
    """The classes of a file, for networks and data alike.

    A name a line, or `7 horse` in any order of the numbers; CSV with a column of names, and perhaps one of numbers; or
    JSON (or Python's notation): a list, {"0": name}, {name: 0}, or a configuration with id2label.
    """
    file = Path(file)
    try:
        if ordinary(file).stat().st_size > MOST_BYTES:
            raise UserError(f"it has more than {MOST_BYTES} bytes")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError, UserError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read the class list {str(file)!r} ({reason}): give {HOW}") from error
    if not text.lstrip().startswith(("[", "{")):
        lines = text.rstrip().splitlines()
        in_columns = file.suffix.lower() in (".csv", ".tsv")
        return checked(_from_csv(lines, str(file)) if in_columns else _from_lines(lines), str(file))
    value = _parsed(text)
    if value is None:
        raise UserError(f"{str(file)!r} begins as JSON and is not: give {HOW}")
    names = names_in(value)
    if names is not None:
        return checked(names, str(file))
    found = from_record(value, str(file)) if isinstance(value, dict) else None
    if found is None:
        raise UserError(
            f'{str(file)!r} holds no class list: expected a list of names, {{"0": name, …}}, {{name: 0, …}} or a '
            "configuration with id2label"
        )
    return found


def checked(names: Sequence[str], where: str) -> tuple[str, ...]:
    """The names, trimmed, once they can be told apart. The 1000 of ImageNet in their order get ours, which differ."""
    trimmed = tuple(unicodedata.normalize("NFC", name.strip()) for name in names)
    if len(trimmed) < 2:
        raise UserError(f"{where} lists {len(trimmed)} classes: expected at least 2")
    if len(trimmed) == 1000 and all(is_synset(name, place) for place, name in enumerate(trimmed)):
        return imagenet()
    for place, name in enumerate(trimmed):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{where}: the class {cut(name)!r} is not text that can be written: mend that list"
            ) from None
        if not name:
            raise UserError(f"{where}: class {place} has no name: give one for each output of the network")
    for name, count in Counter(trimmed).items():
        if count > 1:
            places = [str(place) for place, other in enumerate(trimmed) if other == name]
            listed = ", ".join(places[:6]) + (", …" if count > 6 else "")
            raise UserError(
                f"{where}: classes {listed} are all called {cut(name)!r}: labels could not be told "
                "apart; give a list of different names with classes=FILE"
            )
    return trimmed


def _from_lines(lines: list[str]) -> list[str]:
    """A name a line; where every line has a number of its own too, in the order of these."""
    for form, number, name in ((NUMBER_FIRST, 1, 2), (NUMBER_LAST, 2, 1)):
        found = [match for line in lines if len(line) < 1000 and (match := form.fullmatch(line))]
        names = [match[name] for match in found]
        if len(found) == len(lines) == len({*names}) and (order := _order([match[number] for match in found])):
            return [names[place] for place in order]
    return lines


def _from_csv(lines: list[str], where: str) -> list[str]:
    """The column of names, in the order of the column of numbers where there is one."""
    mark = max(",;\t", key=lines[0].count) if lines else ","
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark) if any(map(str.strip, row))]
    except csv.Error as error:
        raise UserError(f"{where} cannot be read as CSV ({error}): give {HOW}") from None
    if not rows or len({len(row) for row in rows}) > 1:
        raise UserError(f"{where} is no table of classes: expected as many columns in every line; or give {HOW}")
    head = [cell.lower().replace(" ", "_") for cell in rows[0]]
    for skip in (0, 1) if len(rows) > 1 else (0,):
        columns = list(zip(*rows[skip:], strict=True))
        order = next((order for column in columns if (order := _order(column))), None)
        numbers = [place for place, column in enumerate(columns) if _order(column)]
        called = [place for place, cell in enumerate(head) if skip and cell in NAMED and place not in numbers]
        others = [place for place in range(len(head)) if place not in numbers]
        plain = (len(head) == 1 and head[0] not in NAMED) or all(WNID.fullmatch(cell) for cell in columns[0])
        if others and (order or called or plain):
            names = columns[(called or others)[0]]
            return [names[place] for place in order] if order else list(names)
    raise UserError(f"{where} has the columns {some(rows[0])}: expected one called name, or one of numbers from 0")


def _order(cells: Sequence[str]) -> list[int] | None:
    """Where the numbers 0, 1, … stand, or 1, 2, …; None where these cells are not just such numbers."""
    numbers = [as_number(cell) for cell in cells]
    places = {number: place for place, number in enumerate(numbers)}
    first = 0 if 0 in places else 1
    if len(cells) < 2 or {*places} != {*range(first, first + len(cells))}:
        return None
    return [places[number] for number in range(first, first + len(cells))]


def _parsed(text: str) -> Any:
    for parse in (json.loads, ast.literal_eval):  # some exporters write Python's own notation
        try:
            return parse(text)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _is_pair(one: Any) -> bool:
    return (
        isinstance(one, list | tuple)
        and len(one) == 2
        and isinstance(one[0], str)
        and WNID.fullmatch(one[0]) is not None
    )
