"""The pages tell the truth: their Python runs, their commands exist, their links lead somewhere.

There is no way to exempt a block. A page's Python blocks run in order, in one module, in an empty folder.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.main import get_command

from foible.cli import app

ROOT = Path(__file__).parents[1]
RUN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PAGES = [*RUN, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
LINK = re.compile(
    r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|<(?:img|a|source)\b[^>]*?(?:src|href|srcset)=\"([^\"]+)\""
)


@dataclass(frozen=True)
class Block:
    info: str
    line: int  # of the first line inside, from 1
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    inside: list[str] = []
    start = 0
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if opening is None:
            if fence:
                opening, inside, start = fence, [], number + 1
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["info"].strip():
            found.append(Block(opening["info"].strip(), start, "\n".join(inside) + "\n"))
            opening = None
        else:
            inside.append(line.removeprefix(opening["indent"]))
    assert opening is None, f"{page.name}: the block opened on line {start - 1} is not closed"
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    lines, fence = [], ""
    for line in page.read_text("utf-8").splitlines():
        match = FENCE.match(line)
        if match and not fence:
            fence = match["fence"]
        elif match and match["fence"].startswith(fence):
            fence = ""
        elif not fence:
            lines.append(line)
    return "\n".join(lines)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Every `foible …` command of a page's shell blocks: (line, words after `foible`)."""
    for block in blocks(page):
        language = block.info.partition(" ")[0]
        if language not in ("console", "sh", "bash", "shell"):
            continue
        pending, first = "", block.line
        for number, line in enumerate(block.text.splitlines(), block.line):
            if not pending:
                first = number
                if language == "console":  # the other lines are what the command prints
                    if not line.startswith("$ "):
                        continue
                    line = line[2:]
            if line.endswith("\\"):
                pending += line[:-1] + " "
                continue
            for part in re.split(r"\s(?:&&|\|\|?|;)\s", pending + line):
                words = shlex.split(part, comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words and Path(words[0]).stem == "foible":
                    redirected = (place for place, word in enumerate(words) if re.match(r"\d?[<>]", word))
                    yield first, words[1 : next(redirected, None)]
            pending = ""


@pytest.mark.parametrize("page", RUN, ids=name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A real module, because dataclasses and pickles look their names up in sys.modules.
    module = ModuleType("foible_docs_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page):
        if block.info == "python":
            # Padded, so that a traceback names the page's own line.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(page), "exec"), module.__dict__)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_python_block_is_exempt(page: Path) -> None:
    for block in blocks(page):
        if re.match(r"(?i)py|\{", block.info):
            assert block.info == "python", f"{name(page)}:{block.line}: write ```python, which runs; not {block.info!r}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_the_pages_exist(page: Path) -> None:
    for line, words in commands(page):
        try:
            parse(words)
        except typer.Exit:
            pass
        except Exception as error:
            pytest.fail(f"{name(page)}:{line}: foible {shlex.join(words)}: {message_of(error)}")


def parse(words: list[str]) -> None:
    """Parse a command line as `foible` would, and run nothing."""
    command: Any = get_command(app)
    context = None
    while hasattr(command, "commands") and words and words[0] in command.commands:
        context = command.context_class(command, info_name="foible", parent=context)
        command, words = command.commands[words[0]], words[1:]
    command.make_context("foible", list(words), parent=context)
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        raise ValueError(f"no such command: {words[0]}")


def message_of(error: Exception) -> str:
    return error.format_message() if hasattr(error, "format_message") else str(error)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_named_in_the_text_exist(page: Path) -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    for named in re.findall(r"`foible ([a-z][a-z-]*)", prose(page)):
        assert named in known, f"{name(page)} speaks of `foible {named}`, and there is no such command"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(prose(page)):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{name(page)} links to {target}, which does not exist"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{name(page)} links to {target}, and that page has no such heading"


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get: lower case, spaces to dashes, punctuation gone."""
    headings = re.findall(r"^#+\s+(.+?)\s*#*$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_checks_above_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ foible doctor \\\n  --json | head\nfoible not-a-command\n"
        "$ A=1 foible doctor --nonsense > x\n```\n"
        "~~~sh\nmake demo\n.venv/bin/foible nonsense  # words\n~~~\n"
    )
    found = list(commands(page))
    assert found == [(2, ["doctor", "--json"]), (5, ["doctor", "--nonsense"]), (9, ["nonsense"])]
    parse(found[0][1])
    for words in (found[1][1], found[2][1], ["doctor", "--json", "extra"], ["data", "nonsense"]):
        with pytest.raises(Exception, match=r"(?i)no such|unexpected"):
            parse(words)
