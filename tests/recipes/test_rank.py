"""A pool ranked by networks whose every answer is known: an image's first pixel is its number, a network a table."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from small_tasks import Task, linear_task, shards
from torch import Tensor, nn

from foible import Basket, Findings, UserError, cli
from foible.cli.rank import print_ranking
from foible.data import Dataset
from foible.findings import with_metadata
from foible.networks.preprocess import Preprocess
from foible.recipes import export
from foible.recipes.cite import cite
from foible.recipes.rank.recipe import rank, read_summary
from foible.recipes.replay import replay
from foible.report import write_report
from foible.runs.record import settings_hash
from foible.testing import SHAPE

CLASSES = ("ant", "bee", "cow")
NAN = -1


class Table(nn.Module):
    """Says `said[k]`, by a margin of `sure[k]`, of the image whose first pixel is k."""

    def __init__(self, said: list[int], sure: list[float]) -> None:
        super().__init__()
        self.said: Tensor
        self.sure: Tensor
        self.register_buffer("said", torch.tensor(said))
        self.register_buffer("sure", torch.tensor(sure))

    def forward(self, images: Tensor) -> Tensor:
        number = (images[:, 0, 0, 0] * 255).round().long()
        said = self.said[number]
        logits = nn.functional.one_hot(said.clamp_min(0), 3) * self.sure[number][:, None]
        return torch.where((said < 0)[:, None], torch.nan, logits)


#        0  1  2  3  4  5    6  7
A = [0, 1, 2, 0, 1, NAN, 0, 2]
B = [0, 0, 1, 0, 0, 1, 1, 1]
C = [0, 0, 1, 1, 0, 1, 2, 1]
SURE = [4, 3, 5, 4, 1, 4, 4, 5]  # of A's answers; the peers are sure by 4
TRUTH = [0, 0, 2, 0, 0, 1, 1, 1]  # of image 2, A is right and its peers are not


def basket(**more: Any) -> Basket:
    tables = {"A": Table(A, [float(v) for v in SURE]), "B": Table(B, [4.0] * 8), "C": Table(C, [4.0] * 8)}
    return Basket(tables, classes=CLASSES, preprocess="inside", **more)


def pool(labels: list[int] = TRUTH) -> Dataset:
    images = torch.arange(8, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).clone()
    return Dataset("numbers", "train", images, torch.tensor(labels), CLASSES)


def test_the_clearest_dissent_comes_first() -> None:
    found = rank(basket(), pool(), suspect="A", quiet=True)
    assert found.column("origin_index") == [2, 7, 1, 4]  # by min(A's margin, the peers'), ties by position
    assert found.column("score") == pytest.approx([4, 4, 3, 1])
    assert found.column("consensus") == [1, 1, 0, 0]
    assert found.column("said") == [2, 2, 1, 1]
    assert set(found.column("outcome")) == {"found"}
    assert found.column("label_from") == ["consensus"] * 4
    assert found[0]["networks"] == ["A", "B", "C"]
    assert (found[0]["path"], found[0]["moves"], found[0]["origin"]) == ([], 0, found[0]["image"])
    assert [int(image.flatten()[0]) for image in found.images()] == [2, 7, 1, 4]


def test_what_it_came_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rank(basket(), pool(), out=tmp_path / "run", top=2, quiet=True)
    summary = read_summary(tmp_path / "run")
    assert (summary["images"], summary["agree"], summary["invalid"], summary["unreadable"]) == (8, 1, 1, 0)
    a, b, c = summary["suspects"]
    assert (a["suspect"], a["peers"], a["dissent"], a["found"], a["kept"]) == ("A", ["B", "C"], 4, 4, 2)
    assert (a["reliability"]["right"], a["reliability"]["n"]) == (3, 4)
    assert a["reliability"]["low"] < 0.75 < a["reliability"]["high"]
    assert (b["dissent"], c["dissent"], b["reliability"]) == (0, 1, None)
    assert len(Findings.open(tmp_path / "run")) == 3
    print_ranking(summary)
    told = capsys.readouterr().out
    assert "3 of 4" in told
    assert "NaN" in told


def test_labels_decide_nothing() -> None:
    known, other = (rank(basket(), pool(labels), suspect="A", quiet=True) for labels in (TRUTH, [2] * 8))
    same = ("id", "score", "consensus", "said", "outcome")
    assert [known.column(name) for name in same] == [other.column(name) for name in same]
    assert known.column("truth") == [2, 1, 0, 0]


def test_peers_must_be_as_sure_as_asked() -> None:
    sure = float(torch.tensor([4.0, 0, 0]).softmax(0)[0])
    assert len(rank(basket(), pool(), suspect="A", peer_confidence=sure - 0.01, quiet=True)) == 4
    assert len(rank(basket(), pool(), suspect="A", peer_confidence=sure + 0.01, quiet=True)) == 0
    assert len(rank(basket(), pool(), suspect="A", suspect_confidence=0.8, quiet=True)) == 3  # image 4 is no more
    one = rank(basket(), pool(), suspect="A", peers="B", quiet=True)
    assert one.column("origin_index") == [2, 6, 7, 1, 4]  # of one peer, the word of one
    assert one[0]["networks"] == ["A", "B"]


def test_units_and_resuming_change_nothing(tmp_path: Path) -> None:
    for name, unit in (("a", None), ("b", 3), ("c", 3)):
        rank(basket(), pool(), out=tmp_path / name, unit=unit, top=3, quiet=True)
    for folder in ("ranking/shards", "shards"):
        sorted((tmp_path / "c" / folder).iterdir())[-1].unlink()
    (tmp_path / "c" / "pool.json").unlink()
    rank(basket(), pool(), out=tmp_path / "c", unit=3, top=3, quiet=True)
    assert shards(tmp_path / "b") == shards(tmp_path / "c")
    assert shards(tmp_path / "b" / "ranking") == shards(tmp_path / "c" / "ranking")
    whole, parts = (Findings.open(tmp_path / name).table.to_pylist() for name in "ab")
    assert repr(whole) == repr(parts)
    with pytest.raises(UserError, match="other settings"):
        rank(basket(), pool(), out=tmp_path / "c", unit=3, top=4, quiet=True)


def test_a_pool_without_dissent_is_a_run_too(tmp_path: Path) -> None:
    images = torch.zeros(5, 1, 4, 4, dtype=torch.uint8)
    calm = Dataset("calm", "train", images, torch.zeros(5, dtype=torch.int64), CLASSES)
    assert len(rank(basket(), calm, out=tmp_path / "run", quiet=True)) == 0
    assert len(rank(basket(), calm, quiet=True)) == 0
    assert read_summary(tmp_path / "run")["agree"] == 5


def files(folder: Path, sizes: dict[str, tuple[int, int]]) -> str:
    """Plain pictures of these sizes, each of one grey value: its number."""
    for number, (name, size) in enumerate(sizes.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((*size, 3), number, np.uint8)).save(folder / name)
    return f"folder:{folder}"


# Some in folders below, which are no classes.
PICTURES = {f"{'2023/' if k % 2 else ''}{k}.png": (5 + k, 9 - k) for k in range(8)}


def test_files_of_any_size_and_some_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = files(tmp_path / "pool", PICTURES)
    (tmp_path / "pool" / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")
    options: dict[str, Any] = {"suspect": "A", "canvas": "6x4", "top": 3, "out": tmp_path / "run"}
    found = rank(basket(), spec, **options)
    assert sorted(Path(name).stem for name in found.column("origin_file")) == ["1", "2", "7"]
    assert found.column("truth") == [None] * 3
    assert found.images()[0].shape == (3, 4, 6)
    assert "torn.png" in (tmp_path / "run" / "unreadable.txt").read_text("utf-8")
    assert "torn.png" in capsys.readouterr().err
    summary = read_summary(tmp_path / "run")
    assert (summary["images"], summary["unreadable"], summary["suspects"][0]["reliability"]) == (8, 1, None)


def test_what_only_the_file_shows_is_unsettled(tmp_path: Path) -> None:
    """A network that sees the middle of a file and others that see all of it: shown the canvas, it sees all of that."""

    class Dark(nn.Module):
        """0 where its picture is dark; 1 where it is bright."""

        def forward(self, images: Tensor) -> Tensor:
            bright = images.mean((1, 2, 3))
            return torch.stack([0.5 - bright, bright - 0.5], 1)

    whole, middle = Preprocess(size=(8, 8)), Preprocess(size=(2, 2), resize=(8, 8))
    networks = {"A": Dark(), "B": Dark(), "C": Dark()}
    looks = {"A": middle, "B": whole, "C": whole}
    pixels = np.full((8, 8, 3), 255, np.uint8)
    pixels[3:5, 3:5] = 0  # dark in the middle: A alone says 0, while it sees the middle alone
    (tmp_path / "pool").mkdir()
    Image.fromarray(pixels).save(tmp_path / "pool" / "one.png")
    judges = Basket(networks, classes=("dark", "bright"), preprocess=looks)
    found = rank(judges, f"folder:{tmp_path / 'pool'}", suspect="A", out=tmp_path / "run", quiet=True)
    assert found.column("outcome") == ["unsettled"]
    assert found.column("score")[0] < 0
    row = read_summary(tmp_path / "run")["suspects"][0]
    assert (row["dissent"], row["found"]) == (1, 0)
    assert np.argmax(found[0]["before"][0]) != np.argmax(found[0]["after"][0])


def test_labels_of_files_are_kept_beside_the_consensus(tmp_path: Path) -> None:
    spec = files(tmp_path / "pool", {f"{CLASSES[TRUTH[k]]}/{k}.png": (4, 4) for k in range(8)})
    plain = rank(basket(), spec, suspect="A", canvas="4", quiet=True)
    told = rank(basket(), spec, suspect="A", canvas="4", labelled=True, quiet=True)
    assert plain.column("truth") == [None] * 4
    told_of = {int(Path(row["origin_file"]).stem): row["truth"] for row in told}
    assert told_of == {2: 2, 7: 1, 1: 0, 4: 0}
    assert told.column("origin_file") == plain.column("origin_file")


@pytest.mark.parametrize("label", ["consensus", "people"])
def test_exports_carry_the_consensus_or_no_label(label: str, tmp_path: Path) -> None:
    spec = files(tmp_path / "pool", PICTURES)
    found = rank(basket(), spec, out=tmp_path / "run", suspect="A", canvas="4", label=label, quiet=True)
    people = label == "people"
    assert found.column("tags") == [["dissent", "to-label"] if people else ["dissent"]] * 4
    assert found.column("consensus") == [1, 1, 0, 0]
    assert found.column("label_from") == [None if people else "consensus"] * 4
    assert export.export(tmp_path / "run", "folder", tmp_path / "folder") == 4
    there = sorted(str(file.parent.name) for file in (tmp_path / "folder").glob("*/*.png"))
    assert there == (["unlabelled"] * 4 if people else ["ant", "ant", "bee", "bee"])
    with (tmp_path / "folder" / "findings.csv").open(encoding="utf-8", newline="") as lines:
        assert sorted(row["consensus"] for row in csv.DictReader(lines)) == ["ant", "ant", "bee", "bee"]
    export.export(tmp_path / "run", "fiftyone", tmp_path / "fiftyone")
    labels = json.loads((tmp_path / "fiftyone" / "labels.json").read_text("utf-8"))["labels"]
    assert [one and one["label"] for one in labels.values()] == ([None] * 4 if people else [1, 1, 0, 0])
    export.export(tmp_path / "run", "label-studio", tmp_path / "studio", tags=["dissent"])
    tasks = json.loads((tmp_path / "studio" / "tasks.json").read_text("utf-8"))
    assert [task["data"]["finding"] for task in tasks] == found.column("id")
    assert all("predictions" not in task for task in tasks)


def noisy_task(folder: Path) -> Task:
    """Networks on disk, and images that they have never seen the like of: they dissent often."""
    task = linear_task(folder)
    images = np.random.default_rng(0).integers(0, 256, (80, *SHAPE), dtype=np.uint8)
    np.savez(folder / "noise.npz", images=images, labels=np.arange(80) % 3, classes=np.array(["0", "1", "2"]))
    return Task(task.basket, f"npz:{folder / 'noise.npz'}")


def test_it_replays_from_the_run_folder(tmp_path: Path) -> None:
    task = noisy_task(tmp_path)
    found = rank(str(task.basket), task.data, out=tmp_path / "run", realism="none", quiet=True)
    assert len(found) >= 5
    assert all(one.holds for one in replay(tmp_path / "run"))
    assert all(score > 0 for score in found.column("score"))
    shutil.rmtree(task.basket)
    linear_task(tmp_path / "other", names=("A", "C", "B"))  # weights under other names
    (tmp_path / "other" / "basket").rename(task.basket)
    with pytest.raises(UserError, match="differ"):
        replay(tmp_path / "run")


def test_every_row_says_how_typical_it_looks(tmp_path: Path) -> None:
    task = noisy_task(tmp_path)
    scores = rank(str(task.basket), task.data, quiet=True).column("realism")
    assert None not in scores
    assert min(scores) > -10
    assert set(rank(str(task.basket), task.data, realism="none", quiet=True).column("realism")) == {None}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"suspect": "D"}, "no network 'D'"),
        ({"peers": ("A", "B", "C")}, "every network is a peer"),
        ({"suspect": "A", "peers": "A"}, "both suspect and peer"),
        ({"top": 0}, "top is 0"),
        ({"label": "guess"}, "expected consensus or people"),
        ({"realism": "looks"}, "expected patches, network:SPEC or none"),
        ({"peer_confidence": 2}, "peer_confidence is 2"),
        ({"tpo": 1}, "did you mean 'top'"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_wrong_input(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        rank(basket(), pool(), out=tmp_path / "run", quiet=True, **options)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="at least one peer"):
        rank(basket().only(["A"]), pool(), quiet=True)


def test_a_pool_of_nothing_readable(tmp_path: Path) -> None:
    spec = files(tmp_path / "pool", PICTURES)
    for file in (tmp_path / "pool").glob("**/*.png"):
        file.write_bytes(b"nothing")
    with pytest.raises(UserError, match="none of the 8 images"):
        rank(basket(), spec, canvas="4", quiet=True)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, run = noisy_task(tmp_path), tmp_path / "run"
    rank_it = ["rank", "--basket", str(task.basket), "--data", task.data, "--suspect", "B", "--top", "4"]
    assert cli.run([*rank_it, "--label", "people", "--device", "cpu", "--json", "--out", str(run)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["label"], told["report"]) == (str(run), "people", str(run / "report.html"))
    assert [row["kept"] for row in told["suspects"]] == [4]


def test_runs_of_0_1_0_are_called_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their settings say so: they are shown, reported, cited and replayed as rankings all the same."""
    task, run = noisy_task(tmp_path), tmp_path / "run"
    rank(str(task.basket), task.data, out=run, realism="none", top=3, quiet=True)
    record = json.loads((run / "config.json").read_text("utf-8"))
    assert record["settings"]["recipe"] == "rank"
    settings = record["settings"] | {"recipe": "pool"}
    key = settings_hash(settings)
    (run / "config.json").write_text(json.dumps(record | {"settings": settings, "hash": key, "whole": key}), "utf-8")
    for file in (run / "shards").glob("*.parquet"):
        table = pq.read_table(file)
        keys = pa.array([key] * table.num_rows, pa.string())
        old = table.set_column(table.column_names.index("config"), table.schema.field("config"), keys)
        pq.write_table(with_metadata(old, Findings(table).classes, {key: settings}), file)
    assert cli.run(["show", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == read_summary(run)["images"]
    assert "dissents from its peers" in write_report(run).read_text("utf-8")
    assert cite(run).keys == ("baluja2015virtues", "wilson1927probable")
    assert all(one.holds for one in replay(run))
