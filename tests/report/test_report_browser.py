"""The reports in a real browser: inert names, no overflow on a phone, light, dark, filters and print."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_compare import field, save_comparison
from fake_findings import CONFIG, HOSTILE, found_row, realistic, rows, save_run, shrunk, table_of
from numpy.random import default_rng
from test_report_rank import CONFIG as POOL
from test_report_rank import pool_rows

from foible.findings import Findings
from foible.report import write_report

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="needs chromium")
HUNTS = ["usual", "hostile", "long", "empty", "atlas", "many classes", "ranked"]
COMPARISONS = ["compared", "compared photographs", "compared hostile", "compared long", "pool"]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "chromium is not installed, and in CI these tests must run"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A usual report, one of hostile names, one of long names and many suspects, and an empty one."""
    folder = tmp_path_factory.mktemp("reports")
    networks = (HOSTILE, "peer \"'`&<>", "javascript:alert(1)")
    texts = dict.fromkeys(("id", "origin_data", "origin_split", "versions"), HOSTILE)
    nasty = shrunk(rows(12, networks, change=[(HOSTILE, 2.0)], **texts), kinds=[HOSTILE, "x"])
    classes = [HOSTILE, "</style>", "</title>", "<!--", '"', *"abcde"]
    config = {**CONFIG, "space": HOSTILE, HOSTILE: HOSTILE}
    long = tuple(f"network{'x' * 90}{n}" for n in range(10))
    wide = [found_row(default_rng(n), name, long, 0, 40, least=8) for n, name in enumerate(long)]
    tables = {
        "usual": realistic(),
        "hostile": Findings(table_of(nasty, classes, config)),
        "long": Findings(table_of(wide, [f"class{'y' * 200}{n}" for n in range(40)])),
        "empty": Findings(table_of([])),
        "atlas": Findings(table_of(shrunk(rows(80)), config={**CONFIG, "search": "map-elites"})),
        "many classes": Findings(table_of(_scattered(80), [f"a class called {n}" for n in range(200)])),
        "ranked": Findings(table_of(pool_rows(), config=POOL)),
    }
    titles = {"hostile": HOSTILE}
    hunts = {
        name: write_report(save_run(found, folder / name, shards=1), title=titles.get(name))
        for name, found in tables.items()
    }
    return hunts | {name: write_report(run) for name, run in _comparisons(folder).items()}


def _scattered(count: int, classes: int = 200) -> list[dict[str, Any]]:
    """Findings of ever other classes."""
    some = shrunk(rows(count))
    for number, row in enumerate(some):
        row |= {"truth": 2 * number, "consensus": 2 * number, "said": 2 * number + 1}
        row |= {name: [line + [0.0] * (classes - len(line)) for line in row[name]] for name in ("before", "after")}
    return some


def _comparisons(folder: Path) -> dict[str, Path]:
    """Usual, of photographs, of hostile names, of long names and many of them, and without labels."""
    hostile = (HOSTILE, "new \"'`&<>", "</style>")
    long = [f"{'network' * 12}{n}" for n in range(8)]
    odd = {"files": "/" * 30 + HOSTILE + "{}", "left_out": {HOSTILE: 1}, "notes": [HOSTILE], "unsettled": 2}
    return {
        "compared": save_comparison(folder / "compared", unreadable=2, unsettled=2),
        "compared photographs": save_comparison(
            folder / "photographs", ("march", "june", "probe"), images=200, paint=field(224), side=224, files="a/{}.jpg"
        ),
        "compared hostile": save_comparison(folder / HOSTILE.replace("/", "")[:40], hostile, [HOSTILE, *"abc"], **odd),
        "compared long": save_comparison(
            folder / "long names", long, [f"{'class' * 40}{n}" for n in range(50)], files="f" * 200 + "{}.png"
        ),
        "pool": save_comparison(folder / "pool", long[:5], [*"abc", "d" * 200], labelled=False),
    }


class Visit:
    """A page on show, with all that it tried to do."""

    def __init__(self, browser: Any, file: Path, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.noise: list[str] = []
        self.requests: list[str] = []
        self.page.on("dialog", lambda dialog: (self.noise.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("console", lambda message: self.noise.append(f"console {message.text}"))
        self.page.on("pageerror", lambda error: self.noise.append(f"error {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.fixture(scope="module", params=[*HUNTS, *COMPARISONS])
def opened(browser: Any, reports: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[tuple[str, Visit]]:
    """Each page in turn, opened once for all tests that only look at it."""
    with Visit(browser, reports[request.param]) as visit:
        yield request.param, visit


def test_page_is_inert_and_quiet(opened: tuple[str, Visit], reports: dict[str, Path]) -> None:
    name, visit = opened
    visit.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    visit.page.screenshot()
    assert visit.page.locator('img[src="x"], script, iframe, [onerror]').count() == 0
    if name == "hostile":
        assert visit.page.title() == HOSTILE
        assert HOSTILE in visit.page.locator("h1").inner_text()
    assert visit.noise == []
    assert [url for url in visit.requests if not url.startswith("data:image/")] == [reports[name].as_uri()]


def test_nothing_is_wider_than_the_page(opened: tuple[str, Visit]) -> None:
    """No sideways scrolling, and dots, arrows, numbers and names end within the page, on a phone too."""
    name, visit = opened
    beyond = (
        "[...document.querySelectorAll('.rails :not(bdi), .tiles *, .flips :not(bdi), .answers :not(bdi), .cards img')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML)"
    )
    for width in (360, 400, 768, 1200):
        visit.page.set_viewport_size({"width": width, "height": 900})
        assert visit.page.evaluate("innerWidth") == width
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        if name in COMPARISONS:
            assert visit.page.evaluate(beyond) == [], width


def test_every_picture_can_be_drawn(browser: Any, reports: dict[str, Path]) -> None:
    with Visit(browser, reports["usual"]) as visit:
        count, drawn = visit.page.evaluate(
            "async () => { const all = [...document.images]; await Promise.all(all.map(i => i.decode()));"
            " return [all.length, all.filter(i => i.naturalWidth > 0).length] }"
        )
        assert count == drawn > 100


def _background(visit: Visit) -> tuple[int, ...]:
    colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return tuple(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def test_light_and_dark(browser: Any, reports: dict[str, Path]) -> None:
    with (
        Visit(browser, reports["usual"], scheme="light") as light,
        Visit(browser, reports["usual"], scheme="dark") as dark,
    ):
        assert min(_background(light)) > 240
        assert max(_background(dark)) < 40
        assert light.page.screenshot() != dark.page.screenshot()


def test_filters_leave_what_was_asked_for(browser: Any, reports: dict[str, Path]) -> None:
    found = realistic().filter(outcome="found")
    shown = "[...document.querySelectorAll('.cards li')].filter(card => card.getClientRects().length).length"
    with Visit(browser, reports["usual"]) as visit:
        assert visit.page.evaluate(shown) == len(found)
        visit.page.get_by_label("Suspect", exact=True).select_option("mlp-20")
        assert visit.page.evaluate(shown) == len(found.filter(suspect="mlp-20"))
        truth = found.filter(suspect="mlp-20")[0]["truth"]
        visit.page.get_by_label("Right class").select_option(str(truth))
        assert visit.page.evaluate(shown) == len(found.filter(suspect="mlp-20", truth=truth)) > 0


def test_dots_and_arrows_are_where_the_numbers_say(browser: Any, reports: dict[str, Path]) -> None:
    """Between the first and the last tick of the axis, a dot lies where its percentage does."""
    places = """row => {
        const rail = row.querySelector('.rail').getBoundingClientRect(), dot = row.querySelector('.dot');
        const box = dot.getBoundingClientRect();
        return [(box.left + box.width / 2 - rail.left) / rail.width, row.querySelector('.value b').textContent];
    }"""
    with Visit(browser, reports["compared"]) as visit:
        marks = visit.page.locator("#accuracy .mark").all_inner_texts()
        low, high = float(marks[0]), float(marks[-1].split()[0])
        rows = visit.page.locator("#accuracy [data-network]").all()
        assert len(rows) == 2
        for row in rows:
            place, text = row.evaluate(places)
            assert low + place * (high - low) == pytest.approx(float(text.split()[0]), abs=0.05)


def test_one_filter_for_all_galleries_of_a_comparison(browser: Any, reports: dict[str, Path]) -> None:
    shown = "tag => [...document.querySelectorAll(`#${tag} .cards li`)].filter(c => c.getClientRects().length).length"
    with Visit(browser, reports["compared"]) as visit:
        everything = [visit.page.evaluate(shown, tag) for tag in ("broken", "fixed", "against-label")]
        assert not visit.page.locator("#broken .shown").is_visible()
        visit.page.get_by_label("Images labelled").select_option("cat")
        cats = [visit.page.evaluate(shown, tag) for tag in ("broken", "fixed", "against-label")]
        assert 0 < cats[0] < everything[0]
        assert all(some <= total for some, total in zip(cats, everything, strict=True))
        of_cats = visit.page.locator("#broken .what", has_text="cat taken for")
        assert of_cats.count() == cats[0]
        assert visit.page.locator("#broken .shown").is_visible()


def test_print_is_light_and_complete(browser: Any, reports: dict[str, Path]) -> None:
    with Visit(browser, reports["usual"], scheme="dark") as visit:
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert _background(visit) == (255, 255, 255)
        assert not visit.page.locator("nav").is_visible()
        assert not visit.page.locator(".filters").is_visible()
        assert visit.page.evaluate("document.querySelector('details pre').getBoundingClientRect().height") > 50
        assert visit.page.pdf(format="A4").startswith(b"%PDF")


def _shown(visit: Visit) -> list[str]:
    """The ids of the cards, as they stand on the screen."""
    found: list[str] = visit.page.evaluate(
        "[...document.querySelectorAll('.cards li')].filter(card => card.getClientRects().length)"
        ".map(card => [card.getBoundingClientRect(), card.querySelector('code').textContent])"
        ".sort((a, b) => a[0].top - b[0].top || a[0].left - b[0].left).map(([_, id]) => id)"
    )
    return found


def test_cards_can_be_sorted_by_realism(browser: Any, reports: dict[str, Path]) -> None:
    some = shrunk(rows(80))
    with Visit(browser, reports["atlas"]) as visit:
        usual = _shown(visit)
        assert usual == [row["id"] for row in sorted(some, key=lambda row: (row["truth"], row["said"], row["lane"]))]
        visit.page.get_by_label("Order").select_option("most realistic first")
        assert _shown(visit) == [row["id"] for row in sorted(some, key=lambda row: -row["realism"])]
        visit.page.get_by_label("Order").select_option("least realistic first")
        assert _shown(visit) == [row["id"] for row in sorted(some, key=lambda row: row["realism"])]


def test_a_square_of_the_atlas_leads_to_its_card(browser: Any, reports: dict[str, Path]) -> None:
    with Visit(browser, reports["atlas"]) as visit:
        square = visit.page.locator(".squares a").nth(5)
        square.scroll_into_view_if_needed()
        right = square.get_attribute("title").split(" taken")[0]
        other = next(str(digit) for digit in range(10) if str(digit) != right)
        visit.page.get_by_label("Right class").select_option(other)  # hidden by the filter, and shown all the same
        target = visit.page.locator(square.get_attribute("href"))
        assert not target.is_visible()
        square.click()
        assert target.is_visible()
        assert target.inner_text().startswith(f"{right} taken for")
        assert 0 <= target.bounding_box()["y"] < 800


def test_squares_of_the_atlas_can_be_hit(browser: Any, reports: dict[str, Path]) -> None:
    for name in ("atlas", "many classes"):
        with Visit(browser, reports[name]) as visit:
            for width in (390, 1200):
                visit.page.set_viewport_size({"width": width, "height": 900})
                boxes = visit.page.evaluate(
                    "[...document.querySelectorAll('.squares a')].map(a => a.getBoundingClientRect())"
                    ".map(box => [box.width, box.height])"
                )
                assert boxes
                assert min(min(box) for box in boxes) >= 6
