"""Class lists: every way to give one, and two lists meeting by name and never by luck."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foible import class_names
from foible.class_lists import checked, from_record, names_in, read
from foible.class_names import align, imagenet, offers, positions
from foible.errors import UserError
from foible.networks.classes import choose


def numbers() -> list[str]:
    """The WordNet numbers of ImageNet, in order."""
    return [number for number, _ in class_names._synsets()]


def test_imagenet_has_a_thousand_classes_in_the_order_of_their_numbers() -> None:
    assert len(imagenet()) == len(set(imagenet())) == 1000
    assert numbers() == sorted(set(numbers()))
    # Known places: the first, the last, and one that the order of the 2012 devkit puts elsewhere.
    assert [imagenet()[place] for place in (0, 281, 999)] == ["tench", "tabby", "toilet tissue"]
    assert align(numbers(), imagenet()) == list(range(1000)) == align(imagenet(), numbers())


def test_the_photographs_meet_imagenet(real_data: Path) -> None:
    folders = sorted(path for path in (real_data / "photos").iterdir() if path.is_dir())
    places = align([folder.name for folder in folders], imagenet())
    files = [next(folder.glob("*.JPEG")).stem for folder in folders]
    assert [numbers()[place] for place in places if place is not None] == files
    assert align(files, imagenet()) == places


@pytest.mark.parametrize(
    ("ours", "theirs", "places"),
    [
        (["cat", "dog"], ["dog", "cat"], [1, 0]),
        (["cat", "eel"], ["dog", "cat"], [1, None]),
        (["Great_Dane", "t-shirt"], ["T shirt", "great dane"], [1, 0]),
        (["cafe\u0301"], ["x", "caf\u00e9"], [1]),
        (["tench"], ["tench, Tinca tinca", "goldfish"], [0]),
        (["cat"], ["Cat", "CAT"], [None]),  # two could be meant
        (["cat", "Cat"], ["CAT"], [None, None]),
        (["cat", "Cat"], ["Cat", "CAT"], [None, 0]),  # exactly is exactly; the rest is a guess
        (["Cardigan", "cardigan"], ["n02963159", "n02113186"], [1, 0]),  # a dog and a garment
        (["crane"], list(imagenet()), [None]),  # a bird or a machine
        (["maillot, tank suit"], ["tank suit"], [0]),
        (["n01440764", "n99999999"], ["goldfish", "tench"], [1, None]),
        (["n01440764_tench"], ["tench"], [0]),
        (["Tinca tinca"], ["tench"], [0]),
        ([], ["a"], []),
    ],
)
def test_align(ours: list[str], theirs: list[str], places: list[int | None]) -> None:
    assert align(ours, theirs) == places


@pytest.mark.parametrize(
    "value",
    [
        ["cat", "dog", "eel"],
        ("cat", "dog", "eel"),
        {0: "cat", 1: "dog", 2: "eel"},
        {"2": "eel", "0": "cat", "1": "dog"},
        {"eel": 2, "cat": 0, "dog": 1},
    ],
)
def test_names_of_any_form(value: Any, tmp_path: Path) -> None:
    assert names_in(value) == ("cat", "dog", "eel")
    for key in ("classes", "class_to_idx", "id2label"):
        assert from_record({"epoch": 3, key: value}, "x") == ("cat", "dog", "eel")
        assert from_record({key: json.dumps(value)}, "x") == ("cat", "dog", "eel")  # metadata is text
        assert from_record({key: repr(value)}, "x") == ("cat", "dog", "eel")
        (tmp_path / "c.json").write_text(json.dumps({key: value}))
        assert read(tmp_path / "c.json") == ("cat", "dog", "eel")
    (tmp_path / "c.json").write_text(json.dumps(value))
    assert read(tmp_path / "c.json") == ("cat", "dog", "eel")


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        "cat",
        [],
        {},
        {0: "LABEL_0", 1: "LABEL_1"},
        {0: "a", 2: "b"},
        {"a": 1, "b": 2},
        [["a"], ["b"]],
        {"a": "b"},
    ],
)
def test_what_is_no_list_of_names(value: Any) -> None:
    assert names_in(value) is None
    assert from_record({"classes": value}, "x") is None


def test_numbers_as_names_stay_in_the_order_of_their_places() -> None:
    assert names_in([0, 1, 2]) == ("0", "1", "2")
    assert names_in({"0": "7", "1": "3"}) == ("7", "3")
    folders = sorted(str(number) for number in range(12))  # '0', '1', '10', '11', '2', …: as ImageFolder counts them
    assert names_in({name: place for place, name in enumerate(folders)}) == tuple(folders)


def test_a_text_file_is_a_name_a_line(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes("\ufeffcat\r\nGreat Dane \r\neel, Anguilla\r\n\r\n".encode())
    assert read(tmp_path / "c.txt") == ("cat", "Great Dane", "eel, Anguilla")


def test_lists_of_imagenet_get_names_that_differ(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text(
        json.dumps(
            {str(place): [number, name] for place, (number, name) in enumerate(zip(numbers(), imagenet(), strict=True))}
        )
    )
    assert read(tmp_path / "keras.json") == imagenet()
    (tmp_path / "map.txt").write_text(
        "\n".join(f"{number} {name}" for number, name in zip(numbers(), imagenet(), strict=True))
    )
    assert read(tmp_path / "map.txt") == imagenet()
    hub = [", ".join(names) for _, names in class_names._synsets()]
    hub[134] = hub[517] = "crane"  # as the hub's configurations have them
    assert checked(hub, "x") == imagenet()
    hub[3], hub[4] = hub[4], hub[3]  # another order is another list
    with pytest.raises(UserError, match=r"classes 134, 517 are all called 'crane'"):
        checked(hub, "x")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "lists 0 classes"),
        ("one", "lists 1 classes"),
        ("a\n\nb", "class 1 has no name"),
        ("a\nb\na", "classes 0, 2 are all called 'a'"),
        ('["a", "b"', "begins as JSON and is not"),
        ("[" * 100_000, "begins as JSON and is not"),
        ('{"a": "b"}', "holds no class list"),
        ("[1.5, 2.5]", "holds no class list"),
        ('["\\ud800", "b"]', "not text that can be written"),
    ],
)
def test_bad_files_are_named(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text(content)
    with pytest.raises(UserError, match=says):
        read(tmp_path / "c.txt")


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\x00\xd8")
    for name in ("none.txt", "c.txt", "."):
        with pytest.raises(UserError, match=r"cannot read the class list .*classes=imagenet"):
            read(tmp_path / name)


def test_choosing(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("x\ny\n")
    own, data = ("a", "b"), ("d", "e")
    assert choose(None, own, data, 2, "N") == own
    assert choose("data", own, data, 2, "N") == data
    assert choose("imagenet", own, data, None, "N") == imagenet()
    assert choose(str(tmp_path / "c.txt"), own, data, 2, "N") == ("x", "y")
    with pytest.raises(UserError, match=r"N has 3 outputs, its own list has 2 classes"):
        choose(None, own, data, 3, "N")
    with pytest.raises(UserError, match=r"N has 10 outputs, the data has 2 classes"):
        choose("data", own, data, 10, "N")
    with pytest.raises(UserError, match=r"N .*classes=FILE .*classes=imagenet, or classes=data"):
        choose(None, None, data, 2, "N")
    with pytest.raises(UserError, match=r"1000 outputs: if they are ImageNet's"):
        choose(None, None, data, 1000, "N")
    with pytest.raises(UserError, match=r"give --data"):
        choose("data", None, None, 2, "N")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.txt", "0 cat\n1 dog\n2 eel\n"),
        ("c.txt", "2: eel\n0: cat\n1: dog\n"),
        ("c.txt", "1,cat\n2,dog\n3,eel\n"),
        ("c.txt", "cat 0\neel 2\ndog 1\n"),
        ("c.txt", "{0: 'cat', 1: 'dog', 2: 'eel'}"),
        ("c.csv", "name\ncat\ndog\neel\n"),
        ("c.csv", "cat\ndog\neel\n"),
        ("c.csv", "id,name,colour\n0,cat,red\n2,eel,red\n1,dog,red\n"),
        ("c.csv", "cat,0\ndog,1\neel,2\n"),
        ("c.csv", "Class Name;wings\ncat;no\ndog;no\neel;no\n"),
        ("c.tsv", "index\tlabel\n1\tdog\n0\tcat\n2\teel\n"),
    ],
)
def test_lists_with_numbers_and_tables_are_read_in_the_order_of_the_numbers(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name) == ("cat", "dog", "eel")


def test_names_that_only_look_numbered_stay_names(tmp_path: Path) -> None:
    for lines in (["class 0", "class 1"], ["7 up", "3 musketeers"], ["0", "1"], ["101 dalmatians", "cat"]):
        (tmp_path / "c.txt").write_text("\n".join(lines))
        assert read(tmp_path / "c.txt") == tuple(lines)
    for content, says in (("a,b\nc,d\n", "expected one called name"), ("a,b\nc\n", "as many columns in every line")):
        (tmp_path / "c.csv").write_text(content)
        with pytest.raises(UserError, match=says):
            read(tmp_path / "c.csv")


def test_numbers_meet_names_by_place_only_where_nothing_meets_by_name() -> None:
    assert positions(["2", "0"], ["cat", "dog", "eel"]) == [2, 0]
    assert positions(["002", "000"], ["cat", "dog", "eel"]) == [2, 0]
    assert positions(["2", "cat"], ["cat", "dog", "eel"]) == [None, 0]
    assert positions(["2", "3"], ["cat", "dog", "eel"]) == [None, None]  # there is no 3
    assert positions(["2", "0"], ["7", "dog", "eel"]) == [None, None]  # there numbers are names
    assert positions(["n02123045", "0"], imagenet()) == [281, None]
    assert positions([], ["cat", "dog"]) == []


def test_synonyms_are_offered_and_never_taken() -> None:
    assert align(["plane"], ["airplane"]) == [None]
    assert offers(["plane", "car", "zebra"], ["airplane", "automobile", "cat"]) == (
        " (did you mean plane = airplane, car = automobile?)"
    )
    assert offers(["zebra"], ["cat"]) == ""


def test_messages_cut_long_names(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text(f"{'a' * 5000}\n{'a' * 5000}")
    with pytest.raises(UserError, match="are all called") as failed:
        read(tmp_path / "c.txt")
    assert len(str(failed.value)) < 400
