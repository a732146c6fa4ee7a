"""The server: all routes behind the guard, on this machine alone unless somebody asks for more."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from foible.errors import UserError
from foible.findings.tally import codes
from foible.studio import comparing, finding, labelling, looking, tasks
from foible.studio.safety import LOOPBACK, Guard, Impatient, Rate, Site, same
from foible.studio.shelf import Shelf
from foible.studio.store import Store
from foible.studio.web import Studio, compiled, page, posted, problem, refused, static, studio_of, text_of
from foible.text import shown

PORT = 8765


def enter(request: Request) -> Response:
    """The owner's link, which works once; or the page that asks for the password."""
    studio = studio_of(request)
    token = request.path_params.get("token")
    if studio.is_owner(request):
        return page(request, "onward.html", to=studio.home)
    if studio.password is not None:
        return page(request, "enter.html", wrong=False)
    if request.method == "HEAD" or token is None or not studio.use(str(token)):
        return refused(request, 403, "This link has been used, or is not ours: start foible studio again for another.")
    return studio.begin(page(request, "onward.html", to=studio.home))


def enter_password(request: Request) -> Response:
    studio = studio_of(request)
    if not studio.attempts.spend("password"):
        return refused(request, 429, "Too many wrong passwords: wait a minute.")
    if studio.password is None or not same(studio.password, text_of(posted(request), "password", 500)):
        return page(request, "enter.html", status=403, wrong=True)
    return studio.begin(page(request, "onward.html", to=studio.home))


def _missing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = "The address is not quite right, or what was here is gone." if status == 404 else "This page cannot do that."
    return refused(request, status, text)


def _failed(request: Request, error: Exception) -> Response:
    print(
        f"foible: {request.method} {shown(request.url.path)}: {type(error).__name__}: {shown(str(error))}", flush=True
    )
    return refused(request, 500, "This should not have happened. What was saved is safe; the terminal says more.")


def build(studio: Studio, rate: Rate | None = None) -> ASGIApp:
    """The application: whatever asks has passed the guard."""
    routes = [
        Route("/enter", enter), Route("/enter", enter_password, methods=["POST"]), Route("/enter/{token}", enter),
        Route("/static/{name}", static), *looking.ROUTES, *finding.ROUTES, *comparing.ROUTES, *tasks.ROUTES,
        *labelling.ROUTES,
    ]  # fmt: skip
    app = Starlette(routes=routes, exception_handlers={HTTPException: _missing, Exception: _failed})
    app.router.redirect_slashes = False
    app.state.studio = studio
    return Guard(app, studio.site, lambda status, text: problem(status, text, studio.site.prefix), rate)


class _Prefixed:
    """Takes the path of a public address off where the proxy left it on."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app, self.prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] == "http" and self.prefix and path.startswith(f"{self.prefix}/"):
            scope = {**scope, "path": path[len(self.prefix) :], "raw_path": path[len(self.prefix) :].encode()}
        await self.app(scope, receive, send)


def site_of(host: str, port: int, public_url: str | None) -> Site:
    """Where the pages are reached; an error where nobody could say."""
    if public_url is not None:
        return Site.public(public_url)
    if host in ("0.0.0.0", "::"):
        raise UserError(
            f"--host {host} listens at every address of this machine: say with --public-url http://NAME:PORT by which "
            "of them people reach it"
        )
    return Site.at(host, port)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that nobody else can have the port."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # where it would let another program take the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(f"cannot listen at {host}, port {port} ({error}): give another --port") from error
    return listening


class _Server(uvicorn.Server):
    """ready: called when requests, and Ctrl-C, are heard."""

    ready: Callable[[], Any] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.ready is not None and not self.should_exit:
            self.ready()


def server_for(studio: Studio, rate: Rate | None = None) -> _Server:
    config = uvicorn.Config(
        _Prefixed(build(studio, rate), studio.site.prefix), log_level="critical", access_log=False,
        server_header=False, proxy_headers=False, http=Impatient, ws="none", lifespan="off", limit_concurrency=512,
        timeout_keep_alive=20, timeout_graceful_shutdown=2,
    )  # fmt: skip
    return _Server(config)


def serve(
    runs: Sequence[Path], store: Path, *, host: str = "127.0.0.1", port: int = PORT, public_url: str | None = None,
    password: str | None = None, ready: Callable[[Studio], Any] | None = None,
) -> None:  # fmt: skip
    """Serve until stopped. ready: called with the studio when it can be reached."""
    if host not in LOOPBACK and not password:
        raise UserError(f"--host {host} lets others on the network in: a password is needed")
    with contextlib.closing(listen(host, port)) as listening:
        site = site_of(host, listening.getsockname()[1], public_url)
        with contextlib.closing(Store(store)) as opened:
            studio = Studio(Shelf(runs), opened, site, password if host not in LOOPBACK else None)
            _warm()
            with contextlib.suppress(KeyboardInterrupt):  # the way to stop it, and no accident
                server = server_for(studio)
                server.ready = None if ready is None else partial(ready, studio)
                server.run(sockets=[listening])


def _warm() -> None:
    """Whatever is slow the first time, before anybody waits for it."""
    codes(pa.array(["a"]))  # pyarrow looks for pandas
    for name in ("runs.html", "gallery.html", "finding.html", "label.html"):
        compiled(name)
