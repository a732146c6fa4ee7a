"""Words for messages: what a user wrote, safe to print; the first of many; what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


def shown(text: Any) -> str:
    """Text of a user's file, safe to print: control characters and line breaks are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def some(names: Sequence[str], most: int = 6) -> str:
    """The first few of many names, for a message."""
    return ", ".join(map(shown, names[:most])) + (f", … ({len(names)})" if len(names) > most else "")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean 'mnist'?` where something known is close, else nothing."""
    close = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
