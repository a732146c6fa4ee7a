"""JSON that may come from anybody: read whole or refused, and checked field by field before anything believes it.

A form says what a value has to be:

    str, int, float, bool, str | None   that type; a whole number is a float too, and true is no number
    [form]                              a list of such values
    {str: form}                         an object with any keys and such values
    {"key": form, "key?": form}         an object with these keys, the second of them only perhaps; others may be there
    (form, form)                        either of them; None is the form of nothing
    One(predicate, "a plain name")      what the predicate says
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from foible.errors import UserError

MOST_BYTES = 256 * 2**20
MOST_DEEP = 64  # lists and objects inside each other; ours have six, and Python's own functions fail at a thousand
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object",
         list: "a list", type(None): "nothing"}  # fmt: skip


@dataclass(frozen=True)
class One:
    """A value that a predicate accepts; `expected` says which those are."""

    accepts: Callable[[Any], bool]
    expected: str


def is_plain(name: Any) -> bool:
    """A name inside one folder that can be written: no path, no drive, no control characters, no half characters."""
    if not isinstance(name, str) or name in (".", "..") or not re.fullmatch(r"[^\x00-\x1f\x7f/\\:]{1,200}", name):
        return False
    return is_text(name)


def is_text(value: Any) -> bool:
    """Text that can be written: JSON can hold half a surrogate pair, no table and no report can."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(low: int, high: int = 2**53) -> One:
    """A whole number, `low` to `high`."""
    expected = f"a whole number, {low} or more" if high == 2**53 else f"a whole number, {low} to {high}"
    return One(lambda value: type(value) is int and low <= value <= high, expected)


def word(*known: str) -> One:
    """One of these texts."""
    return One(lambda value: isinstance(value, str) and value in known, " or ".join(known))


PLAIN = One(is_plain, "a plain name, without folders")
TEXT = One(is_text, "text that can be written")
COUNT, POSITIVE = whole(0), whole(1)
NUMBER = One(lambda value: type(value) in (int, float) and -1e300 < value < 1e300, "a finite number")
SIDE = whole(1, 2**16 - 1)
SIZE = One(lambda value: _are(value, 2, SIDE), "[height, width]")
SHAPE = One(lambda value: _are(value, 3, SIDE), "[channels, height, width]")


def _are(value: Any, count: int, form: One) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(form.accepts, value))


def check(value: Any, form: Any, where: str, advice: str = "") -> Any:
    """The value itself, or a `UserError` that says where it differs from the form: what is there, what was expected."""
    expected = _differs(value, form)
    if expected is not None:
        raise UserError(f"{where}{expected}: the file is damaged or not ours{f'; {advice}' if advice else ''}")
    return value


def _differs(value: Any, form: Any, at: str = "") -> str | None:
    """` at key.key[3] has …, expected …`, or None where the value is of that form."""
    if isinstance(form, One):
        good, expected = form.accepts(value), form.expected
    elif isinstance(form, tuple):
        return _none_of(value, form, at)
    elif isinstance(form, list):
        if isinstance(value, list):
            parts = (_differs(one, form[0], f"{at}[{place}]") for place, one in enumerate(value))
            return next((part for part in parts if part), None)
        good, expected = False, WORDS[list]
    elif isinstance(form, dict):
        if isinstance(value, dict):
            return _object_differs(value, form, at)
        good, expected = False, WORDS[dict]
    else:
        kinds = get_args(form) if isinstance(form, UnionType) else (form,)
        good = any(_is(value, type(None) if kind is None else kind) for kind in kinds)
        expected = _expected(form)
    return None if good else f" has {short(value)}{f' at {at}' if at else ''}, expected {expected}"


def _none_of(value: Any, forms: tuple[Any, ...], at: str) -> str | None:
    """None where one of the forms fits; else what is wrong, in detail where only one form is of that kind."""
    found = [_differs(value, form, at) for form in forms]
    if None in found:
        return None
    for form, wrong in zip(forms, found, strict=True):
        if isinstance(form, list | dict) and isinstance(value, type(form)):
            return wrong
    expected = " or ".join(dict.fromkeys(map(_expected, forms)))
    return f" has {short(value)}{f' at {at}' if at else ''}, expected {expected}"


def _expected(form: Any) -> str:
    if isinstance(form, One):
        return form.expected
    if isinstance(form, list | dict):
        return WORDS[type(form)]
    kinds = get_args(form) if isinstance(form, UnionType) else (form,)
    return " or ".join(WORDS[type(None) if kind is None else kind] for kind in kinds)


def _object_differs(value: dict[str, Any], form: dict[Any, Any], at: str) -> str | None:
    if str in form:
        wanted = dict.fromkeys(value, form[str])
    else:
        wanted = {key.removesuffix("?"): one for key, one in form.items() if not key.endswith("?") or key[:-1] in value}
    for key, one in wanted.items():
        place = f"{at}.{_key(key)}" if at else _key(key)
        if key not in value:
            return f" lacks {place}"
        if not is_text(key):
            return f" has the key {short(key)}, expected {TEXT.expected}"
        found = _differs(value[key], one, place)
        if found:
            return found
    return None


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind if kind in (int, bool) else isinstance(value, kind)


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _key(key: str) -> str:
    return key if len(key) <= 60 else f"{key[:60]}…"


def read_json(file: Path, advice: str) -> Any:
    """What a JSON file holds. `FileNotFoundError` is the caller's; anything else that is wrong is said, with advice."""
    try:
        if not file.is_file() and file.exists():
            raise UserError(f"{file} is no ordinary file: {advice}")
        if file.stat().st_size > MOST_BYTES:
            raise UserError(f"{file} has {file.stat().st_size} bytes, more than any of ours: {advice}")
        text = file.read_text(encoding="utf-8")
        value = _parsed(text)
        if re.search(r"\\u[dD][89a-fA-F]", text):  # half a surrogate pair, maybe: it could not be written again
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} cannot be read as JSON ({error}): {advice}") from error


def read_versioned(file: Path, form: Any, version: int, *, missing: str, advice: str) -> dict[str, Any]:
    """What a JSON file of ours holds: with a version that we know, and every field as `form` has it. missing: what to
    say where there is none."""
    try:
        record = read_json(file, advice)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(missing) from None
    given = check(record, dict, str(file), advice).get("schema_version")
    if given != version or type(given) is not int:
        raise UserError(
            f"{file} has schema_version {short(given)}, this foible reads {version}: use the foible that wrote it, or "
            "make it anew"
        )
    return dict(check(record, form, str(file), advice))


def parse_json(text: str | bytes, where: str) -> Any:
    """What a JSON text inside another file holds."""
    try:
        return _parsed(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON ({error}): the file is damaged or not ours") from error


def _parsed(text: str | bytes) -> Any:
    """Refuses what is nested so deeply that printing or writing it again would fail."""
    value = json.loads(text)
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MOST_DEEP):
        inside = (inner for one in level for inner in (one.values() if isinstance(one, dict) else one))
        level = [inner for inner in inside if isinstance(inner, dict | list)]
    if level:
        raise ValueError(f"more than {MOST_DEEP} lists and objects inside each other")
    return value


# What every shard carries about its rows. Its settings may be of any version: only what somebody reads has a form.
SETTINGS = {
    **dict.fromkeys(("recipe?", "data?", "split?", "old?", "new?", "label?", "source?"), (None, TEXT)),
    **dict.fromkeys(("space?", "objective?", "search?", "method?", "target?", "norm?", "layer?"), (None, TEXT)),
    "data_sha256?": (None, TEXT), "names?": [TEXT], "labelled?": bool, "seed?": int, "lattice?": bool,
    "canvas?": (None, {"size?": SIZE}),
}  # fmt: skip


def read_classes(metadata: Mapping[bytes, bytes] | None, where: str) -> tuple[str, ...]:
    """The class names of a table, from its metadata; none where it has none."""
    return _names((metadata or {}).get(b"foible.classes", b"[]"), f"{where}: foible.classes")


@lru_cache(maxsize=16)  # findings are asked for the name of a class row by row
def _names(text: bytes, where: str) -> tuple[str, ...]:
    return tuple(check(parse_json(text, where), [str], where))  # half characters too: a report replaces them


def read_configs(metadata: Mapping[bytes, bytes] | None, where: str) -> dict[str, dict[str, Any]]:
    """The settings of a table by their hash, from its metadata; none where it has none."""
    what = f"{where}: foible.configs"
    return dict(check(parse_json((metadata or {}).get(b"foible.configs", b"{}"), what), {str: SETTINGS}, what))
