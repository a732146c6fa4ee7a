"""`foible show`, `report`, `export` and `replay` on a finished run, and on things that are none."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from small_tasks import SPACE, linear_task

import foible
from foible import cli
from foible.basket import Basket
from foible.findings import SCHEMA, Findings, read_shard

INFINITE = """
from pathlib import Path
import numpy as np
import torch
from torch import nn
from foible.testing import linear_network

class Overflow(nn.Module):
    '''Infinitely sure of a wrong class of any image that is no seed image.'''
    def __init__(self):
        super().__init__()
        self.inner = linear_network(0)
        seeds = np.load(Path(__file__).with_name("data.npz"))["images"]
        self.register_buffer("seeds", torch.from_numpy(seeds).flatten(1) / 255)

    def forward(self, images):
        logits = self.inner(images)
        moved = (images.flatten(1)[:, None] - self.seeds).abs().amax(2).amin(1) > 1e-4
        lowest = logits.argmin(1, keepdim=True)
        return torch.where(moved[:, None], logits.scatter(1, lowest, torch.inf), logits)
"""


def _ok(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    capsys.readouterr()
    code = cli.run([*map(str, args)])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def _json(capsys: pytest.CaptureFixture[str], *args: object) -> Any:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(_ok(capsys, *args, "--json"), parse_constant=no_constant)


def _wrong(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    capsys.readouterr()
    code = cli.run([*map(str, args)])
    said = capsys.readouterr()
    assert code == 2, said.err
    assert said.out == ""
    return said.err


def _answers(basket: Basket, image: torch.Tensor) -> dict[str, int]:
    """What each network says, by its own forward pass and not by the basket's."""
    batch = (image.float() / 255)[None].repeat(16, 1, 1, 1)
    return {name: int(basket.network(name)(batch)[0].argmax()) for name in basket.names}


def test_every_exported_png_is_still_a_mistake(
    mlps: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loaded back with Pillow: wrong by the suspect, right by every peer, over a whole run."""
    out = tmp_path / "out"
    answer = _json(capsys, "export", run, "--to", "folder", "--out", out)
    found = Findings.open(run).filter(outcome="found")
    assert answer == {"written": len(found), "out": str(out)}
    basket = Basket.open(mlps)
    with (out / "findings.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == len(found) > 30
    assert sorted(str(file.relative_to(out)) for file in out.rglob("*.png")) == sorted(row["file"] for row in rows)
    for row in rows:
        with Image.open(out / row["file"]) as picture:
            assert picture.mode == "L"
            image = torch.from_numpy(np.array(picture))[None]
        truth = basket.classes.index(Path(row["file"]).parent.name)
        said = _answers(basket, image)
        assert basket.classes[truth] == row["truth"]
        assert said.pop(row["suspect"]) == basket.classes.index(row["said"]) != truth
        assert set(said.values()) == {truth}
        assert len(said) == 2


def test_a_folder_export_is_a_data_set(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _ok(capsys, "export", run, "--out", tmp_path / "out")  # a folder, where nothing else is said
    data = foible.load(f"folder:{tmp_path / 'out'}")
    found = Findings.open(run).filter(outcome="found")
    assert len(data) == len(found)
    ours = sorted((int(label), image.numpy().tobytes()) for image, label in zip(data.images, data.labels, strict=True))
    named = [data.classes.index(found.name_of(k)) for k in found.column("truth")]
    assert ours == sorted((k, image.numpy().tobytes()) for k, image in zip(named, found.images(), strict=True))


def test_findings_and_csv_exports(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings.open(run)
    found = findings.filter(outcome="found")
    _ok(capsys, "export", run, "--to", "findings", "--out", tmp_path / "some.parquet")
    assert pq.read_table(tmp_path / "some.parquet").equals(found.table)
    everything = _json(capsys, "export", run, "--to", "findings", "--all", "--out", tmp_path / "all.parquet")
    assert everything["written"] == 150
    assert Findings.open(tmp_path / "all.parquet").table.equals(findings.table)
    assert _ok(capsys, "show", tmp_path / "all.parquet", "--json") != ""
    _ok(capsys, "export", tmp_path / "all.parquet", "--to", "csv", "--out", tmp_path / "deep" / "er" / "x.csv")
    with (tmp_path / "deep" / "er" / "x.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["id"] for row in rows] == found.column("id")
    for row, stored in zip(rows, found, strict=True):
        assert float(row["said_probability"]) == stored["after"][0][stored["said"]]
        assert row["truth"] == found.name_of(stored["truth"])
    assert "exists already" in _wrong(capsys, "export", run, "--out", tmp_path / "deep")
    assert "exists already" in _wrong(capsys, "export", run, "--to", "csv", "--out", tmp_path / "all.parquet")
    assert "expected one of folder, hf, parquet, csv" in _wrong(
        capsys, "export", run, "--to", "xls", "--out", tmp_path / "x"
    )
    assert "cannot export" in _wrong(capsys, "export", run, "--out", tmp_path / "all.parquet" / "x")


def test_every_row_replays(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _json(capsys, "replay", run)
    assert answer["replayed"] == 150
    assert answer["differ"] == []
    assert answer["largest_difference"] < 1e-4
    assert "150 of 150 rows replay" in _ok(capsys, "replay", run)


def test_one_row_replays_into_a_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Findings.open(run).filter(outcome="found")[3]
    said = _ok(capsys, "replay", run, row["id"], "--out", tmp_path / "x.png")
    assert f"{row['id']}: stored as found, now found; same pixels" in said
    assert (tmp_path / "x.png").read_bytes() == row["image"]
    with Image.open(tmp_path / "x.png") as one, Image.open(io.BytesIO(row["image"])) as other:
        assert np.array_equal(np.array(one), np.array(other))
    assert "name one finding" in _wrong(capsys, "replay", run, "--out", tmp_path / "y.png")
    assert "name one finding" in _wrong(capsys, "replay", run, row["id"], row["id"], "--out", tmp_path / "y.png")
    assert "cannot write" in _wrong(capsys, "replay", run, row["id"], "--out", tmp_path / "no" / "y.png")
    assert "no finding 'mlp-10-1' among 150: ids look like" in _wrong(capsys, "replay", run, "mlp-10-1")


def test_replay_with_networks_given(mlps: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Findings.open(run)[0]["id"]
    assert _json(capsys, "replay", run, first, "--basket", mlps)["differ"] == []
    names = ("mlp-10", "mlp-20", "mlp-30")
    specs = [f"{name.replace('-', ':')}?weights={mlps / name}.safetensors&classes=data" for name in names]
    flags = [part for spec in specs for part in ("--basket", spec)]
    assert _json(capsys, "replay", run, first, *flags)["differ"] == []
    assert "network 'mlp-10' is not the one" in _wrong(capsys, "replay", run, first, "--basket", specs[1])


def test_a_row_that_was_altered_is_exit_1(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    shard = sorted((copy / "shards").iterdir())[0]
    table = pq.read_table(shard)
    images = table.column("image").to_pylist()
    row = table.column("outcome").to_pylist().index("found")
    images[row] = table.column("origin")[row].as_py()
    place = table.column_names.index("image")
    pq.write_table(table.set_column(place, table.schema.field("image"), [images]), shard)
    capsys.readouterr()
    assert cli.run(["replay", str(copy), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["differ"] == [table.column("id")[row].as_py()]
    assert cli.run(["replay", str(copy)]) == 1
    assert "other pixels" in capsys.readouterr().out


def test_rows_that_ended_in_infinity_replay_and_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An outcome that is not a number is a row like others."""
    task = linear_task(tmp_path)
    (tmp_path / "mine.py").write_text(INFINITE)
    networks = ["--network", f"A={tmp_path / 'mine.py'}:Overflow?preprocess=inside&classes=data"]
    networks += ["--network", f"B=softmax?weights={task.basket / '1.safetensors'}&preprocess=inside&classes=data"]
    run = tmp_path / "run"
    options = ["--data", task.data, "--space", SPACE, "--suspect", "A", "--trials", "16", "--workers", "1"]
    answer = _json(capsys, "hunt", *networks, *options, "--out", run)
    assert answer["suspects"][0]["found"] == 0
    assert answer["suspects"][0]["invalid"] > 0
    row = Findings.open(run).filter(outcome="invalid")[0]
    assert _json(capsys, "show", run, row["id"])["outcome"] == "invalid"
    assert row["id"] in _ok(capsys, "show", run, row["id"])
    assert _json(capsys, "replay", run, "--trust")["differ"] == []
    _ok(capsys, "report", run)
    _ok(capsys, "export", run, "--to", "csv", "--all", "--out", tmp_path / "x.csv")


def test_show_lists_and_counts(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    found = Findings.open(run).filter(outcome="found")
    answer = _json(capsys, "show", run, "--limit", 4)
    assert [row["suspect"] for row in answer["suspects"]] == ["mlp-10", "mlp-20", "mlp-30"]
    assert [brief["id"] for brief in answer["findings"]] == found.column("id")[:4]
    first = answer["findings"][0]
    assert first["truth"] == first["peers"] != first["said"]
    text = _ok(capsys, "show", run, "--limit", 4)
    assert all(id in text for id in found.column("id")[:4])
    assert found.column("id")[4] not in text
    assert "paper" not in text
    monkeypatch.setenv("COLUMNS", "30")
    narrow = _ok(capsys, "show", run, "--limit", 4)
    assert all(id in narrow for id in found.column("id")[:4])  # an id is never broken: it can be copied
    assert _json(capsys, "show", run, "--limit", 0)["findings"] == []
    assert len(_json(capsys, "show", run, "--limit", 10**6)["findings"]) == len(found)
    assert "--limit" in _wrong(capsys, "show", run, "--limit", -1)


def test_show_reads_what_it_shows(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No images; of the findings to list no shard after the last of them; of one finding only the shard it is in."""
    read: list[tuple[str, set[str]]] = []

    def watched(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
        read.append((file.name, set(SCHEMA.names if columns is None else columns)))
        return read_shard(file, columns)

    for module in ("foible.findings.shards", "foible.findings.table", "foible.report.run", "foible.findings.tally"):
        monkeypatch.setattr(f"{module}.read_shard", watched)
    shards = sorted(file.name for file in (run / "shards").iterdir())
    assert len(shards) > 2
    _ok(capsys, "show", run, "--limit", 2)
    assert not any({"image", "origin", "film", "least_image"} & columns for _, columns in read)
    assert [name for name, columns in read if "tags" in columns] == shards[:1]
    assert len(read) == 2 * len(shards) + 1  # to check them, to count them, and to list
    read.clear()
    last = Findings.open(run)[-1]["id"]
    read.clear()
    _ok(capsys, "show", run, last)
    assert [name for name, columns in read if "image" in columns] == shards[-1:]


@pytest.mark.parametrize("verb", ["compare", "rank"])
def test_show_counts_what_is_there_of_an_unfinished_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Its summary comes with its end."""
    task, whole = linear_task(tmp_path), tmp_path / "run"
    pixels = np.random.default_rng(0).integers(0, 256, (40, 1, 12, 12), np.uint8)
    np.savez(tmp_path / "noise.npz", images=pixels, labels=np.arange(40) % 3, classes=np.array(["0", "1", "2"]))
    data = ["--data", f"npz:{tmp_path / 'noise.npz'}", "--split", "train"]
    answer = _json(capsys, verb, "--basket", task.basket, *data, "--out", whole)
    assert answer["images"] == _json(capsys, "show", whole)["images"] == 40
    (whole / {"compare": "compare.json", "rank": "pool.json"}[verb]).unlink()
    shown = _json(capsys, "show", whole)
    assert sum(row["found"] for row in shown["suspects"]) == len(Findings.open(whole).filter(outcome="found")) > 0
    alone = _json(capsys, "show", sorted((whole / "shards").iterdir())[0])
    assert sum(row["found"] for row in alone["suspects"]) > 0


def test_show_one(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    findings = Findings.open(run)
    row = findings.filter(outcome="found")[0]
    text = _ok(capsys, "show", run, row["id"])
    for part in (row["id"], "found", "rotation °", f"class {findings.name_of(row['truth'])}", *row["networks"]):
        assert part in text
    [line] = (line for line in text.splitlines() if "rotation °" in line)
    least = dict(row["least_change"])["rotation °"]
    assert line.split()[2:] == [
        f"{dict(row['change'])['rotation °']:+.2f}",
        *([f"{least:+.2f}"] if abs(least) >= 0.005 else []),
    ]
    answer = _json(capsys, "show", run, row["id"])
    assert answer["path"] == row["path"]
    assert "image" not in answer
    said = _wrong(capsys, "show", run, "nobody")
    assert "no finding 'nobody' among 150: ids look like 'mlp-10-000000'" in said


def test_report_goes_where_it_is_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, "report", run) == {"report": str(run / "report.html")}
    _ok(capsys, "report", run, "--out", tmp_path / "x.html")
    assert (tmp_path / "x.html").read_bytes() == (run / "report.html").read_bytes()
    assert "cannot" in _wrong(capsys, "report", run, "--out", tmp_path / "x.html" / "y.html")


@pytest.mark.parametrize("command", ["show", "report", "export", "replay", "cite"])
def test_what_is_no_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    (tmp_path / "text.parquet").write_text("hello")
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for name in ("nowhere", "text.parquet", "empty", "other.parquet"):
        more = ["--out", tmp_path / "out"] if command in ("export", "report") else []
        assert name in _wrong(capsys, command, tmp_path / name, *more)
        assert not (tmp_path / "out").exists()


def test_an_unfinished_run_can_be_looked_at(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    sorted((copy / "shards").iterdir())[-1].unlink()
    assert sum(row["trials"] for row in _json(capsys, "show", copy)["suspects"]) == 132
    assert _json(capsys, "replay", copy)["replayed"] == 132
    _ok(capsys, "report", copy)
    assert "not finished" in (copy / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    "command",
    [
        ["show", "RUN"], ["show", "RUN", "--json"], ["cite", "RUN"], ["export", "RUN", "--to", "csv"],
        ["export", "RUN", "--to", "folder"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_run_is_read_without_torch(run: Path, tmp_path: Path, command: list[str]) -> None:
    """It takes longer to load than a million rows take to count."""
    words = [str(run) if word == "RUN" else word for word in command]
    words += ["--out", str(tmp_path / "out")] if command[0] == "export" else []
    script = "import sys; from foible.cli import run; code = run(sys.argv[1:]); print('torch' in sys.modules, code)"
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False 0", done.stderr
