"""Photographs that stay on disk: every form lists lazily what it loads eagerly, and `read` and `stream` decode it."""

from __future__ import annotations

import io
import pickle
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from data_files import picture, write_folder, write_parquet, write_tar
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from foible import data
from foible.data.names import Names
from foible.errors import UserError
from foible.views import View

SMALL = View((3, 4))
TWELVE = [picture((k, 2 * k, 0)) for k in range(12)]


def in_folder(home: Path) -> str:
    write_folder(home / "set", {f"{'ab'[k % 2]}/{k:02d}.png": body for k, body in enumerate(TWELVE)})
    return "folder:set"


def in_parquet(home: Path) -> str:
    table = pa.table({"image": TWELVE, "label": ["ab"[k % 2] for k in range(12)]})
    pq.write_table(table, home / "set.parquet", row_group_size=5)
    return "parquet:set.parquet"


def in_csv(home: Path) -> str:
    write_folder(home / "files", {f"{k:02d}.png": body for k, body in enumerate(TWELVE)})
    lines = [f"files/{k:02d}.png,{'ab'[k % 2]}" for k in range(12)]
    (home / "set.csv").write_text("image,label\n" + "\n".join(lines))
    return "csv:set.csv"


def in_tar(home: Path) -> str:
    for shard in range(2):
        rows = range(6 * shard, 6 * shard + 6)
        write_tar(home / "set" / f"{shard}.tar", [(f"{k}.{kind}", body) for k in rows for kind, body in
                  (("png", TWELVE[k]), ("cls", b"ab"[k % 2 : k % 2 + 1]))])  # fmt: skip
    return "webdataset:set"


FORMS = pytest.mark.parametrize("make", [in_folder, in_parquet, in_csv, in_tar])


@FORMS
@pytest.mark.parametrize("options", ["", "?test=0.5", "?size=2x5", "?grey=true&test=1/3"])
def test_lazy_and_eager_are_the_same(home: Path, make, options: str) -> None:  # type: ignore[no-untyped-def]
    spec = make(home) + options
    for split in ("train", "test") if "test" in options else ("train",):
        eager, lazy = data.load(spec, split), data.open_data(spec, split)
        assert isinstance(lazy, data.Photographs)
        assert lazy.classes == eager.classes == ("a", "b")
        assert torch.equal(lazy.labels, eager.labels)
        view = View(tuple(eager.images.shape[2:]))  # type: ignore[arg-type]
        got = data.read(lazy, torch.arange(len(lazy)), [view])
        assert torch.equal(got.images[0], eager.images)
        assert got.problems == []
        assert lazy.channels == eager.images.shape[1]
        assert len(set(lazy.files)) == len(lazy) == len(eager)


@FORMS
def test_every_image_has_its_own_label_and_any_order_can_be_read(home: Path, make) -> None:  # type: ignore[no-untyped-def]
    lazy = data.open_data(make(home))
    index = torch.tensor([11, 0, 5, 4, 10, 0, 7])
    got = data.read(lazy, index, [SMALL])
    assert torch.equal(got.index, index)
    reds = got.images[0][:, 0, 0, 0]
    order = [k for k in range(12) if k % 2 == 0] + [k for k in range(12) if k % 2] if make is in_folder else range(12)
    assert reds.tolist() == [list(order)[k] for k in index.tolist()]
    assert (reds % 2).tolist() == lazy.labels[index].tolist()


@FORMS
def test_a_pickled_listing_reads_the_same(home: Path, make) -> None:  # type: ignore[no-untyped-def]
    lazy = data.open_data(make(home))
    data.read(lazy, torch.tensor([3]), [SMALL])  # something is cached now
    again = pickle.loads(pickle.dumps(lazy))
    assert again.sha256 == lazy.sha256
    index = torch.tensor([7, 1])
    assert torch.equal(data.read(again, index, [SMALL]).images[0], data.read(lazy, index, [SMALL]).images[0])


@FORMS
def test_a_pool_needs_no_labels(home: Path, make) -> None:  # type: ignore[no-untyped-def]
    spec = make(home)
    for file in home.rglob("*.cls"):
        file.unlink()
    for split in ("train", "test"):  # a pool without splits is all of it
        pool = data.open_data(spec, split, labelled=False)
        assert (len(pool), pool.classes, set(pool.labels.tolist())) == (12, (), {-1})
    assert data.read(pool, torch.arange(12), [SMALL]).images[0].shape == (12, 3, 3, 4)


def test_a_pool_is_every_image_at_any_depth_or_the_splits_own(home: Path) -> None:
    write_folder(home / "flat", {"1.png": TWELVE[1], "x/y/z/2.png": TWELVE[2], "x/notes.txt": b"", ".hid/3.png": b"x"})
    pool = data.open_data("folder:flat", labelled=False)
    assert list(pool.files or ()) == ["1.png", "x/y/z/2.png"]
    write_folder(home / "split", {"train/a/1.png": TWELVE[1], "val/a/2.png": TWELVE[2], "val/b/3.png": TWELVE[3]})
    assert list(data.open_data("folder:split", "test", labelled=False).files or ()) == ["val/a/2.png", "val/b/3.png"]
    (home / "none").mkdir()
    with pytest.raises(UserError, match="none holds no image files"):
        data.open_data("folder:none", labelled=False)


def test_what_is_handed_in_is_handed_back_and_named_sets_are_in_memory(home: Path) -> None:
    lazy = data.open_data(in_csv(home))
    assert data.open_data(lazy) is lazy
    digits = data.open_data("digits", "test")
    assert isinstance(digits, data.Dataset)
    assert data.open_data(digits) is digits
    assert digits.files is None
    assert digits.sha256 == data.open_data("digits", "test").sha256 != data.open_data("digits", "train").sha256


def turned() -> bytes:
    image = Image.new("RGB", (4, 3), 0)
    image.putpixel((0, 0), (255, 0, 0))
    note = Image.Exif()
    note[0x0112] = 6  # to be turned a quarter clockwise
    out = io.BytesIO()
    image.save(out, "PNG", exif=note)
    return out.getvalue()


def palette() -> bytes:
    image = Image.new("P", (4, 3), 1)
    image.putpalette([9, 9, 9, 50, 60, 70])
    out = io.BytesIO()
    image.save(out, "PNG", transparency=bytes([255, 128]))
    return out.getvalue()


@pytest.mark.parametrize(
    ("body", "view", "first"),
    [
        (picture(200, "L"), SMALL, [200, 200, 200]),
        (picture((0, 0, 0, 0), "CMYK", kind="JPEG"), SMALL, [255, 255, 255]),
        (picture(32896, "I;16"), SMALL, [128, 128, 128]),
        (picture((10, 20, 30, 0), "RGBA"), SMALL, [255, 255, 255]),
        (palette(), SMALL, [153, 158, 163]),  # half of it over white
        (turned(), View((4, 3)), [0, 0, 0]),
    ],
)
def test_pictures_of_every_kind_are_read_upright_in_rgb(home: Path, body: bytes, view: View, first: list[int]) -> None:
    write_folder(home / "set", {"a/x.png": body, "b/y.png": picture()})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = data.read(data.open_data("folder:set"), torch.tensor([0]), [view])
    assert [str(warning.message) for warning in seen] == []
    assert got.problems == []
    assert got.images[0][0, :, 0, 0].tolist() == pytest.approx(first, abs=1)
    if view.size == (4, 3):
        assert got.images[0][0, 0, 0].tolist() == [0, 0, 255]


def test_views_are_taken_of_one_decoding(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = data.open_data(in_folder(home))
    assert isinstance(lazy, data.Photographs)
    decoded: list[int] = []
    whole = type(lazy.source).fetch
    monkeypatch.setattr(type(lazy.source), "fetch", lambda self, row: decoded.append(row) or whole(self, row))
    views = [View((2, 2)), SMALL, View((5, 6), resize=8), View((2, 2))]
    got = data.read(lazy, torch.tensor([4, 2]), views)
    assert decoded == [2, 4]
    assert [tuple(part.shape) for part in got.images] == [(2, 3, *view.size) for view in views]
    for place, row in enumerate((4, 2)):
        with Image.open(home / "set" / (lazy.files[row])) as image:
            for view, part in zip(views, got.images, strict=True):
                assert np.array_equal(part[place].numpy(), view(image))


def test_a_dataset_is_read_as_it_is_or_through_a_view() -> None:
    digits = data.load("digits", "test")
    index = torch.tensor([5, 0, 5])
    got = data.read(digits, index, [None, View((28, 28)), View((14, 20))])
    assert torch.equal(got.images[0], digits.images[index])
    assert torch.equal(got.images[1], digits.images[index])
    expected = View((14, 20))(Image.fromarray(digits.images[5, 0].numpy()))
    assert np.array_equal(got.images[2][2].numpy(), expected)


def test_photographs_need_a_view_and_positions_must_exist(home: Path) -> None:
    lazy = data.open_data(in_folder(home))
    with pytest.raises(UserError, match="say what size they are to come out"):
        data.read(lazy, torch.tensor([0]), [None])
    for wrong in (torch.tensor([12]), torch.tensor([-1]), torch.tensor([0.5]), torch.tensor([[0]])):
        with pytest.raises(UserError, match=r"index .* expected"):
            data.read(lazy, wrong, [SMALL])
    empty = data.read(lazy, torch.tensor([], dtype=torch.int64), [SMALL])
    assert (len(empty.index), tuple(empty.images[0].shape)) == (0, (0, 3, 3, 4))
    with pytest.raises(UserError, match="batch is 0"):
        data.stream(lazy, [SMALL], batch=0)


def test_unreadable_files_are_listed_and_the_rest_keep_their_places(home: Path) -> None:
    spec = in_folder(home)
    write_folder(home / "set", {"a/02.png": TWELVE[2][:40], "b/03.png": b"", "b/05.png": b"junk"})
    (home / "set" / "b" / "link.png").symlink_to(home / "nowhere.png")
    lazy = data.open_data(spec, quiet=True)
    assert sorted(line.split(":")[0] for line in lazy.problems) == ["b/03.png", "b/link.png"]
    (home / "set" / "b" / "07.png").unlink()  # after it was listed
    got = data.read(lazy, torch.arange(len(lazy)), [SMALL])
    assert {lazy.files[place] for place, _ in got.problems} == {"a/02.png", "b/05.png", "b/07.png"}
    assert all(why.isprintable() and why for _, why in got.problems)
    for place, image in zip(got.index.tolist(), got.images[0], strict=True):
        assert int(lazy.files[place][2:4]) == image[0, 0, 0]


def test_stream_is_in_order_and_complete_whatever_the_workers(home: Path) -> None:
    lazy = data.open_data(in_parquet(home))
    index = torch.tensor([9, 3, 3, 1, 0, 11, 2])
    for workers, batch, ahead in ((1, 3, 0), (4, 2, 2), (2, 100, 1)):
        got = list(data.stream(lazy, [SMALL], index=index, batch=batch, workers=workers, ahead=ahead))
        assert torch.equal(torch.cat([part.index for part in got]), index)
        assert torch.cat([part.images[0] for part in got])[:, 0, 0, 0].tolist() == index.tolist()
        assert max(len(part.index) for part in got) <= batch
    assert sum(len(part.index) for part in data.stream(lazy, [SMALL])) == 12


def test_stream_reads_no_further_than_it_may_and_stops_when_closed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = data.open_data(in_folder(home))
    assert isinstance(lazy, data.Photographs)
    seen: list[int] = []
    whole = type(lazy.source).fetch
    monkeypatch.setattr(type(lazy.source), "fetch", lambda self, row: seen.append(row) or whole(self, row))
    going = data.stream(lazy, [SMALL], batch=1, workers=1, ahead=2)
    assert seen == []
    next(going)
    going.close()  # type: ignore[attr-defined]
    assert len(seen) <= 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("foible-read")]


def test_many_threads_read_the_same_and_leave_the_filters_of_warnings_alone(home: Path) -> None:
    body = picture((7, 0, 0), size=(8, 8), kind="TIFF")
    write_folder(home / "set", {"a/x.tif": body, "b/y.tif": body, "b/z.png": b"junk"})
    corrupt = bytearray(picture((9, 0, 0), kind="JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(40)))
    write_folder(home / "set", {"a/w.jpg": bytes(corrupt)})
    lazy = data.open_data("folder:set")

    def work(_: int) -> list[int]:
        with warnings.catch_warnings():  # somebody else's, in the midst of it
            got = data.read(lazy, torch.arange(4), [SMALL])
        return got.images[0][:, 0, 0, 0].tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(60)))
    assert all(one == found[0] for one in found)
    assert found[0][1:] == [7, 7]
    data.read(lazy, torch.arange(4), [SMALL])
    assert all(getattr(entry[3], "pattern", None) != r"PIL(\.|$)" for entry in warnings.filters)


def test_a_warning_of_pillows_does_not_make_a_picture_unreadable(home: Path) -> None:
    note = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x0f\x01\x02\0\xff\xff\0\0\xf0\0\0\0"  # a tag that points beyond the note
    write_folder(home / "set", {"a/x.jpg": picture((9, 9, 9), kind="JPEG", exif=note), "b/y.png": picture()})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Image.open(home / "set" / "a" / "x.jpg").close()
    assert seen  # Pillow itself does warn
    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = data.read(data.open_data("folder:set"), torch.arange(2), [SMALL])
    assert (len(got.index), got.problems, seen) == (2, [], [])
    assert warnings.filters == filters


def test_the_hash_follows_names_sizes_labels_and_options(home: Path) -> None:
    spec = in_folder(home)
    first = data.open_data(spec).sha256
    assert data.open_data(spec).sha256 == first
    seen = {first, data.open_data(spec + "?grey=true").sha256, data.open_data(spec + "?size=5").sha256}
    (home / "set" / "a" / "00.png").write_bytes(TWELVE[0] + b"\0")
    seen.add(data.open_data(spec).sha256)
    (home / "set" / "a" / "00.png").rename(home / "set" / "b" / "00.png")
    seen.add(data.open_data(spec).sha256)
    assert len(seen) == 5


def test_parquet_across_row_groups_files_and_orders(home: Path) -> None:
    """Random access reads what iterating would, whatever the row groups."""
    bodies = [picture((k % 256, k // 256, 0)) for k in range(300)]
    for part, rows, group in ((0, range(0, 130), 7), (1, range(130, 131), 1), (2, range(131, 300), 64)):
        table = pa.table({"image": [{"bytes": bodies[k], "path": None} for k in rows], "label": [k % 3 for k in rows]})
        pq.write_table(table, home / f"train-{part}.parquet", row_group_size=group)
    lazy = data.open_data(f"parquet:{home}")
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.randperm(300, generator=generator)
    assert torch.equal(lazy.labels, torch.arange(300) % 3)
    for index in (torch.arange(300), torch.arange(300).flip(0), shuffled):
        parts = list(data.stream(lazy, [SMALL], index=index, batch=11, workers=3))
        pixels = torch.cat([part.images[0] for part in parts])[:, :2, 0, 0].long()
        assert torch.equal(pixels[:, 0] + 256 * pixels[:, 1], index)
    assert (lazy.files or [])[131] == "train-2.parquet row 0"


def test_a_large_row_group_is_read_in_blocks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from foible.data import row_groups

    monkeypatch.setattr(row_groups, "MOST_ROWS", 10)
    path = write_parquet(home / "one.parquet", [picture((k, 0, 0)) for k in range(100)], [k % 2 for k in range(100)])
    lazy = data.open_data(f"parquet:{path}")
    assert isinstance(lazy, data.Photographs)
    for index in ([99, 0, 50], list(range(100))):
        got = data.read(lazy, torch.tensor(index), [SMALL])
        assert got.images[0][:, 0, 0, 0].tolist() == index
    held = lazy.source._blocks  # type: ignore[attr-defined]
    assert len(held) <= row_groups.KEPT
    assert all(len(block) <= 10 for block in held.values())


def test_a_damaged_row_group_is_a_problem_of_its_rows_alone(home: Path) -> None:
    bodies = [picture((k, 0, 0), size=(30, 30), kind="BMP") for k in range(6)]
    table = pa.table({"image": bodies, "label": [0, 1] * 3})
    path = home / "one.parquet"
    pq.write_table(table, path, row_group_size=2, compression="gzip", use_dictionary=False, write_statistics=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    body = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    body[middle : middle + 8] = b"\xff" * 8
    path.write_bytes(body)
    lazy = data.open_data(f"parquet:{path}")
    got = data.read(lazy, torch.arange(6), [View((2, 2))])
    assert got.index.tolist() == [0, 1, 4, 5]
    assert [place for place, _ in got.problems] == [2, 3]
    assert all("one.parquet" in why for _, why in got.problems)


def test_a_hundred_thousand_names_are_little_more_than_their_letters() -> None:
    pa_before = pa.total_allocated_bytes()
    tracemalloc.start()
    names = Names.of(f"some class/photograph-{k:09d}.jpg" for k in range(100_000))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    letters = len("some class/photograph-000000000.jpg") * 100_000
    assert kept < 100_000
    assert peak < 4_000_000
    assert pa.total_allocated_bytes() - pa_before < letters + 20 * 100_000
    assert names[99_999] == names[-1] == "some class/photograph-000099999.jpg"


def test_a_long_listing_stays_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of 100,000 files, none of which is opened: far below what Python objects would take."""
    lines = "".join(f"files/{k:06d}.png,{k % 10}\n" for k in range(100_000))
    (home / "set.csv").write_text("image,label\n" + lines)
    monkeypatch.setattr("foible.data.tables.size_of", lambda _: 1000)
    arrow = pa.total_allocated_bytes()
    tracemalloc.start()
    lazy = data.open_data("csv:set.csv")
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(lazy) == 100_000
    assert kept + pa.total_allocated_bytes() - arrow < 100_000 * 60
    assert peak < 100_000 * 300


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=8).filter(lambda b: b"\0" not in b), min_size=1, max_size=20))
def test_names_come_back_and_repeats_are_found(names: list[bytes]) -> None:
    kept = Names.of(names)
    assert [kept.raw(k) for k in range(len(kept))] == names
    assert kept[:] == list(kept) == [kept[k] for k in range(len(kept))]
    assert kept.repeated().tolist() == [k for k, name in enumerate(names) if name in names[:k]]
    with pytest.raises(IndexError):
        kept[len(names)]
