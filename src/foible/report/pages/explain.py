"""The page of explanations: each mistake beside what would have mended it, and where a network is mended most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foible.errors import UserError
from foible.images import MOST_JUDGED, decode_pixels, encode_png, encode_pngs
from foible.recipes.explain.bias import Bias, as_changes, compared, groups_of
from foible.recipes.explain.bias import changes_of as as_driven
from foible.recipes.explain.control import control_of
from foible.recipes.explain.summary import explained, summarise
from foible.report import choose
from foible.report.counts import count
from foible.report.page import fitted, skeleton, template
from foible.report.pictures import Picture, picture, whole
from foible.report.run import About, OpenRun
from foible.report.words import percent

Floats = NDArray[np.float32]
COLUMNS = (
    "id", "suspect", "networks", "outcome", "truth", "target", "said", "before", "after", "change", "least_change",
    "tags", "candidates", "origin", "image", "least_image", "origin_file",
)  # fmt: skip
CARDS, MEANS = 400, 1000  # explanations that are shown, and those that means are of
SHOWN = 12  # groups
PALE = 0.25  # colour of a difference that chance may have made


@dataclass(frozen=True)
class Card:
    """One mistake, and what mends it."""

    id: str
    right: str  # the class that is given at last
    was: str  # what the suspect said before
    origin: Picture | None
    first: Picture | None  # x′ at the first step that is mended, and what was added to x
    first_map: Picture | None
    least: Picture | None  # the smallest change that mends it
    least_map: Picture | None
    words: str
    remarks: tuple[str, ...]
    keys: tuple[int, int]  # class indices: given at last, and said before


@dataclass(frozen=True)
class Heat:
    """Where the explanations of one group change an image, on average. others: how many right images it is compared
    with, of the same class where `alike`."""

    title: str
    count: int
    pictures: tuple[tuple[Picture | None, str], ...]
    others: int = 0
    alike: bool = False
    words: str = ""
    stands_out: bool = False


def render(source: OpenRun, *, title: str | None = None, gallery: int = 400, **_: Any) -> str:
    """The HTML of a run's explanations."""
    result, summary = count(source), summarise(source)
    about = result.about
    places = [
        (part, row)
        for part, table in enumerate(source.tables(("outcome",)))
        for row, outcome in enumerate(table.column("outcome").to_pylist())
        if outcome == "found"
    ][:MEANS]
    rows = [row for row in choose.rows_at(source, places, COLUMNS) if row["id"] not in source.labels.dropped]
    shown = rows[: min(gallery, CARDS)]
    changes = [changes_of(row, least=place < len(shown)) for place, row in enumerate(rows)]
    scale = scale_of([one for pair in changes[: len(shown)] for one in pair if one is not None])
    maps = iter(_maps([one for pair in changes[: len(shown)] for one in pair], scale))
    cards = [_card(row, (next(maps), next(maps)), about) for row in shown]
    heats = _heats(source, rows, [first for first, _ in changes], about)
    values = skeleton(
        source, about, result.versions, title,
        again="The same command",
        result=result, summary=summary, mends=summary["to"] == "truth", scale=round(255 * scale),
        heats=heats, compared=any(one.others for one in heats),
    )  # fmt: skip
    page = template("explain.html")
    values |= {
        "found": summary["mended"],
        "filters": [
            (
                "t",
                "Class given" if summary["to"] != "truth" else "Right class",
                sorted({c.keys[0]: c.right for c in cards}.items()),
            ),
            ("w", "Suspect said", sorted({c.keys[1]: c.was for c in cards}.items())),
        ],
    }
    return fitted(lambda some: page.render(values | {"cards": cards[:some]}), len(cards))


def scale_of(changes: list[Floats]) -> float:
    """The change that is drawn in full colour: few pixels change by more."""
    same = len({one.shape for one in changes}) == 1
    parts = [np.stack(changes)] if same else [one[None] for one in changes]
    largest = [value for part in parts for value in np.quantile(np.abs(part), 0.98, axis=(1, 2)).tolist()]
    return max(8 / 255, float(np.quantile(largest, 0.9))) if largest else 1.0


def changes_of(row: dict[str, Any], *, least: bool = True) -> tuple[Floats | None, Floats | None]:
    """What was added to the pixels, (height, width) means over channels: by the first shift, and by the smallest."""
    origin, first = (_pixels(row[name]) for name in ("origin", "image"))
    if origin is None or first is None or first.shape != origin.shape:
        return None, None
    small = _pixels(row["least_image"]) if least else None
    small = None if small is None or small.shape != origin.shape else small
    return (first - origin).mean(0), None if small is None else (small - origin).mean(0)


def _pixels(png: bytes | None) -> Floats | None:
    try:
        return None if png is None else decode_pixels(png, "an image", MOST_JUDGED).astype(np.float32) / np.float32(255)
    except UserError:
        return None


def coloured(change: Floats, scale: float) -> NDArray[np.uint8]:
    """(3, height, width): white where nothing changes, towards orange where light is added, blue where it is taken."""
    part = np.clip(change / scale, -1, 1)[None]
    more, less = (np.array(colour, np.float32)[:, None, None] for colour in ((213, 94, 0), (47, 115, 169)))
    end = np.where(part > 0, more, less)
    return np.asarray(255 + np.abs(part) * (end - 255), np.uint8)


def hot(size: Floats, most: float) -> NDArray[np.uint8]:
    """(3, height, width): white where nothing changes, black where as much as `most` does."""
    part = np.clip(size / max(most, 1e-12), 0, 1)[None]
    return np.repeat(np.asarray(255 * (1 - part), np.uint8), 3, 0)


def _maps(changes: list[Floats | None], scale: float) -> list[Picture | None]:
    """Each in colours, all encoded at once where they are of one size."""
    known = [coloured(one, scale) for one in changes if one is not None]
    same = len({one.shape for one in known}) == 1
    pngs = iter(encode_pngs(np.stack(known)) if same else [encode_png(one) for one in known])
    return [None if one is None else picture(next(pngs)) for one in changes]


def _card(row: dict[str, Any], maps: tuple[Picture | None, Picture | None], about: About) -> Card:
    told = explained(row)
    aim = row["truth"] if row["target"] is None else row["target"]
    was = int(np.argmax(row["before"][0])) if row["before"] else None
    own = row["after"][0][aim] if row["after"] and aim is not None else float("nan")
    known = (("‖e‖ first", "first"), ("smallest", "closest")) if row["least_change"] else (("‖e‖", "first"),)
    distances = ", ".join(f"{word} {told[name]:.2f}" for word, name in known if told[name])
    remarks = []
    if told["of"]:
        who = "the other network" if told["of"] == 1 else f"{told['peers']} of {told['of']} other networks"
        remarks.append(
            f"{who} accept{'s' if told['of'] == 1 else ''} it" if told["peers"] else "no other network accepts it"
        )
    if told["alone"]:
        remarks.append("right already as the generator draws it, unshifted")
    return Card(
        id=str(row["id"]), right=about.class_name(aim), was=about.class_name(was), origin=picture(row["origin"]),
        first=picture(row["image"]), first_map=maps[0], least=picture(row["least_image"]), least_map=maps[1],
        words=f"{distances} · {row['candidates']} step{'' if row['candidates'] == 1 else 's'} · {own:.2f}",
        remarks=tuple(remarks), keys=(-1 if aim is None else aim, -1 if was is None else was),
    )  # fmt: skip


def _heats(source: OpenRun, rows: list[dict[str, Any]], first: list[Floats | None], about: About) -> list[Heat]:
    """All explanations together, class by class, and the largest confusions: beside right images that were driven
    elsewhere, where there are such."""
    known = [(row, one) for row, one in zip(rows, first, strict=True) if one is not None]
    try:
        found = as_changes([row for row, _ in known], [one for _, one in known])
    except UserError:  # none, or several sizes
        return []
    names = [about.class_name(place) for place in range(1 + int(max(found.aim.max(), found.was.max())))]
    right = None if source.folder is None else control_of(source.folder)
    try:
        others = None if right is None else as_driven(right)
    except UserError:
        others = None
    if others is None or bool(found.driven.any()) or others.change.shape[1:] != found.change.shape[1:]:
        groups = groups_of(found, names)[:SHOWN]
        mends = not bool(found.driven.any())
        return [
            Heat(_title(name, names, mends), len(rows), _means(found.change[rows].numpy())) for name, _, rows in groups
        ]
    made = sorted(compared(found, others, names), key=lambda one: (not one.stands_out, one.name != "all", -one.count))
    return [_heat(one, _title(one.name, names)) for one in made[:SHOWN]]


def _title(group: str, names: list[str], mends: bool = True) -> str:
    every = "all mistakes" if mends else "all images"
    return every if group == "all" else f"any → {group}" if group in names else group


def _means(change: Floats) -> tuple[tuple[Picture | None, str], ...]:
    """The mean size and the mean sign of changes (n, height, width)."""
    size = np.abs(change).mean(0)
    return (_figure(hot(size, float(size.max()))), "size"), _signed(change.mean(0))


def _signed(mean: Floats) -> tuple[Picture | None, str]:
    return _figure(coloured(mean, max(float(np.abs(mean).max()), 1e-12))), "sign"


def _heat(one: Bias, title: str) -> Heat:
    """The group, the right images, the difference, and what was added and taken away."""
    shares = [each / max(float(each.sum()), 1e-12) for each in (one.mistakes, one.right)]
    most = max(float(each.max()) for each in shares)
    sure = np.where(one.special, one.more, PALE * one.more)
    difference = coloured(sure, max(float(np.abs(one.more).max()), 1e-12))
    here, there = one.shares
    p = f"p {'=' if one.least > 0.001 else '≤'} {one.least:.3f}"
    told = (
        f"{p}: {percent(here)} of the change lies where it stands out; of right images’, {percent(there)}"
        if one.special.any()
        else f"{p}: no place stands out"
    )
    pictures = (
        (_figure(hot(shares[0], most)), "mistakes"), (_figure(hot(shares[1], most)), "right images"),
        (_figure(difference), "difference"), _signed(one.signed),
    )  # fmt: skip
    return Heat(title, one.count, pictures, one.others, one.alike, told, one.stands_out)


def _figure(pixels: NDArray[np.uint8]) -> Picture | None:
    return whole(encode_png(_large(pixels)))


def _large(pixels: NDArray[np.uint8], least: int = 112) -> NDArray[np.uint8]:
    """Small pictures with every pixel drawn as a square."""
    factor = max(1, -(-least // max(pixels.shape[1:])))
    return np.ascontiguousarray(pixels.repeat(factor, 1).repeat(factor, 2))
