"""`webdataset:` and the tar files beneath it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import tarfile
from pathlib import Path

import pytest
from data_files import picture, write_tar
from hypothesis import given, settings
from hypothesis import strategies as st

from foible import data
from foible.data.tar import Broken, members
from foible.data.webdataset import expand
from foible.errors import UserError

REDS = [picture((k, 0, 0)) for k in range(8)]


def reds(got: data.Dataset) -> list[int]:
    return got.images[:, 0, 0, 0].tolist()


def samples(rows: range, kind: str = "cls") -> list[tuple[str, bytes]]:
    def label(k: int) -> bytes:
        return json.dumps({"label": k % 2, "caption": "x"}).encode() if kind == "json" else str(k % 2).encode()

    return [(f"s/{k:04d}.{ending}", body) for k in rows for ending, body in (("png", REDS[k]), (kind, label(k)))]


@pytest.mark.parametrize("kind", ["cls", "txt", "json"])
@pytest.mark.parametrize("style", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_labels_in_every_member_that_may_hold_them(home: Path, kind: str, style: int) -> None:
    write_tar(home / "one.tar", samples(range(4), kind), style)
    got = data.load("webdataset:one.tar")
    assert (reds(got), got.labels.tolist(), got.classes) == ([0, 1, 2, 3], [0, 1, 0, 1], ("0", "1"))


def test_class_names_text_labels_and_another_key(home: Path) -> None:
    write_tar(home / "set" / "one.tar", samples(range(4)))
    (home / "set" / "classes.txt").write_text("cat\ndog\n")
    assert data.load("webdataset:set").classes == ("cat", "dog")
    (home / "set" / "other.txt").write_text("Katze\nHund\n")
    assert data.load("webdataset:set?classes=other.txt").classes == ("Katze", "Hund")
    write_tar(home / "text.tar", [("1.png", REDS[1]), ("1.cls", b"fox\n"), ("2.jpg.png", REDS[2]), ("2.txt", b"ape")])
    got = data.load("webdataset:text.tar")
    assert (got.classes, got.labels.tolist(), reds(got)) == (("ape", "fox"), [1, 0], [1, 2])
    rows = [("0.png", REDS[0]), ("0.json", b'{"y": "a"}'), ("1.png", REDS[1]), ("1.json", b'{"y": "b"}')]
    write_tar(home / "key.tar", rows)
    with pytest.raises(UserError, match=r"no labels: expected a \.cls, a \.txt or a \.json with 'label'"):
        data.load("webdataset:key.tar")
    assert data.load("webdataset:key.tar?label=y").classes == ("a", "b")


def test_splits_by_name_or_folder_and_patterns(home: Path) -> None:
    write_tar(home / "set" / "train-00.tar", samples(range(0, 2)))
    write_tar(home / "set" / "train-01.tar", samples(range(2, 4)))
    write_tar(home / "set" / "val-00.tar", samples(range(4, 6)))
    assert reds(data.load("webdataset:set")) == [0, 1, 2, 3]
    assert reds(data.load("webdataset:set", "test")) == [4, 5]
    write_tar(home / "deep" / "train" / "0.tar", samples(range(0, 2)))
    write_tar(home / "deep" / "test" / "0.tar", samples(range(6, 8)))
    assert reds(data.load("webdataset:deep", "test")) == [6, 7]
    got = data.load("webdataset:set/train-{00..02}.tar", quiet=True)
    assert reds(got) == [0, 1, 2, 3]
    assert any("train-02.tar: is not there" in line for line in got.problems)
    assert next(iter(data.open_data("webdataset:set/train-{00..01}.tar").files or ())) == "train-00.tar/s/0000.png"
    with pytest.raises(UserError, match="stands for 2 files, and none is there"):
        data.load("webdataset:set/none-{1..2}.tar")
    with pytest.raises(UserError, match="more than 100,000 shards"):
        data.load("webdataset:{0..999999999}.tar")
    assert list(expand("{a,b}-{08..10}.tar")) == [f"{x}-{n}.tar" for x in "ab" for n in ("08", "09", "10")]


class Payload:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_pickles_are_never_opened_and_are_mentioned(home: Path, tmp_path: Path) -> None:
    evil = pickle.dumps(Payload(tmp_path / "ran"))
    rows = [*samples(range(2)), ("2.png", REDS[2]), ("2.cls", evil), ("3.png", evil), ("3.cls", b"1")]
    rows += [("s/0000.pyd", evil), ("s/0001.pkl", evil), ("s/0001.meta.pth", evil)]
    write_tar(home / "one.tar", rows)
    got = data.load("webdataset:one.tar", quiet=True)
    assert not (tmp_path / "ran").exists()
    said = "\n".join(got.problems)
    for kind in ("pyd", "pkl", "pth"):
        assert f"1 members .{kind} are not opened" in said
    assert "3.png: not an image" in said
    pickle.loads(evil)
    assert (tmp_path / "ran").exists()  # it would have shown


def test_a_broken_header_ends_its_shard_and_no_other(home: Path) -> None:
    broken = write_tar(home / "set" / "0.tar", samples(range(0, 4)))
    write_tar(home / "set" / "1.tar", samples(range(4, 6)))
    body = bytearray(broken.read_bytes())
    place = body.index(b"s/0002.png")
    body[place : place + 10] = b"s/9999.png"
    broken.write_bytes(body)
    got = data.load("webdataset:set", quiet=True)
    assert reds(got) == [0, 1, 4, 5]
    assert any(f"0.tar has a broken header at byte {place}; what follows" in line for line in got.problems)


def test_a_shard_cut_short_keeps_what_is_whole(home: Path) -> None:
    path = write_tar(home / "one.tar", samples(range(4)))
    body = path.read_bytes()
    path.write_bytes(body[: body.index(b"s/0003.png") + 520])
    got = data.load("webdataset:one.tar", quiet=True)
    assert reds(got) == [0, 1, 2]
    assert any("is cut short" in line for line in got.problems)


def test_what_is_no_plain_tar_is_refused_with_what_to_do(home: Path) -> None:
    plain = write_tar(home / "one.tar", samples(range(2))).read_bytes()
    (home / "packed.tar").write_bytes(gzip.compress(plain))
    with pytest.raises(UserError, match=r"packed\.tar is compressed \(gzip\): unpack it to a plain \.tar"):
        data.load("webdataset:packed.tar")
    (home / "folder").mkdir()
    (home / "folder" / "a.tar.gz").write_bytes(gzip.compress(plain))
    with pytest.raises(UserError, match=r"holds no \.tar file; a\.tar\.gz is compressed"):
        data.load("webdataset:folder")
    for body in (b"", b"junk" * 300):
        (home / "junk.tar").write_bytes(body)
        with pytest.raises(UserError, match=r"holds no image .*junk\.tar is (empty|no tar file)"):
            data.load("webdataset:junk.tar")
    write_tar(home / "bare.tar", [("readme.md", b"x")])
    with pytest.raises(UserError, match="holds no image"):
        data.load("webdataset:bare.tar")


def test_links_are_passed_over_and_odd_samples_listed(home: Path) -> None:
    rows = [*samples(range(2)), ("5.png", b""), ("5.cls", b"0"), ("6.png", REDS[6]), ("7.jpg", b"x"), ("7.cls", b"1"),
            ("s/0000.png", REDS[3])]  # fmt: skip
    path = write_tar(home / "one.tar", rows)
    with tarfile.open(path, "a") as tar:
        info = tarfile.TarInfo("8.png")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    got = data.load("webdataset:one.tar", quiet=True)
    assert reds(got) == [0, 1]
    said = sorted(line.split(": ")[0] + ": " + line.split(": ")[1][:10] for line in got.problems)
    assert said == ["one.tar/5.png: is empty", "one.tar/6.png: no label", "one.tar/7.jpg: not an ima",
                    "one.tar/s/0000.png: is there t"]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=130),
                       st.binary(max_size=1200)), max_size=5),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)  # fmt: skip
def test_members_are_where_pythons_own_tarfile_finds_them(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, bytes]], style: int
) -> None:
    path = write_tar(tmp_path_factory.getbasetemp() / "x.tar", rows, style)
    with tarfile.open(path) as tar:
        theirs = [(info.name, info.offset_data, info.size) for info in tar]
    assert [(m.name.decode(), m.offset, m.size) for m in members(path)] == theirs


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5000), st.binary(min_size=1, max_size=20))
def test_damage_is_broken_or_still_a_tar(tmp_path_factory: pytest.TempPathFactory, place: int, noise: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("a.png", "b" * 120 + ".png"):
            info = tarfile.TarInfo(name)
            info.size = 700
            tar.addfile(info, io.BytesIO(bytes(700)))
    body = bytearray(out.getvalue())
    body[place : place + len(noise)] = noise
    path = tmp_path_factory.getbasetemp() / "damaged.tar"
    path.write_bytes(body)
    with contextlib.suppress(Broken):
        assert all(m.offset + m.size <= len(body) for m in members(path))
