"""From images between classes to people and back: a run, the page, simulated annotators whose answers are known, the
labels in the run, the types, and Table 3 of the study."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from serving import Served, served

import foible
from foible import cli
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.labels import LABELS
from foible.recipes.boundary.reading import Interpolations, interpolations, people_on, people_one_by_one
from foible.report import write_report
from foible.studies import run_study
from foible.studies.boundary import between
from foible.studies.boundary.metrics import Measured
from foible.studies.boundary.tables import TABLE3, WORDS
from foible.studio.base import Task
from foible.studio.make import shown
from foible.studio.outcome import join, join_all
from foible.studio.store import Store
from foible.testing import write_linear_task

STEPS, PEOPLE = 9, 3
TURN = (0.5, 0.75, 0.75)  # from where on each simulated annotator says the second class


def simulated(made: Interpolations, person: int, place: int) -> int:
    """What a simulated annotator says: one end up to a place, then the other; the third, in the middle of the first
    line, something else altogether."""
    one, other = made.ends[place].tolist()
    if person == 2 and made.pair[place] == 0 and made.alpha[place] == 0.5:
        return int(3 - one - other)
    return int(one if made.alpha[place] < TURN[person] else other)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    basket, data = write_linear_task(folder)
    out = folder / "between"
    foible.boundary(
        basket, data, split="train", generator="pixels", steps=STEPS, out=out, workers=1, device="cpu", quiet=True
    )
    return out


@pytest.fixture
def site(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Served]:
    """A Studio with the task that `foible label RUN` makes."""
    command = ["label", str(run), "--annotators", str(PEOPLE), "--store", str(tmp_path / "s.sqlite")]
    assert cli.run([*command, "--status"]) == 0
    capsys.readouterr()
    with served(tmp_path, [run]) as made:
        yield made


def label_all(site: Served, task: Task, made: Interpolations) -> None:
    """Everybody labels what the page shows them, by its pixels: nothing else tells images apart. Lines that share an
    end show it twice, and it is called the same."""
    rows = Findings.open(task.run or "")
    pngs = [shown(png, id) for id, png in zip(rows.column("id"), rows.column("image"), strict=True)]
    for number, person in enumerate(site.studio.store.people(task)):
        mine = site.ask(f"/join/{person.token}", cookie="").cookie
        seen: list[bytes] = []
        while turns := json.loads(site.ask(f"/label/{task.key}/next", cookie=mine).body)["turns"]:
            for turn in (one["turn"] for one in turns):
                image = site.ask(f"/label/{task.key}/image/{turn}", cookie=mine).body
                seen.append(image)
                choice = simulated(made, number, pngs.index(image))
                answer = {"turn": turn, "choice": choice, "key": f"{turn}-answer", "seconds": 1}
                reply = site.ask(
                    f"/label/{task.key}/answer", "POST", json.dumps(answer), mine, content_type="application/json"
                )
                assert json.loads(reply.body)["saved"]
        assert sorted(seen) == sorted(pngs)  # everybody sees every image, once
        assert seen != pngs  # shuffled


def test_every_label_goes_from_the_page_to_the_types(
    site: Served, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, task = interpolations(run), site.studio.store.tasks()[0]
    assert (task.votes, task.extra, task.other, task.classes) == (PEOPLE, 0, (), made.classes)  # a forced choice
    assert people_on(run).sum() == 0
    label_all(site, task, made)
    images = range(len(made.ids))
    expected = np.array([[simulated(made, person, place) for place in images] for person in range(PEOPLE)])
    assert cli.run(["boundary", "types", str(run), "--store", str(tmp_path / "s.sqlite"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    np.testing.assert_array_equal(people_one_by_one(run), expected)
    np.testing.assert_array_equal(people_on(run), (expected[..., None] == np.arange(3)).sum(0))
    assert told["unlabelled"] == 0
    for place, row in enumerate(told["images"]):
        networks, people = {*made.said[:, place].tolist()}, {*expected[:, place].tolist()}
        by_hand = (
            ("both_agree" if networks == people else "against") if len(networks) == len(people) == 1 else
            "c" if len(networks) == 1 else "a" if len(people) == 1 else "both_disagree"
        )  # fmt: skip
        assert row["type"] == by_hand, row
        assert sum(row["votes"].values()) == PEOPLE
    found = Counter(row["type"] for row in told["images"])
    assert found["a"] + found["both_agree"] + found["against"] == 3 * (STEPS - 2)  # people differ from 0.5 to 0.75
    assert found["a"] > 0
    assert found["c"] > 0
    assert cli.run(["boundary", "types", str(run), "--store", str(tmp_path / "s.sqlite")]) == 0
    assert "27 images, labelled by 3 people" in capsys.readouterr().out
    page = write_report(run, tmp_path / "report.html").read_text("utf-8")
    assert "Not labelled yet" not in page
    assert page.count("✓") >= 3 * (STEPS - 2)
    middle = "red2" if len({*made.said[:, 4].tolist()}) == 1 else "white"  # three people, three classes
    assert f'<td class="{middle}" title="networks: ' in page
    assert cli.run(["show", str(run)]) == 0
    shown_run = " ".join(capsys.readouterr().out.split())
    assert "Labelled by 3 people" in shown_run
    assert f"27 images of this run were labelled by people; of {_most(expected)} most of them chose one" in shown_run
    _has_table_3(run, tmp_path, found, monkeypatch)
    _refuses_labels_of_other_images(site, run, task)


def _most(expected: np.ndarray) -> int:
    """Of how many images more people chose one class than any other."""
    counts = np.sort((expected[..., None] == np.arange(3)).sum(0), 1)
    return int((counts[:, -1] > counts[:, -2]).sum())


def _has_table_3(run: Path, out: Path, found: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The study counts the same: its Table 3 has these types."""
    monkeypatch.setattr(between, "hunted", lambda *_: {name: Measured(1.0, 0.0, 2.0, 1) for name in "ABC"})
    monkeypatch.setattr(between, "_figures", lambda *_: None)
    task = run.parent
    result = run_study(
        "boundary", scale="quick", data=f"npz:{task / 'data.npz'}?test=0.5", out=out / "study", seed=0, device="cpu",
        basket=str(task / "basket"), quiet=True, options={"images": str(run)},
    )  # fmt: skip
    rows = {row.quantity.partition(": ")[2]: row for row in result.rows if row.table == TABLE3}
    for name, words in WORDS.items():
        assert rows[words].measured == pytest.approx(100 * found[name] / (3 * STEPS)), name


def _refuses_labels_of_other_images(site: Served, run: Path, task: Task) -> None:
    file = run / LABELS
    whole = json.loads(file.read_text("utf-8"))
    one = next(iter(whole["images"]))
    for images in (whole["images"] | {one: "0" * 64}, whole["images"] | {"A-000099-00": "0" * 64}):
        file.write_text(json.dumps(whole | {"images": images}), "utf-8")
        with pytest.raises(UserError, match="of other images"):
            people_on(run)
    file.unlink()
    store: Store = site.studio.store
    item = next(iter(store.findings(task)))
    other = store.item_image(task, list(store.findings(task))[7])
    store.base.execute("UPDATE items SET png = ? WHERE id = ?", (other, item))
    with pytest.raises(UserError, match="of other images than the run"):
        join(store, task)
    assert not file.exists()


def test_without_a_task_nothing_is_taken(run: Path, tmp_path: Path) -> None:
    assert join_all(tmp_path / "none.sqlite", run) == 0
    assert not (tmp_path / "none.sqlite").exists()


def test_the_gallery_shows_what_lies_between(site: Served, run: Path) -> None:
    from serving import key_of

    page = site.ask(f"/run/{key_of(run)}/").text
    assert "Nothing like that" not in page
    assert "A-000000" in page or "0 → 1" in page
