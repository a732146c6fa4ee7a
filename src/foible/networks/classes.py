"""Which class each output of a network is: where its list comes from, and what the lists of several networks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foible.class_lists import HOW, KEYS, from_record, read
from foible.class_names import align, imagenet
from foible.errors import UserError
from foible.text import shown, some


def of_module(module: Any, where: str) -> tuple[str, ...] | None:
    """The class list that a module carries as an attribute, or None."""
    return from_record({key: getattr(module, key, None) for key in KEYS}, where)


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
