"""The page of images between classes: line by line, what each network and what people say, and where they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foible.recipes.boundary.reading import (
    Floats,
    Interpolations,
    Ints,
    Run,
    interpolations,
    people_on,
    people_one_by_one,
)
from foible.recipes.boundary.summary import along, flips, summarise
from foible.report.counts import count
from foible.report.page import fitted, skeleton, template
from foible.report.pictures import Picture, picture
from foible.report.run import About, OpenRun
from foible.studies.boundary.tables import WORDS
from foible.studies.boundary.types import Types, opinion, types_of

MOST_NETWORKS = 12  # bands below the images of a line
WIDE = 300  # of the drawing of where answers change


@dataclass(frozen=True)
class Cell:
    """What somebody says of an image. side: one, other (the ends of its line), third, or none; flip: not what they
    said of the image before."""

    word: str
    side: str
    flip: bool


@dataclass(frozen=True)
class Square:
    """Of the map: its colour, and what it means."""

    kind: str
    words: str


@dataclass(frozen=True)
class Walk:
    one: str
    other: str
    alphas: list[float]
    ids: list[str]
    images: list[Picture | None]
    people: list[tuple[str, str]]  # what stands above each image, and in full
    bands: list[tuple[str, list[Cell]]]
    squares: list[Square]
    ticks: list[tuple[float, str]]  # where each network first changes its answer, in a drawing of WIDE
    theirs: float | None  # where most people do
    median: float | None


def typed(run: Run, threshold: float = 1.0) -> tuple[list[dict[str, Any]], int]:
    """Each image of a run: its line, what networks and people say, and its type, a name of `Types`, where people have
    labelled it; and how many they have not."""
    made, votes = interpolations(run), people_on(run)
    kinds = _types(made, votes, threshold)
    rows = []
    for place, id in enumerate(made.ids):
        pair = made.ends[place].tolist()
        rows.append({
            "id": id, "pair": int(made.pair[place]), "from": _name(made, pair[0]), "to": _name(made, pair[1]),
            "alpha": float(made.alpha[place]), "people": int(votes[place].sum()), "type": kinds[place],
            "votes": {made.classes[one]: int(votes[place, one]) for one in np.flatnonzero(votes[place])},
            "networks": {name: _name(made, said[place]) for name, said in zip(made.networks, made.said, strict=True)},
        })  # fmt: skip
    return rows, int((votes.sum(1) == 0).sum())


def _types(made: Interpolations, votes: Ints, threshold: float = 1.0) -> list[str | None]:
    kinds: list[str | None] = [None] * len(made.ids)
    for name, mask in zip(Types._fields, types_of(made.said, opinion(votes, threshold)), strict=True):
        for place in np.flatnonzero(mask & (votes.sum(1) > 0)):
            kinds[place] = name
    return kinds


def _name(made: Interpolations, number: int) -> str:
    return made.classes[number] if number >= 0 else "?"


def render(source: OpenRun, *, title: str | None = None, gallery: int = 1000, **_: Any) -> str:
    """The HTML of a run's images between classes, or of its candidates."""
    result, summary = count(source), summarise(source)
    values = skeleton(source, result.about, result.versions, title, summary=summary, filters=[])
    page = template("boundary.html")
    if summary.get("candidates"):
        sheet = _sheet(source, result.about, gallery)
        values |= {"walks": [], "kinds": [], "judges": [], "left": 0}
        return fitted(lambda some: page.render(values | {"sheet": sheet[:some]}), len(sheet))
    made, votes, said = interpolations(source), people_on(source), people_one_by_one(source)
    left = int((votes.sum(1) == 0).sum())
    most = opinion(votes).label
    judges = [*summary["networks"], *([{"network": None, **along(made, most), "sure": None}] if len(said) else [])]
    kinds = _types(made, votes)
    shown = np.unique(made.pair)[: max(1, gallery // max(1, len(made.ids) // max(1, summary["walks"])))]
    walks = [_walk(made, votes, most, np.flatnonzero(made.pair == one)) for one in shown]
    values |= {
        "sheet": [], "judges": judges, "left": left, "people": len(said), "hidden": len(made.networks) - MOST_NETWORKS,
        "kinds": [(WORDS[name], kinds.count(name)) for name in WORDS] if left < len(kinds) else [],
        "typed": len(kinds) - left,
    }  # fmt: skip
    return fitted(lambda some: page.render(values | {"walks": walks[:some]}), len(walks))


def _walk(made: Interpolations, votes: Ints, most: Ints, mine: Ints) -> Walk:
    one, other = made.ends[mine[0]].tolist()
    alpha, said, counts = made.alpha[mine], made.said[:, mine], votes[mine]
    firsts = [(some[0], name) for name, own in zip(made.networks, said, strict=True) if (some := flips(own, alpha))]
    theirs = flips(most[mine], alpha)
    return Walk(
        one=_name(made, one), other=_name(made, other), alphas=alpha.tolist(),
        ids=[made.ids[place] for place in mine], images=[picture(made.pngs[place], 96) for place in mine],
        people=[_above(made, own) for own in counts],
        bands=[(name, _cells(made, own, one, other)) for name, own in zip(made.networks, said, strict=True)][
            :MOST_NETWORKS
        ],
        squares=[_square(said[:, place], counts[place]) for place in range(len(mine))],
        ticks=[(round(WIDE * at, 1), f"{name}: {at:.2f}") for at, name in firsts],
        theirs=theirs[0] if theirs else None,
        median=float(np.median([at for at, _ in firsts])) if firsts else None,
    )  # fmt: skip


def _cells(made: Interpolations, said: Ints, one: int, other: int) -> list[Cell]:
    sides = {one: "one", other: "other", -1: "none"}
    before = [said[0], *said[:-1]]
    pairs = zip(said, before, strict=True)
    return [Cell(_name(made, now), sides.get(int(now), "third"), now != last) for now, last in pairs]


def _above(made: Interpolations, votes: Ints) -> tuple[str, str]:
    """As in the paper's Fig. 3: a tick where all people agree, else the classes that they named, commonest first."""
    order = [int(one) for one in np.argsort(-votes, kind="stable") if votes[one]]
    if not order:
        return "", "nobody was asked yet"
    told = ", ".join(f"{made.classes[one]}: {votes[one]}" for one in order)
    return ("✓" if len(order) == 1 else " ".join(made.classes[one] for one in order)), told


def _square(said: Ints, votes: Ints) -> Square:
    """As in the paper's Fig. 4."""
    networks, people = len(np.unique(said)), int((votes > 0).sum())
    if not people:
        return Square("unknown", "not labelled yet")
    words = f"networks: {networks} {'class' if networks == 1 else 'classes'}; people: {people}"
    if networks == people == 1:
        return Square("grey", f"{words}; all agree")
    if networks == 1:
        return Square(f"red{min(people - 1, 2)}", words)
    return Square(f"blue{min(networks - 1, 2)}" if people == 1 else "white", words)


def _sheet(source: OpenRun, about: About, most: int) -> list[tuple[str, list[tuple[str, Picture | None, float]]]]:
    """Candidates by class: id, picture, and what the networks give the class in the mean."""
    found: dict[str, list[tuple[str, Picture | None, float]]] = {}
    for table in source.tables(("id", "image", "target", "after")):
        for row in table.filter(table.column("target").is_valid()).to_pylist()[:most]:
            sure: Floats = np.asarray(row["after"], np.float64)[:, row["target"]]
            found.setdefault(about.class_name(row["target"]), []).append(
                (row["id"], picture(row["image"]), float(sure.mean()))
            )
    return list(found.items())
