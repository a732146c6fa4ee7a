"""A user's file may import what lies beside it, and nothing of that stays behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from foible import Basket
from foible.errors import UserError
from foible.permission import Permission

MODEL = """
import layers, json, torch
from parts.heads import head

def late():
    from later import scale
    return torch.nn.Sequential(torch.nn.Flatten(), layers.Linear(4), head(scale))

SIZE = layers.SIZE
"""


def write(folder: Path, size: int) -> Path:
    (folder / "parts").mkdir(parents=True)
    (folder / "layers.py").write_text(
        f"import torch\nSIZE = {size}\nclass Linear(torch.nn.Linear):\n"
        f"    def __init__(self, k):\n        super().__init__(k, {size})\n"
    )
    (folder / "parts" / "heads.py").write_text(
        "import torch\nfrom layers import SIZE\ndef head(scale):\n    return torch.nn.Linear(SIZE, scale)\n"
    )
    (folder / "later.py").write_text("scale = 2\n")
    (folder / "json.py").write_text("raise RuntimeError('not the json that was meant')\n")
    (folder / "model.py").write_text(MODEL)
    return folder / "model.py"


def test_two_files_each_import_their_own_neighbours(tmp_path: Path) -> None:
    old, new = write(tmp_path / "old", 5), write(tmp_path / "new", 7)
    path, finders, loaded = list(sys.path), list(sys.meta_path), set(sys.modules)
    options = "preprocess=inside&classes=data"
    basket = Basket.open(
        [f"old={old}:late?{options}", f"new={new}:late?{options}"], classes=("a", "b"), shape=(1, 2, 2)
    )
    assert [basket._networks[name][1].out_features for name in ("old", "new")] == [5, 7]
    assert basket.predict(torch.zeros(3, 1, 2, 2, dtype=torch.uint8)).shape == (2, 3, 2)
    assert (sys.path, sys.meta_path) == (path, finders)
    assert not {"layers", "parts", "parts.heads", "later"} & (set(sys.modules) - loaded)
    assert basket.fingerprints["old"] != basket.fingerprints["new"]


def test_a_module_of_the_caller_s_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = type(sys)("layers")
    monkeypatch.setitem(sys.modules, "layers", mine)
    file = write(tmp_path, 3)
    assert Permission.typed(f"{file}:SIZE").run(str(file), "SIZE") == 3
    assert sys.modules["layers"] is mine


def test_neighbours_need_the_same_permission_and_their_errors_are_said(tmp_path: Path) -> None:
    file = write(tmp_path, 3)
    (tmp_path / "layers.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nimport nowhere\n")
    with pytest.raises(UserError, match="add --trust"):
        Permission().run(str(file), "SIZE")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(UserError, match="No module named 'nowhere'"):
        Permission.typed(f"{file}:SIZE").run(str(file), "SIZE")
    assert "layers" not in sys.modules
