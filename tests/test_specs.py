from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foible import specs
from foible.errors import UserError
from foible.objectives import OBJECTIVES, Dissent
from foible.permission import Permission
from foible.search import SEARCHES, hill_climb
from foible.spaces import SPACES, Affine, Chain, Crop, Photometric


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mnist", ("mnist", "", {})),
        ("folder:a/b c", ("folder", "a/b c", {})),
        (r"folder:C:\pictures?size=64", ("folder", r"C:\pictures", {"size": "64"})),
        ("affine?degrees=5&pixels=0", ("affine", "", {"degrees": "5", "pixels": "0"})),
        ("my/space.py:Mine?x=1", ("my/space.py", "Mine", {"x": "1"})),
        (r"C:\space.py:Mine", (r"C:\space.py", "Mine", {})),
    ],
)
def test_parse(text: str, expected: tuple[str, str, dict[str, str]]) -> None:
    spec = specs.parse(text)
    assert (spec.name, spec.argument, spec.options) == expected


def test_a_file_without_a_name_and_broken_options_are_refused() -> None:
    with pytest.raises(UserError, match=r"write space\.py:NAME"):
        specs.parse("space.py")
    with pytest.raises(UserError, match="key=value"):
        specs.parse("affine?degrees")


@given(st.floats(0, 180), st.floats(0, 90), st.sampled_from(["once", "each"]))
def test_a_thing_and_its_spec_are_one(degrees: float, percent: float, resample: str) -> None:
    space = Affine(degrees=degrees, percent=percent, resample=resample)
    text = specs.spec_of(space, SPACES)
    assert text is not None
    assert specs.resolve(text, SPACES, "space") == space


def test_functions_take_options_too() -> None:
    search = specs.resolve("hill-climb?patience=7", SEARCHES, "search")
    assert isinstance(search, partial)
    assert search.keywords == {"patience": 7}
    assert specs.spec_of(search, SEARCHES) == "hill-climb?patience=7"
    assert specs.spec_of(hill_climb, SEARCHES) == "hill-climb"
    assert specs.spec_of(Dissent(0.9), OBJECTIVES) == "dissent?peer_confidence=0.9"
    assert specs.spec_of(object(), OBJECTIVES) is None


def test_a_users_own_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    def __init__(self, size: int = 1):\n        self.size = size\n")
    assert specs.resolve(f"{file}:Mine?size=3", SPACES, "space", Permission(trust=True)).size == 3
    with pytest.raises(UserError, match="nothing called 'Min'; did you mean 'Mine'"):
        specs.resolve(f"{file}:Min", SPACES, "space", Permission(trust=True))
    file.write_text("1 / 0")
    with pytest.raises(UserError, match="ZeroDivisionError"):
        specs.resolve(f"{file}:Mine", SPACES, "space", Permission(trust=True))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("affine", ["affine"]),
        ("photometric?hue=0+crop+affine?degrees=10", ["photometric?hue=0", "crop", "affine?degrees=10"]),
        ("affine?degrees=1e+1+crop", ["affine?degrees=1e+1", "crop"]),
        ("affine+/c++/mine.py:Mine?x=1e+5+crop", ["affine", "/c++/mine.py:Mine?x=1e+5", "crop"]),
        ("./my+spaces.py:Mine", ["./my+spaces.py:Mine"]),
        (r"C:\a+b\mine.py:Mine+affine", [r"C:\a+b\mine.py:Mine", "affine"]),
        ("affine+", ["affine", ""]),
    ],
)
def test_chained(text: str, parts: list[str]) -> None:
    assert specs.chained(text) == parts


def test_a_chain_and_its_spec_are_one() -> None:
    text = "photometric?hue=0.0+crop+affine?degrees=10.0"
    chain = specs.resolve(text, SPACES, "space")
    assert chain == Chain((Photometric(hue=0), Crop(), Affine(degrees=10)))
    assert specs.spec_of(chain, SPACES) == text
    assert specs.spec_of(Chain((Crop(), object.__new__(type("Mine", (Crop,), {})))), SPACES) is None


def test_a_plus_in_an_option_is_a_plus() -> None:
    assert specs.resolve("affine?pixels=1e+2", SPACES, "space") == Affine(pixels=100)
    assert specs.parse("folder:x?root=a+b").options == {"root": "a+b"}


def test_an_error_names_the_part_of_a_chain() -> None:
    with pytest.raises(UserError, match=r"unknown space 'photometrc'; did you mean 'photometric'"):
        specs.resolve("crop+photometrc+affine", SPACES, "space")
    with pytest.raises(UserError, match=r"affine\?degree=5 has no option 'degree'"):
        specs.resolve("crop+affine?degree=5", SPACES, "space")
    with pytest.raises(UserError, match="empty part"):
        specs.resolve("crop+", SPACES, "space")
    with pytest.raises(UserError, match=r"unknown space '\+'"):
        specs.resolve("+", SPACES, "space")
    with pytest.raises(UserError, match=r"unknown objective 'dissent\+dissent'"):
        specs.resolve("dissent+dissent", OBJECTIVES, "objective")


def test_a_users_own_file_in_a_chain(tmp_path: Path) -> None:
    file = tmp_path / "c++" / "mine.py"
    file.parent.mkdir()
    file.write_text("from foible.spaces import Crop\n\nclass Mine(Crop):\n    pass\n")
    chain = specs.resolve(f"affine+{file}:Mine?percent=7", SPACES, "space", Permission(trust=True))
    assert chain.spaces[0] == Affine()
    assert type(chain.spaces[1]).__name__ == "Mine"
    assert chain.spaces[1].percent == 7
