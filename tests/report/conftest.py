"""A comparison and its page, for all tests that read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_compare import FOUR, save_comparison
from html_page import Page

from foible.report import write_report


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four networks, 600 grey images, files with names, some of everything."""
    folder = tmp_path_factory.mktemp("compare") / "run"
    return save_comparison(
        folder, FOUR, files="val/{:05d}.png", unsettled=4, unreadable=3, left_out={"class not known": 12}
    )


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    assert write_report(run) == run / "report.html"
    return Page(run / "report.html")


@pytest.fixture(scope="module")
def summary(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "compare.json").read_text("utf-8")))
