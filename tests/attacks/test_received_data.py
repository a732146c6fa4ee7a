"""Data files that somebody else made: they lead nowhere outside, hold nobody up, and are refused in words."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from foible import UserError, cli
from foible.data import load, open_data

no_windows = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")


def _png(colour: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (6, 5), colour).save(out, "PNG")
    return out.getvalue()


def _photos(folder: Path, count: int = 6) -> Path:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}.png").write_bytes(_png(number))
    return folder


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _zip(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return out.getvalue()


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(array))
    return out.getvalue()


# Links


@no_windows
@pytest.mark.parametrize("table", ["csv", "metadata"])
@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_table_cannot_lead_out_of_its_folder_by_a_link(tmp_path: Path, table: str, linked: str) -> None:
    private = _photos(tmp_path / "private")
    received = _photos(tmp_path / "received")
    if linked == "file":
        (received / "inside.png").symlink_to(private / "0.png")
        name = "inside.png"
    else:
        (received / "inside").symlink_to(private)
        name = "inside/0.png"
    rows = "".join(f"{number}.png,{'ab'[number % 2]}\n" for number in range(6)) + f"{name},a\n"
    file = received / ("table.csv" if table == "csv" else "metadata.csv")
    file.write_text(f"file_name,label\n{rows}")
    data = open_data(f"csv:{file}" if table == "csv" else f"folder:{received}", quiet=True)
    assert list(data.files or ()) == [f"{number}.png" for number in range(6)]
    assert any(name in line and "by a link: not opened" in line for line in data.problems)


@no_windows
def test_a_folder_may_be_linked_by_its_owner(tmp_path: Path) -> None:
    elsewhere = _photos(tmp_path / "disk" / "photos")
    (elsewhere / "table.csv").write_text("file_name,label\n0.png,a\n1.png,b\n")
    (tmp_path / "mine").symlink_to(elsewhere)
    (elsewhere / "also.png").symlink_to(elsewhere / "1.png")  # a link that stays inside
    (elsewhere / "table.csv").write_text("file_name,label\n0.png,a\nalso.png,b\n")
    assert len(open_data(f"csv:{tmp_path / 'mine' / 'table.csv'}")) == 2
    for name in ("a", "b"):
        (tmp_path / "classes").mkdir(exist_ok=True)
        (tmp_path / "classes" / name).symlink_to(elsewhere)
    assert len(open_data(f"folder:{tmp_path / 'classes'}")) == 14


# Pipes


def _ends(work: Callable[[], Any], pipe: Path) -> str:
    """What the work is refused with; it must not wait for the pipe."""
    said: list[str] = []

    def run() -> None:
        try:
            work()
        except UserError as error:
            said.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    if thread.is_alive():
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))  # lets it go on
        thread.join(20)
        pytest.fail("it waits for the pipe")
    return said[0] if said else ""


@no_windows
@pytest.mark.parametrize("form", ["npz", "parquet", "csv", "webdataset", "folder"])
def test_a_pipe_holds_nobody_up(tmp_path: Path, form: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert _ends(lambda: open_data(f"{form}:{pipe}", quiet=True), pipe)
    assert _ends(lambda: open_data(f"{form}:/dev/zero", quiet=True), pipe)


@no_windows
@pytest.mark.parametrize(("form", "name"), [("parquet", "train-0.parquet"), ("webdataset", "a.tar")])
def test_a_pipe_in_a_folder_is_no_data(tmp_path: Path, form: str, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert "holds no" in _ends(lambda: open_data(f"{form}:{tmp_path}", quiet=True), tmp_path / name)


# NumPy


IMAGES, LABELS = np.zeros((4, 5, 6), np.uint8), np.array([0, 1, 0, 1])
BAD_NPZ = {
    "a member that is no array": _zip(
        **{"images.npy": _npy(IMAGES), "labels.npy": _npy(LABELS), "notes.txt": b"hello"}
    ),
    "labels that are no array": _zip(**{"images.npy": _npy(IMAGES), "labels": b"0101"}),
    "names alike but for case": _npz(images=IMAGES, Images=IMAGES + 1, labels=LABELS),
    "a pickle": _zip(**{"images.npy": _npy(IMAGES), "labels.npy": b"\x80\x04K\x01."}),
    "characters beyond all": _npz(images=IMAGES, labels=np.array([0x7FFFFFFF] * 4, np.uint32).view("<U1")),
    "classes beyond all": _npz(images=IMAGES, labels=LABELS, classes=np.array([0x110000, 1], np.uint32).view("<U1")),
    "half a character": _npz(images=IMAGES, labels=LABELS, classes=np.array(["a", "\ud800"])),
    "less than its shape says": _zip(**{"images.npy": _npy(IMAGES).replace(b"(4, 5, 6)", b"(9, 9, 9)")}),
    "a number": _npz(images=np.uint8(3), labels=LABELS),
    "records": _npz(images=IMAGES, labels=np.zeros(4, [("a", "i4"), ("b", "f4")])),
}


@pytest.mark.parametrize("kind", BAD_NPZ)
def test_odd_arrays_are_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x.npz").write_bytes(BAD_NPZ[kind])
    with pytest.raises(UserError, match=r"x\.npz"):
        load(f"npz:{tmp_path / 'x.npz'}")


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the very thing that is tested
        for name, array in (("images", IMAGES), ("labels", LABELS), ("labels", 1 - LABELS)):
            file.writestr(f"{name}.npy", _npy(array))
    with pytest.raises(UserError, match="two arrays called 'labels'"):
        load(f"npz:{tmp_path / 'x.npz'}")


def test_an_array_that_is_nearly_all_packing(tmp_path: Path) -> None:
    """300 MB of zeros in 300 kB: refused by what the archive says of it, before it is unpacked."""
    header = (
        _npy(np.zeros((1, 1, 1), np.uint8))[:128].replace(b"(1, 1, 1)", b"(300, 1000, 1000)").replace(b" " * 8, b"", 1)
    )
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file,
        file.open("images.npy", "w", force_zip64=True) as member,
    ):
        member.write(header)
        for _ in range(300):
            member.write(bytes(1_000_000))
    with pytest.raises(UserError, match="taken for a bomb"):
        load(f"npz:{tmp_path / 'x.npz'}")


# What is said about images


def _parquet(file: Path, note: bytes) -> str:
    kind = pa.struct([("bytes", pa.binary())])
    images = pa.array([{"bytes": _png(number)} for number in range(4)], kind)
    table = pa.table({"image": images, "label": pa.array([0, 1, 0, 1])})
    pq.write_table(table.replace_schema_metadata({"huggingface": note}), file)
    return f"parquet:{file}"


@pytest.mark.parametrize(
    "note",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"info": {"features": {"label": {"names": "ab"}}}}',
        b'{"info": {"features": {"label": {"names": {"a": 1, "b": 2}}}}}',
        b'{"info": [{}]}',
        b"\xff\xfe",
    ],
    ids=["deep", "deep objects", "text for a list", "object for a list", "list for an object", "no text"],
)
def test_a_note_in_parquet_that_says_nothing(tmp_path: Path, note: bytes) -> None:
    assert open_data(_parquet(tmp_path / "x.parquet", note)).classes == ("0", "1")


def test_class_names_that_no_table_can_hold(tmp_path: Path) -> None:
    note = json.dumps({"info": {"features": {"label": {"names": ["a", "\ud800"]}}}}).encode()
    with pytest.raises(UserError, match="expected text that can be written"):
        open_data(_parquet(tmp_path / "x.parquet", note))


@pytest.mark.parametrize(
    "value", ["[" * 100_000, '{"a":' * 20_000, "[1]", '{"a": 1}', "1.5", "true", '"\\ud800"', "1" * 5000]
)
def test_metadata_of_wrong_types(tmp_path: Path, value: str) -> None:
    photos = _photos(tmp_path / "set")
    lines = [f'{{"file_name": "{number}.png", "label": "{"ab"[number % 2]}"}}' for number in range(6)]
    (photos / "metadata.jsonl").write_text("\n".join([*lines, f'{{"file_name": "0.png", "label": {value}}}']))
    with pytest.raises(UserError, match=r"metadata\.jsonl"):
        open_data(f"folder:{photos}", quiet=True)


def _tar(file: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(file, "w") as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return f"webdataset:{file}"


def test_labels_in_tar_shards_that_are_no_text(tmp_path: Path) -> None:
    members = {f"{n}.png": _png(n) for n in range(4)} | {f"{n}.json": b'{"label": "\\ud800"}' for n in range(4)}
    with pytest.raises(UserError, match="expected text that can be written"):
        open_data(_tar(tmp_path / "x.tar", members))


def test_a_note_in_a_tar_whose_length_has_a_million_digits(tmp_path: Path) -> None:
    spec = _tar(
        tmp_path / "x.tar", {f"{'d' * 150}/{n}.png": _png(n) for n in range(4)} | {"a.txt": b"9" * 9000 + b" x=y\n"}
    )
    body = bytearray((tmp_path / "x.tar").read_bytes())
    at = body.index(b"9" * 9000) - 512  # make the note of it that it looks like
    body[at + 156 : at + 157] = b"x"
    body[at + 148 : at + 156] = b" " * 8
    body[at + 148 : at + 156] = b"%06o\0 " % sum(body[at : at + 512])
    (tmp_path / "x.tar").write_bytes(body)
    assert len(open_data(spec, labelled=False, quiet=True)) == 4


# Versions of the same files


@pytest.mark.parametrize("form", ["folder", "csv", "webdataset", "parquet"])
def test_another_version_of_a_file_is_other_data(tmp_path: Path, form: str) -> None:
    def write(bodies: list[bytes]) -> str:
        labels = "ab"
        if form == "webdataset":
            named = {f"{n}.png": body for n, body in enumerate(bodies)}
            return _tar(tmp_path / "x.tar", named | {f"{n}.cls": labels[n % 2].encode() for n in range(len(bodies))})
        if form == "parquet":
            table = pa.table({"image": bodies, "label": [n % 2 for n in range(len(bodies))]})
            pq.write_table(
                table, tmp_path / "x.parquet", compression="none", use_dictionary=False, write_statistics=False
            )
            return f"parquet:{tmp_path / 'x.parquet'}"
        lines = ["file,label"]
        for n, body in enumerate(bodies):
            home = tmp_path / "set" / labels[n % 2]
            home.mkdir(parents=True, exist_ok=True)
            (home / f"{n}.png").write_bytes(body)
            lines.append(f"{labels[n % 2]}/{n}.png,{labels[n % 2]}")
        (tmp_path / "set" / "table.csv").write_text("\n".join(lines))
        return f"folder:{tmp_path / 'set'}" if form == "folder" else f"csv:{tmp_path / 'set' / 'table.csv'}"

    pngs = [_png(colour) for colour in (10, 20, 30, 40)]
    assert len({len(png) for png in pngs}) == 1
    first = open_data(write(pngs)).sha256
    assert open_data(write(pngs)).sha256 == first
    assert open_data(write([*pngs[:2], _png(31), pngs[3]])).sha256 != first


def test_of_much_data_a_sample_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from foible.data import contents

    for name in ("a", "b"):
        _photos(tmp_path / name, 50)
    spec = f"folder:{tmp_path}"
    monkeypatch.setattr(contents, "WHOLE", 100)
    monkeypatch.setattr(contents, "SAMPLE", 4)
    first = open_data(spec).sha256
    opened: list[Any] = []

    def noted(path: Any, *how: Any, of: Any = open) -> Any:
        opened.append(path)
        return of(path, *how)

    monkeypatch.setattr("builtins.open", noted)
    again = open_data(spec)
    opened.clear()
    assert again.sha256 == first
    assert len(opened) == 4
    assert opened[0] == os.fsencode(tmp_path / "a" / "0.png")
    Path(os.fsdecode(opened[-1])).write_bytes(_png(99))
    assert open_data(spec).sha256 != first


def test_the_program_says_it_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.npz").write_bytes(BAD_NPZ["labels that are no array"])
    assert (
        cli.run(["train", "softmax", "--data", f"npz:{tmp_path / 'x.npz'}?test=0.5", "--out", str(tmp_path / "out")])
        == 2
    )
    assert "which is no array" in capsys.readouterr().err
