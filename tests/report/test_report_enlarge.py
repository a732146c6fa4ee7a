"""Thumbnails enlarge without a script: a card that is the page's target, or whose picture has the focus."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fake_compare import FOUR, save_comparison
from fake_findings import rows, save_run, shrunk, table_of

from foible.findings import Findings
from foible.report import write_report

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="needs chromium")


def test_a_click_enlarges_a_card_and_close_makes_it_small_again(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    hunt = write_report(save_run(Findings(table_of(shrunk(rows(12)))), tmp_path / "hunt", shards=1))
    compared = write_report(save_comparison(tmp_path / "compared", FOUR))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(hunt.as_uri())
        card = page.locator(".cards li").nth(3)
        picture, more = card.locator(".open img").nth(1), card.locator(".more")

        def wide() -> float:
            box = picture.bounding_box()
            assert box is not None
            return float(box["width"])

        small = wide()
        assert not more.is_visible(), "two lines are enough"
        picture.click()
        assert wide() > 3 * small
        assert more.is_visible()
        card.locator(".close").click()
        assert wide() == small
        page.goto(compared.as_uri())
        picture = page.locator(".cards .large").first.locator("img")
        picture.scroll_into_view_if_needed()
        small = wide()
        picture.click()
        assert wide() > 2 * small
        browser.close()
