"""The pages of those who label: an image, the choices, and nothing that tells what is expected of them."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from foible.errors import UserError
from foible.images import png_size
from foible.studio.base import CANNOT_TELL, NONE_OF_THESE, Person, Task
from foible.studio.rows import SMALL
from foible.studio.web import annotators, page, png, posted, refused, studio_of, text_of

KEY = re.compile(r"[A-Za-z0-9_.:-]{8,80}")
MONTH = 30 * 24 * 3600
MANY = 20  # classes; more are searched by typing
OTHER_KEYS = {CANNOT_TELL: "?", NONE_OF_THESE: "-"}


def keys_for(task: Task) -> dict[int, list[str]]:
    """The keys of each choice: the task's own, else the class itself where it is one character, else its first letter
    that is free; and digits by place where they mean nothing else."""
    taken: dict[str, int] = {}
    for place, name in enumerate(task.classes):
        own = task.keys.get(name)
        if own:
            taken[own.lower()] = place
    for place, name in enumerate(task.classes):
        if place not in taken.values() and len(name) == 1 and name.isprintable():
            taken.setdefault(name.lower(), place)
    for place, name in enumerate(task.classes):
        if place not in taken.values():
            free = next((c for c in name.lower() if c.isascii() and c.isalpha() and c not in taken), None)
            if free is not None:
                taken[free] = place
    for place, digit in enumerate("1234567890"):
        if place < len(task.classes):
            taken.setdefault(digit, place)
    made: dict[int, list[str]] = {place: [] for place in range(len(task.classes))}
    for key, place in taken.items():
        made[place].append(key)
    return made | {choice: [OTHER_KEYS[choice]] for choice in task.other if OTHER_KEYS[choice] not in taken}


def choices_of(task: Task) -> list[dict[str, Any]]:
    keys = keys_for(task)
    few = len(task.classes) <= MANY
    numbers = [*range(len(task.classes)), *task.other]
    return [{"number": n, "word": task.word(n), "keys": keys.get(n, []) if few or n < 0 else []} for n in numbers]


def join(request: Request) -> Response:
    """A person's own link, on any device, from any site. The cookie is ours to read only once a page of ours asks for
    the next: so this one leads on by itself."""
    studio = studio_of(request)
    person = studio.store.person_with(str(request.path_params["token"]))
    task = None if person is None else studio.store.task(person.task, "id")
    if person is None or task is None or person.token is None:
        return refused(request, 403, "This link does not work (any more): ask who gave it to you for another.")
    response = page(request, "onward.html", to=f"/label/{task.key}/")
    if request.method == "HEAD":
        return response
    return studio.remember(response, studio.task_cookie(task), person.token, f"/label/{task.key}", MONTH)


@annotators
def welcome(request: Request, task: Task, person: Person) -> Response:
    store = studio_of(request).store
    done, whole = store.progress(person)
    return page(
        request, "welcome.html", task=task, person=person, done=done, whole=whole, choices=choices_of(task),
        examples=[(item, task.classes[known]) for item, known in store.examples(task)], many=len(task.classes) > MANY,
        small=store.side(task) <= SMALL,
    )  # fmt: skip


@annotators
def name(request: Request, task: Task, person: Person) -> Response:
    given = " ".join(text_of(posted(request), "name", 100).split())
    if given:
        studio_of(request).store.rename(person, given)
    return page(request, "onward.html", to=f"/label/{task.key}/work")


@annotators
def work(request: Request, task: Task, person: Person) -> Response:
    done, whole = studio_of(request).store.progress(person)
    return page(
        request, "label.html", task=task, person=person, done=done, whole=whole, choices=choices_of(task),
        many=len(task.classes) > MANY,
    )  # fmt: skip


@annotators
def upcoming(request: Request, _task: Task, person: Person) -> Response:
    """What comes next, by keys that mean nothing; the shape of each image, so that nothing jumps."""
    store = studio_of(request).store
    done, whole = store.progress(person)
    turns = []
    for key, head in store.next_heads(person):
        width, height = png_size(head) or (1, 1)
        turns.append({"turn": key, "small": max(width, height) <= SMALL})
    return JSONResponse({"turns": turns, "done": done, "whole": whole, "last": store.last_answered(person)})


@annotators
def image(request: Request, _task: Task, person: Person) -> Response:
    return png(studio_of(request).store.image(person, str(request.path_params["turn"])))


@annotators
def example(request: Request, task: Task, _person: Person) -> Response:
    item = int(request.path_params["item"])
    store = studio_of(request).store
    return png(store.item_image(task, item) if item in dict(store.examples(task)) else None)


@annotators
def answer(request: Request, _task: Task, person: Person) -> Response:
    """Add an answer, or take one back (choice null). Whoever asks twice with one key gets the same reply."""
    sent = posted(request)
    turn, choice, key, seconds = (sent.get(name) for name in ("turn", "choice", "key", "seconds"))
    if not isinstance(turn, str) or not isinstance(key, str) or not KEY.fullmatch(key):
        raise UserError("an answer has a turn, and a key of 8 to 80 letters, digits, _ . : or -")
    if choice is not None and (type(choice) is not int or not -(2**31) < choice < 2**31):
        raise UserError("a choice is a number, or null to take an answer back")
    timed = type(seconds) in (int, float) and 0 <= seconds < 1e7  # type: ignore[operator]
    store = studio_of(request).store
    saved = store.answer(person, turn, choice, float(seconds) if timed else None, f"{person.id}:{key}")  # type: ignore[arg-type]
    done, whole = store.progress(person)
    return JSONResponse(
        {"saved": saved.stands, "new": saved.new, "done": done, "whole": whole}, 200 if saved.stands else 409
    )


def again(request: Request) -> HTMLResponse:
    return page(request, "onward.html", to=f"/label/{request.path_params['task']}/")


ROUTES = [
    Route("/join/{token}", join),
    Route("/label/{task}", again),
    Route("/label/{task}/", welcome),
    Route("/label/{task}/name", name, methods=["POST"]),
    Route("/label/{task}/work", work),
    Route("/label/{task}/next", upcoming),
    Route("/label/{task}/image/{turn}", image),
    Route("/label/{task}/example/{item:int}", example),
    Route("/label/{task}/answer", answer, methods=["POST"]),
]
