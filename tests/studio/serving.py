"""A Studio that runs in a thread, asked over real sockets; and a small run for it to show."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_findings import realistic, save_run
from fake_runs import genuine

from foible.findings import Findings
from foible.studio.base import Item, Task
from foible.studio.rows import key_of
from foible.studio.safety import Rate, Site
from foible.studio.server import listen, server_for
from foible.studio.shelf import Shelf
from foible.studio.store import Store
from foible.studio.web import Studio


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def cookie(self) -> str:
        return self.headers.get("set-cookie", "").partition(";")[0]


@dataclass
class Served:
    studio: Studio
    port: int
    cookie: str = ""  # the owner's

    @property
    def base(self) -> str:
        return self.studio.site.url

    def ask(
        self, path: str, method: str = "GET", body: bytes | str | None = None, cookie: str | None = None, **headers: str
    ) -> Reply:
        """One request, as the owner unless another cookie is given; header names with _ for -."""
        given: dict[str, str] = {"host": self.studio.site.host}
        if method == "POST":
            given |= {"origin": self.studio.site.origin, "content-type": "application/x-www-form-urlencoded"}
        who = self.cookie if cookie is None else cookie
        given |= {"cookie": who} if who else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return raw(self.port, method, path, {name: value for name, value in given.items() if value != "-"}, body)


def raw(port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | str | None = None) -> Reply:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        asking.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        data = body.encode() if isinstance(body, str) else body
        for name, value in headers.items():
            asking.putheader(name, value)
        if data is not None and "content-length" not in headers:
            asking.putheader("content-length", str(len(data)))
        asking.endheaders(data)
        reply = asking.getresponse()
        return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
    finally:
        asking.close()


@contextlib.contextmanager
def served(
    folder: Path, runs: list[Path], *, public: str | None = None, password: str | None = None, rate: Rate | None = None
) -> Iterator[Served]:
    """A server of its own port; the owner has come in by the link."""
    with (
        contextlib.closing(listen("127.0.0.1", 0)) as listening,
        contextlib.closing(Store(folder / "s.sqlite")) as store,
    ):
        store.base.execute("PRAGMA synchronous = OFF")  # no test here cuts the power
        port = listening.getsockname()[1]
        site = Site.public(public.replace("PORT", str(port))) if public else Site.at("127.0.0.1", port)
        studio = Studio(Shelf(runs), store, site, password)
        server = server_for(studio, rate)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)
        made = Served(studio, port)
        try:
            if password is None:
                made.cookie = made.ask(studio.link.removeprefix(site.origin)).cookie
            yield made
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)


def small_run(folder: Path, trials: int = 12) -> Path:
    """A hunt of made-up digits, in three shards."""
    return genuine(save_run(realistic(trials), folder))


def task_in(store: Store, run: Path, count: int = 12, people: int = 2, **more: Any) -> Task:
    found = Findings.open(run).filter(outcome="found").head(count)
    items = [Item(row["id"], row["image"]) for row in found]
    options = {"people": [f"p{number}" for number in range(people)], "run": str(run.resolve()), **more}
    return store.add_task(options.pop("name", "some"), str(run), found.classes, items, **options)


def wait_for_port(port: int) -> None:
    for _ in range(400):
        with contextlib.suppress(OSError), contextlib.closing(socket.create_connection(("127.0.0.1", port), 1)):
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens at {port}")


__all__ = ["Reply", "Served", "key_of", "raw", "served", "small_run", "task_in", "wait_for_port"]
