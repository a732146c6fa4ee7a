"""Words for messages: what a user wrote, safe to print; the first of many; what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


def shown(text: Any) -> str:
    """Text of a user's file, safe to print: control characters and line breaks are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def cut(text: Any, most: int = 60) -> str:
    """The same, and no longer than a message can bear."""
    said = shown(str(text)[: most + 1])
    return said if len(said) <= most else f"{said[:most]}…"


def some(names: Sequence[str], most: int = 6) -> str:
    """The first few of many names, for a message."""
    return ", ".join(map(cut, names[:most])) + (f", … ({len(names)})" if len(names) > most else "")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'mnist'?` where something known is close, else nothing."""
    close = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean {cut(close[0])!r}?" if close else ""
