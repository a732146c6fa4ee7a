"""Short texts that name a thing and its options: `affine?degrees=5`, `folder:PATH?size=64`, `FILE.py:NAME`.

One grammar for data sets, spaces, objectives, searches and networks: `NAME[:ARGUMENT][?key=value&key=value]`.
A `FILE.py:NAME` spec runs the user's own file, and only with a `Permission`. Where a table has an entry "+",
specs can be chained: `photometric?hue=0+crop+affine`; the entry makes one thing of all of them.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import parse_qsl, quote

from foible.errors import UserError
from foible.text import did_you_mean

if TYPE_CHECKING:
    from foible.permission import Permission


@dataclasses.dataclass(frozen=True)
class Spec:
    """`name:argument?options`, taken apart; values of options are still text."""

    name: str
    argument: str
    options: dict[str, str]

    @property
    def is_file(self) -> bool:
        return self.name.endswith(".py")


def parse(text: str) -> Spec:
    """Take a spec apart. `C:\\data\\x.py:Name` and `folder:C:\\x` keep their drive letters."""
    head, _, tail = text.partition("?")
    try:  # a plus is a plus here (1e+5), not the blank that it stands for in a web form
        options = dict(parse_qsl(tail.replace("+", "%2B"), strict_parsing=True)) if tail else {}
    except ValueError as error:
        raise UserError(f"cannot read the options of {text!r}: expected ?key=value&key=value") from error
    if ".py:" in head:
        name, _, argument = head.rpartition(":")
    elif head.endswith(".py"):
        raise UserError(f"{text!r} names a file but nothing in it: write {head}:NAME")
    else:
        name, _, argument = head.partition(":")
    return Spec(name, argument, options)


_PART = re.compile(r"(?:[A-Za-z_][\w-]*|.*\.py:\w+)(?:\?.*)?", re.DOTALL)  # a whole spec: a name, or a name in a file


def chained(text: str, mark: str = "+") -> list[str]:
    """The specs that a chain is made of: `a?x=1e+5+b` is `a?x=1e+5` and `b`.

    A plus (or the mark that is given) parts two specs where what stands before it is a whole spec and what follows is
    no number, so that the path `/c++/mine.py:Mine` stays in one piece.
    """
    parts, begin = [], 0
    for place, letter in enumerate(text):
        ends = letter == mark and not text[place + 1 : place + 2].isdigit()
        if ends and _PART.fullmatch(text, begin, place):
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


def split_name(text: str) -> tuple[str | None, str]:
    """`NAME=SPEC` or `SPEC`; the `=` of options, which follow a `?`, does not count."""
    head, equals, tail = text.partition("=")
    if equals and "?" not in head and "/" not in head and ":" not in head:
        return head, tail
    return None, text


def _convert(text: str, wanted: Any, where: str) -> Any:
    if wanted is bool:
        if text.lower() in ("1", "true", "yes"):
            return True
        if text.lower() in ("0", "false", "no"):
            return False
        raise UserError(f"{where} is {text!r}: expected true or false")
    for kind in (int, float):
        if wanted is kind or wanted == (kind | None):
            try:
                return kind(text)
            except ValueError:
                raise UserError(f"{where} is {text!r}: expected {kind.__name__}") from None
    return text


def bind(maker: Callable[..., Any], options: Mapping[str, str], what: str) -> dict[str, Any]:
    """Options as keyword arguments of `maker`, converted by its annotations; unknown keys are refused."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(maker).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    if dataclasses.is_dataclass(maker):
        for entry in dataclasses.fields(maker):
            if not entry.metadata.get("spec", True):
                parameters.pop(entry.name, None)
    hints = get_type_hints(maker.__init__ if inspect.isclass(maker) else maker)
    for key in options:
        if key not in parameters:
            raise UserError(
                f"{what} has no option {key!r}{did_you_mean(key, parameters)}; it takes {', '.join(parameters)}"
            )
    return {key: _convert(text, hints.get(key), f"{what}: {key}") for key, text in options.items()}


def resolve(text: str, table: Mapping[str, Any], kind: str, may: Permission | None = None) -> Any:
    """The thing that a spec names: from `table`, or from a user's FILE.py:NAME, where `may` permits it.

    A class is constructed with the options; a function is returned with the options bound.
    """
    parts = chained(text) if "+" in table else [text]
    if len(parts) > 1:
        for part in parts:
            if not part:
                raise UserError(f"{text!r} has an empty part: write a {kind} on both sides of every '+'")
        return table["+"](tuple(resolve(part, table, kind, may) for part in parts))
    spec = parse(text)
    if spec.is_file:
        if may is None:
            raise UserError(f"{text!r} names code, and a {kind} of ours was expected: {', '.join(n for n in table)}")
        found = may.run(spec.name, spec.argument)
    elif spec.name in table and spec.name != "+" and not spec.argument:
        found = table[spec.name]
    else:
        known = ", ".join(name for name in table if name != "+")
        raise UserError(
            f"unknown {kind} {text!r}{did_you_mean(spec.name, table)}; known: {known}, or FILE.py:NAME for your own"
        )
    if inspect.isclass(found):
        options = bind(found, spec.options, text)
        # What an option names may be code as well: such a class wants to know what may be run.
        return found.permitted(may, **options) if hasattr(found, "permitted") else found(**options)
    if inspect.isfunction(found):
        return partial(found, **bind(found, spec.options, text)) if spec.options else found
    if spec.options:
        raise UserError(f"{text!r}: {spec.argument} is not a class or function, so it takes no options")
    return found


def spec_of(thing: Any, table: Mapping[str, Any]) -> str | None:
    """The spec that `resolve` would turn into `thing`, or None where no spec names it."""
    options: dict[str, Any] = {}
    maker = thing
    if "+" in table and isinstance(thing, table["+"]):
        parts = [spec_of(member, table) for member in thing.spaces]
        return "+".join(part for part in parts if part) if all(parts) else None
    if isinstance(thing, partial):
        maker, options = thing.func, dict(thing.keywords)
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        maker = type(thing)
        options = {
            field.name: getattr(thing, field.name)
            for field in dataclasses.fields(thing)
            if field.init and field.metadata.get("spec", True) and getattr(thing, field.name) != field.default
        }
    for name, known in table.items():
        if known is maker:
            tail = "&".join(f"{key}={quote(str(value))}" for key, value in options.items())
            return f"{name}?{tail}" if tail else name
    return None
