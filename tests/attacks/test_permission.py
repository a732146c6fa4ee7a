"""Code and downloads that a received file names: nothing runs and nothing is fetched that was not typed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_tasks import SPACE, Task, linear_task

import foible
from foible import cli
from foible.errors import UserError
from foible.networks.load import specs as load
from foible.permission import Permission, code_sha256
from foible.runs.folder import settings_hash

EVIL = "open({marker!r}, 'w').close()\nfrom torch import nn\ndef f():\n    return nn.Flatten()\n"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return linear_task(tmp_path)


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A file of a stranger's that leaves a mark when it runs."""
    file = tmp_path / "shared" / "evil.py"
    file.parent.mkdir()
    file.write_text(EVIL.format(marker=str(tmp_path / "ran")))
    return file


def _run(*args: object) -> int:
    return cli.run([str(arg) for arg in args])


def _make(task: Task, verb: str, run: Path, *more: str) -> list[object]:
    basket: list[object] = ["--basket", task.basket]
    return {
        "hunt": ["hunt", *basket, "--data", task.data, "--space", SPACE, "--suspect", "A", "--trials", 16,
                 "--patience", 20, "--workers", 1, "--out", run, *more],
        "distort": ["distort", *basket, "--data", task.data, "--source", "A", "--images", 4, "--split", "train",
                    "--workers", 1, "--out", run, *more],
        "compare": ["compare", *basket, "--data", task.data, "--split", "train", "--out", run, *more],
        "rank": ["rank", *basket, "--data", task.data, "--out", run, *more],
    }[verb]  # fmt: skip


def _edit(file: Path, change: Callable[[dict[str, Any]], None], rehash: bool = False) -> None:
    record = json.loads(file.read_text())
    change(record)
    if rehash:
        record["hash"] = settings_hash(record["settings"])
    file.write_text(json.dumps(record))


@pytest.mark.parametrize("verb", ["hunt", "distort", "compare", "rank"])
@pytest.mark.parametrize("as_text", [True, False])
def test_networks_of_a_received_run_are_not_run(
    task: Task, evil: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, as_text: bool
) -> None:
    run = tmp_path / "run"
    assert _run(*_make(task, verb, run)) == 0
    spec = f"{evil}:f?preprocess=inside&classes=data"
    _edit(run / "config.json", lambda record: record["where"].update(basket=spec if as_text else [f"A={spec}"]))
    capsys.readouterr()
    assert _run("replay", run) == 2
    assert ("where.basket" if as_text else "--trust") in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Path]:
    """A hunt, its suite, and a basket whose probe names a folder as its backbone, where the only network has a file's
    name."""
    folder = tmp_path_factory.mktemp("received")
    task, inner = linear_task(folder), folder / "inner"
    assert _run(*_make(task, "hunt", folder / "run")) == 0
    assert _run("suite", folder / "run", "--out", folder / "suite") == 0
    assert _run("train", f"probe:{task.basket / 'A'}", "--data", f"{task.data}?test=0.2", "--out", inner) == 0
    (inner / "there" / "sub").mkdir(parents=True)
    (inner / "there" / "sub" / "evil.py").write_text(EVIL.format(marker=str(folder / "ran")))
    whole = json.loads((task.basket / "basket.json").read_text())
    whole["networks"] = [{**whole["networks"][0], "name": "sub/evil.py:f?preprocess=inside&classes=data"}]
    (inner / "there" / "basket.json").write_text(json.dumps(whole))
    _edit(inner / "basket.json", lambda own: own["networks"][0]["backbone"].update(spec=str(inner / "there")))
    return task, folder


@pytest.mark.parametrize("command", ["hunt", "compare", "distort", "gate", "units", "replay", "train", "Basket.open"])
def test_the_name_of_a_network_in_a_received_basket_is_not_run(
    received: tuple[Task, Path], tmp_path: Path, command: str
) -> None:
    task, folder = received
    inner = folder / "inner"
    if command == "Basket.open":
        with pytest.raises(UserError):
            foible.Basket.open(inner)
    else:
        data = ["--data", f"{task.data}?test=0.2"]
        commands: dict[str, list[object]] = {
            **{verb: [inner if part == task.basket else part for part in _make(task, verb, tmp_path / "new")]
               for verb in ("hunt", "compare", "distort")},
            "gate": ["gate", "--suite", folder / "suite", "--network", f"new={inner}"],
            "units": ["inspect", "units", "--basket", inner, *data, "--out", tmp_path / "units"],
            "replay": ["replay", folder / "run", "--basket", inner],
            "train": ["train", f"probe:{inner / 'there'}", *data, "--out", tmp_path / "more"],
        }  # fmt: skip
        assert _run(*commands[command]) == 2
    assert not (folder / "ran").exists()


def test_data_that_is_typed_is_read_wherever_it_lies(task: Task, tmp_path: Path) -> None:
    run = tmp_path / "somewhere" / "run"
    hunt = _make(task, "hunt", run, "--unit", "8")
    hunt[hunt.index("--workers") + 1] = 2  # each opens the data again
    assert _run(*hunt) == 0


@pytest.mark.parametrize("rehash", [True, False])
def test_realism_of_an_edited_run_is_not_run_on_resume(task: Task, evil: Path, tmp_path: Path, rehash: bool) -> None:
    run = tmp_path / "run"
    hunt = _make(task, "hunt", run, "--unit", "8")
    assert _run(*hunt) == 0
    hunt[hunt.index("--workers") + 1] = 2
    spec = f"network:{evil}:f?preprocess=inside&classes=data"
    _edit(run / "config.json", lambda record: record["settings"].update(realism=spec), rehash)
    for shard in (run / "shards").iterdir():
        shard.unlink()
    assert _run(*hunt) in (0, 2)  # other settings, of a run that has nothing yet, are written anew
    assert _run("replay", run) in (0, 2)
    assert not (tmp_path / "ran").exists()


def test_what_is_typed_runs_in_worker_processes_too(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("from foible.spaces import Affine\nclass Mine(Affine):\n    pass\n")
    hunt = [*_make(task, "hunt", tmp_path / "run", "--unit", "8"), "--space", f"{tmp_path / 'mine.py'}:Mine"]
    hunt[hunt.index("--workers") + 1] = 2
    assert _run(*hunt) == 0
    capsys.readouterr()
    assert _run("replay", tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert "mine.py:Mine" in said
    assert said.endswith(f"add --trust:\n  foible replay {tmp_path / 'run'} --trust\n")  # the whole command
    assert _run("replay", tmp_path / "run", "--trust") == 0


@pytest.mark.parametrize("spec", ["hf:nobody/nothing", "timm:resnet18", "torchvision:resnet18"])
def test_downloads_that_a_file_names_are_asked_for_first(
    task: Task, tmp_path: Path, spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetched(*_: Any, **__: Any) -> Any:
        (tmp_path / "ran").touch()
        raise UserError("fetched")

    monkeypatch.setattr(load, "open_hf", fetched)
    monkeypatch.setattr(load.hubs, "open_timm", fetched)
    monkeypatch.setattr(load.hubs, "open_torchvision", fetched)
    run, probe = tmp_path / "run", tmp_path / "probe"
    assert _run(*_make(task, "compare", run)) == 0
    _edit(run / "config.json", lambda record: record["where"].update(basket=[f"A={spec}"]))
    assert _run("replay", run) == 2
    assert _run("train", f"probe:{task.basket / 'A'}", "--data", f"{task.data}?test=0.2", "--out", probe) == 0
    _edit(probe / "basket.json", lambda record: record["networks"][0]["backbone"].update(spec=spec))
    assert _run("hunt", "--basket", probe, "--data", task.data, "--out", tmp_path / "new") == 2
    assert capsys.readouterr().err.count("add --trust") == 2
    assert not (tmp_path / "ran").exists()
    assert _run("hunt", "--network", f"a={spec}", "--data", task.data, "--out", tmp_path / "new") == 2
    assert (tmp_path / "ran").exists()  # this one was typed


@pytest.mark.parametrize("verb", ["hunt", "compare"])
def test_data_elsewhere_that_a_received_run_names_is_asked_for(
    task: Task, tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, far = tmp_path / "received" / "run", tmp_path / "private" / "data.npz"
    far.parent.mkdir()
    far.write_bytes((tmp_path / "data.npz").read_bytes())
    assert _run(*_make(task, verb, run)) == 0
    _edit(run / "config.json", lambda record: record["where"].update(data=f"npz:{far}"))
    capsys.readouterr()
    assert _run("replay", run) == 2
    assert "private" in capsys.readouterr().err
    assert _run("replay", run, "--trust") == 0
    if verb == "compare":
        assert _run("suite", run, "--out", tmp_path / "suite") == 2
        assert _run("suite", run, "--out", tmp_path / "suite", "--trust") == 0


NET = "import part\nfrom torch import nn\ndef f():\n    return nn.Sequential(nn.Flatten(), part.Head())\n"
PART = """
import torch
from torch import nn
class Head(nn.Module):
    def forward(self, x):
        return torch.cat([x[:, :1], x[:, 1:2], {} * x[:, 2:3]], 1)
"""


def test_code_that_has_changed_is_another_network(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its weights are the same, as it has none; what it imports from beside it has changed."""
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.mkdir()
    (mine / "net.py").write_text(NET)
    (mine / "part.py").write_text(PART.format(1))
    monkeypatch.syspath_prepend(mine)
    old = f"old={mine / 'net.py'}:f?preprocess=inside&classes=data"
    networks = ["--network", f"A={task.basket / 'A'}", "--network", old]
    compare = ["compare", *networks, "--data", task.data, "--split", "train", "--out", run]
    assert _run(*compare) == 0
    assert _run(*compare) == 0
    (mine / "part.py").write_text(PART.format(2))
    sys.modules.pop("part", None)
    capsys.readouterr()
    assert _run(*compare) == 2
    assert "networks" in capsys.readouterr().err
    assert _run("replay", run, "--trust") == 2
    assert "code" in capsys.readouterr().err


def test_a_hash_covers_what_is_imported_from_beside(tmp_path: Path) -> None:
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    files = {
        "a.py": "import os, b\nfrom pack import c\nfrom pack.deep import thing\n", "b.py": "", "pack/__init__.py": "",
        "pack/c.py": "from .d import e\n", "pack/d.py": "", "pack/deep/__init__.py": "thing = 1\n", "other.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = code_sha256(tmp_path / "a.py")
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}# changed\n")
        assert (code_sha256(tmp_path / "a.py") == before) == (name == "other.py"), name
        (tmp_path / name).write_text(text)
    assert code_sha256(tmp_path / "a.py") == before


@pytest.mark.parametrize("path", ["a\0.py", "x" * 5000 + ".py", "\ud800.py", "../../x.py"])
def test_what_can_be_no_file_is_refused_like_any_other(path: str) -> None:
    with pytest.raises(UserError, match="names code"):
        Permission().run(path, "f")


@pytest.mark.parametrize(
    "typed",
    ["{}:f", "a={}:f?x=1", "network:{}:f", "network:a={}:f", "probe:{}:f,hidden=3", "probe:a={}:f", "affine+{}:f?y=2"],
)
def test_what_counts_as_typed(evil: Path, tmp_path: Path, typed: str) -> None:
    other = tmp_path / "other.py"
    other.write_text(evil.read_text())
    for may in (Permission.typed(typed.format(evil)), Permission.typed([typed.format(os.path.relpath(evil))])):
        with pytest.raises(UserError, match="names code"):
            may.run(str(other), "f")
        assert not (tmp_path / "ran").exists()
        assert callable(may.run(str(evil), "f"))
        (tmp_path / "ran").unlink()


def test_a_basket_that_is_open_is_opened_again_by_worker_processes(task: Task, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\ndef f():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(144, 3))\n"
    )
    basket = foible.Basket.open(
        [f"A={task.basket / 'A'}", f"mine={tmp_path / 'mine.py'}:f?preprocess=inside&classes=data"],
        classes=("0", "1", "2"),
    )
    found = foible.hunt(
        basket, task.data, suspect="A", trials=16, unit=8, workers=2, patience=5, out=tmp_path / "run", quiet=True
    )
    assert len(found) == 16
