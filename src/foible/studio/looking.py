"""The pages for looking: runs, the gallery of one, and what can be done with what is chosen there."""

from __future__ import annotations

import io
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from foible.errors import UserError
from foible.findings import OUTCOMES
from foible.findings.tags import tag, tags_of
from foible.recipes.export import export as run_export
from foible.runs.folder import RunFolder
from foible.runs.record import read_config
from foible.runs.told import there
from foible.studio.make import make_task, of_findings
from foible.studio.rows import SORTS, Rows, View
from foible.studio.shelf import Shelf, identity
from foible.studio.web import owners, page, posted, studio_of, text_of

PAGE = 60  # cards that are sent at a time
MOST = 10_000  # findings that are exported, labelled or tagged at once
LIVE = 120  # seconds without a new shard after which a run is taken to have stopped
CARD = ("id", "suspect", "truth", "consensus", "said", "outcome")
FORMATS = {"csv": ".csv", "findings": ".parquet", "label-studio": ".zip", "folder": ".zip"}
ORDERS = (
    ("", "as found"), ("realistic", "most realistic first"), ("odd", "least realistic first"),
    ("clear", "clearest first"), ("small", "smallest move first"), ("large", "largest move first"),
    ("sure", "surest first"), ("unsure", "least sure first"), ("near", "nearest first"),
)  # fmt: skip
LABELS = (
    ("", "any"), ("labelled", "labelled"), ("unlabelled", "not labelled"), ("holds", "people agree"),
    ("fails", "people do not agree"), ("dropped", "dropped"),
)  # fmt: skip


@owners
def runs(request: Request) -> Response:
    studio = studio_of(request)
    rows = [about(studio.shelf, key, path) for key, path in studio.shelf.runs().items()]
    rows.sort(key=lambda row: -row["date"])
    return page(request, "runs.html", rows=rows, roots=[str(root) for root in studio.shelf.roots])


def about(shelf: Shelf, key: str, path: Path) -> dict[str, Any]:
    """What the settings of a run say; its rows are counted when the page asks for that."""
    try:
        config = read_config(path) if (path / "config.json").is_file() else {}
        date = (path / "config.json").stat().st_mtime if config else path.stat().st_mtime
        wrong = ""
    except (UserError, OSError) as error:
        config, date, wrong = {}, 0.0, str(error)
    settings, where = config.get("settings", {}), config.get("where", {})
    suspects = settings.get("suspects") or [settings[name] for name in ("source", "new") if settings.get(name)]
    return {
        "key": key, "name": shelf.title(path), "path": str(path), "kind": str(settings.get("recipe", "findings")),
        "suspects": [str(one) for one in suspects], "networks": len(settings.get("networks") or ()),
        "basket": ", ".join(Path(str(one)).name for one in where.get("basket") or ()) if where else "",
        "data": str(settings.get("data", "")), "split": str(settings.get("split") or ""), "date": date,
        "when": time.strftime("%Y-%m-%d %H:%M", time.localtime(date)), "wrong": wrong,
    }  # fmt: skip


@owners
def run_state(request: Request) -> Response:
    """How far a run is, and what it came to: asked for by the page, run by run."""
    studio, key = studio_of(request), str(request.path_params["run"])
    path = studio.shelf.path(key)
    known = studio.counted.get(key)
    now = identity(path)
    if known is None or known[0] != now:
        known = now, _counted(Rows(path))
        studio.counted[key] = known
    return JSONResponse(known[1] | _progress(path))


def _progress(path: Path) -> dict[str, Any]:
    if not (path / "config.json").is_file():
        return {"done": 1, "whole": 1, "what": "", "running": False}
    _, done, whole, what = there(RunFolder(path))
    latest = max((one.stat().st_mtime for one in (path / "shards", path / "config.json") if one.exists()), default=0)
    left = whole == 0 or done < whole
    return {"done": done, "whole": whole, "what": what, "running": left and time.time() - latest < LIVE}


def _counted(rows: Rows) -> dict[str, Any]:
    """Trials and those that found something: of an atlas a trial may have several rows. Where a run keeps only some of
    what it looked at, as a comparison does, no share is told."""
    tried = rows.config.get("settings", {}).get("recipe") in ("hunt", "distort", "explain", "fool")
    rows.load(("suspect", "outcome", "lane"))
    names, which = rows.column("outcome")
    _, suspect = rows.column("suspect")
    lane = rows.column("lane").astype(np.int64)
    trial = np.where(lane < 0, np.arange(len(lane)) + 2**40, lane) * 64 + suspect
    found = which == names.index("found") if "found" in names else np.zeros(len(which), bool)
    trials, solved = len(np.unique(trial)), len(np.unique(trial[found]))
    return {"rows": len(rows), "found": int(found.sum()), "trials": trials, "solved": solved,
            "success": solved / trials if trials and tried else None}  # fmt: skip


@owners
def gallery(request: Request) -> Response:
    rows, query = rows_of(request), _query(request)
    view = View.of(query, rows.usual)
    chosen = rows.choose(view)
    start = min(_start(query), max(0, len(chosen) - 1))
    kinds = [kind for kind in rows.column("kind")[0] if kind]
    tags = sorted({*rows.column("tags"), *tags_of(rows.path)})
    return page(
        request, "gallery.html", run=about(studio_of(request).shelf, rows.key, rows.path), view=view, query=query,
        total=len(chosen), whole=len(rows), start=start, outcomes=[*OUTCOMES], suspects=rows.texts("suspect"),
        cards=cards_of(rows, chosen[start : start + PAGE], view.order),
        classes=rows.classes, kinds=kinds, tags=tags, orders=ORDERS, labels=LABELS, step=PAGE,
        more=urlencode({name: value for name, value in query.items() if name != "from" and value}),
        labelled=rows.labels.words, formats=[*FORMATS], unfinished=_progress(rows.path), tasks=_tasks_of(request, rows),
    )  # fmt: skip


def _tasks_of(request: Request, rows: Rows) -> list[Any]:
    here = str(rows.path.resolve())
    return [task for task in studio_of(request).store.tasks() if task.run == here]


@owners
def cards(request: Request) -> Response:
    """The next cards of a view."""
    rows, query = rows_of(request), _query(request)
    view, start = View.of(query, rows.usual), _start(query)
    shown = cards_of(rows, rows.choose(view)[start : start + PAGE], view.order)
    return page(request, "cards-more.html", run={"key": rows.key}, cards=shown, first=start)


def rows_of(request: Request) -> Rows:
    return studio_of(request).shelf.open(str(request.path_params["run"]))


def _query(request: Request) -> dict[str, str]:
    return {name: value[:200] for name, value in list(request.query_params.items())[:40]}


def _start(query: dict[str, str]) -> int:
    text = query.get("from", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def cards_of(rows: Rows, places: Any, order: str = "") -> list[dict[str, Any]]:
    """What a card says, with the figure that it was sorted by; its images are asked for by their addresses."""
    by = SORTS[order][0]
    hunted = rows.config.get("settings", {}).get("recipe") == "hunt"  # whose trials without a find keep no image
    labels, made = rows.labels, []
    own = [(name, ids) for name, ids in tags_of(rows.path).items()]
    places = [int(place) for place in places]
    for place, row in zip(places, rows.some(places, CARD), strict=True):
        right = row["truth"] if row["truth"] is not None else row["consensus"]
        made.append(
            {
                "at": rows.address(place), "id": row["id"], "suspect": row["suspect"], "right": name_of(rows, right),
                "said": name_of(rows, row["said"]), "outcome": row["outcome"], "small": rows.small,
                "image": row["outcome"] not in ("exhausted", "invalid") or not hunted,
                "by": by, "value": None if by is None else float(rows.column(by)[place]),
                "people": labels.labels.get(row["id"]),
                "tags": [name for name, ids in own if row["id"] in ids],
            }
        )  # fmt: skip
    return made


def name_of(rows: Rows, index: int | None) -> str:
    return "?" if index is None else rows.classes[index]


# What is done with what is chosen


def _chosen(request: Request, rows: Rows, sent: dict[str, Any]) -> Any:
    """The places that a form names: single findings, or all of its view."""
    if text_of(sent, "all") == "yes":
        query = dict(request.query_params.items())
        places = rows.choose(View.of(query, rows.usual))
    else:
        given = sent.get("at[]") or []
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise UserError("what is chosen is a list of places, such as unit-000000/3")
        places = np.array([rows.place(*one.partition("/")[::2]) for one in given], np.int64)
    if not len(places):
        raise UserError("nothing is chosen: tick some findings first, or all of the view")
    if len(places) > MOST:
        raise UserError(
            f"{len(places):,} findings are chosen: at most {MOST:,} at once; filter, or use `foible export`"
        )
    return places


def _again(request: Request, rows: Rows) -> Response:
    query = urlencode(dict(request.query_params.items()))
    return RedirectResponse(f"{studio_of(request).site.prefix}/run/{rows.key}/" + (f"?{query}" if query else ""), 303)


@owners
def give_tag(request: Request) -> Response:
    rows, sent = rows_of(request), posted(request)
    places = _chosen(request, rows, sent)
    ids = rows.column("id").take(places).to_pylist()
    tag(rows.path, ids, text_of(sent, "tag"), off=text_of(sent, "off") == "yes")
    return _again(request, rows)


@owners
def send_to_labelling(request: Request) -> Response:
    rows, sent, studio = rows_of(request), posted(request), studio_of(request)
    findings = rows.findings(_chosen(request, rows, sent))
    name = " ".join(text_of(sent, "name", 100).split())
    if not name:
        raise UserError("the task has no name: give it one")
    people, votes = (_count(sent, field) for field in ("annotators", "votes"))
    task = make_task(
        studio.store, str(rows.path), name=name, classes=rows.classes, items=of_findings(findings), annotators=people,
        votes=votes, other=[-1] if text_of(sent, "cannot") == "yes" else [],
    )  # fmt: skip
    return RedirectResponse(f"{studio.site.prefix}/task/{task.key}/", 303)


def _count(sent: dict[str, Any], name: str) -> int:
    text = text_of(sent, name, 6)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 500):
        raise UserError(f"{name} is {text!r}: expected a number, 1 to 500")
    return int(text)


@owners
def export(request: Request) -> Response:
    """As `foible export` writes it; folders in one zip file."""
    rows, sent = rows_of(request), posted(request)
    form = text_of(sent, "to")
    if form not in FORMATS:
        raise UserError(f"cannot export to {form!r}: expected one of {', '.join(FORMATS)}")
    findings = rows.findings(_chosen(request, rows, sent))
    with tempfile.TemporaryDirectory(prefix="foible-") as folder:
        out = Path(folder) / "export"
        run_export(findings, form, out, everything=True)
        data = out.read_bytes() if out.is_file() else _zipped(out)
    head = {"content-disposition": f'attachment; filename="findings{FORMATS[form]}"'}
    return Response(data, media_type="application/octet-stream", headers=head)


def _zipped(folder: Path) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return made.getvalue()


ROUTES = [
    Route("/", runs),
    Route("/run/{run}/state", run_state),
    Route("/run/{run}/", gallery),
    Route("/run/{run}/cards", cards),
    Route("/run/{run}/tag", give_tag, methods=["POST"]),
    Route("/run/{run}/label", send_to_labelling, methods=["POST"]),
    Route("/run/{run}/export", export, methods=["POST"]),
]
