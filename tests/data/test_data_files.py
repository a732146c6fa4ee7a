"""`csv:` and folders with metadata: tables that name image files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import picture, write_folder

from foible import data
from foible.errors import UserError

REDS = {f"{k}.png": picture((k, 0, 0)) for k in range(6)}


def reds(got: data.Dataset) -> list[int]:
    return got.images[:, 0, 0, 0].tolist()


def table(home: Path, text: str, name: str = "set.csv") -> str:
    write_folder(home, REDS)
    (home / name).write_text(text, encoding="utf-8")
    return f"csv:{home / name}"


def test_labels_are_text_or_numbers_by_what_all_of_them_are(home: Path) -> None:
    text = data.load(table(home, "image,label\n0.png,dog\n1.png,cat\n2.png,7\n"))
    assert (text.classes, text.labels.tolist(), reds(text)) == (("7", "cat", "dog"), [2, 1, 0], [0, 1, 2])
    numbers = data.load(table(home, "image,label\n0.png,2\n1.png,10\n"))
    assert numbers.classes == tuple(map(str, range(11)))
    assert numbers.labels.tolist() == [2, 10]


def test_class_names_beside_the_table_or_in_a_file_of_the_users(home: Path) -> None:
    spec = table(home, "image,label\n0.png,1\n1.png,0\n")
    (home / "classes.txt").write_text("cat\ndog\n\n")
    (home / "mine.txt").write_text("\ufeffKatze\nHund\nMaus")
    assert data.load(spec).classes == ("cat", "dog")
    assert data.load(f"{spec}?classes={home / 'mine.txt'}").classes == ("Katze", "Hund", "Maus")
    assert data.load(f"{spec}?classes=mine.txt").labels.tolist() == [1, 0]
    with pytest.raises(UserError, match=r"classes is 'absent\.txt', which is no file"):
        data.load(f"{spec}?classes=absent.txt")
    with pytest.raises(UserError, match=r"set\.csv: row 1 has the label 'bird', which is no class name; .* cat, dog"):
        data.load(table(home, "image,label\n0.png,cat\n1.png,bird\n"))
    with pytest.raises(UserError, match=r"row 1 .*label 2: expected 0 to 1"):
        data.load(table(home, "image,label\n0.png,1\n1.png,2\n"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_columns_are_named_and_other_marks_than_commas_read(home: Path, mark: str) -> None:
    rows = [["id", "where", "kind"], ["1", "0.png", "b"], ["2", "1.png", "a"]]
    spec = table(home, "\ufeff" + "\n".join(mark.join(row) for row in rows))
    with pytest.raises(UserError, match=r"has the columns id, where, kind: expected image or .*image=COLUMN"):
        data.load(spec)
    with pytest.raises(UserError, match="expected label or labels; name yours with label=COLUMN"):
        data.load(f"{spec}?image=where")
    with pytest.raises(UserError, match="expected 'knid'; did you mean 'kind'"):
        data.load(f"{spec}?image=where&label=knid")
    assert data.load(f"{spec}?image=where&label=kind").labels.tolist() == [1, 0]


def test_quoted_cells_may_hold_commas_and_lines(home: Path) -> None:
    write_folder(home, {"a, b.png": picture((9, 0, 0))})
    got = data.load(table(home, 'image,note,label\n"a, b.png","two\nlines",x\n1.png,,y\n'))
    assert (reds(got), got.classes) == ([9, 1], ("x", "y"))


def test_a_column_of_splits(home: Path) -> None:
    rows = "0.png,a,train\n1.png,b,Train\n2.png,a,val\n3.png,b,test\n4.png,b,extra\n5.png,c, test\n"
    spec = table(home, "image,label,part\n" + rows) + "?split=part"
    train, test = data.load(spec), data.load(spec, "test")
    assert (reds(train), reds(test), train.classes) == ([0, 1], [3, 5], ("a", "b", "c"))
    assert any("1 rows of the split 'extra'" in line for line in train.problems)
    assert any("'val' are not read (test is taken)" in line for line in test.problems)
    with pytest.raises(UserError, match="leave out test="):
        data.load(spec + "&test=0.5")
    with pytest.raises(UserError, match="no test split"):
        data.load(spec.partition("?")[0], "test")


def test_paths_stay_below_their_root(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(picture((200, 0, 0)))
    outside = ["../secret.png", str(tmp_path / "secret.png"), "x/../../secret.png"]
    names = [*outside, str(home / "1.png"), "x/../2.png", ".", "3.png"]
    spec = table(home, "image,label\n" + "".join(f"{name},{k % 2}\n" for k, name in enumerate(names)))
    got = data.load(spec, quiet=True)
    assert (reds(got), got.labels.tolist()) == ([1, 2, 3], [1, 0, 0])
    assert [line.split(":")[0] for line in got.problems] == [f"set.csv row {k}" for k in (0, 1, 2, 5)]
    assert list(data.open_data(spec, quiet=True).files or ()) == ["1.png", "2.png", "3.png"]
    wider = data.load(f"{spec}?root={tmp_path}", quiet=True)
    assert reds(wider) == [200, 1]


def test_another_root_and_files_that_are_not_there(home: Path, tmp_path: Path) -> None:
    write_folder(tmp_path / "elsewhere", REDS)
    (home / "lone").mkdir()
    (home / "lone" / "set.csv").write_text("image,label\n0.png,a\n1.png,b\nmissing.png,a\n0.png,b\n,a\n2.png,\n")
    with pytest.raises(UserError, match=r"none of the files that set\.csv names is below .*lone.*root=FOLDER"):
        data.load("csv:lone/set.csv")
    got = data.load(f"csv:lone/set.csv?root={tmp_path / 'elsewhere'}", quiet=True)
    assert (reds(got), got.labels.tolist()) == ([0, 1], [0, 1])
    said = "\n".join(got.problems)
    for text in ("missing.png: is not there", "0.png: is named twice", "row 4: names no file", "row 5: no label"):
        assert text in said
    with pytest.raises(UserError, match="root is 'nowhere', which is no folder"):
        data.load("csv:lone/set.csv?root=nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"set\.csv cannot be read as a table \(it is empty"),
        ("image,label\n", "has no class"),
        ("image,label\n0.png,a\n1.png,a\n", "one class, 'a'"),
        ("image,label\n0.png,a,b\n", r"set\.csv cannot be read as a table"),
        ("image,label\n0.png,\n", "has no class"),
    ],
)
def test_tables_that_are_no_data_set(home: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        data.load(table(home, text))


def test_a_table_in_another_encoding_names_the_file(home: Path) -> None:
    write_folder(home, {"set.csv": "image,label\n0.png,Bär\n".encode("latin-1"), **REDS})
    with pytest.raises(UserError, match=r"set\.csv cannot be read as a table"):
        data.load("csv:set.csv")
    with pytest.raises(UserError, match="is not a file: expected a CSV"):
        data.load(f"csv:{home}")


ROWS = [{"file_name": f"{k}.png", "label": "ab"[k % 2], "origin_file_name": "x"} for k in range(4)]


def write_rows(folder: Path, kind: str, rows: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"metadata.{kind}"
    if kind == "csv":
        lines = [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *lines]))
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_metadata_in_each_split_folder(home: Path, kind: str) -> None:
    write_folder(home / "set" / "train", dict(list(REDS.items())[:4]))
    write_rows(home / "set" / "train", kind, ROWS)
    write_folder(home / "set" / "validation", {"5.png": REDS["5.png"]})
    write_rows(home / "set" / "validation", kind, [{"file_name": "5.png", "label": "c"}])
    train, test = data.load("folder:set"), data.load("folder:set", "test")
    assert (reds(train), train.labels.tolist(), train.classes) == ([0, 1, 2, 3], [0, 1, 0, 1], ("a", "b", "c"))
    assert (reds(test), test.labels.tolist()) == ([5], [2])
    assert (data.open_data("folder:set", "test").files or [])[0] == "validation/5.png"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_metadata_at_the_root_for_one_set_or_for_splits_by_folder(home: Path, kind: str) -> None:
    write_folder(home / "set", REDS)
    write_rows(home / "set", kind, ROWS)  # type: ignore[arg-type]
    assert reds(data.load("folder:set?test=0.5", "test")) == [2, 3]
    write_folder(home / "two", {f"{'train' if k < 4 else 'test'}/{name}": body
                                for k, (name, body) in enumerate(REDS.items())})  # fmt: skip
    rows: list[dict[str, object]] = [
        {"file_name": f"{'train' if k < 4 else 'test'}/{k}.png", "kind": k % 2} for k in range(6)
    ]
    write_rows(home / "two", kind, rows)
    with pytest.raises(UserError, match="has the columns file_name, kind: expected label"):
        data.load("folder:two")
    assert reds(data.load("folder:two?label=kind")) == [0, 1, 2, 3]
    test = data.load("folder:two?label=kind", "test")
    assert (reds(test), test.labels.tolist(), test.classes) == ([4, 5], [0, 1], ("0", "1"))


def test_metadata_without_labels_leaves_the_folders_to_say_it(home: Path) -> None:
    write_folder(home / "set", {"cat/0.png": REDS["0.png"], "dog/1.png": REDS["1.png"]})
    write_rows(home / "set", "csv", [{"file_name": "cat/0.png", "width": 4}])
    assert data.load("folder:set").classes == ("cat", "dog")
    with pytest.raises(UserError, match="expected 'kind'"):
        data.load("folder:set?label=kind")
    (home / "set" / "metadata.csv").unlink()
    with pytest.raises(UserError, match=r"label= names a column of metadata\.csv, and .* has no metadata file"):
        data.load("folder:set?label=kind")


def test_metadata_cannot_name_files_outside(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(picture((200, 0, 0)))
    write_folder(home / "set", REDS)
    outside = [{"file_name": name, "label": "a"} for name in ("../../secret.png", str(tmp_path / "secret.png"))]
    write_rows(home / "set", "jsonl", [*outside, *ROWS])
    got = data.load("folder:set", quiet=True)
    assert reds(got) == [0, 1, 2, 3]
    assert len(got.problems) == 2


@pytest.mark.parametrize("line", ["[1]", "{", '{"file_name": 3, "label": "a"}', '{"file_name": "0.png", "label": [1]}',
                                  '{"file_name": "\\ud800", "label": "a"}'])  # fmt: skip
def test_a_strange_line_of_metadata_names_the_file(home: Path, line: str) -> None:
    write_folder(home / "set", {"metadata.jsonl": line.encode(), **REDS})
    with pytest.raises(UserError, match=r"metadata\.jsonl"):
        data.load("folder:set")


def test_class_folders_in_the_order_of_a_file(home: Path) -> None:
    write_folder(
        home / "set", {"cat/0.png": REDS["0.png"], "dog/1.png": REDS["1.png"], "names.txt": b"dog\nfox\ncat\n"}
    )
    got = data.load("folder:set?classes=names.txt")
    assert (got.classes, got.labels.tolist()) == (("dog", "fox", "cat"), [2, 0])
    (home / "set" / "names.txt").write_text("dog\nfox\n")
    with pytest.raises(UserError, match="class 'cat', which the list of classes has not"):
        data.load("folder:set?classes=names.txt")
