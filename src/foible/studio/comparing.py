"""Compare: who fails on which class, what is taken for what, who else is fooled, and by which moves. Every figure leads
to the findings behind it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foible.cells import SIZES, bin_labels
from foible.statistics import wilson
from foible.studio.looking import about
from foible.studio.rows import Rows
from foible.studio.web import owners, page, studio_of

AXIS = 30  # classes on a side, at most: those that take part most
MOST = 8  # runs side by side


@owners
def compare(request: Request) -> Response:
    studio = studio_of(request)
    here = studio.shelf.runs()
    keys = [key for key in dict.fromkeys(request.query_params.getlist("run")) if key in here][:MOST] or list(here)[:1]
    opened = [studio.shelf.open(key) for key in keys]
    classes = opened[0].classes if opened else ()
    alike = [rows for rows in opened if rows.classes == classes]
    wanted = request.query_params.get("suspect", "")
    lines = [line for rows in alike for line in _success(rows, len(alike) > 1)]
    suspects = [(rows, name) for rows in alike for name in rows.texts("suspect")]
    rows, suspect = next(
        ((r, n) for r, n in suspects if f"{r.key} {n}" == wanted), suspects[0] if suspects else (None, "")
    )
    axis = _axis(alike)
    return page(
        request, "compare.html", runs=[about(studio.shelf, one.key, one.path) for one in alike], classes=classes,
        axis=axis,
        left_out=len(opened) - len(alike), lines=lines,
        suspects=[(one.key, studio.shelf.title(one.path), called) for one, called in suspects],
        key=rows.key if rows else "", suspect=suspect, confusion=_confusion(rows, suspect, axis) if rows else [],
        transfer=_transfer(alike), atlas=_atlas(rows, suspect) if rows else [], bins=bin_labels(),
        others=[about(studio.shelf, key, path) for key, path in here.items() if key not in keys][:50],
    )  # fmt: skip


def _link(rows: Rows, **more: Any) -> str:
    """The gallery of exactly the findings that a figure counts."""
    return f"/run/{rows.key}/?" + urlencode({name: value for name, value in more.items() if value not in ("", None)})


def _axis(opened: list[Rows]) -> list[int]:
    """The classes to draw: all, or those with most rows."""
    if not opened:
        return []
    many = len(opened[0].classes)
    if many <= AXIS:
        return list(range(many))
    counts = np.zeros(many, np.int64)
    for rows in opened:
        right = rows.right
        counts += np.bincount(right[right >= 0], minlength=many)
    return sorted(np.argsort(-counts, kind="stable")[:AXIS].tolist())


def _success(rows: Rows, named: bool) -> list[dict[str, Any]]:
    """Of each suspect, the share of its rows that found something, in all and by right class."""
    rows.load(("suspect", "outcome", "truth", "consensus"))
    names, outcome = rows.column("outcome")
    suspects, suspect = rows.column("suspect")
    found = outcome == (names.index("found") if "found" in names else -2)
    right, many = rows.right, len(rows.classes)
    made = []
    for number, name in enumerate(suspects):
        mine = (suspect == number) & (right >= 0)
        trials = np.bincount(right[mine], minlength=many)
        solved = np.bincount(right[mine & found], minlength=many)
        low, high = wilson(int(solved.sum()), int(trials.sum()))
        made.append(
            {
                "name": name, "run": rows.path.resolve().name if named else "", "solved": int(solved.sum()),
                "trials": int(trials.sum()), "low": low, "high": high, "link": _link(rows, suspect=name),
                "cells": [
                    (int(solved[c]), int(trials[c]), _link(rows, suspect=name, truth=c)) for c in range(many)
                ],
            }
        )  # fmt: skip
    return made


def _confusion(rows: Rows, suspect: str, axis: list[int]) -> list[tuple[int, list[tuple[int, float, str]]]]:
    """Right class down, what was said across: counts of what was found, each with its share of the largest."""
    rows.load(("suspect", "outcome", "truth", "consensus", "said"))
    names, outcome = rows.column("outcome")
    suspects, which = rows.column("suspect")
    found = outcome == (names.index("found") if "found" in names else -2)
    mine = found & (which == suspects.index(suspect)) & (rows.right >= 0) & (rows.column("said") >= 0)
    many = len(rows.classes)
    flat = np.bincount(rows.right[mine] * many + rows.column("said")[mine], minlength=many * many)
    counts = flat.reshape(many, many)
    most = max(1, int(counts.max(initial=0)))
    return [
        (right, [(int(counts[right, said]), float(counts[right, said]) / most,
                  _link(rows, suspect=suspect, truth=right, said=said)) for said in axis])
        for right in axis
    ]  # fmt: skip


def _transfer(opened: list[Rows]) -> list[dict[str, Any]]:
    """Of the images that were found against one network, the share that fools each other that was right before."""
    made = []
    for rows in opened:
        rows.load(("suspect", "outcome", "knew", "fooled"))
        names, outcome = rows.column("outcome")
        suspects, which = rows.column("suspect")
        networks, knew = rows.column("knew")
        found = outcome == (names.index("found") if "found" in names else -2)
        _, fooled = rows.column("fooled")
        for number, name in enumerate(suspects):
            mine = found & (which == number)
            cells = []
            for bit, network in enumerate(networks):
                right = mine & ((knew >> bit) & 1 == 1)
                cells.append((network, int((right & ((fooled >> bit) & 1 == 1)).sum()), int(right.sum()),
                              _link(rows, suspect=name, fooled=network)))  # fmt: skip
            made.append({"name": name, "run": rows.path.resolve().name if len(opened) > 1 else "", "cells": cells})
    return made


def _atlas(rows: Rows, suspect: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Kind of move down, size of move across: how many different mistakes were found so."""
    rows.load(("suspect", "outcome", "kind", "size"))
    names, outcome = rows.column("outcome")
    suspects, which = rows.column("suspect")
    kinds, kind = rows.column("kind")
    size = rows.column("size")
    mine = (outcome == (names.index("found") if "found" in names else -2)) & (which == suspects.index(suspect))
    edges = [None, *SIZES, None]
    made = []
    for number, name in enumerate(kinds):
        cells = []
        for low, high in pairwise(edges):
            here = mine & (kind == number) & (size >= (low or -np.inf)) & (size < (high or np.inf))
            ends = {"size-from": low, "size-to": None if high is None else np.nextafter(high, 0)}
            cells.append((int(here.sum()), _link(rows, suspect=suspect, kind=name, **ends)))
        if name and any(count for count, _ in cells):
            made.append((name, cells))
    return made


ROUTES = [Route("/compare", compare)]
