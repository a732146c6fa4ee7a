"""`foible cite`: BibTeX that parses, of what a run really used, with the hash of its settings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from made_run import ROWS, SETTINGS, table_of
from small_tasks import linear_task

import foible
from foible import cli
from foible.errors import UserError
from foible.findings import Findings, with_metadata
from foible.recipes.cite import REFERENCES, TITLE, cite, papers_of
from foible.runs.folder import RunFolder
from foible.runs.recipe import RECIPES

PAPER_1 = "The Virtues of Peer Pressure: A Simple Method for Discovering High-Value Mistakes"


def entries(text: str) -> dict[str, dict[str, str]]:
    """BibTeX as BibTeX reads it: an entry begins at any @, and whatever lies between entries is passed over."""
    found: dict[str, dict[str, str]] = {}
    for start in (match.start() for match in re.finditer("@", text)):
        head = re.compile(r"@(\w+)\{([^,\s]+),").match(text, start)
        assert head, text[start : start + 40]
        depth, end = 0, start
        for end in range(text.index("{", start), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                break
        assert depth == 0
        body = text[head.end() : end]
        found[head[2]] = {"type": head[1], **dict(re.findall(r"^\s*(\w+) = \{(.*)\},$", body, re.MULTILINE))}
    return found


def test_a_hunt_cites_peer_pressure_and_foible(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert cli.run([*linear_task(tmp_path).hunt("--trials", "16", "--workers", "1"), "--out", str(run)]) == 0
    cited = cite(run)
    read = entries(cited.bibtex)
    assert list(read) == ["baluja2015virtues", "wilson1927probable", "foible"]
    assert read["baluja2015virtues"]["title"] == PAPER_1
    assert read["foible"]["version"] == foible.__version__
    key = RunFolder(run).config["hash"]
    assert read["foible"]["note"] == f"settings {key}"
    assert f"% settings {key}: recipe hunt, space " in cited.bibtex
    assert re.search(r"^% made with foible \S+, torch \S+, python \S+, device cpu$", cited.bibtex, re.MULTILINE)
    for shard in (run / "shards").iterdir():
        shard.unlink()
    assert list(entries(cite(run).bibtex)) == list(read)  # nothing finished yet: by its settings alone


def test_a_comparison_cites_flips_and_tests(made: Path) -> None:
    cited = cite(made)
    expected = {"baluja2015virtues", "yan2021positive", "mcnemar1947note", "tango1998equivalence", "wilson1927probable"}
    assert set(entries(cited.bibtex)) == {*expected, "foible"}
    assert entries(cited.bibtex)["yan2021positive"]["author"].startswith("Yan, Sijie and ")
    told = json.loads(json.dumps(cited.to_json()))
    assert told["configs"] == ["0123456789ab"]
    assert [reference["key"] for reference in told["references"]] == list(cited.keys)
    assert told["versions"][0]["torch"] == "2.13"
    assert told["bibtex"] == cited.bibtex


def test_a_comparison_without_labels_counts_no_flips() -> None:
    table = with_metadata(table_of(ROWS[:2]), ("a", "b", "c", "d", "e"), {"x": SETTINGS | {"labelled": False}})
    assert cite(Findings(table)).keys == ("baluja2015virtues",)


def test_a_run_cannot_write_entries_of_its_own() -> None:
    settings = SETTINGS | {"recipe": "hunt", "data": "x}\n@misc{evil,\n title={y}}", "space": "\\input{/etc/passwd}"}
    rows = [ROWS[0] | {"versions": json.dumps({"foible": "1}@misc{evil,", "torch": "\n@a{b,"})}]
    rows += [ROWS[1] | {"versions": "not json"}, ROWS[2] | {"versions": None}]
    table = with_metadata(table_of(rows), ("a", "b", "c", "d", "e"), {"\\input evil}": settings})
    read = entries(cite(Findings(table)).bibtex)
    assert list(read) == ["baluja2015virtues", "wilson1927probable", "foible"]
    assert "\\" not in "".join(read["foible"].values())


def test_what_is_cited_is_known_and_complete() -> None:
    used = {key for name in RECIPES for key in papers_of({"recipe": name})}
    assert used == set(REFERENCES)
    for kind, fields in REFERENCES.values():
        assert {"title", "author", "year"} <= set(fields)
        assert {"article": "journal", "unpublished": "note"}.get(kind, "booktitle") in fields
    file = (Path(__file__).parents[3] / "CITATION.cff").read_text("utf-8")
    assert f'title: "{TITLE}"' in file
    assert f'title: "{PAPER_1}"' in file
    assert f"version: {foible.__version__}" in file


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    for name in ("nowhere", "."):
        with pytest.raises(UserError, match="holds no findings"):
            cite(tmp_path / name)


def test_the_command_prints_it(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["cite", str(made)]) == 0
    assert capsys.readouterr().out.strip() == cite(made).bibtex.strip()
    assert cli.run(["cite", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == cite(made).to_json()
