"""How names of classes meet: the same name, however it is written; one of ImageNet's; or a number for a name."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from foible.text import cut

WNID = re.compile(r"n\d{8}(?![0-9A-Za-z])")
MOST_OFFERED = 50  # names that a synonym is looked for
SYNONYMS = (  # offered, never taken
    ("airplane", "plane", "aeroplane", "aircraft", "jet"), ("automobile", "car", "auto"), ("truck", "lorry"),
    ("ship", "boat", "vessel"), ("bicycle", "bike"), ("motorcycle", "motorbike"), ("television", "tv"),
    ("sofa", "couch"), ("person", "human", "pedestrian", "people"), ("cat", "kitten"), ("dog", "puppy"),
    ("trouser", "trousers", "pants"), ("sneaker", "trainer"), ("0", "zero"), ("1", "one"), ("2", "two"),
    ("3", "three"), ("4", "four"), ("5", "five"), ("6", "six"), ("7", "seven"), ("8", "eight"), ("9", "nine"),
)  # fmt: skip


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


def positions(ours: Sequence[str], theirs: Sequence[str]) -> list[int | None]:
    """As `align`; and where no two meet by name and all of `ours` are numbers while none of `theirs` is, by number."""
    found = align(ours, theirs)
    numbers = [as_number(name.strip()) for name in ours]
    whole = [number for number in numbers if number is not None]
    if any(place is not None for place in found) or len({*whole}) < len(ours) or max(whole, default=0) >= len(theirs):
        return found
    return found if any(as_number(name.strip()) is not None for name in theirs) else numbers


def offers(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """` (did you mean plane = airplane?)` for names that did not meet and may mean the same; else nothing."""
    left = {_first(name): name for name in theirs}
    found = []
    for name in ours[:MOST_OFFERED]:
        word = _first(name)
        same = next((group for group in SYNONYMS if word in group), ())
        close = [*(other for other in same if other in left), *difflib.get_close_matches(word, left, 1, 0.75)]
        if close:
            found.append(f"{cut(name, 30)} = {cut(left.pop(close[0]), 30)}")
    return f" (did you mean {', '.join(found[:4])}{', …' if len(found) > 4 else ''}?)" if found else ""


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


def is_synset(name: str, place: int) -> bool:
    """Whether this is a name, or the WordNet number, of the class of ImageNet at that place."""
    number, names = _synsets()[place]
    given = WNID.match(name)
    return given[0] == number if given else bool({_plain(n) for n in name.split(",")} & {_plain(n) for n in names})


@cache
def _synsets() -> tuple[tuple[str, tuple[str, ...]], ...]:
    text = files("foible").joinpath("networks", "imagenet.txt").read_text(encoding="utf-8")
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


def as_number(key: Any) -> int | None:
    """A whole number from 0, or the text of one; None for anything else."""
    if type(key) is int:
        return key
    return int(key) if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 7 else None


_TESTS: tuple[Callable[[str], Hashable], ...] = (str, _plain, _first, _synset)
