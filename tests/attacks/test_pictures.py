"""Image files that are broken or bombs, in a folder given to a hunt: reported by name, and the rest go on."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image
from small_tasks import SPACE, linear_task

import foible
from foible import cli
from foible.findings import Findings
from foible.images import decode_png, encode_png

HOSTILE = "x onerror=alert(1) \x1b[2J.png"


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _bomb() -> bytes:
    """A few kilobytes that claim 50,000 × 50,000 pixels."""
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)
    packed = zlib.compress(bytes(1_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """The linear task's images as PNG files, one folder a class."""
    task = linear_task(tmp_path)
    data = foible.load(task.data)
    for number, (image, label) in enumerate(zip(data.images, data.labels, strict=True)):
        home = tmp_path / "photos" / str(int(label))
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(home / f"{number:03}.png")
    return tmp_path / "photos"


def _hunt(photos: Path, run: str) -> list[str]:
    basket = photos.parent / "basket"
    return [
        "hunt", "--basket", str(basket), "--data", f"folder:{photos}", "--space", SPACE, "--suspect", "A",
        "--trials", "16", "--patience", "60", "--workers", "1", "--out", str(photos.parent / run),
    ]  # fmt: skip


def test_bad_files_are_reported_and_the_rest_are_hunted(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(_hunt(photos, "clean")) == 0
    good = (photos / "0" / "000.png").read_bytes()
    (photos / "0" / "zz bomb.png").write_bytes(_bomb())
    (photos / "1" / "zz cut.png").write_bytes(good[:-30])
    (photos / "1" / "zz empty.png").write_bytes(b"")
    (photos / "2" / "zz text.png").write_bytes(b"<svg onload=alert(1)>")
    (photos / "2" / HOSTILE).write_bytes(b"no picture")
    capsys.readouterr()
    assert cli.run(_hunt(photos, "mixed")) == 0
    said = capsys.readouterr()
    for name in ("zz bomb.png", "zz cut.png", "zz empty.png", "zz text.png"):
        assert name in said.err
    assert "\x1b" not in said.err
    clean, mixed = Findings.open(photos.parent / "clean"), Findings.open(photos.parent / "mixed")
    assert len(mixed) == len(clean)
    assert not [file for file in mixed.column("origin_file") if "zz" in file or HOSTILE in file]
    assert {*mixed.column("origin")} - {None} <= {
        encode_png(decode_png(file.read_bytes())) for file in photos.rglob("0*.png")
    }


def test_nothing_but_bad_files(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in photos.rglob("*.png"):
        file.write_bytes(_bomb())
    assert cli.run(_hunt(photos, "none")) == 2
    assert "could be read: 0/000.png: claims more pixels" in capsys.readouterr().err
