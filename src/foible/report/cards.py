"""Findings as cards: what was said, how the image was changed, the smallest change, and the orders they stand in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foible.cells import COLUMNS, size_of
from foible.report import words
from foible.report.atlas import Place, anchor
from foible.report.pictures import Picture, picture
from foible.report.run import About

if TYPE_CHECKING:
    from foible.report.why import Map

CARD = (
    "id", "suspect", "networks", "after", "change", "image", "origin", "origin_file",
    "label_from", "score", "least_image", "least_change", "realism", *COLUMNS,
)  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """One finding in words: a card of the gallery, or the heading of a session."""

    id: str
    suspect: str
    right: str
    said: str
    sure: str  # the suspect's probability for what it said
    peers: str  # what the peers said, and how surely
    change: str
    file: str  # that its origin was read from; "" where none
    origin: Picture | None
    image: Picture | None
    keys: tuple[int, int]  # class indices, right and said
    least: Picture | None = None  # the smallest change that still holds; None where that is the image itself
    least_change: str = ""
    kinds: tuple[str, ...] = ()  # of the smallest change
    consensus: bool = False  # the right class is what the networks agree on, no label
    score: float | None = None
    realism: float | None = None
    size: float | None = None  # of the smallest change, in largest moves
    why: Sequence[Map] = ()  # what speaks for the suspect's answer, and for a peer's
    mended: Sequence[Map] = ()  # what would have mended it, where it was explained

    @property
    def typical(self) -> str:
        """Realism in words; "" where it is not known."""
        return "" if self.realism is None else words.plus(self.realism)


def _probability(after: list[list[float]] | None, network: int, label: int | None) -> float:
    try:
        value = after[network][label] if after is not None and label is not None and label >= 0 else None
    except IndexError:
        value = None
    return float("nan") if value is None else float(value)


def mistake(
    row: dict[str, Any], about: About, why: Mapping[str, Sequence[Map]] | None = None,
    mended: Mapping[str, Sequence[Map]] | None = None,
) -> Mistake:  # fmt: skip
    """One row in words. why, mended: the maps that were kept, by finding."""
    networks, after = row["networks"] or [], row["after"]
    smaller = row["least_image"] is not None and row["least_image"] != row["image"]
    right = row["truth"] if row["truth"] is not None else row["consensus"]
    own = networks.index(row["suspect"]) if row["suspect"] in networks else -1
    others = [place for place in range(len(networks)) if place != own]
    peers = ""
    if others and row["consensus"] is None:
        peers = "peers differ"
    elif others:
        least = words.least(_probability(after, place, row["consensus"]) for place in others)
        who, bound = ("peer says", "") if len(others) == 1 else ("peers say", "≥\u00a0")
        peers = f"{who} {about.class_name(row['consensus'])} ({bound}{least})"
    return Mistake(
        id=str(row["id"]),
        suspect=str(row["suspect"]),
        right=about.class_name(right),
        said=about.class_name(row["said"]),
        sure=words.probability(_probability(after, own, row["said"]) if own >= 0 else None),
        peers=peers,
        change=words.change_text(row["change"]),
        file=str(row["origin_file"] or ""),
        origin=picture(row["origin"]),
        image=picture(row["image"]),
        keys=(-1 if right is None else right, -1 if row["said"] is None else row["said"]),
        least=picture(row["least_image"]) if smaller else None,
        least_change=words.change_text(row["least_change"]) if smaller else "",
        kinds=tuple(row["kinds"] or ()),
        consensus=row["label_from"] == "consensus",
        score=_number(row["score"]),
        realism=_number(row["realism"]),
        size=_number(size_of(row)[0]),
        why=(why or {}).get(str(row["id"]), ()),
        mended=(mended or {}).get(str(row["id"]), ()),
    )


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)


@dataclass(frozen=True)
class Card:
    """A finding in the gallery."""

    mistake: Mistake
    place: Place
    suspect: int  # its number
    style: str  # its place in every other order than the usual one, as CSS variables

    @property
    def anchor(self) -> str:
        return anchor(self.place)


ORDERS: tuple[tuple[str, str, Callable[[Mistake], float | None]], ...] = (  # variable, words, by what (greatest first)
    ("r", "most realistic first", lambda mistake: mistake.realism),
    ("u", "least realistic first", lambda mistake: None if mistake.realism is None else -mistake.realism),
    ("c", "clearest first", lambda mistake: mistake.score),
    ("z", "smallest change first", lambda mistake: None if mistake.size is None else -mistake.size),
)


def ordered(
    mistakes: Sequence[tuple[Place, Mistake]], suspects: Sequence[str]
) -> tuple[list[Card], list[tuple[str, str]]]:
    """The cards in their usual order, by suspect and class; and the other orders that there are numbers for."""
    usual = sorted(mistakes, key=lambda item: (suspects.index(item[1].suspect), item[1].keys, item[0]))
    styles: list[list[str]] = [[] for _ in usual]
    orders = []
    for variable, text, value in ORDERS:
        known = [(value(mistake), number) for number, (_, mistake) in enumerate(usual)]
        if any(worth is not None for worth, _ in known):
            orders.append((variable, text))
            ranked = sorted(known, key=lambda item: (item[0] is None, -(item[0] or 0.0), item[1]))
            for rank, (_, number) in enumerate(ranked):
                styles[number].append(f"--{variable}:{rank}")
    cards = [
        Card(mistake, place, suspects.index(mistake.suspect), ";".join(style))
        for (place, mistake), style in zip(usual, styles, strict=True)
    ]
    return cards, orders
