"""What the pages say is what the findings say: views, order, figures that lead to their findings, tags, one finding."""

from __future__ import annotations

import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest
from fake_findings import realistic, rows, save_run, shrunk, table_of
from fake_runs import genuine
from serving import Served, key_of, served

from foible.errors import UserError
from foible.findings import Findings
from foible.findings.labels import labels_of
from foible.findings.tags import tag, tags_of
from foible.images import decode_pixels, encode_png
from foible.recipes.export import export
from foible.studio import outcome
from foible.studio.columns import confidence
from foible.studio.rows import Rows, View
from foible.studio.shelf import Shelf

KINDS = ("rotation", "stretch", "shift", "shear")


def mixed() -> Findings:
    """Found and lost rows of five suspects; the found ones with sizes, kinds and realism."""
    table = realistic(20)
    found = shrunk(list(table.filter(outcome="found")))
    lost = list(table.filter(outcome=["exhausted", "invalid"]))
    return Findings(table_of([*found, *lost]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return genuine(save_run(mixed(), tmp_path_factory.mktemp("looking") / "hunt"), units=5)


@pytest.fixture(scope="module")
def site(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("store"), [run.parent]) as made:
        yield made


def total(page: str) -> int:
    shown = re.search(r'<p class="lead"><b>([\d,]+)</b>', page)
    assert shown is not None
    return int(shown[1].replace(",", ""))


@pytest.mark.parametrize(("query", "keep"), [
    ({}, lambda row: row["outcome"] == "found"),
    ({"outcome": "all"}, lambda _: True),
    ({"outcome": "invalid"}, lambda row: row["outcome"] == "invalid"),
    ({"suspect": "mlp-20", "truth": "3"}, lambda row: row["suspect"] == "mlp-20" and row["truth"] == 3
     and row["outcome"] == "found"),
    ({"said": "9"}, lambda row: row["said"] == 9 and row["outcome"] == "found"),
    ({"kind": "shift"}, lambda row: (row["kinds"] or [""])[0] == "shift"),
    ({"size-from": "2", "size-to": "3"}, lambda row: row["size"] is not None and 2 <= row["size"] <= 3),
    ({"realism-from": "-1"}, lambda row: row["realism"] is not None and row["realism"] >= -1),
    ({"confidence-from": "0.6"}, lambda row: row["outcome"] == "found"
     and row["after"][row["networks"].index(row["suspect"])][row["said"]] >= 0.6),
    ({"suspect": "nobody"}, lambda _: False),
    ({"truth": "77"}, lambda _: False),
])  # fmt: skip
def test_views(site: Served, run: Path, query: dict[str, str], keep: object) -> None:
    expected = [row["id"] for row in Findings.open(run) if keep(row)]  # type: ignore[operator]
    page = site.ask(f"/run/{key_of(run)}/?{urlencode(query)}").text
    assert total(page) == len(expected)
    opened = Rows(run)
    chosen = opened.choose(View.of(query))
    assert opened.column("id").take(pa.array(chosen)).to_pylist() == expected
    shown = re.findall(r'aria-label="Choose ([^,]+),', page)
    assert shown == expected[:60]


def test_order_and_pages(site: Served, run: Path) -> None:
    found = [row for row in Findings.open(run) if row["outcome"] == "found"]
    by_realism = [row["id"] for row in sorted(found, key=lambda row: -row["realism"])]
    base = f"/run/{key_of(run)}"
    first = site.ask(f"{base}/?order=realistic").text
    rest = site.ask(f"{base}/cards?order=realistic&from=20").text
    ids = re.compile(r'aria-label="Choose ([^,]+),')
    assert ids.findall(first) == by_realism[:60]
    assert ids.findall(rest) == by_realism[20:80]
    assert "<html" not in rest
    assert ids.findall(site.ask(f"{base}/cards?from=99999").text) == []
    sure = confidence(Findings.open(run).filter(outcome="found").table)
    opened = Rows(run)
    order = opened.choose(View(order="sure"))
    assert opened.column("confidence")[order].tolist() == pytest.approx(sorted(sure.tolist(), reverse=True))


def test_every_figure_leads_to_the_findings_behind_it(site: Served, run: Path) -> None:
    page = site.ask(f"/compare?run={key_of(run)}").text
    success = page[page.index('id="success"') : page.index('id="confusion"')]
    confusion = page[page.index('id="confusion"') : page.index('id="transfer"')]
    transfer = page[page.index('id="transfer"') : page.index('id="atlas"')]
    atlas = page[page.index('id="atlas"') :]
    titled = re.compile(r'<a href="([^"]+)" title="[^"]*?(\d+)(?: of \d+)?">')
    some = [*titled.findall(success)[::7], *titled.findall(confusion)[::5], *titled.findall(transfer)[::4]]
    some += re.findall(r'<td[^>]*><a href="([^"]+)">([\d]+)</a>', atlas)
    assert len(some) > 20
    for link, count in some:
        reply = site.ask(html.unescape(link))
        assert reply.status == 200
        assert total(reply.text) == int(count), link
    table = Findings.open(run)
    mine = [row for row in table if row["suspect"] == "mlp-10" and row["truth"] is not None]
    solved = sum(row["outcome"] == "found" for row in mine)
    assert f'title="{solved} of {len(mine)}"' in success
    counts = np.zeros((10, 10), int)
    for row in mine:
        if row["outcome"] == "found":
            counts[row["truth"], row["said"]] += 1
    assert sorted(int(n) for _, n in titled.findall(confusion)) == sorted(counts[counts > 0].tolist())


def test_one_finding(site: Served, run: Path) -> None:
    table = Findings.open(run)
    row = table[0]
    at = f"/run/{key_of(run)}/finding/unit-000000/0"
    page = site.ask(at).text
    assert f"foible replay {run} {row['id']}" in html.unescape(page)
    assert page.count('class="step"') == len(row["trace"])
    assert "rotation" in page
    pictures = f"/run/{key_of(run)}/picture/unit-000000/0"
    image, origin = (decode_pixels(site.ask(f"{pictures}/{what}").body) for what in ("image", "origin"))
    assert (image == decode_pixels(row["image"])).all()
    difference = decode_pixels(site.ask(f"{pictures}/difference").body).astype(int)
    expected = (128 + 10 * (image.astype(int) - origin.astype(int))).clip(0, 255)
    assert (difference == expected).all()
    frames = decode_pixels(row["film"])
    width = frames.shape[2] // len(row["trace"])
    step = decode_pixels(site.ask(f"{pictures}/step-1").body)
    assert (step == frames[:, :, width : 2 * width]).all()
    assert site.ask(f"{pictures}/step-99").status == 404
    told = json.loads(site.ask(at.replace("/finding/", "/json/")).body)
    assert told["id"] == row["id"]
    assert told["trace"] == row["trace"]
    assert "image" not in told
    alike = [(r["suspect"], r["truth"], r["said"], (r["kinds"] or [""])[0]) for r in table]
    number = next(n for n, one in enumerate(alike) if table[n]["outcome"] == "found" and alike.count(one) > 1)
    row = table[number]
    page = site.ask(f"/run/{key_of(run)}/finding/{Rows(run).address(number)}").text
    like = page[page.index("Others of the same kind") :]
    assert re.findall(r"finding/(unit-\d+/\d+)", like)
    for place in re.findall(r"finding/(unit-\d+/\d+)", like):
        other = json.loads(site.ask(f"/run/{key_of(run)}/json/{place}").body)
        assert [other[name] for name in ("suspect", "truth", "said")] == [row[n] for n in ("suspect", "truth", "said")]
        assert other["kinds"][0] == row["kinds"][0]
        assert other["id"] != row["id"]


def test_steps_of_a_finding_that_keeps_no_film(tmp_path: Path) -> None:
    """Its path is walked again, as `foible replay` does: no network is needed for that."""
    (row,) = rows(1, film=None, moves=2, trace=[[0.9] * 5] * 3)
    draws = [0.5, 0.5, 0.5, 0.5, 1.0, 0.5]
    row["path"] = [{"step": 1, "draws": draws}, {"step": 5, "draws": draws}]
    kept = {"recipe": "hunt", "space": "affine", "objective": "dissent", "search": "hill-climb"}
    run = genuine(save_run(Findings(table_of([row])), tmp_path / "run", shards=1), kept)
    own = genuine(save_run(Findings(table_of([row])), tmp_path / "own", shards=1), {**kept, "space": "mine.py:Space"})
    with served(tmp_path, [run, own]) as site:
        pictures = f"/run/{key_of(run)}/picture/unit-000000/0"
        steps = [decode_pixels(site.ask(f"{pictures}/step-{number}").body) for number in range(3)]
        origin = decode_pixels(row["origin"])
        assert (steps[0] == origin).all()
        moved = [np.abs(step.astype(int) - origin).sum() for step in steps]
        assert 0 < moved[1] < moved[2]
        assert site.ask(f"/run/{key_of(own)}/picture/unit-000000/0/step-1").status == 404  # nobody's file is run
        assert "no picture kept of this step" in site.ask(f"/run/{key_of(own)}/finding/unit-000000/0").text


def test_the_smallest_distortion_of_the_same_image(tmp_path: Path) -> None:
    (row,) = rows(1)
    near = {**row, "suspect": "mlp-10", "distance": 0.25, "distance_exact": 0.24}
    far = {**near, "id": "other", "origin_index": row["origin_index"] + 1}
    train = {"split": row["origin_split"], "data_sha256": "same"}
    hunt = genuine(save_run(Findings(table_of([row])), tmp_path / "hunt", shards=1), {**train, "recipe": "hunt"})
    genuine(save_run(Findings(table_of([near, far])), tmp_path / "near", shards=1), {**train, "recipe": "distort"})
    genuine(save_run(Findings(table_of([near])), tmp_path / "else", shards=1),
            {**train, "recipe": "distort", "data_sha256": "of other data"})  # fmt: skip
    with served(tmp_path, [tmp_path]) as site:
        page = site.ask(f"/run/{key_of(hunt)}/finding/unit-000000/0").text
    part = page[page.index("Smallest distortion") :].partition("</section>")[0]
    assert part.count("<li>") == 1
    assert "l2 distance 0.250" in part
    assert f"/run/{key_of(tmp_path / 'near')}/finding/unit-000000/0" in part


def test_runs_and_their_progress(site: Served, run: Path) -> None:
    page = site.ask("/").text
    assert "hunt" in page
    assert "mlp-10" in page
    state = json.loads(site.ask(f"/run/{key_of(run)}/state").body)
    table = Findings.open(run)
    assert state["found"] == len(table.filter(outcome="found"))
    assert state["rows"] == len(table) == state["trials"]
    assert (state["done"], state["whole"], state["what"]) == (3, 5, "units")
    assert state["running"]  # its last shard is young
    assert "/nowhere" not in page
    empty = Shelf([run.parent / "nothing"])
    assert empty.runs() == {}


def test_a_run_that_goes_on_is_read_again(tmp_path: Path) -> None:
    run = genuine(save_run(mixed(), tmp_path / "run"), units=9)
    shelf = Shelf([run])
    first = shelf.open(key_of(run))
    assert shelf.open(key_of(run)) is first
    (run / "shards" / "unit-000002.parquet").unlink()
    assert len(shelf.open(key_of(run))) < len(first)
    (run / "shards" / "unit-000001.parquet").write_bytes(b"damaged")
    with pytest.raises(UserError, match="cannot be read"):
        shelf.open(key_of(run))


def test_tags_stay_beside_the_shards(tmp_path: Path) -> None:
    run = genuine(save_run(Findings(table_of(rows(5))), tmp_path / "run"))
    before = {file.name: file.read_bytes() for file in (run / "shards").iterdir()}
    with served(tmp_path, [run]) as site:
        base = f"/run/{key_of(run)}"
        chosen = "&".join(f"at[]=unit-000000/{row}" for row in (0, 1))
        assert site.ask(f"{base}/tag", "POST", f"{chosen}&tag=odd%20ones").status == 303
        assert {len(ids) for ids in tags_of(run).values()} == {2}
        assert total(site.ask(f"{base}/?tag=odd+ones").text) == 2
        assert export(run, "csv", tmp_path / "odd.csv", tags=["odd ones"]) == 2  # commands know them too
        with pytest.raises(UserError, match="its tags are odd ones"):
            export(run, "csv", tmp_path / "none.csv", tags=["even"])
        assert site.ask(f"{base}/tag?tag=odd+ones", "POST", "all=yes&tag=odd+ones&off=yes").status == 303
        assert tags_of(run) == {}
        for wrong in ("", "x" * 61, "a\x00b"):
            with pytest.raises(UserError, match="tag"):
                tag(run, ["a"], wrong)
        zipped = site.ask(f"{base}/export", "POST", f"{chosen}&to=folder")
        assert len([n for n in zipfile.ZipFile(io.BytesIO(zipped.body)).namelist() if n.endswith(".png")]) == 2
        assert site.ask(f"{base}/export", "POST", f"{chosen}&to=../../x").status == 400
        assert site.ask(f"{base}/export", "POST", "at[]=unit-000009/0&to=csv").status == 404
    assert {file.name: file.read_bytes() for file in (run / "shards").iterdir()} == before
    (run / "tags.json").write_text("[]")
    assert tags_of(run) == {}


def test_labels_join_the_run_and_no_column_is_touched(tmp_path: Path) -> None:
    run = genuine(save_run(Findings(table_of(rows(6))), tmp_path / "run"))
    table = Findings.open(run)
    truths = {row["id"]: row["truth"] for row in table}
    before = {file.name: file.read_bytes() for file in (run / "shards").iterdir()}
    with served(tmp_path, [run]) as site:
        chosen = "&".join(f"at[]={place}" for place in _places(table, run))
        made = site.ask(f"/run/{key_of(run)}/label", "POST", f"{chosen}&name=all&annotators=3&votes=3")
        assert made.status == 303
        store = site.studio.store
        task = store.task("all")
        assert task is not None
        ids = sorted(truths)
        for person in store.people(task):
            while keys := store.next_turns(person, 1):
                finding = store.one("SELECT finding FROM turns JOIN items ON items.id = item WHERE turns.key = ?",
                                     keys[0])[0]  # fmt: skip
                wrong = finding == ids[0] or (finding == ids[1] and person.number == 1)
                store.answer(person, keys[0], (truths[finding] + wrong) % 10, 1.0, keys[0] * 2)
        reply = site.ask(f"/task/{task.key}/take", "POST", "by=majority&drop=yes")
        assert reply.status == 200
        labels = labels_of(run)
        assert labels.fails == labels.dropped == {ids[0]}
        assert len(labels.holds) == 5
        assert labels.labels == dict(outcome.labels(store, task, "dawid-skene"))
        assert total(site.ask(f"/run/{key_of(run)}/?label=holds").text) == 5
        assert total(site.ask(f"/run/{key_of(run)}/?label=fails").text) == 1
        assert total(site.ask(f"/run/{key_of(run)}/?label=unlabelled").text) == 0
        assert site.ask(f"/task/{task.key}/take", "POST", "by=guessing").status == 400
    assert {file.name: file.read_bytes() for file in (run / "shards").iterdir()} == before


def _places(table: Findings, run: Path) -> list[str]:
    opened = Rows(run)
    return [opened.address(place) for place in range(len(table))]


def test_photographs_are_shown_smaller_and_smooth(tmp_path: Path) -> None:
    photo = np.random.default_rng(0).integers(0, 255, (3, 900, 1200)).astype(np.uint8)
    some = rows(2, image=encode_png(photo), origin=encode_png(255 - photo))
    run = genuine(save_run(Findings(table_of(some)), tmp_path / "run", shards=1))
    with served(tmp_path, [run]) as site:
        pictures = f"/run/{key_of(run)}/picture/unit-000000/0"
        assert decode_pixels(site.ask(f"{pictures}/thumb").body).shape == (3, 120, 160)
        assert decode_pixels(site.ask(f"{pictures}/image").body).shape == (3, 576, 768)
        page = site.ask(f"/run/{key_of(run)}/").text
        assert 'class="px"' not in page
        assert site.ask(f"/run/{key_of(run)}/label", "POST", "all=yes&name=photos&annotators=1&votes=1").status == 303
        task = site.studio.store.tasks()[0]
        assert site.studio.store.side(task) == 768
        assert 'class="px"' not in site.ask(f"/task/{task.key}/").text
