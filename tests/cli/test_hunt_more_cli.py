"""`foible hunt` beyond the paper's: without labels, chains with a user's file, the atlas, pools, photographs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_tasks import linear_task

from foible import cli
from foible.basket import Basket
from foible.findings import Findings
from foible.images import decode_png
from foible.permission import Permission
from foible.testing import CLASSES, blobs, check_space

FADE = '''
"""Make an image fainter: a space of one's own that can stand anywhere in a chain."""
from typing import NamedTuple
from torch import Tensor


class Points(NamedTuple):
    image: Tensor
    kept: Tensor  # (n,) share of its brightness


class Fade:
    draws = 1

    def __init__(self, most: float = 0.2):
        self.most = most

    def start(self, seeds):
        return Points(seeds, seeds.new_ones(len(seeds)))

    def move(self, points, u):
        return points._replace(kept=points.kept * (1 - self.most * u[:, 0]))

    def render(self, points):
        return points.image * points.kept[:, None, None, None]

    def describe(self, points):
        return {"kept %": 100 * points.kept}
'''


def _run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.run([*map(str, args)])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


def _ok(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    code, out, said = _run(capsys, *args, "--json")
    assert code == 0, said
    answer: dict[str, Any] = json.loads(out)
    return answer


def _wrong(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    code, out, said = _run(capsys, *args)
    assert (code, out) == (2, ""), said
    return said


def _replays(capsys: pytest.CaptureFixture[str], run: Path, *options: str) -> None:
    answer = _ok(capsys, "replay", run, *options)
    assert (answer["replayed"], answer["differ"]) == (len(Findings.open(run)), [])


def _between(count: int) -> torch.Tensor:
    """Noisy images on the way from one class of the linear task to the next, uint8 (count, 1, 12, 12)."""
    labels, mixed = torch.arange(count) % CLASSES, torch.linspace(0.3, 0.6, count)[:, None, None, None]
    clean = (1 - mixed) * blobs()[labels] + mixed * blobs()[(labels + 1) % CLASSES]
    noise = 0.15 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    return (255 * (clean + noise).clamp(0, 1)).round().to(torch.uint8)


def _write(folder: Path, images: torch.Tensor) -> str:
    """PNG files 000.png, 001.png, … in a folder of no classes, as a spec."""
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image[0].numpy()).save(folder / f"{number:03d}.png")
    return f"folder:{folder}"


def test_a_folder_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the networks disagree nobody knows the class, so such an image is never a seed."""
    task, images, run = linear_task(tmp_path), _between(90), tmp_path / "run"
    answers = Basket.open(task.basket).predict(images).argmax(2)
    agree = (answers == answers[0]).all(0)
    assert 10 < int(agree.sum()) < 80
    folder = _write(tmp_path / "photos", images)
    hunt = ["hunt", "--basket", task.basket, "--data", folder, "--trials", 300, "--patience", 20, "--workers", 1]
    code, _, said = _run(capsys, *hunt, "--suspect", "A", "--unlabelled", "--out", run)
    assert code == 0, said
    assert f"{int(agree.sum())} of 90 images are called the same by all 3 networks" in said
    findings = Findings.open(run)
    assert set(findings.column("truth")) == {None}
    assert set(findings.column("label_from")) == {"consensus"}
    assert len(findings.filter(outcome="found")) > 10
    numbers = [int(Path(name).stem) for name in findings.column("origin_file")]
    assert len(set(numbers)) > 0.8 * int(agree.sum())  # nearly all of those that may be drawn were
    for number, row in zip(numbers, findings, strict=True):
        assert agree[number]
        assert row["consensus"] == answers[0, number]
        assert row["origin"] is None or torch.equal(decode_png(row["origin"]), images[number])
    _replays(capsys, run)


@pytest.mark.parametrize("space", ["affine+{}:Fade", "affine?degrees=5+{}:Fade?most=0.1"])
def test_a_chain_with_a_users_file(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, space: str
) -> None:
    file, run = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(FADE)
    check_space(Permission(trust=True).run(str(file), "Fade")())
    monkeypatch.chdir(tmp_path)
    hunt = ["hunt", "--basket", mlps, "--suspect", "mlp-10", "--trials", 24, "--patience", 40, "--workers", 1]
    answer = _ok(capsys, *hunt, "--space", space.format("mine.py"), "--out", "run")
    assert answer["suspects"][0]["found"] > 0
    findings = Findings.open(run)
    (settings,) = findings.configs.values()
    assert settings["space"] == space.format("mine.py")
    assert settings["space_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    change = dict(findings.filter(outcome="found")[0]["change"])
    assert change.keys() >= {"rotation °", "kept %"}
    assert change["kept %"] < 100
    monkeypatch.chdir("/")
    said = _wrong(capsys, "replay", run)
    assert "names code" in said
    assert "--trust" in said
    _replays(capsys, run, "--trust")
    file.write_text(FADE.replace("0.2", "0.3"))
    monkeypatch.chdir(tmp_path)
    assert "space_sha256" in _wrong(capsys, *hunt, "--space", space.format("mine.py"), "--out", "run")


def test_an_atlas(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    hunt = ["hunt", "--basket", mlps, "--atlas", "--trials", 24, "--workers", 1, "--peer-confidence", 0]
    answer = _ok(capsys, *hunt, "--out", run)
    findings = Findings.open(run)
    (settings,) = findings.configs.values()
    assert settings["search"] == "map-elites"
    assert len(set(findings.column("id"))) == len(findings) > 72  # several finds of one trial
    for row in answer["suspects"]:
        assert row["trials"] == 24
        assert row["found"] == len(findings.filter(suspect=row["suspect"], outcome="found"))
        assert row["cells"] > 20
    _replays(capsys, run)
    assert Path(answer["report"]).read_text("utf-8").startswith("<!")
    said = _wrong(capsys, *hunt, "--search", "genetic", "--out", tmp_path / "other")
    assert "an atlas is drawn by the search 'map-elites', not by 'genetic'" in said
    assert not (tmp_path / "other").exists()


def test_a_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    task, images, run = linear_task(tmp_path), _between(90), tmp_path / "run"
    said = Basket.open(task.basket).predict(images).argmax(2)
    alone = (said[1] == said[2]) & (said[0] != said[1])
    folder = _write(tmp_path / "photos", images)
    rank = ["rank", "--basket", task.basket, "--data", folder, "--suspect", "A"]
    answer = _ok(capsys, *rank, "--top", 5, "--out", run)
    (row,) = answer["suspects"]
    assert (answer["images"], row["dissent"], row["kept"]) == (90, int(alone.sum()), 5)
    assert Path(answer["report"]).read_text("utf-8").startswith("<!")
    findings = Findings.open(run)
    assert all(alone[int(Path(name).stem)] for name in findings.column("origin_file"))
    _replays(capsys, run)
    shown = _ok(capsys, "show", run)
    assert (shown["images"], shown["suspects"]) == (90, answer["suspects"])
    assert [brief["id"] for brief in shown["findings"]] == findings.column("id")
    code, text, _ = _run(capsys, "show", run)
    assert code == 0
    assert "90 images; all networks agree on" in text
    assert "dissents" in text
    assert "trials" not in text  # nothing was tried
    assert all(id in text for id in findings.column("id"))
    other = tmp_path / "other"
    assert "No such option: --trials" in _wrong(capsys, *rank, "--trials", 5, "--out", other)
    assert "label is 'nobody'" in _wrong(capsys, *rank, "--label", "nobody", "--out", other)
    assert "nowhere" in _wrong(capsys, *rank[:3], "--data", "folder:nowhere", "--out", other)
    assert not other.exists()
    assert json.loads((run / "config.json").read_text("utf-8"))["settings"]["recipe"] == "rank"
    (run / "pool.json").write_text("{")
    assert "rank the pool again" in _wrong(capsys, "show", run)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dozen small pictures, JPEG and PNG, no two of one size, of two classes; networks of three input sizes."""
    home = tmp_path_factory.mktemp("photographs")
    random = np.random.default_rng(0)
    for number in range(24):
        label = ("sea", "sand")[number % 2]
        (home / "photos" / label).mkdir(parents=True, exist_ok=True)
        height, width = 20 + 2 * number, 60 - number
        middle = (95, 105, 135) if label == "sea" else (135, 125, 95)
        pixels = random.normal(middle, 30, (height, width, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(home / "photos" / label / f"{number}.{('jpg', 'png')[number // 2 % 2]}")
    for size in (8, 12, 16):
        train = [
            "train",
            "mlp:8",
            "--data",
            f"folder:{home / 'photos'}?size={size}&test=0.25",
            "--out",
            str(home / f"n{size}"),
        ]
        assert cli.run([*train, "--epochs", "60"]) == 0
    return home


@pytest.mark.parametrize("search", ["hill-climb", "gradient"])
def test_photographs_of_mixed_sizes(
    photographs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], search: str
) -> None:
    networks = [word for size in (8, 12, 16) for word in ("--network", f"n{size}={photographs / f'n{size}'}")]
    options = ["--space", "photometric+crop+affine", "--search", search, "--trials", 12, "--workers", 1]
    answer = _ok(
        capsys, "hunt", *networks, "--data", f"folder:{photographs / 'photos'}", *options, "--out", tmp_path / "run"
    )
    findings = Findings.open(tmp_path / "run")
    assert [row["trials"] for row in answer["suspects"]] == [12] * 3
    assert {tuple(image.shape) for image in findings.images()} == {(3, 16, 16)}
    found = findings.filter(outcome="found")
    assert len(found) > 10
    assert {Path(name).suffix for name in findings.column("origin_file")} == {".jpg", ".png"}
    (settings,) = findings.configs.values()
    assert settings["canvas"]["size"] == [16, 16]
    basket = Basket.open([f"n{size}={photographs / f'n{size}'}" for size in (8, 12, 16)])
    for row, least in zip(found, found.images("least_image"), strict=True):
        for image in (decode_png(row["image"]), least):
            said = basket.judge(image[None] / 255, row["networks"]).argmax(2)[:, 0].tolist()
            assert said[0] != row["truth"]
            assert said[1:] == [row["truth"]] * 2
    _replays(capsys, tmp_path / "run")


def test_a_folder_called_like_a_search_is_not_taken_for_it(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gradient", "affine", "dissent"):
        (tmp_path / name).mkdir()
    hunt = ["hunt", "--basket", mlps, "--suspect", "mlp-10", "--trials", 16, "--search", "gradient", "--workers", 1]
    assert cli.run([str(part) for part in [*hunt, "--out", "run"]]) == 0
    assert cli.run(["replay", "run"]) == 0, capsys.readouterr().err
