"""Which classes are walked between."""

from __future__ import annotations

from collections.abc import Sequence

from foible.errors import UserError
from foible.text import did_you_mean, some

MANY = 50  # classes from which on it must be said which


def read_pairs(text: str, classes: Sequence[str]) -> list[tuple[int, int]]:
    """`1-3,4-9` as numbers of classes, the smaller first; without a text, the usual ones."""
    if not text:
        return usual_pairs(len(classes))
    found: list[tuple[int, int]] = []
    for part in _parted(text, classes):
        one, other = part
        if one == other:
            raise UserError(f"--pairs {text}: {classes[one]!r} with itself: give two different classes")
        pair = (min(one, other), max(one, other))
        if pair in found:
            raise UserError(f"--pairs {text}: {classes[one]} and {classes[other]} come twice: leave one out")
        found.append(pair)
    return found


def _parted(text: str, classes: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of a text. A class may have a hyphen or a comma in its name, so names are looked for, not marks."""
    place = {name: number for number, name in enumerate(classes)}
    found, words = [], text.split(",")
    while words:
        for many in range(1, len(words) + 1):
            parts = ",".join(words[:many]).strip().split("-")
            cuts = (("-".join(parts[:cut]).strip(), "-".join(parts[cut:]).strip()) for cut in range(1, len(parts)))
            pair = next(((place[one], place[other]) for one, other in cuts if one in place and other in place), None)
            if pair is not None:
                found.append(pair)
                words = words[many:]
                break
        else:
            one, _, other = words[0].strip().partition("-")
            strange = next((name for name in (one, other) if name not in place), words[0])
            raise UserError(
                f"--pairs {words[0].strip()!r}: {strange!r} is no class{did_you_mean(strange, classes)}; expected two "
                f"classes with a hyphen, as in {classes[0]}-{classes[-1]}, out of {some(classes, 12)}"
            )
    return found


def usual_pairs(count: int) -> list[tuple[int, int]]:
    """Every class with its neighbour, round the circle, and with the one half-way round: of ten classes 15 pairs, each
    class in three (as in the paper). Of an odd number nothing is half-way round: with its next neighbour but one."""
    if count < 2:
        raise UserError(f"the networks know {count} class: there is nothing between classes")
    if count > MANY:
        raise UserError(f"the networks know {count} classes: say which to walk between, as in --pairs CLASS-CLASS")
    steps = (1, count // 2 if count % 2 == 0 else 2)
    pairs = {tuple(sorted((one, (one + step) % count))) for step in steps for one in range(count)}
    return sorted((one, other) for one, other in pairs if one != other)
