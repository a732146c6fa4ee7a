"""What every page needs: the templates, who is asking, and answers of the right kind."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import ChoiceLoader, Environment, PackageLoader, Template
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from foible.errors import UserError
from foible.report.page import template
from foible.studio.base import Person, Task
from foible.studio.safety import Rate, Site, same
from foible.studio.shelf import Shelf
from foible.studio.store import Store

Handler = Callable[[Request], Response]
STATIC = {
    "report.css": ("foible.report", "style.css", "text/css"),
    **{
        name: ("foible.studio", f"static/{name}", kind)
        for name, kind in (
            ("studio.css", "text/css"), ("runs.js", "text/javascript"),
            ("gallery.js", "text/javascript"), ("finding.js", "text/javascript"), ("label.js", "text/javascript"),
            ("task.js", "text/javascript"), ("icon.svg", "image/svg+xml"),
        )
    },
}  # fmt: skip
WHY = {
    403: "This is not yours to see", 404: "There is nothing here", 405: "Not in this way", 408: "Too slow",
    413: "Too large", 421: "Another address", 429: "Too fast", 400: "That did not work", 500: "An error of ours",
}  # fmt: skip


@dataclass
class Studio:
    """One server: what it shows, what it keeps, and who may come in. `password` is asked of the owner where anybody on
    the network could come; otherwise a link that works once lets them in."""

    shelf: Shelf
    store: Store
    site: Site
    password: str | None = None
    home: str = "/"  # where the owner comes in
    tokens: set[str] = field(default_factory=lambda: {secrets.token_urlsafe(24)})
    sessions: set[str] = field(default_factory=set)
    counted: dict[str, tuple[Any, dict[str, Any]]] = field(default_factory=dict)  # what runs came to, by their files
    attempts: Rate = field(default_factory=lambda: Rate(burst=5, refill=5 / 60))

    @property
    def cookie(self) -> str:
        return f"foible-{self.site.port}"

    @property
    def link(self) -> str:
        """What the owner opens first."""
        return f"{self.site.url}/enter" + (f"/{next(iter(self.tokens))}" if self.password is None else "")

    def use(self, token: str) -> bool:
        """Whether a link lets its owner in; it does so once."""
        match = next((known for known in self.tokens if same(known, token)), None)
        if match is None or self.password is not None:
            return False
        self.tokens.discard(match)
        return True

    def begin(self, response: Response) -> Response:
        """Let the owner in on this browser."""
        session = secrets.token_urlsafe(24)
        self.sessions.add(session)
        return self.remember(response, self.cookie, session, "/")

    def remember(self, response: Response, name: str, value: str, path: str, age: int | None = None) -> Response:
        response.set_cookie(
            name, value, max_age=age, path=f"{self.site.prefix}{path}", secure=self.site.scheme == "https",
            httponly=True, samesite="strict",
        )  # fmt: skip
        return response

    def is_owner(self, request: Request) -> bool:
        given = request.cookies.get(self.cookie, "")
        return any(same(known, given) for known in self.sessions)

    def annotator(self, request: Request, task: Task) -> Person | None:
        """Who is labelling: by the cookie of this very task."""
        person = self.store.person_with(request.cookies.get(self.task_cookie(task), ""))
        return person if person is not None and person.task == task.id else None

    def task_cookie(self, task: Task) -> str:
        return f"{self.cookie}-{task.key}"


def studio_of(request: Request) -> Studio:
    made: Studio = request.app.state.studio
    return made


@cache
def _environment() -> Environment:
    """The report's templates, filters and escaping, and our own pages."""
    base = template("page.html").environment
    own = PackageLoader("foible.studio", "pages")
    return base.overlay(loader=ChoiceLoader([own, base.loader]))  # type: ignore[list-item]


def compiled(name: str) -> Template:
    return _environment().get_template(name)


def page(request: Request, name: str, *, status: int = 200, **more: Any) -> HTMLResponse:
    """A page of ours; `at` makes addresses, `owner` says whether to show the owner's navigation."""
    studio = studio_of(request)
    text = (
        _environment()
        .get_template(name)
        .render(at=lambda path="/": studio.site.prefix + path, owner=studio.is_owner(request), **more)
    )
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def problem(status: int, text: str, prefix: str = "", owner: bool = False) -> HTMLResponse:
    """A page that says what went wrong, and what to do."""
    made = compiled("problem.html").render(
        at=lambda path="/": prefix + path, owner=owner, status=status, title=WHY.get(status, "Something is wrong"),
        text=text,
    )  # fmt: skip
    return HTMLResponse(made.encode("utf-8", "replace"), status)


def wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def refused(request: Request, status: int, text: str) -> Response:
    """The same for scripts and for people."""
    if wants_json(request):
        return JSONResponse({"error": text}, status)
    studio = studio_of(request)
    return problem(status, text, studio.site.prefix, studio.is_owner(request))


def owners(handler: Handler) -> Handler:
    """For the owner alone. What is wrong with a request is said; what is not there is not there."""

    @wraps(handler)
    def guarded(request: Request) -> Response:
        if not studio_of(request).is_owner(request):
            return refused(request, 403, "Open the link that foible printed in its terminal; it works once.")
        return _said(request, handler)

    return guarded


def annotators(handler: Callable[[Request, Task, Person], Response]) -> Handler:
    """For who has a link to this very task."""

    @wraps(handler)
    def guarded(request: Request) -> Response:
        studio = studio_of(request)
        task = studio.store.task(str(request.path_params["task"]), "key")
        person = None if task is None else studio.annotator(request, task)
        if task is None or person is None:
            return refused(request, 403, "Open your own link again; if it does not work, ask who gave it to you.")
        return _said(request, lambda asked: handler(asked, task, person))

    return guarded


def _said(request: Request, handler: Handler) -> Response:
    try:
        return handler(request)
    except UserError as error:
        return refused(request, 400, str(error))
    except KeyError:
        return refused(request, 404, "It may have been moved or deleted; or the address is not quite right.")


def posted(request: Request) -> dict[str, Any]:
    """What was sent: JSON, or the fields of a form; of a field that comes often, a list under its name with []."""
    body: bytes = request.scope["foible.body"]
    if request.headers.get("content-type", "").partition(";")[0].strip() == "application/json":
        try:
            made = json.loads(body)
        except (ValueError, RecursionError):
            made = None
        if not isinstance(made, dict):
            raise UserError("that is no JSON object")
        return made
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=50_000)
    except ValueError as error:
        raise UserError("that is no form") from error
    for name, value in pairs:
        if name.endswith("[]"):
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return found


def text_of(fields: dict[str, Any], name: str, most: int = 200) -> str:
    """A field that is text, cut to a length; "" where there is none."""
    value = fields.get(name)
    return value[:most] if isinstance(value, str) else ""


@cache
def static_bytes(name: str) -> bytes:
    package, file, _ = STATIC[name]
    return resources.files(package).joinpath(file).read_bytes()


def static(request: Request) -> Response:
    """A file of ours, by a name that we know."""
    name = str(request.path_params["name"])
    if name not in STATIC:
        return refused(request, 404, "There is no such file.")
    return Response(static_bytes(name), media_type=STATIC[name][2], headers={"cache-control": "no-cache"})


def png(data: bytes | None, *, seconds: int = 3600) -> Response:
    """An image of ours, always PNG."""
    if data is None:
        return Response(status_code=404)
    return Response(data, media_type="image/png", headers={"cache-control": f"private, max-age={seconds}"})
