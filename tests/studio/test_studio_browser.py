"""Studio in a real browser: look, filter, step; label, undo, reload, kill the server and go on; hostile names; axe."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fake_findings import CONFIG, HOSTILE, realistic, rows, save_run, shrunk, table_of
from fake_runs import genuine
from serving import Served, key_of, served, small_run, task_in, wait_for_port

from foible.findings import Findings
from foible.studio.base import CANNOT_TELL, NONE_OF_THESE, Item
from foible.studio.store import Store

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="needs chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WEIGHT = 200_000  # bytes of a page before its images


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "chromium is not installed, and in CI these tests must run"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Visit:
    """A browser of one person, with all that a page tried to do."""

    def __init__(self, browser: Any, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.noise: list[str] = []
        self.page.on("dialog", lambda dialog: (self.noise.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.noise.append(f"error {error}"))
        self.page.on(
            "console", lambda said: self.noise.append(f"console {said.text}") if said.type == "error" else None
        )

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def until(self, true: Callable[[], Any]) -> None:
        """Wait; not in the page, whose policy lets nobody evaluate anything."""
        for _ in range(1000):
            if true():
                return
            self.page.wait_for_timeout(10)
        raise AssertionError("it never came true")

    def ready(self) -> None:
        """An image is there, and may be answered."""
        self.page.locator("[data-stage][data-ready=yes]").wait_for()

    def own(self, site: Served) -> None:
        """Come in as the owner, by a link of one's own."""
        site.studio.tokens.add("a-fresh-token-for-this-browser")
        self.page.goto(f"{site.base}/enter/a-fresh-token-for-this-browser")
        self.page.wait_for_url(f"{site.base}/")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("runs") / "hunt", 30)


@pytest.fixture(scope="module")
def site(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("store"), [run.parent]) as made:
        yield made


def test_browse_filter_open_and_step(browser: Any, site: Served, run: Path) -> None:
    found = realistic(30).filter(outcome="found")
    with Visit(browser) as visit:
        visit.own(site)
        page = visit.page
        line = page.locator("[data-run]", has_text="hunt").first
        line.locator("[data-success] small").wait_for()
        assert f"{len(found)} of 150" in line.locator("[data-success]").inner_text()
        line.locator(".title").click()
        page.locator(".card").first.wait_for()
        assert f"{len(found)} of 150 rows" in page.locator(".lead").inner_text()
        page.get_by_label("Suspect", exact=True).select_option("mlp-20")
        page.wait_for_url("**suspect=mlp-20**")
        own = found.filter(suspect="mlp-20")
        assert page.locator(".card").count() == len(own)
        truth = own[0]["truth"]
        page.get_by_label("Right class").select_option(str(truth))
        page.wait_for_url(f"**truth={truth}**")
        few = own.filter(truth=truth)
        assert page.locator(".card").count() == len(few) > 0
        assert "outcome=&" not in page.url  # an address says what was asked for, and nothing else
        page.reload()
        assert page.locator(".card").count() == len(few)  # a view is its address

        page.locator(".card a").first.click()
        page.locator("[data-steps].one-by-one").wait_for()  # the script is there, and hears keys
        row = few[0]
        assert row["id"] in page.locator(".over").inner_text()
        steps = len(row["trace"])
        at = page.locator("[data-at]")
        assert at.inner_text() == f"step 0 of {steps - 1}"
        page.keyboard.press("ArrowRight")
        assert at.inner_text() == f"step 1 of {steps - 1}"
        shown = page.locator(".step:not([hidden])")
        assert shown.count() == 1
        own_bar = shown.locator(".own .told").inner_text()
        suspect = row["networks"].index("mlp-20")
        assert float(own_bar.strip("<>")) == pytest.approx(row["trace"][1][suspect], abs=0.011)
        assert shown.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 28
        for _ in range(steps):
            page.keyboard.press("ArrowRight")
        assert at.inner_text() == f"step {steps - 1} of {steps - 1}"
        page.keyboard.press("ArrowLeft")
        assert at.inner_text() == f"step {steps - 2} of {steps - 1}"
        slider = page.locator("#cut")
        slider.focus()
        slider.press("End")
        assert (
            page.evaluate("getComputedStyle(document.querySelector('[data-slide]')).getPropertyValue('--cut')")
            == "100%"
        )
        told = json.loads(page.request.get(page.get_by_text("The row as JSON").evaluate("a => a.href")).text())
        assert told["id"] == row["id"]
        assert f"foible replay {run.parent / 'hunt'} {row['id']}" in page.locator("[data-copy]").inner_text()
        assert visit.noise == []


def test_what_is_chosen_before_the_script_is_there_counts(browser: Any, site: Served, run: Path) -> None:
    with Visit(browser) as visit:
        visit.own(site)
        page, held = visit.page, []
        page.route("**/gallery.js", lambda route: route.continue_() if held else held.append(route))
        page.goto(f"{site.base}/run/{key_of(run)}/", wait_until="commit")
        page.get_by_label("Suspect", exact=True).select_option("mlp-20")
        visit.until(lambda: held)
        assert "suspect" not in page.url
        held[0].continue_()
        page.wait_for_url("**suspect=mlp-20**")
        page.go_back()
        assert "suspect" not in page.url  # a page that one comes back to stays
        assert page.get_by_label("Suspect", exact=True).input_value() == ""
        assert visit.noise == []


def test_choose_tag_and_send_to_labelling(browser: Any, site: Served, run: Path) -> None:
    with Visit(browser) as visit:
        visit.own(site)
        page = visit.page
        page.goto(f"{site.base}/run/{key_of(run)}/")
        for number in (0, 1, 2):
            page.locator(".card > input").nth(number).check()
        assert page.locator("[data-count]").inner_text() == "3"
        page.locator("#tag-name").fill("odd")
        page.get_by_role("button", name="Tag", exact=True).click()
        page.wait_for_load_state()
        page.get_by_label("Tag", exact=True).first.select_option("odd")
        page.wait_for_url("**tag=odd**")
        assert page.locator(".card").count() == 3
        page.locator(".card > input").first.check()
        page.locator("[name=all]").check()
        assert page.locator("[data-count]").inner_text() == "3"
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        assert len(Path(download.value.path()).read_text().splitlines()) == 4  # a head, and three rows
        page.locator("[name=name]").fill("three of them")
        page.get_by_role("button", name="Make the task").click()
        page.wait_for_url("**/task/**")
        assert "3 images" in page.locator(".lead").inner_text()
        assert page.locator("code.link").count() == 3
        assert visit.noise == []


class Program:
    """`foible label` as a user starts it; it may be killed and started again at the same port."""

    def __init__(self, run: Path, folder: Path, port: int, *options: str) -> None:
        script = "import sys; from foible.cli import main; sys.argv[0] = 'foible'; main()"
        self.command = [sys.executable, "-c", script, "label", str(run), "--port", str(port), "--store",
                        str(folder / "studio.sqlite"), "--json", *options]  # fmt: skip
        self.port = port
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.said = json.loads(self.process.stdout.readline())
        wait_for_port(self.port)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_label_by_keyboard_undo_reload_kill_and_go_on(browser: Any, run: Path, tmp_path: Path) -> None:
    """Every answer exactly once, whatever happens to the server in between."""
    program = Program(run, tmp_path, free_port(), "--limit", "24", "--name", "me")
    try:
        with Visit(browser) as visit:
            page = visit.page
            page.goto(program.said["links"]["me"])
            page.get_by_role("button", name="Begin").click()
            page.locator("[data-image]:not([hidden])").wait_for()
            image, saved = page.locator("[data-image]"), page.locator("[data-saved]")
            given: list[tuple[str, int]] = []

            def press(key: str) -> None:
                """One answer, once the image is there to be answered."""
                visit.ready()
                source = image.get_attribute("src") or ""
                page.keyboard.press(key)
                done = page.locator("[data-finished]:not([hidden])")
                visit.until(lambda: image.get_attribute("src") != source or (len(given) == 23 and done.count()))
                given.append((source.rpartition("/")[2], int(key)))

            for number in range(6):
                press(str(number))
            turn, _ = given.pop()
            page.keyboard.press("Backspace")  # the last one is taken back
            visit.until(lambda: (image.get_attribute("src") or "").endswith(turn))
            press("9")
            assert given[-1] == (turn, 9)
            page.get_by_text("all saved").wait_for()
            page.reload()
            page.locator("[data-image]:not([hidden])").wait_for()
            assert page.locator("[data-progress]").inner_text() == "6 of 24"
            press("3")
            page.get_by_text("all saved").wait_for()
            shown_as_saved = len(given)

            program.kill()
            press("4")
            page.get_by_text(re.compile("no connection: 1 kept here")).wait_for()
            for number in range(3):  # what was fetched ahead can go on being answered
                press(str(number))
            assert "4 kept here" in saved.inner_text()
            with sqlite3.connect(tmp_path / "studio.sqlite") as base:
                assert base.execute("SELECT count(*) FROM standing").fetchone()[0] == shown_as_saved
            program.start()
            page.get_by_text("all saved").wait_for(timeout=15_000)
            while len(given) < 24:
                press(str(len(given) % 10))
            page.get_by_text("Done. Thank you.").wait_for()
            page.get_by_text("all saved").wait_for()
            assert [line for line in visit.noise if "ERR_CONNECTION_REFUSED" not in line] == []
    finally:
        program.kill()
    store = Store(tmp_path / "studio.sqlite")
    task = store.tasks()[0]
    kept = store.all("SELECT turns.key, choice FROM standing JOIN turns ON turns.id = turn")
    assert sorted(map(tuple, kept)) == sorted(given)
    assert {*Counter(row["item"] for row in store.rows(task)).values()} == {1}
    assert store.given(task) == 24 + 2  # and the one taken back, with the taking back
    assert all(row["seconds"] is not None for row in store.rows(task))
    store.close()


def test_hostile_names(browser: Any, tmp_path: Path) -> None:
    """Names of classes, files, networks, people and tags are words, whatever they say: nothing runs, nothing opens."""
    networks = (HOSTILE, "peer \"'`&<>", "javascript:alert(1)")
    texts = dict.fromkeys(("origin_data", "origin_split", "origin_file"), HOSTILE)
    nasty = shrunk(rows(6, networks, change=[(HOSTILE, 2.0)], **texts), kinds=[HOSTILE, "x"])
    for number, row in enumerate(nasty):
        row["id"] = f"{HOSTILE}{number}"
    classes = [HOSTILE, "</style>", "</title>", "<!--", '"><script>alert(1)</script>', *"abcde"]
    folder = tmp_path / HOSTILE.replace("/", "")[:40]
    found = Findings(table_of(nasty, classes, {**CONFIG, "space": HOSTILE}))
    run = genuine(save_run(found, folder, shards=1), {**CONFIG, "space": HOSTILE, "data": HOSTILE})
    with served(tmp_path, [run]) as site, Visit(browser) as visit:
        site.studio.store.add_task(
            HOSTILE, HOSTILE, classes, [Item(row["id"], row["image"]) for row in nasty], run=str(run), question=HOSTILE,
            guideline=f"{HOSTILE}\n\n{HOSTILE}", people=[HOSTILE, '"onfocus=alert(1) autofocus='], votes=2,
            other=(CANNOT_TELL, NONE_OF_THESE), keys={"</style>": "<"},
        )  # fmt: skip
        visit.own(site)
        page, key = visit.page, key_of(run)
        task = site.studio.store.tasks()[0]
        ways = ("/", f"/run/{key}/", f"/run/{key}/?suspect={HOSTILE}&order=sure", f"/run/{key}/finding/unit-000000/0",
                f"/compare?run={key}", "/tasks", f"/task/{task.key}/", f"/task/{task.key}/adjudicate")  # fmt: skip
        for path in ways:
            page.goto(site.base + path)
            assert page.locator('img[src="x"], script:not([src]), iframe, [onerror], [onfocus]').count() == 0, path
        page.goto(f"{site.base}/run/{key}/")
        options = page.locator("option").all_inner_texts()
        assert any(HOSTILE in text for text in (page.locator(".card .words").first.inner_text(), *options))
        page.locator(".card > input").first.check()
        page.locator("#tag-name").fill(HOSTILE)
        page.get_by_role("button", name="Tag", exact=True).click()
        page.locator(".tag", has_text="onerror").first.wait_for()
        first, second = site.studio.store.people(task)
        for number, person in enumerate((first, second)):
            page.goto(f"{site.base}/join/{person.token}")
            page.wait_for_url("**/label/**")
            assert page.locator("h1").inner_text() == HOSTILE
            page.locator("#who").fill(f"{HOSTILE}{number}")
            page.get_by_role("button", name="Begin").click()
            page.locator("[data-image]:not([hidden])").wait_for()
            assert page.locator("[data-choice='0']").inner_text().startswith(HOSTILE)
            visit.ready()
            page.locator(f"[data-choice='{4 * number}']").click()
            page.get_by_text("all saved").wait_for()
            assert page.locator('img[src="x"], script:not([src]), [onerror]').count() == 0
        page.goto(f"{site.base}/task/{task.key}/")
        assert HOSTILE in page.locator("#people").inner_text()
        assert visit.noise == []


class Proxy(BaseHTTPRequestHandler):
    """What the nginx of docs/studio.md does: takes /studio/ off, keeps Host, hands on. And, at its root, a page of
    another site with a link."""

    port, link = 0, ""

    def do_GET(self) -> None:
        if self.path == "/":
            self._reply(
                200,
                [("content-type", "text/html")],
                f'<link rel=icon href=data:,><a href="{self.link}">to the images</a>'.encode(),
            )
            return
        assert self.path.startswith("/studio/")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        asking.putrequest(self.command, self.path.removeprefix("/studio"), skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "accept-encoding"):
                asking.putheader(name, value)
        asking.endheaders(body)
        reply = asking.getresponse()
        data = reply.read()
        asking.close()
        kept = [(name, value) for name, value in reply.getheaders() if name.lower() not in ("content-length", "date")]
        self._reply(reply.status, kept, data)

    do_POST = do_GET

    def _reply(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in [*headers, ("content-length", str(len(data)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_link_from_another_site_through_a_proxy(browser: Any, run: Path, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        front = proxy.server_address[1]
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            with served(tmp_path, [run], public=f"http://127.0.0.1:{front}/studio") as site, Visit(browser) as visit:
                store = site.studio.store
                task = task_in(store, run, 3, 1)
                Proxy.port = site.port
                Proxy.link = f"{site.base}/join/{store.people(task)[0].token}"
                visit.page.goto(f"http://localhost:{front}/")  # another site than 127.0.0.1
                visit.page.get_by_text("to the images").click()
                visit.page.get_by_role("button", name="Begin").click()
                for _ in range(3):
                    visit.ready()
                    visit.page.keyboard.press("5")
                    visit.page.get_by_text("all saved").wait_for()
                visit.page.get_by_text("Done. Thank you.").wait_for()
                kept = visit.context.cookies()
                assert [one["path"] for one in kept] == [f"/studio/label/{task.key}"]
                assert {one["sameSite"] for one in kept} == {"Strict"}
                visit.own(site)
                visit.page.get_by_role("link", name="Labelling").click()
                assert "3 of 3" in visit.page.locator(".runs").inner_text()
                assert len(store.rows(task)) == 3
                assert visit.noise == []
        finally:
            proxy.shutdown()
            thread.join()


VIEWS = ("/", "/run/RUN/", "/run/RUN/?truth=3&said=3", "/run/RUN/finding/unit-000000/0", "/compare?run=RUN", "/tasks",
         "/task/TASK/", "/task/TASK/adjudicate", "/nowhere", "JOIN", "JOIN work")  # fmt: skip


def test_every_view_is_accessible_and_still(browser: Any, tmp_path: Path) -> None:
    """axe-core finds nothing against WCAG 2 AA, in light and in dark; nothing is wider than the page, on a phone too;
    nothing jumps, and no page is heavy."""
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
    run = small_run(tmp_path / "hunt", 6)
    with served(tmp_path, [run]) as site, Visit(browser) as visit:
        task = task_in(site.studio.store, run, people=3, votes=2, other=(CANNOT_TELL,), extra=0)
        for number, person in enumerate(site.studio.store.people(task)):
            for turn in site.studio.store.next_turns(person, 5):
                site.studio.store.answer(person, turn, number, 1.0, f"key-{turn}")
        visit.own(site)
        page = visit.page
        weight = [0]

        def weigh(reply: Any) -> None:
            if reply.headers.get("content-type") != "image/png":
                weight.append(int(reply.headers.get("content-length", 0)))

        page.on("response", weigh)
        page.add_init_script(
            "window.shift = 0; new PerformanceObserver(list => { for (const one of list.getEntries()) "
            "if (!one.hadRecentInput) window.shift += one.value; }).observe({type: 'layout-shift', buffered: true});"
        )
        for view in VIEWS:
            path = view.replace("RUN", key_of(run)).replace("TASK", task.key)
            if view.startswith("JOIN"):
                page.goto(f"{site.base}/join/{site.studio.store.people(task)[2].token}")
                page.wait_for_url("**/label/**")
                path = f"/label/{task.key}/{'work' if 'work' in view else ''}"
            page.emulate_media(color_scheme="light")
            page.set_viewport_size({"width": 1280, "height": 900})
            weight.clear()
            page.goto(site.base + path)
            page.evaluate("Promise.all([...document.images].filter(i => !i.loading && i.src).map(i => i.decode()))")
            visit.until(lambda: not page.locator(".wait").count())
            assert sum(weight) < WEIGHT, view
            assert page.evaluate("window.shift") < 0.02, view
            page.evaluate(axe)  # from the debugger: the page's own policy would refuse it
            assert wrong(page, "runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']") == [], view
            assert min(background(page)) > 240, view
            page.emulate_media(color_scheme="dark")
            assert max(background(page)) < 40, view
            assert wrong(page, "runOnly: {type: 'rule', values: ['color-contrast']}") == [], view
            for width in (390, 768):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (view, width)


def wrong(page: Any, options: str) -> list[tuple[str, list[str]]]:
    found = page.evaluate(f"axe.run(document, {{resultTypes: ['violations'], {options}}})")
    return [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in found["violations"]]


def background(page: Any) -> list[int]:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in re.findall(r"\d+", colour)[:3]]


def test_small_images_are_crisp_and_long_lists_are_searched(browser: Any, run: Path, tmp_path: Path) -> None:
    many = [f"class {number}" for number in range(60)] + ["zebra", "zebrafish"]
    with served(tmp_path, [run]) as site, Visit(browser, 390) as visit:
        store = site.studio.store
        found = Findings.open(run).filter(outcome="found").head(2)
        items = [Item(row["id"], row["image"]) for row in found]
        task = store.add_task("long", "s", many, items, people=["me"], repeats=0)
        page = visit.page
        page.goto(f"{site.base}/join/{store.people(task)[0].token}")
        page.get_by_role("button", name="Begin").click()
        visit.ready()
        assert page.locator("[data-image]").evaluate("image => getComputedStyle(image).imageRendering") == "pixelated"
        page.keyboard.type("zebraf")
        assert page.locator("[data-choice]:visible").count() == 1
        page.keyboard.press("Enter")
        visit.ready()
        page.keyboard.type("zebra")
        page.keyboard.press("Enter")
        page.get_by_text("Done. Thank you.").wait_for()
        page.get_by_text("all saved").wait_for()
        assert [task.word(row["choice"]) for row in store.rows(task)] == ["zebrafish", "zebra"]
        assert visit.noise == []


def test_a_late_reply_brings_no_image_back(browser: Any, run: Path, tmp_path: Path) -> None:
    """What the server said of what comes next, before it took the last answer, is out of date."""
    held: list[Any] = []
    with served(tmp_path, [run]) as site, Visit(browser) as visit:
        store, page = site.studio.store, visit.page
        task = task_in(store, run, 2, 1, repeats=0)
        page.goto(f"{site.base}/join/{store.people(task)[0].token}")
        page.get_by_role("button", name="Begin").click()
        visit.ready()
        page.route("**/next", lambda route: route.continue_() if held else held.append(route))
        page.keyboard.press("1")  # few are left, so that more are asked for
        visit.until(lambda: held)
        reply = held[0].fetch()
        visit.ready()
        page.keyboard.press("2")
        page.get_by_text("all saved").wait_for()
        visit.until(lambda: len(store.rows(task)) == 2)
        held[0].fulfill(response=reply)
        page.get_by_text("Done. Thank you.").wait_for()
        assert page.locator("[data-progress]").inner_text() == "2 of 2"
        assert len(store.rows(task)) == 2
