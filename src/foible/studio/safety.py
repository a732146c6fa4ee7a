"""Safe by default: who may ask, from where, how much and how fast. Stands before every route.

Host and Origin are compared exactly, so that neither another site nor another name for this machine gets an answer;
what changes anything must say its Origin. Bodies are small and come in time. Nothing is framed, sniffed or cached by
others, and no script runs but ours.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from foible.errors import UserError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_BODY = 1 << 20  # bytes
BODY_SECONDS = 10.0
HEAD_SECONDS = 10.0
METHODS = ("GET", "HEAD", "POST")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)  # style attributes are widths of bars, written by our templates; names never get there unescaped
HEADERS = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin", "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY", "permissions-policy": "camera=(), microphone=(), geolocation=()",
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """Where the pages are reached. host: as a browser says it, with the port where it is not the usual one. prefix: of
    every path, "" or "/studio"."""

    host: str
    scheme: str = "http"
    prefix: str = ""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def url(self) -> str:
        return self.origin + self.prefix

    @property
    def port(self) -> int:
        return urlsplit(self.origin).port or (443 if self.scheme == "https" else 80)

    @staticmethod
    def at(host: str, port: int) -> Site:
        shown = f"[{host}]" if ":" in host else host
        return Site(shown if port == 80 else f"{shown}:{port}")

    @staticmethod
    def public(url: str) -> Site:
        """A site behind a reverse proxy, from the address that people type."""
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as error:
            raise UserError(
                f"--public-url is {url!r}: expected an address such as https://host/path ({error})"
            ) from None
        plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        if not plain or parts.query or parts.fragment or not parts.netloc.isascii() or not parts.path.isascii():
            raise UserError(f"--public-url is {url!r}: expected an address such as https://host/path")
        return Site(parts.netloc.lower(), parts.scheme, parts.path.rstrip("/"))


@dataclass
class Rate:
    """A bucket for each key: `burst` at once, `refill` a second. The buckets used last are kept."""

    burst: float
    refill: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def spend(self, key: str) -> bool:
        """Take one; False where there is none left."""
        now = self.clock()
        left, at = self._left.pop(key, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.refill)
        self._left[key] = (max(0.0, left - 1), now)
        if len(self._left) > 4096:
            self._left.popitem(last=False)
        return left >= 1


class Guard:
    """Refuses what should not get through, and sets the headers of what does. `refuse` makes the page that says why."""

    def __init__(
        self, app: ASGIApp, site: Site, refuse: Callable[[int, str], Response], rate: Rate | None = None
    ) -> None:
        self.app, self.site, self.refuse = app, site, refuse
        self.rate = rate or Rate(burst=1500, refill=200)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        wrong = self._wrong(scope)
        body = b""
        if wrong is None:
            try:
                body = await asyncio.wait_for(_body(receive), BODY_SECONDS)
            except TimeoutError:
                wrong = 408, "What was sent came too slowly."
            except _TooMuch:
                wrong = 413, "That was too much to send at once."
            except _Gone:
                return

        async def again() -> Message:
            nonlocal body
            sent, body = body, b""
            return {"type": "http.request", "body": sent, "more_body": False}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                more = {**HEADERS, "cache-control": "no-store"}
                added = [(n.encode(), v.encode()) for n, v in more.items() if n.encode() not in there]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        if wrong is None:
            await self.app({**scope, "foible.body": body}, again, guarded)
        else:
            made = self.refuse(*wrong)
            if wrong[0] in (408, 413):
                made.headers["connection"] = "close"
            await made(scope, again, guarded)

    def _wrong(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the reason of what is refused; None of anything else."""
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value)
        if [one.decode("latin-1") for one in given.get(b"host", ())] != [self.site.host]:
            return 421, "This is not the address of this page: open the link that foible printed."
        if scope["method"] not in METHODS:
            return 405, "This page only knows GET, HEAD and POST."
        origins = [one.decode("latin-1") for one in given.get(b"origin", ())]
        changes = scope["method"] == "POST"
        if (origins or changes) and origins != [self.site.origin]:
            return 403, "This was asked from another page than ours."
        fetched = (given.get(b"sec-fetch-site") or [b"none"])[0]
        mode = (given.get(b"sec-fetch-mode") or [b"navigate"])[0]
        if fetched not in (b"none", b"same-origin") and (changes or mode != b"navigate"):
            return 403, "This was asked from another page than ours."
        length = given.get(b"content-length", [b"0"])
        if len(length) > 1 or not length[0].isdigit() or int(length[0]) > MOST_BODY:
            return 413, "That was too much to send at once."
        who = (given.get(b"cookie") or [b""])[0].decode("latin-1")[:500]
        client = scope.get("client") or ("?",)
        if not self.rate.spend(f"{client[0]} {who}"):
            return 429, "That was too much at once: wait a moment."
        return None


class _TooMuch(Exception):
    pass


class _Gone(Exception):
    pass


async def _body(receive: Receive) -> bytes:
    """What was sent, up to the limit."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BODY:
            raise _TooMuch
        if not message.get("more_body"):
            return b"".join(parts)


def same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that tells nothing."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


class Impatient(H11Protocol):
    """Closes a connection on which a request does not come whole in time: its head, that is; bodies have a time of
    their own."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._last: object = None
        self._timer = self.loop.call_later(HEAD_SECONDS, self._look)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE and self.cycle is self._last:  # no request since the last look
            self.transport.close()
            return
        self._last = self.cycle
        self._timer = self.loop.call_later(HEAD_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)
