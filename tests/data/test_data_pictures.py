"""Pictures of every kind, and folders of them."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from data_files import picture, write_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from foible import data
from foible.data import decode as decoding
from foible.data.decode import picture as opened
from foible.data.decode import pixels_of, reason
from foible.data.quiet import quiet_pillow
from foible.errors import UserError
from foible.images import encode_png


def decode(body: bytes) -> np.ndarray:
    return pixels_of(opened(body))


def why(body: bytes) -> str:
    """In words why it cannot be read; nothing where it can."""
    try:
        return "" if decode(body).shape[0] in (1, 3) else "neither grey nor RGB\n"
    except Exception as error:
        return reason(error)


def png(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def bomb() -> bytes:
    """A PNG of a few bytes that claims 60000×60000 pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0" * 99)) + chunk(b"IEND", b"")
    )


def two(extra: dict[str, bytes] | None = None) -> dict[str, bytes]:
    return {"cat/a.png": picture((10, 0, 0)), "dog/b.png": picture((20, 0, 0))} | (extra or {})


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (picture(200, "L"), [200]),
        (picture(1, "1"), [255]),
        (picture((10, 20, 30)), [10, 20, 30]),
        (picture((10, 20, 30, 255), "RGBA"), [10, 20, 30]),
        (picture((10, 20, 30, 0), "RGBA"), [255, 255, 255]),  # transparent: the white beneath
        (picture((40, 0), "LA"), [255]),
        (picture((40, 255), "LA"), [40]),
        (picture((0, 0, 0, 255), "CMYK", kind="TIFF"), [0, 0, 0]),
        (picture((0, 0, 0, 0), "CMYK", kind="JPEG"), [255, 255, 255]),
        (picture(32896, "I;16"), [128]),
        (picture(65535, "I;16"), [255]),
        (picture(0.5, "F", kind="TIFF"), [128]),
        (picture((10, 20, 30), kind="BMP"), [10, 20, 30]),
        (picture((10, 20, 30), kind="WEBP", lossless=True), [10, 20, 30]),
        (picture((10, 20, 30), kind="PPM"), [10, 20, 30]),
        (picture((0, 0, 255), kind="GIF"), [0, 0, 255]),
    ],
)
def test_every_mode_comes_out_as_grey_or_rgb(body: bytes, first: list[int]) -> None:
    out = decode(body)
    assert out.dtype == np.uint8
    assert out.shape == (len(first), 3, 4)
    assert out[:, 0, 0].tolist() == first


def test_palette_with_a_transparent_colour() -> None:
    image = Image.new("P", (4, 3), 1)
    image.putpalette([9, 9, 9, 50, 60, 70])
    image.putpixel((0, 0), 0)
    out = io.BytesIO()
    image.save(out, "PNG", transparency=0)
    got = decode(out.getvalue())
    assert got[:, 0, 0].tolist() == [255, 255, 255]
    assert got[:, 1, 1].tolist() == [50, 60, 70]


def test_exif_orientation_is_respected() -> None:
    image = Image.new("L", (4, 3), 0)
    image.putpixel((0, 0), 255)
    note = Image.Exif()
    note[0x0112] = 6  # to be turned a quarter clockwise
    out = io.BytesIO()
    image.save(out, "PNG", exif=note)
    got = decode(out.getvalue())
    assert got.shape == (1, 4, 3)
    assert got[0, 0].tolist() == [0, 0, 255]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_our_own_pngs_come_back_exactly(channels: int, height: int, width: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (channels, height, width), np.uint8)
    assert np.array_equal(decode(encode_png(image)), image)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=12),
    st.integers(0, 200),
    st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"]),
)
def test_damaged_pictures_never_raise(noise: bytes, place: int, kind: str) -> None:
    whole = picture((10, 20, 30), kind=kind)
    place %= len(whole)
    damaged = whole[:place] + noise + whole[place + len(noise) :]
    with quiet_pillow():
        said = why(damaged)
    assert said.isprintable()


def test_classes_are_the_folders_in_order(home: Path) -> None:
    root = write_folder(
        home / "pets", two({"cat/sub/c.PNG": picture((11, 0, 0)), "cat/notes.txt": b"x", ".git/x.png": b""})
    )
    got = data.load(f"folder:{root}")
    assert got.classes == ("cat", "dog")
    assert got.labels.tolist() == [0, 0, 1]
    assert got.images[:, 0, 0, 0].tolist() == [10, 11, 20]
    assert got.problems == ()
    assert got.name == f"folder:{root}"


def test_a_path_under_foible_data_may_be_written_short(home: Path) -> None:
    write_folder(home / "pets", two())
    assert len(data.load("folder:pets")) == 2


def test_split_folders_number_their_classes_alike(home: Path) -> None:
    write_folder(home / "pets" / "train", two())
    write_folder(home / "pets" / "val", {"dog/c.png": picture((30, 0, 0))})
    test = data.load("folder:pets", "test")
    assert test.classes == ("cat", "dog")
    assert test.labels.tolist() == [1]
    assert len(data.load("folder:pets")) == 2
    write_folder(home / "pets" / "val", {"emu/c.png": picture((30, 0, 0))})
    with pytest.raises(UserError, match="class 'emu', which train has not"):
        data.load("folder:pets", "test")
    with pytest.raises(UserError, match="leave out test="):
        data.load("folder:pets?test=0.5")


def test_a_class_called_train_is_a_class(home: Path) -> None:
    write_folder(home / "rail", {"train/a.png": picture(), "tram/b.png": picture()})
    assert data.load("folder:rail").classes == ("train", "tram")


def test_holding_out_a_share_of_each_class(home: Path) -> None:
    files = {f"{name}/{k}.png": picture((base + k, 0, 0)) for name, base in (("a", 0), ("b", 100)) for k in range(5)}
    write_folder(home / "ten", files)
    with pytest.raises(UserError, match=r"no test split: write folder:ten\?test=0\.2"):
        data.load("folder:ten", "test")
    assert len(data.load("folder:ten")) == 10
    train, test = data.load("folder:ten?test=0.4"), data.load("folder:ten?test=0.4", "test")
    assert train.labels.bincount().tolist() == [3, 3]
    assert test.labels.bincount().tolist() == [2, 2]
    seen = set(train.images[:, 0, 0, 0].tolist()) | set(test.images[:, 0, 0, 0].tolist())
    assert seen == {*range(5), *range(100, 105)}


def test_mixed_sizes_say_what_to_write(home: Path) -> None:
    write_folder(home / "pets", two({"dog/c.png": picture(size=(8, 3))}))
    with pytest.raises(UserError, match=r"cat.a\.png is 4×3 and dog.c\.png is 8×3.*folder:pets\?size=64"):
        data.load("folder:pets")
    assert data.load("folder:pets?size=6x2").images.shape == (3, 3, 2, 6)
    assert data.load("folder:pets?size=5&grey=true").images.shape == (3, 1, 5, 5)


def test_resizing_crops_about_the_centre(home: Path) -> None:
    wide = np.zeros((4, 12), np.uint8)
    wide[:, 4:8] = 255
    write_folder(home / "pets", {"a/x.png": png(wide), "b/x.png": png(wide.T.copy())})
    assert data.load("folder:pets?size=4").images.unique().tolist() == [255]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_one_coloured_picture_makes_all_rgb(home: Path, order: str) -> None:
    grey, colour = order
    write_folder(home / "pets", {f"{grey}/x.png": picture(7, "L"), f"{colour}/x.png": picture((1, 2, 3))})
    got = data.load("folder:pets")
    assert got.images[order.index("a")][:, 0, 0].tolist() == [7, 7, 7]
    assert got.images[order.index("b")][:, 0, 0].tolist() == [1, 2, 3]


def test_all_grey_stays_grey_unless_told(home: Path) -> None:
    write_folder(home / "pets", {"a/x.png": picture(7, "L"), "b/x.png": picture(8, "L")})
    assert data.load("folder:pets").images.shape[1] == 1
    assert data.load("folder:pets?grey=false").images.shape[1] == 3


def test_bad_files_are_listed_and_the_rest_go_on(home: Path) -> None:
    good = picture((30, 0, 0))
    bad = {
        "dog/cut.png": good[: len(good) // 2],
        "dog/bomb.png": bomb(),
        "dog/empty.jpg": b"",
        "cat/text.png": b"hello",
    }
    write_folder(home / "pets", two(bad | {"dog/z.png": good}))
    got = data.load("folder:pets")
    assert got.images[:, 0, 0, 0].tolist() == [10, 20, 30]
    assert got.labels.tolist() == [0, 1, 1]
    assert [line.split(":")[0].replace("\\", "/") for line in sorted(got.problems)] == sorted(bad)
    assert any("more pixels than the limit" in line for line in got.problems)


def test_our_own_pixel_limit_holds_below_pillows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_PIXELS", 20)
    write_folder(home / "pets", two({"dog/large.png": picture(size=(7, 3))}))
    (line,) = data.load("folder:pets").problems
    assert "claims 7×3 pixels, more than the limit of 20" in line


def test_pillows_bomb_warning_counts_as_unreadable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15)
    write_folder(home / "pets", two({"dog/large.png": picture(size=(7, 3))}))  # 21: a warning, below twice 15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever the user's own filters say
        assert len(data.load("folder:pets").problems) == 1


def test_all_files_unreadable(home: Path) -> None:
    write_folder(home / "pets", {"a/x.png": b"x", "b/y.png": b"y"})
    with pytest.raises(UserError, match=r"none of 2 images could be read; the first: a.x\.png: not an image"):
        data.load("folder:pets")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"cat/a.png": picture()}, "one class, 'cat': expected at least two"),
        ({"a.png": picture()}, "no folder in .* holds image files"),
        ({"train/a.png": picture(), "test/a.png": picture()}, "test and train, which are splits and no classes"),
        ({"cat/a.txt": b"x", "dog/b.txt": b"x"}, "no folder in .* holds image files"),
    ],
)
def test_folders_that_are_no_data_set(home: Path, files: dict[str, bytes], message: str) -> None:
    write_folder(home / "pets", files)
    with pytest.raises(UserError, match=message):
        data.load("folder:pets")


def test_a_folder_without_images_is_mentioned(home: Path) -> None:
    write_folder(home / "pets", two({"notes/readme.txt": b"x"}))
    got = data.load("folder:pets")
    assert got.classes == ("cat", "dog")
    assert got.problems == ("notes: a folder without image files, not taken for a class",)


def test_names_are_data(home: Path) -> None:
    """A hostile name stays what it is in `classes`, and cannot break a line of `problems`."""
    hostile = "<img src=x onerror=alert(1)>"
    write_folder(home / "pets", {f"{hostile}/a.png": picture(), "b/x.png": picture(), "b/[red]\x1b[2J\n.png": b"bad"})
    got = data.load("folder:pets")
    assert hostile in got.classes
    (line,) = got.problems
    assert line.isprintable()
    assert r"[red]\x1b[2J\n.png" in line


@pytest.mark.parametrize(
    "option",
    ["size=0", "size=a", "size=4x4x4", "size=-3", "size=99999", "grey=maybe", "test=0", "test=1.5", "test=x"],
)
def test_bad_options_say_what_is_expected(home: Path, option: str) -> None:
    write_folder(home / "pets", two())
    with pytest.raises(UserError, match=f"{option.split('=')[0]} is .*expected"):
        data.load(f"folder:pets?{option}")


def test_unknown_options_are_refused(home: Path) -> None:
    write_folder(home / "pets", two())
    with pytest.raises(UserError, match="no option 'sizes'; did you mean 'size'"):
        data.load("folder:pets?sizes=3")


def test_without_splits_what_judges_takes_all_and_says_so(home: Path) -> None:
    write_folder(home / "pets", two())
    with pytest.raises(UserError, match="no test split"):
        data.open_data("folder:pets", "test")
    whole = data.open_data("folder:pets", "test", whole=True)
    assert (len(whole), whole.split) == (2, "test")
    assert whole.notes == ("folder:pets is not split into train and test: all 2 images are taken",)
    assert data.open_data("folder:pets?test=0.5", "train", whole=True).notes == ()
    write_folder(home / "split" / "train", two())
    with pytest.raises(UserError, match=r"has a train split and no test split.*--split train"):
        data.open_data("folder:split", "test", whole=True)  # what is marked for training stays that


def test_folders_named_by_number_or_by_wordnet_meet_a_list(home: Path) -> None:
    write_folder(home / "pets", {"2/a.png": picture(), "0/b.png": picture()})
    (home / "names.json").write_text('["cat", "dog", "eel"]')
    found = data.open_data(f"folder:pets?classes={home / 'names.json'}")
    assert [(found.files[row], found.classes[found.labels[row]]) for row in range(2)] == [
        ("0/b.png", "cat"),
        ("2/a.png", "eel"),
    ]
    write_folder(home / "wild", {"n02123045/a.png": picture(), "Great_Dane/b.png": picture()})
    found = data.open_data("folder:wild?classes=imagenet")
    assert [found.classes[label] for label in found.labels] == ["Great Dane", "tabby"]
    write_folder(home / "pets", {"7/c.png": picture()})
    with pytest.raises(UserError, match="has the class '0', which the list of classes has not: it has cat, dog, eel"):
        data.open_data(f"folder:pets?classes={home / 'names.json'}")
