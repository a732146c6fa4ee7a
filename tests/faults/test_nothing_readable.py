"""Data of which not one image can be read: every command says so, with the first reason, and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_tasks import SPACE, linear_task

from foible import cli


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A basket, and a folder of 60 files that are no pictures."""
    folder = tmp_path_factory.mktemp("unreadable")
    linear_task(folder)
    for number in range(60):
        place = folder / "photos" / str(number % 3)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03}.png").write_bytes(b"no picture")
    return folder


COMMANDS = {
    "hunt": ["hunt", "--basket", "{basket}", "--data", "{data}", "--space", SPACE, "--workers", "1"],
    "rank": ["rank", "--basket", "{basket}", "--data", "{data}"],
    "compare": ["compare", "--basket", "{basket}", "--data", "{data}"],
    "unlabelled": ["compare", "--basket", "{basket}", "--data", "{data}", "--unlabelled"],
    "distort": ["distort", "--basket", "{basket}", "--source", "A", "--data", "{data}", "--workers", "1"],
    "gate": ["gate", "--network", "old={basket}/A", "--network", "new={basket}/B", "--network", "peer={basket}/C",
             "--data", "{data}", "--hunt"],
    "units": ["inspect", "units", "--network", "{basket}/A", "--data", "{data}"],
    "spectrum": ["inspect", "spectrum", "--network", "{basket}/A", "--data", "{data}"],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_it_says_that_nothing_could_be_read(
    home: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = f"folder:{home / 'photos'}?test=0.5"
    args = [part.format(basket=home / "basket", data=data) for part in COMMANDS[command]]
    assert cli.run([*args, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"images of {data!r} could be read: 0/0" in said
    assert ".png: not an image that can be read" in said
    assert "none of the " in said
