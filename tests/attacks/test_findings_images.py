"""Images in findings that are no PNG, or far too large: said by name, and no other program is started for them."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import EpsImagePlugin
from small_tasks import linear_task
from torch import Tensor, nn

from foible import Basket, UserError, cli
from foible.findings import Findings
from foible.images import decode_png, encode_png
from foible.recipes.export import export
from foible.recipes.gate import suite_gate as gates
from foible.recipes.suite.suite import make_suite

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
GIF = b"GIF89a" + bytes(20)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _black(width: int, height: int) -> bytes:
    """A grey PNG of zeros, of about a thousandth of its pixels in bytes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(bytes(height * (width + 1)), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a program called `gs` would write, were it started."""
    marker, home = tmp_path / "gs was here", tmp_path / "bin"
    home.mkdir()
    (home / "gs").write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    (home / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None, raising=False)
    return marker


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hunt that found something."""
    folder = tmp_path_factory.mktemp("hunt")
    options = ["--suspect", "A", "--trials", "16", "--unit", "16", "--patience", "60", "--workers", "1", "--no-shrink"]
    options += ["--peer-confidence", "0"]
    assert cli.run([*linear_task(folder).hunt(*options), "--out", str(folder / "run")]) == 0
    return folder / "run"


def _spoil(file: Path, images: list[bytes], columns: tuple[str, ...] = ("image", "origin")) -> None:
    """Put these images into the rows of a Parquet file, in turn."""
    table = pq.read_table(file)
    for name in columns:
        made = [images[row % len(images)] for row in range(table.num_rows)]
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(made, pa.binary()))
    pq.write_table(table, file)


def _suite(run: Path, out: Path, images: list[bytes]) -> Path:
    """A suite with these images, whose record vouches for them, as a stranger's would."""
    make_suite([run], out, per_class=4)
    _spoil(out / "suite.parquet", images)
    record = json.loads((out / "suite.json").read_text())
    record["sha256"] = hashlib.sha256((out / "suite.parquet").read_bytes()).hexdigest()
    (out / "suite.json").write_text(json.dumps(record))
    return out


def _gate(suite: Path, run: Path) -> list[str]:
    basket = run.parent / "basket"
    return ["gate", "--suite", str(suite), "--network", f"new={basket}/A", "--network", f"old={basket}/B"]


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_ghostscript_is_not_started(
    run: Path, tmp_path: Path, ghostscript: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="it is no PNG"):
        decode_png(EPS)
    suite = _suite(run, tmp_path / "suite", [EPS])
    assert cli.run(_gate(suite, run)) == 2
    assert "cannot be read (it is no PNG)" in capsys.readouterr().err
    assert cli.run(["export", str(suite), "--all", "--out", str(tmp_path / "out")]) == 2
    with pytest.raises(UserError, match=r"the image of '.*' cannot be read"):
        Findings.open(suite).images()
    assert cli.run(["show", str(suite)]) in (0, 2)
    assert not ghostscript.exists()


@pytest.mark.parametrize(
    "bad",
    [EPS, GIF, b"", _black(9, 9)[:-30], _black(50_000, 1)[:60], b"\x89PNG\r\n\x1a\n"],
    ids=["postscript", "gif", "nothing", "cut", "cut early", "signature"],
)
def test_a_row_whose_image_is_no_whole_png(
    run: Path, tmp_path: Path, bad: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = _suite(run, tmp_path / "suite", [bad])
    first = Findings.open(suite)[0]["id"]
    assert cli.run(_gate(suite, run)) == 2
    assert f"the image of {first!r} cannot be read" in capsys.readouterr().err
    for form in ("folder", "hf", "parquet", "fiftyone", "label-studio"):
        with pytest.raises(UserError, match=r"the image of '.*' cannot be read"):
            export(Findings.open(suite), form, tmp_path / form, everything=True)
        assert not (tmp_path / form).exists()


def test_a_run_whose_seed_images_are_no_png(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shard in (run / "shards").iterdir():
        kept = shard.read_bytes()
        try:
            _spoil(shard, [GIF], ("origin",))
            assert cli.run(["replay", str(run)]) == 2
            assert "cannot be read (it is no PNG)" in capsys.readouterr().err
            assert cli.run(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0
        finally:
            shard.write_bytes(kept)


def test_a_picture_of_more_pixels_than_fit_into_memory(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """16 rows of 64 million pixels as floats are 4 GB; a suite of them has a few kilobytes."""
    suite = _suite(run, tmp_path / "suite", [_black(2100, 2100)])
    assert cli.run(_gate(suite, run)) == 2
    assert "it claims 2100×2100 pixels" in capsys.readouterr().err
    with pytest.raises(UserError, match="it claims 8001×8001 pixels"):
        decode_png(_black(8001, 8001))


class _Mean(nn.Module):
    """Takes images of any size, and remembers the most pixels that came at once."""

    most = 0

    def forward(self, images: Tensor) -> Tensor:
        _Mean.most = max(_Mean.most, len(images) * images[0, 0].numel())
        return images.mean((1, 2, 3))[:, None] * torch.tensor([1.0, -1.0, 0.0])


def test_batches_are_bounded_by_pixels(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = _suite(run, tmp_path / "suite", [_black(100, 100)])
    assert len(Findings.open(suite)) > 16
    monkeypatch.setattr(gates, "ROOM", 16 * 100 * 100, raising=False)
    classes = Findings.open(suite).classes
    basket = Basket({"old": _Mean(), "new": _Mean()}, classes=classes, preprocess="inside")
    gated = gates.gate(suite, basket, quiet=True)
    assert gated.checks[0].n == len(Findings.open(suite))
    assert _Mean.most == 16 * 100 * 100  # judged in more than one batch


def test_sizes_that_a_network_cannot_take(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = Findings.open(run)
    fits, other = findings[0]["image"], encode_png(torch.zeros(1, 13, 17, dtype=torch.uint8))
    suite = _suite(run, tmp_path / "suite", [fits, fits, fits, other])
    monkeypatch.setattr(gates, "BATCH", 2)  # so that the odd one is not among the first
    fixed = nn.Sequential(nn.Flatten(), nn.Linear(decode_png(fits).numel(), len(findings.classes)))
    basket = Basket({"old": fixed, "new": fixed}, classes=findings.classes, preprocess="inside")
    with pytest.raises(UserError, match=r"'old' .*13, 17\)"):
        gates.gate(suite, basket, quiet=True)
