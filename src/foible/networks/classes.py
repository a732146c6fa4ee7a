"""Lists of classes: where a network's come from, and how two lists meet by name."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from foible.disk import ordinary
from foible.errors import UserError
from foible.text import shown, some

KEYS = ("classes", "class_names", "class_to_idx", "idx_to_class", "id2label", "label2id", "names")
HOW = "classes=FILE (a name a line, or JSON), classes=imagenet, or classes=data (the data's classes, in its order)"
MOST_BYTES = 64 * 2**20
WNID = re.compile(r"n\d{8}(?![0-9A-Za-z])")


def imagenet() -> tuple[str, ...]:
    """The 1000 classes of ImageNet-1k in the order of its indices, by the first name of each; all differ."""
    return tuple(names[0] for _, names in _synsets())


def align(ours: Sequence[str], theirs: Sequence[str]) -> list[int | None]:
    """For each of `ours` the position of the same class in `theirs`, or None.

    The same name exactly; else but for case, `_`, `-` and Unicode's forms; else the first synonym before a comma; else
    the same class of ImageNet, by any of its names or its WordNet number. Only where one of each side has that name.
    """
    found: list[int | None] = [None] * len(ours)
    taken: set[int] = set()
    for key in _TESTS:
        left, right = [key(name) for name in ours], [key(name) for name in theirs]
        counts, others = Counter(left), Counter(right)
        places = {value: place for place, value in enumerate(right)}
        for number, value in enumerate(left):
            if found[number] is not None or value is None or counts[value] != 1 or others[value] != 1:
                continue
            if places[value] not in taken:
                found[number] = places[value]
                taken.add(places[value])
    return found


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


def of_module(module: Any, where: str) -> tuple[str, ...] | None:
    """The class list that a module carries as an attribute, or None."""
    return from_record({key: getattr(module, key, None) for key in KEYS}, where)


def names_in(value: Any) -> tuple[str, ...] | None:
    """Names from a list, {0: name} or {name: 0}; None for anything else, and for LABEL_0, LABEL_1, …: no names."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
        if pairs and all(isinstance(name, str) and type(number) is int for name, number in pairs):
            pairs = [(number, name) for name, number in pairs]
        by_number = {_number(key): name for key, name in pairs}
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
    """The classes of a file: a name a line; or JSON: a list, {"0": name}, {name: 0}, or a config with id2label."""
    file = Path(file)
    try:
        if ordinary(file).stat().st_size > MOST_BYTES:
            raise UserError(f"it has more than {MOST_BYTES} bytes")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError, UserError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read the class list {str(file)!r} ({reason}): give {HOW}") from error
    if not text.lstrip().startswith(("[", "{")):
        return checked(text.rstrip().splitlines(), str(file))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(file)!r} begins as JSON and is not ({error}): give {HOW}") from error
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
    if len(trimmed) == 1000 and all(_is_synset(name, place) for place, name in enumerate(trimmed)):
        return imagenet()
    for place, name in enumerate(trimmed):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UserError(f"{where}: the class {name!r} is not text that can be written: mend that list") from None
        if not name:
            raise UserError(f"{where}: class {place} has no name: give one for each output of the network")
    for name, count in Counter(trimmed).items():
        if count > 1:
            places = [str(place) for place, other in enumerate(trimmed) if other == name]
            listed = ", ".join(places[:6]) + (", …" if count > 6 else "")
            raise UserError(
                f"{where}: classes {listed} are all called {name[:100]!r}: labels could not be told "
                "apart; give a list of different names with classes=FILE"
            )
    return trimmed


def choose(
    option: str | None, own: Sequence[str] | None, data: Sequence[str] | None, outputs: int | None, what: str
) -> tuple[str, ...]:
    """The classes of a network: those of the option `classes=`, else its own list.

    data: the data's classes. outputs: how many the network has, where known; a list of another length is refused.
    """
    if option == "data":
        if not data:
            raise UserError(f"{what} has classes=data, and the data's classes are not known: give --data")
        found, source = tuple(data), "the data has"
    elif option == "imagenet":
        found, source = imagenet(), "ImageNet has"
    elif option is not None:
        found, source = read(option), f"{option} has"
    elif own is not None:
        found, source = tuple(own), "its own list has"
    else:
        hint = "; it has 1000 outputs: if they are ImageNet's, classes=imagenet" if outputs == 1000 else ""
        raise UserError(f"{what} does not say which classes its outputs are, and classes meet by name: add {HOW}{hint}")
    if outputs is not None and len(found) != outputs:
        raise UserError(
            f"{what} has {outputs} outputs, {source} {len(found)} classes: give the list of this network's own "
            f"classes, in the order of its outputs: {HOW}"
        )
    return found


def _plain(name: str) -> str:
    text = unicodedata.normalize("NFC", name).casefold()
    return " ".join(re.sub(r"[_-]", " ", text).split())


def _first(name: str) -> str:
    return _plain(name.partition(",")[0])


def _synset(name: str) -> str | None:
    """The WordNet number of an ImageNet class by one of its names, where only one class has it."""
    number = WNID.match(name.strip())
    if number:
        return number[0]
    tables = _tables()
    synonyms = [part.strip() for part in name.split(",")]
    first = _plain(synonyms[0])
    tries = [tables.get(key, set()) for key in (synonyms[0].replace("_", " "), ("first", first), ("any", first))]
    if len(synonyms) > 1:
        tries.insert(0, set.intersection(*(tables.get(("any", _plain(one)), set()) for one in synonyms)))
    return next((next(iter(numbers)) for numbers in tries if len(numbers) == 1), None)


def _is_synset(name: str, place: int) -> bool:
    number, names = _synsets()[place]
    given = WNID.match(name)
    return given[0] == number if given else bool({_plain(n) for n in name.split(",")} & {_plain(n) for n in names})


@cache
def _synsets() -> tuple[tuple[str, tuple[str, ...]], ...]:
    text = files("foible.networks").joinpath("imagenet.txt").read_text(encoding="utf-8")
    lines = (line.partition("\t") for line in text.splitlines())
    return tuple((number, tuple(name.strip() for name in names.split(","))) for number, _, names in lines)


@cache
def _tables() -> dict[Hashable, set[str]]:
    """WordNet numbers by the first name as it is written, by the first as it is read, and by any."""
    found: dict[Hashable, set[str]] = {}
    for number, names in _synsets():
        for key in (names[0], ("first", _plain(names[0])), *(("any", _plain(name)) for name in names)):
            found.setdefault(key, set()).add(number)
    return found


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


def _number(key: Any) -> int | None:
    if type(key) is int:
        return key
    return int(key) if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 7 else None


_TESTS: tuple[Callable[[str], Hashable], ...] = (str, _plain, _first, _synset)


def shared_classes(
    lists: Mapping[str, Sequence[str]],
) -> tuple[tuple[str, ...], dict[str, list[int] | None], tuple[str, ...]]:
    """The classes that all lists know, by name, in the order of the first; for each list the positions of these in it
    (None where it is just them); and a line for every list that knows more."""
    first, *_ = lists.values()
    places = {name: [int(p) if p is not None else None for p in align(first, names)] for name, names in lists.items()}
    kept = [row for row in range(len(first)) if all(where[row] is not None for where in places.values())]
    if len(kept) < 2:
        said = "; ".join(f"{name!r} has {some(names)}" for name, names in lists.items())
        raise UserError(
            f"the networks share {len(kept)} classes: {said}. Give networks of one task, or their class lists with "
            "classes=FILE"
        )
    columns: dict[str, list[int] | None] = {}
    notes = []
    for name, names in lists.items():
        where = [place for row in kept if (place := places[name][row]) is not None]
        columns[name] = None if where == list(range(len(names))) else where
        left = [names[k] for k in sorted(set(range(len(names))) - set(where))]
        if left:
            notes.append(
                f"{shown(name)} knows {len(left)} of its {len(names)} classes alone ({some(left)}): the basket runs on "
                f"the {len(kept)} that all share"
            )
    return tuple(first[row] for row in kept), columns, tuple(notes)
