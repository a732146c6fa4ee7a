"""The owner's pages of a labelling task: links, progress, agreement, what is disputed, and the ways out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from foible.errors import UserError
from foible.studio import outcome, tables
from foible.studio.base import Person, Task
from foible.studio.rows import SMALL, key_of
from foible.studio.web import owners, page, png, posted, studio_of, text_of

SHOWN = 200  # images in the table of what people say


def _task(request: Request) -> Task:
    found = studio_of(request).store.task(str(request.path_params["task"]), "key")
    if found is None:
        raise KeyError
    return found


def _back(request: Request, task: Task, part: str = "") -> Response:
    return RedirectResponse(f"{studio_of(request).site.prefix}/task/{task.key}/{part}", 303)


@owners
def listing(request: Request) -> Response:
    store = studio_of(request).store
    rows = []
    for task in store.tasks():
        progress = [store.progress(person) for person in store.people(task)]
        rows.append({"task": task, "people": len(progress), "done": sum(d for d, _ in progress),
                     "whole": sum(w for _, w in progress)})  # fmt: skip
    return page(request, "tasks.html", rows=rows)


def _summary(request: Request, task: Task) -> dict[str, Any]:
    """What the task came to; of many answers that takes a while, and is not done again for every one that comes."""
    studio = studio_of(request)
    key, now = f"task {task.key}", studio.store.latest(task)
    known = studio.counted.get(key)
    if known is None or (known[0][0] != now and time.monotonic() > known[0][1]):
        began = time.monotonic()
        told = outcome.summary(studio.store, task)
        ended = time.monotonic()
        known = (now, ended + min(60.0, 10 * (ended - began))), told
        studio.counted[key] = known
    return known[1]


@owners
def show(request: Request) -> Response:
    studio, task = studio_of(request), _task(request)
    studio.counted.pop(f"task {task.key}", None)  # who opens the page wants to know how it is now
    said = outcome.consensus(studio.store, task)
    apart = [row for row in said if row["votes"] and (len(row["votes"]) > 1 or row["decided"])]
    return page(
        request, "task.html", small=studio.store.side(task) <= SMALL, task=task, summary=_summary(request, task),
        said=apart[:SHOWN],
        apart=len(apart), links={person.number: _link(request, person) for person in studio.store.people(task)},
        run=next((key for key, path in studio.shelf.runs().items() if str(path.resolve()) == task.run), None),
        forms=list(tables.FORMS), given=studio.store.given(task),
    )  # fmt: skip


def _link(request: Request, person: Person) -> str | None:
    return f"{studio_of(request).site.url}/join/{person.token}" if person.token and not person.revoked else None


@owners
def state(request: Request) -> Response:
    """The figures of the page, for a page that is open."""
    return JSONResponse(_summary(request, _task(request)))


@owners
def add_person(request: Request) -> Response:
    task = _task(request)
    name = " ".join(text_of(posted(request), "name", 100).split())
    store = studio_of(request).store
    store.add_person(task, name or f"annotator {len(store.people(task)) + 1}")
    return _back(request, task, "#people")


@owners
def revoke(request: Request) -> Response:
    task, store = _task(request), studio_of(request).store
    number = text_of(posted(request), "number")
    for person in store.people(task):
        if str(person.number) == number and not person.revoked:
            store.revoke(person)
    return _back(request, task, "#people")


@owners
def adjudicate(request: Request) -> Response:
    task, store = _task(request), studio_of(request).store
    queue = store.disputed(task)
    said = {row["item"]: row for row in outcome.consensus(store, task)}
    row: dict[str, Any] | None = said[queue[0]] if queue else None
    numbers = [*range(len(task.classes)), *task.other]
    return page(request, "adjudicate.html", task=task, row=row, left=len(queue), small=store.side(task) <= SMALL,
                choices=[(number, task.word(number)) for number in numbers])  # fmt: skip


@owners
def decide(request: Request) -> Response:
    task, sent = _task(request), posted(request)
    try:
        item, choice = int(text_of(sent, "item")), int(text_of(sent, "choice"))
    except ValueError:
        raise UserError("a decision names an image and a choice") from None
    studio_of(request).store.decide(task, item, choice, f"decide:{task.id}:{item}:{text_of(sent, 'key')}")
    return _back(request, task, "adjudicate")


@owners
def item(request: Request) -> Response:
    return png(studio_of(request).store.item_image(_task(request), int(request.path_params["item"])))


@owners
def export(request: Request) -> Response:
    task, store = _task(request), studio_of(request).store
    form = str(request.path_params["form"])
    if form not in tables.FORMS:
        raise KeyError
    data = tables.encoded(tables.table(store, task), task, form)
    kind = {"parquet": "application/vnd.apache.parquet", "label-studio": "application/json"}.get(form, "text/csv")
    name = f"answers{tables.FORMS[form][0]}"
    return Response(data, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


@owners
def take(request: Request) -> Response:
    """Into the run, as `foible import` does it."""
    task, sent = _task(request), posted(request)
    made = outcome.join(studio_of(request).store, task, text_of(sent, "by"), drop=text_of(sent, "drop") == "yes")
    return page(request, "taken.html", task=task, words=made.words, run=task.run, key=key_of(Path(task.run or "")))


ROUTES = [
    Route("/tasks", listing),
    Route("/task/{task}/", show),
    Route("/task/{task}/state", state),
    Route("/task/{task}/people", add_person, methods=["POST"]),
    Route("/task/{task}/revoke", revoke, methods=["POST"]),
    Route("/task/{task}/adjudicate", adjudicate),
    Route("/task/{task}/decide", decide, methods=["POST"]),
    Route("/task/{task}/item/{item:int}", item),
    Route("/task/{task}/export/{form}", export),
    Route("/task/{task}/take", take, methods=["POST"]),
]
