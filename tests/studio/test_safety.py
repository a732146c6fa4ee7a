"""Who may ask, from where, how, how much and how fast: the whole matrix, and what a fuzzer makes of it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served, key_of, raw, served, small_run, task_in

from foible.errors import UserError
from foible.studio import safety
from foible.studio.safety import Rate, Site
from foible.studio.server import serve, site_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def site(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("store"), [run]) as made:
        yield made


def paths(site: Served, run: Path) -> dict[str, str]:
    """A reading and a changing route of each role."""
    store = site.studio.store
    task = store.task("some") or task_in(store, run)
    return {"read": f"/run/{key_of(run)}/", "change": f"/run/{key_of(run)}/tag", "label": f"/label/{task.key}/next",
            "answer": f"/label/{task.key}/answer"}  # fmt: skip


HOSTS = ("right", "localhost:PORT", "127.0.0.1", "evil.example:PORT", "127.0.0.1:PORT.evil.example", "[::1]:PORT", "-")
ORIGINS = ("right", "-", "null", "http://evil.example", "http://localhost:PORT", "https://127.0.0.1:PORT",
           "http://127.0.0.1:PORT.evil.example")  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_host_origin_token_method(site: Served, run: Path, method: str) -> None:
    """One combination of each kind lets in, and no other."""
    ways = paths(site, run)
    path = ways["change"] if method == "POST" else ways["read"]
    for host, origin, cookie in itertools.product(HOSTS, ORIGINS, ("owner", "none", "forged")):
        headers = {"host": site.studio.site.host if host == "right" else host.replace("PORT", str(site.port)),
                   "origin": site.studio.site.origin if origin == "right" else origin.replace("PORT", str(site.port)),
                   "cookie": {"owner": site.cookie, "none": "-", "forged": f"{site.studio.cookie}=x"}[cookie],
                   "content-type": "application/x-www-form-urlencoded"}  # fmt: skip
        sent = {name: value for name, value in headers.items() if value != "-"}
        status = raw(site.port, method, path, sent, b"tag=x" if method == "POST" else None).status
        where = (host, origin, cookie)
        if host == "-":
            assert status in (400, 421), where  # HTTP/1.1 itself asks for a Host
        elif host != "right":
            assert status == 421, where
        elif method not in ("GET", "HEAD", "POST"):
            assert status == 405, where
        elif (origin != "right" and (method == "POST" or origin != "-")) or cookie != "owner":
            assert status == 403, where
        else:
            assert status == (400 if method == "POST" else 200), where  # nothing was chosen to tag


def test_other_sites_cannot_use_a_browser_that_is_let_in(site: Served, run: Path) -> None:
    """Cross-site requests of a browser: embedding and forms are refused, a link that is followed comes through."""
    ways = paths(site, run)
    cross = {"sec_fetch_site": "cross-site"}
    assert site.ask(ways["read"], sec_fetch_mode="no-cors", **cross).status == 403
    assert site.ask(ways["read"], sec_fetch_mode="cors", sec_fetch_site="same-site").status == 403
    assert site.ask(ways["read"], sec_fetch_mode="navigate", **cross).status == 200
    assert site.ask(ways["change"], "POST", "tag=x", sec_fetch_mode="navigate", **cross).status == 403
    twice = f"GET {ways['read']} HTTP/1.1\r\nhost: {site.studio.site.host}\r\nhost: evil.example\r\n\r\n"
    with socket.create_connection(("127.0.0.1", site.port), 5) as asking:
        asking.sendall(twice.encode())
        assert b" 200 " not in asking.recv(1000).split(b"\r\n")[0]


def test_the_owners_link_works_once(run: Path, tmp_path: Path) -> None:
    with served(tmp_path, [run]) as site:
        assert site.cookie.startswith(site.studio.cookie)
        site.studio.tokens.add("another-token")
        assert site.ask("/enter/another-token", "HEAD", cookie="").status == 403  # a look ahead does not use it up
        first = site.ask("/enter/another-token", cookie="")
        kept = first.headers["set-cookie"].lower()
        assert all(word in kept for word in ("httponly", "samesite=strict", "path=/"))
        assert "secure" not in kept
        assert site.ask("/enter/another-token", cookie="").status == 403
        assert site.ask("/", cookie=first.cookie).status == 200
        assert site.ask("/", cookie="").status == 403
        assert "another-token" not in first.text


def test_headers_of_everything(site: Served, run: Path) -> None:
    row = f"/run/{key_of(run)}/picture/unit-000000/0"
    for path in ("/", "/static/studio.css", "/nothing", f"{row}/image", f"{row}/thumb", paths(site, run)["read"]):
        headers = site.ask(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert "public" not in headers["cache-control"]
    assert site.ask(f"{row}/image").headers["content-type"] == "image/png"


def test_annotators_have_rights_to_one_task(site: Served, run: Path) -> None:
    store = site.studio.store
    one, other = task_in(store, run, name="one"), task_in(store, run, name="other")
    first, second = store.people(one)
    reply = site.ask(f"/join/{first.token}", cookie="", sec_fetch_site="cross-site", sec_fetch_mode="navigate")
    assert reply.status == 200  # a link opened from another site works
    assert f"path=/label/{one.key}" in reply.headers["set-cookie"].lower().replace(one.key.lower(), one.key)
    mine = reply.cookie
    assert site.ask(f"/join/{first.token}", cookie="").cookie == mine  # a second device
    turns = json.loads(site.ask(f"/label/{one.key}/next", cookie=mine).body)["turns"]
    assert site.ask(f"/label/{one.key}/image/{turns[0]['turn']}", cookie=mine).headers["content-type"] == "image/png"
    for path in (f"/label/{other.key}/next", "/", "/tasks", f"/task/{one.key}/", f"/task/{one.key}/state",
                 f"/run/{key_of(run)}/", f"/task/{one.key}/export/csv"):  # fmt: skip
        assert site.ask(path, cookie=mine).status == 403, path
    renamed = mine.replace(one.key, other.key)  # the same secret under the other task's name
    assert site.ask(f"/label/{other.key}/next", cookie=renamed).status == 403
    theirs = store.next_turns(second)[0]
    assert site.ask(f"/label/{one.key}/image/{theirs}", cookie=mine).status == 404
    store.revoke(first)
    assert site.ask(f"/label/{one.key}/next", cookie=mine).status == 403
    assert site.ask(f"/join/{first.token}", cookie="").status == 403


def test_blind(site: Served, run: Path) -> None:
    """Nothing that an annotator gets names the finding, the truth, the prediction, the source or the task."""
    store = site.studio.store
    task = task_in(store, run, name="mistakes of mlp-10")
    person = store.people(task)[0]
    mine = site.ask(f"/join/{person.token}", cookie="").cookie
    base = f"/label/{task.key}/"
    turns = json.loads(site.ask(f"{base}next", cookie=mine).body)["turns"]
    replies = [site.ask(path, cookie=mine) for path in (
        f"/join/{person.token}", base, f"{base}work", f"{base}next", *(f"{base}image/{one['turn']}" for one in turns)
    )]  # fmt: skip
    seen = b"".join(reply.body for reply in replies).lower() + repr([r.headers for r in replies]).lower().encode()
    for word in ("mlp-10", "mistake", "finding", "suspect", "truth", "hunt", str(run).lower(), "foible studio</a>"):
        assert word.encode() not in seen, word
    assert {*turns[0]} == {"turn", "small"}
    assert len({tuple(sorted(reply.headers)) for reply in replies[4:]}) == 1


SECRET = "root-only-words"


@pytest.mark.parametrize("shape", [
    "/static/{}", "/run/{}/", "/run/KEY/picture/{}/0/image", "/run/KEY/picture/unit-000000/{}/image",
    "/run/KEY/picture/unit-000000/0/{}", "/run/KEY/json/{}/0", "/task/{}/", "/label/{}/", "/join/{}", "/enter/{}",
    "/{}",
])  # fmt: skip
def test_no_route_takes_a_path(site: Served, run: Path, tmp_path: Path, shape: str) -> None:
    secret = tmp_path / "secret.png"
    secret.write_text(SECRET)
    link = run.parent / "link.parquet"
    if not link.is_symlink():
        link.symlink_to(secret)
    here = os.path.relpath(secret, run)
    tries = [
        str(secret), here, f"..{here}", quote(here, safe=""), quote(quote(here, safe=""), safe=""),
        "..%2f..%2fetc%2fpasswd", "..%5c..%5cwin.ini", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//etc/passwd",
        "file:///etc/passwd", "%00", "..",
        "....//....//etc/passwd", "%c0%ae%c0%ae/etc/passwd", "\\\\host\\share", "link.parquet", "~/.ssh/id_rsa", "-1",
        "1e9", "９", "0x0", "99999999", "unit-000000/../../config.json", "config.json", "%ff%fe",
    ]  # fmt: skip
    for one in tries:
        target = shape.format(one).replace("KEY", key_of(run))
        who = "" if shape.startswith("/enter") else None  # who is in already is led on
        reply = site.ask(quote(target, safe="/%.~:\\") if not target.isascii() else target, cookie=who)
        assert reply.status in (400, 403, 404), target
        assert SECRET not in reply.text
        assert "root:" not in reply.text


def test_large_and_slow_bodies(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(safety, "HEAD_SECONDS", 0.3)
    with served(tmp_path, [run]) as site:
        change = f"/run/{key_of(run)}/tag"
        with contextlib.suppress(ConnectionError):  # it may hang up while we are still sending
            assert site.ask(change, "POST", b"x" * (safety.MOST_BODY + 1)).status == 413
        assert site.ask(change, "POST", b"x", content_length="99999999999").status == 413
        head = (f"POST {change} HTTP/1.1\r\nhost: {site.studio.site.host}\r\norigin: {site.studio.site.origin}\r\n"
                f"cookie: {site.cookie}\r\n")  # fmt: skip
        with socket.create_connection(("127.0.0.1", site.port), 5) as slow:
            slow.sendall(f"{head}content-length: 10\r\n\r\nx".encode())
            assert b" 408 " in slow.recv(200)
        with socket.create_connection(("127.0.0.1", site.port), 5) as endless:
            endless.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
            chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            try:
                for _ in range(40):
                    endless.sendall(chunk)
                answer = endless.recv(200)
            except ConnectionError:
                answer = b" 413 "
            assert b" 413 " in answer
        with socket.create_connection(("127.0.0.1", site.port), 5) as idle:
            idle.sendall(head.encode())  # a head that never ends
            idle.settimeout(5)
            assert idle.recv(100) == b""
        assert site.ask("/").status == 200


def test_rates(run: Path, tmp_path: Path) -> None:
    now = [0.0]
    rate = Rate(burst=3, refill=1, clock=lambda: now[0])
    assert [rate.spend("a") for _ in range(4)] == [True, True, True, False]
    assert rate.spend("b")
    now[0] = 1.0
    assert rate.spend("a")
    assert not rate.spend("a")
    with served(tmp_path, [run], rate=Rate(burst=6, refill=0.001)) as site:
        assert [site.ask("/tasks").status for _ in range(8)].count(429) >= 1


def test_a_password_for_everybody_else(run: Path, tmp_path: Path) -> None:
    with served(tmp_path, [run], password="correct horse") as site:
        assert site.studio.link.endswith("/enter")
        assert site.ask(f"/enter/{next(iter(site.studio.tokens))}").status == 200  # asks for the password
        assert site.ask("/").status == 403
        assert site.ask("/enter", "POST", "password=wrong").status == 403
        good = site.ask("/enter", "POST", "password=correct+horse")
        assert site.ask("/", cookie=good.cookie).status == 200
        assert [site.ask("/enter", "POST", "password=wrong").status for _ in range(6)][-1] == 429
    with pytest.raises(UserError, match="password"):
        serve([run], tmp_path / "a.sqlite", host="192.0.2.1")
    with pytest.raises(UserError, match="public-url"):
        site_of("0.0.0.0", 80, None)


def test_behind_a_reverse_proxy(run: Path, tmp_path: Path) -> None:
    """As nginx hands on: the public Host, the path taken off or left on."""
    with served(tmp_path, [run], public="https://labels.example/studio") as site:
        site.studio.tokens.add("one-more-token")
        assert site.studio.link == "https://labels.example/studio/enter/one-more-token"
        reply = site.ask("/enter/one-more-token", cookie="")
        kept = reply.headers["set-cookie"].lower()
        assert "path=/studio/" in kept
        assert "secure" in kept
        assert 'href="/studio/' in site.ask("/", cookie=reply.cookie).text
        assert site.ask("/studio/tasks", cookie=reply.cookie).status == 200
        assert site.ask("/", cookie=reply.cookie, host=f"127.0.0.1:{site.port}").status == 421
        made = site.ask(
            f"/run/{key_of(run)}/tag", "POST", "tag=x", cookie=reply.cookie, origin="https://labels.example"
        )
        assert made.status == 400
        assert site.ask("/tasks", cookie=reply.cookie, origin=f"http://127.0.0.1:{site.port}").status == 403
    for wrong in (
        "labels.example",
        "ftp://a",
        "https://a@b",
        "https://a/?x",
        "https://a:99999",
        "https://",
        "https://[x",
    ):
        with pytest.raises(UserError, match="public-url"):
            Site.public(wrong)
    assert Site.public("http://Host:8080/a/").url == "http://host:8080/a"


words = st.text(max_size=30) | st.sampled_from(["unit-000000", "0", "image", "found", "all", "csv", "-1", "\x00", "é"])


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_request_of_ours_fails_in_a_way_of_its_own(site: Served, run: Path, data: st.DataObject) -> None:
    """Whatever the routes are asked, they answer, and never with an error of ours."""
    ways = paths(site, run)
    task = ways["label"].split("/")[2]
    token = site.studio.store.people(site.studio.store.task("some"))[0].token or ""  # type: ignore[arg-type]
    cookie = data.draw(st.sampled_from([site.cookie, f"{site.studio.cookie}-{task}={token}", ""]))
    shape = data.draw(st.sampled_from([
        "/", "/run/K/", "/run/K/cards", "/run/K/state", "/run/K/picture/W/W/W", "/run/K/json/W/W", "/run/K/finding/W/W",
        "/compare", "/task/T/", "/task/T/item/W", "/task/T/export/W", "/task/T/adjudicate", "/label/T/image/W", "/W",
        "/run/K/tag", "/run/K/label", "/run/K/export", "/task/T/people", "/task/T/revoke", "/task/T/decide",
        "/task/T/take", "/label/T/answer", "/label/T/name", "/enter", "/label/T/example/W",
    ]))  # fmt: skip
    while "W" in shape:
        shape = shape.replace("W", quote(data.draw(words), safe=""), 1)
    path = shape.replace("K", key_of(run), 1).replace("T", task, 1)
    fields = data.draw(st.dictionaries(st.sampled_from([
        "outcome", "suspect", "truth", "said", "kind", "order", "from", "size-from", "confidence-to", "run", "tag",
        "all", "at[]", "name", "annotators", "votes", "to", "item", "choice", "by", "number", "label", "fooled",
        "password",
    ]), words, max_size=4))  # fmt: skip
    pairs = "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())
    if data.draw(st.booleans()):
        status = site.ask(f"{path}?{pairs}", cookie=cookie).status
    elif data.draw(st.booleans()):
        status = site.ask(path, "POST", pairs, cookie=cookie).status
    else:
        values = st.none() | st.integers() | st.floats() | st.text(max_size=9) | st.lists(st.integers(), max_size=2)
        names = st.sampled_from(["turn", "choice", "key", "seconds", "at[]", "tag"])
        sent = data.draw(st.dictionaries(names, values))
        body = json.dumps(sent)
        status = site.ask(path, "POST", body, cookie=cookie, content_type="application/json").status
    assert status in (200, 303, 400, 403, 404, 405, 429), (path, fields)


def test_a_link_that_is_nearly_right(site: Served, run: Path) -> None:
    """Secrets are looked up, or compared, as a whole: how much of one is right tells nothing."""
    task = task_in(site.studio.store, run, name="near")
    token = site.studio.store.people(task)[0].token or ""
    for wrong in (token[:-1], token[:-1] + ("a" if token[-1] != "a" else "b"), token + "a", token.swapcase()):
        assert site.ask(f"/join/{wrong}", cookie="").status == 403
    assert site.ask(f"/join/{token}", cookie="").status == 200
    assert safety.same("a", "a")
    assert not safety.same("a", "b")
