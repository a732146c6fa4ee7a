"""One finding: where it began and where it ended, the way there, its smallest move, why, and others like it."""

from __future__ import annotations

import io
import json
import math
import shlex
from typing import Any

import numpy as np
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foible.findings import SCHEMA
from foible.findings.tags import tags_of
from foible.images import decode_pixels, encode_png, png_size
from foible.report import words
from foible.report.run import OpenRun
from foible.report.why import maps_of
from foible.studio.looking import about, cards_of, name_of, rows_of
from foible.studio.make import shown
from foible.studio.rows import SMALL, Rows, View
from foible.studio.shelf import Shelf
from foible.studio.web import owners, page, png, studio_of

LIKE = 12  # neighbours
FILMS = 64  # walked again, that are kept
THUMB = 160  # pixels
AMPLIFIED = 10
EMPTY = encode_png(np.full((1, 1, 1), 128, np.uint8))  # in a grid, where there is no image
PICTURES = ("image", "origin", "least_image")
DETAIL = tuple(name for name in SCHEMA.names if name not in ("before", "point", "path", *PICTURES))


def _place(request: Request, rows: Rows) -> int:
    return rows.place(str(request.path_params["part"]), str(request.path_params["row"]))


@owners
def picture(request: Request) -> Response:
    """An image of a finding, encoded again: as it is, small, the difference ×10, or a step on the way."""
    rows = rows_of(request)
    place, what = _place(request, rows), str(request.path_params["what"])
    if what in PICTURES:
        return png(_encoded(rows.row(place, (what,))[what]))
    if what in ("thumb", "thumb-origin"):
        name = "image" if what == "thumb" else "origin"
        return png(_small(rows.row(place, (name,))[name]) or EMPTY)
    if what == "difference":
        row = rows.row(place, ("origin", "image"))
        return png(_difference(row["origin"], row["image"]))
    number = what.removeprefix("step-")
    if what.startswith("step-") and number.isascii() and number.isdigit() and len(number) < 6:
        row = rows.row(place, ("film", "trace"))
        return png(_frame(row["film"] or walked(rows, place), len(row["trace"] or ()), int(number)))
    raise KeyError


def _encoded(data: bytes | None) -> bytes | None:
    return None if data is None else shown(data, "a finding")


def _small(data: bytes | None) -> bytes | None:
    """For a grid: a photograph shrunk, a small image as it is."""
    if data is None:
        return None
    pixels = decode_pixels(data)
    if max(pixels.shape[1:]) <= THUMB:
        return encode_png(pixels)
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    image.thumbnail((THUMB, THUMB))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _difference(origin: bytes | None, image: bytes | None) -> bytes | None:
    """Grey where nothing changed; lighter where the image has more, ten times over."""
    if origin is None or image is None:
        return None
    one, other = (decode_pixels(data).astype(np.int32) for data in (origin, image))
    if one.shape != other.shape:
        return None
    return encode_png((128 + AMPLIFIED * (other - one)).clip(0, 255).astype(np.uint8))


def walked(rows: Rows, place: int) -> bytes | None:
    """The film of a hunt's finding that keeps none: its path is walked again from its seed image, as `foible replay`
    does, and no network is asked. None where that cannot be done: another recipe, or a space of the user's own, whose
    file nobody has allowed to run."""
    with rows.lock:
        if place not in rows.films:
            rows.films[place] = _walk(rows, rows.row(place, ("origin", "path")))
            while len(rows.films) > FILMS:
                rows.films.popitem(last=False)
        return rows.films[place]


def _walk(rows: Rows, row: dict[str, Any]) -> bytes | None:
    settings = rows.config.get("settings", {})
    if settings.get("recipe") != "hunt" or row["origin"] is None or not row["path"]:
        return None
    import torch

    from foible import specs
    from foible.images import decode_png, to_floats
    from foible.permission import Permission
    from foible.recipes.hunt.rows import film
    from foible.search.walking import Paths
    from foible.spaces import SPACES

    try:
        space = specs.resolve(str(settings["space"]), SPACES, "space", Permission())
        draws = torch.tensor([step["draws"] for step in row["path"]])
        with torch.no_grad():
            return film(space, to_floats(decode_png(row["origin"])[None]), Paths.of([draws]))[0]
    except Exception:  # the run may be anybody's, and its space anything
        return None


def _frame(film: bytes | None, count: int, number: int) -> bytes | None:
    """One frame of a film, whose frames lie side by side."""
    if film is None or number >= count:
        return None
    pixels = decode_pixels(film)
    width = pixels.shape[2] // count
    if not width or pixels.shape[2] % count:
        return None
    return encode_png(np.ascontiguousarray(pixels[:, :, number * width : (number + 1) * width]))


@owners
def show(request: Request) -> Response:
    studio, rows = studio_of(request), rows_of(request)
    place = _place(request, rows)
    row = rows.row(place, DETAIL)
    sizes = rows.row(place, PICTURES)
    source = OpenRun(rows.path.name, (), folder=rows.path if rows.path.is_dir() else None)
    right = row["truth"] if row["truth"] is not None else row["consensus"]
    width, height = next((png_size(sizes[name]) or (1, 1) for name in PICTURES if sizes[name] is not None), (1, 1))
    return page(
        request, "finding.html", run=about(studio.shelf, rows.key, rows.path), at_row=rows.address(place), row=row,
        right=name_of(rows, right), truth=name_of(rows, row["truth"]), peers=name_of(rows, row["consensus"]),
        said=name_of(rows, row["said"]), people=rows.labels.labels.get(row["id"]),
        tags=[*(row["tags"] or ()), *(name for name, ids in tags_of(rows.path).items() if row["id"] in ids)],
        has={name: sizes[name] is not None for name in PICTURES}, small=max(width, height) <= SMALL, width=width,
        height=height, steps=_steps(rows, row), answers=_answers(rows, row), change=_human(row["change"]),
        least=_human(row["least_change"]), why=maps_of(source).get(row["id"], []),
        mended=_mended(source, row["id"]), like=_like(rows, place, row, right),
        nearest=_distortions(studio.shelf, rows, row),
        command=f"foible replay {shlex.quote(str(rows.path))} {shlex.quote(row['id'])}",
        turns=_turns(rows, place, request),
    )  # fmt: skip


def _mended(source: OpenRun, id: str) -> list[Any]:
    """What `foible explain` kept beside the run of this finding."""
    if source.folder is None or not (source.folder / "mended.json").is_file():
        return []
    from foible.report.mended import mended_of  # brings torch along

    return mended_of(source).get(id, [])


def _turns(rows: Rows, place: int, request: Request) -> dict[str, Any]:
    """The one before and the one after in the view that one came from."""
    query = {name: value[:200] for name, value in list(request.query_params.items())[:40]}
    chosen = rows.choose(View.of(query, rows.usual))
    here = np.flatnonzero(chosen == place)
    if not len(here):
        return {"query": "", "number": None, "total": len(chosen), "before": None, "after": None}
    at = int(here[0])
    return {
        "query": f"?{request.url.query}" if request.url.query else "", "number": at + 1, "total": len(chosen),
        "before": rows.address(int(chosen[at - 1])) if at else None,
        "after": rows.address(int(chosen[at + 1])) if at + 1 < len(chosen) else None,
    }  # fmt: skip


def _steps(rows: Rows, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Each accepted step, with every network's activation of the class aimed at; its picture where a film
    was kept, or can be made again."""
    trace, networks = row["trace"] or [], row["networks"] or []
    size = png_size(row["film"]) if row["film"] else None
    film = bool(size and trace and size[0] % len(trace) == 0)
    settings = rows.config.get("settings", {})
    again = (
        settings.get("recipe") == "hunt" and ".py" not in str(settings.get("space")) and row["moves"] == len(trace) - 1
    )
    film = film or (size is None and again)
    order = sorted(range(len(networks)), key=lambda at: networks[at] != row["suspect"])
    return [
        {
            "number": number,
            "picture": f"step-{number}" if film else {0: "origin", len(trace) - 1: "image"}.get(number),
            "bars": [
                {
                    "network": networks[at], "suspect": networks[at] == row["suspect"],
                    "share": 0.0 if line[at] != line[at] else max(0.0, min(1.0, line[at])),
                    "told": words.probability(line[at]),
                }
                for at in order
                if at < len(line)
            ],
        }
        for number, line in enumerate(trace)
    ]  # fmt: skip


def _answers(rows: Rows, row: dict[str, Any]) -> list[dict[str, Any]]:
    """What every network says of the image, the surest class first."""
    made = []
    for name, line in zip(row["networks"], row["after"], strict=True):
        known = [value if value == value else -1.0 for value in line]
        best = max(range(len(known)), key=known.__getitem__)
        made.append({"network": name, "suspect": name == row["suspect"], "said": name_of(rows, best),
                     "told": words.probability(line[best])})  # fmt: skip
    return made


def _human(change: list[tuple[str, float]] | None) -> list[tuple[str, str]]:
    """A way in human units, without what did not change."""
    made = []
    for key, value in change or ():
        name, unit = words.split_unit(key)
        if value == value and abs(value) >= 0.005:
            made.append((name, f"{value:+.2f} {unit}".strip().replace("-", "−")))
    return made


def _like(rows: Rows, place: int, row: dict[str, Any], right: int | None) -> list[dict[str, Any]]:
    """Others of the same suspect, class, answer and kind of move; the nearest in size first."""
    kind = (row["kinds"] or [""])[0]
    view = View(row["outcome"], row["suspect"], right, row["said"], kind)
    places = rows.choose(view)
    places = places[places != place]
    size = row["size"]
    if size is not None and len(places):
        away = np.abs(rows.column("size")[places] - size)
        places = places[np.argsort(away, kind="stable")]
    return cards_of(rows, places[:LIKE])


def _distortions(shelf: Shelf, rows: Rows, row: dict[str, Any]) -> list[dict[str, Any]]:
    """The smallest distortions of the same seed image in other runs that are looked at: found by `foible distort`."""
    made = []
    data = rows.config.get("settings", {}).get("data_sha256")
    if not data or row["origin_index"] is None:
        return []
    for key, path in shelf.runs().items():
        here = about(shelf, key, path)
        if here["kind"] != "distort" or key == rows.key:
            continue
        other = shelf.open(key)
        settings = other.config.get("settings", {})
        if settings.get("data_sha256") != data or settings.get("split") != row["origin_split"]:
            continue
        names, which = other.column("outcome")
        found = which == (names.index("found") if "found" in names else -2)
        for at in np.flatnonzero(found & (other.column("origin_index") == row["origin_index"]))[:3].tolist():
            one = other.row(at, ("suspect", "said", "distance"))
            made.append({"run": here, "at": other.address(at), "suspect": one["suspect"], "norm": settings.get("norm"),
                         "said": name_of(other, one["said"]), "distance": one["distance"]})  # fmt: skip
    return sorted(made, key=lambda one: (one["suspect"] != row["suspect"], one["distance"] or math.inf))[:3]


@owners
def as_json(request: Request) -> Response:
    """The row as `foible show RUN ID --json` prints it."""
    rows = rows_of(request)
    row = rows.row(_place(request, rows), tuple(SCHEMA.names))
    told = {name: _strict(value) for name, value in row.items() if not isinstance(value, bytes)}
    return Response(
        json.dumps(told, indent=1, ensure_ascii=False).encode("utf-8", "replace"), media_type="application/json"
    )


def _strict(value: Any) -> Any:
    """For JSON, which has no NaN and no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return [_strict(one) for one in value] if isinstance(value, list | tuple) else value


ROUTES = [
    Route("/run/{run}/finding/{part}/{row}", show),
    Route("/run/{run}/json/{part}/{row}", as_json),
    Route("/run/{run}/picture/{part}/{row}/{what}", picture),
]
