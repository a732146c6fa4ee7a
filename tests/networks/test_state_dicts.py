"""State dicts as people save them: in every usual wrapper, read without running anything."""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks.files import fit
from foible.networks.load import state_dicts


def network(seed: int = 0, width: int = 4) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        collections.OrderedDict(conv=nn.Conv2d(3, width, 3), norm=nn.BatchNorm2d(width), fc=nn.Linear(width, 3))
    )


def same(state: dict[str, Tensor], module: nn.Module) -> bool:
    """Whether a fresh network that is given `state` has the module's weights."""
    other = network(seed=9)
    fit(other, state, "x")
    return all(torch.equal(value, other.state_dict()[key]) for key, value in module.state_dict().items())


def prefixed(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    return {prefix + key: value for key, value in module.state_dict().items()}


WRAPPERS: dict[str, Any] = {
    "bare": lambda n: n.state_dict(),
    "state_dict": lambda n: {"state_dict": n.state_dict(), "optimizer": torch.optim.Adam(n.parameters()).state_dict()},
    "model": lambda n: {"model": n.state_dict(), "epoch": 3},
    "model_state_dict": lambda n: {"model_state_dict": n.state_dict(), "loss": 0.5},
    "data parallel": lambda n: nn.DataParallel(n).state_dict(),
    "compiled": lambda n: prefixed(n, "_orig_mod."),
    "both": lambda n: {"state_dict": prefixed(n, "module._orig_mod.")},
    "lightning": lambda n: {"state_dict": prefixed(n, "model."), "hyper_parameters": {"lr": 0.1}, "callbacks": {}},
    "averaged": lambda n: torch.optim.swa_utils.AveragedModel(n).state_dict(),
    "only an average": lambda n: {"epoch": 1, "state_dict_ema": n.state_dict()},
    "timm": lambda n: {"state_dict": n.state_dict(), "args": argparse.Namespace(lr=0.1, model="x"), "version": 2},
    "numpy's numbers": lambda n: {"state_dict": n.state_dict(), "best": np.float64(0.9), "epoch": np.int64(3)},
    "two deep": lambda n: {"model": {"state_dict": n.state_dict()}},
    "no counts": lambda n: {key: value for key, value in n.state_dict().items() if "num_batches" not in key},
    "half": lambda n: n.half().state_dict(),
}  # fmt: skip


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("kind", WRAPPERS)
def test_every_wrapper(kind: str, zipped: bool, tmp_path: Path) -> None:
    torch.save(WRAPPERS[kind](network()), tmp_path / "x.pth", _use_new_zipfile_serialization=zipped)
    held = state_dicts.read(tmp_path / "x.pth")
    assert same(held.state, network().half().float() if kind == "half" else network())
    assert held.classes is None


def test_plain_weights_unless_the_average_is_asked_for(tmp_path: Path) -> None:
    for key in ("state_dict_ema", "model_ema", "ema"):
        torch.save({"state_dict": network(1).state_dict(), key: prefixed(network(2), "module.")}, tmp_path / "x.pt")
        assert same(state_dicts.read(tmp_path / "x.pt").state, network(1))
        assert same(state_dicts.read(tmp_path / "x.pt", ema=True).state, network(2))
    torch.save({"state_dict": network(1).state_dict()}, tmp_path / "x.pt")
    with pytest.raises(UserError, match=r"no moving average .*ema=true.*state_dict"):
        state_dicts.read(tmp_path / "x.pt", ema=True)


def test_a_prefix_that_belongs_to_the_network_stays(tmp_path: Path) -> None:
    inner = network()
    outer = nn.ModuleDict({"model": inner})
    torch.save(outer.state_dict(), tmp_path / "x.pt")
    fresh = nn.ModuleDict({"model": network(5)})
    fit(fresh, state_dicts.read(tmp_path / "x.pt").state, "x.pt")
    assert torch.equal(fresh["model"].fc.weight, inner.fc.weight)


def test_the_last_layer_is_found_under_any_prefix() -> None:
    state = {"module.model.fc.weight": torch.zeros(7, 2), "se.fc.weight": torch.zeros(3, 2)}
    found = state_dicts.find(state, "fc.weight")
    assert found is not None
    assert len(found) == 7
    assert state_dicts.find({"se.fc.weight": torch.zeros(3, 2)}, "fc.weight") is None


@pytest.mark.parametrize("length", [128, 384, 1152])
def test_a_safetensors_file_of_any_header_length(length: int, tmp_path: Path) -> None:
    """These lengths begin with the byte that pickles begin with."""
    state = {"w": torch.ones(3)}
    for padding in range(length):
        save_file(state, tmp_path / "x.safetensors", metadata={"p": "x" * padding})
        data = (tmp_path / "x.safetensors").read_bytes()
        if int.from_bytes(data[:8], "little") == length:
            break
    assert data[0] == 0x80
    assert torch.equal(state_dicts.read(tmp_path / "x.safetensors").state["w"], torch.ones(3))


@pytest.mark.parametrize(
    "beside",
    [
        {"classes": ["cat", "dog", "eel"]},
        {"class_names": ("cat", "dog", "eel")},
        {"class_to_idx": {"dog": 1, "cat": 0, "eel": 2}},
        {"idx_to_class": {0: "cat", 1: "dog", 2: "eel"}},
        {"classes": 3, "id2label": {"0": "cat", "1": "dog", "2": "eel"}},
    ],
)
def test_classes_beside_the_weights(beside: dict[str, Any], tmp_path: Path) -> None:
    torch.save({"state_dict": network().state_dict(), **beside}, tmp_path / "x.pt")
    assert state_dicts.read(tmp_path / "x.pt").classes == ("cat", "dog", "eel")
    metadata = {key: json.dumps(value) for key, value in beside.items()}
    save_file(network().state_dict(), tmp_path / "x.safetensors", metadata=metadata)
    assert state_dicts.read(tmp_path / "x.safetensors").classes == ("cat", "dog", "eel")


def test_what_does_not_fit_is_named() -> None:
    state = network().state_dict()
    for key in ("fc.weight", "conv.bias"):
        state["other." + key] = state.pop(key)
    with pytest.raises(
        UserError, match=r"lacks conv\.bias, fc\.weight and has unexpected other\.conv\.bias, other\.fc\.weight"
    ):
        fit(network(), state, "x")
    with pytest.raises(
        UserError, match=r"conv\.weight has shape \(4, 3, 3, 3\), the network has \(5, 3, 3, 3\).*and \d more"
    ):
        fit(network(width=5), network().state_dict(), "x")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2], "holds list"),
        ({"epoch": 3}, "holds no weights.*it has epoch"),
        ({}, "holds no weights.*nothing"),
        ({"state_dict": {}}, "holds no weights"),
        ({"state_dict": {"x": 1}}, "holds no weights"),
        (torch.zeros(3), "holds Tensor"),
    ],
)
def test_files_without_weights(content: Any, says: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(UserError, match=says):
        state_dicts.read(tmp_path / "x.pt")


def test_a_dictionary_inside_itself_ends(tmp_path: Path) -> None:
    content: dict[str, Any] = {"w": torch.zeros(1)}
    content["model"] = content
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(UserError, match="expected a state dict"):
        state_dicts.read(tmp_path / "x.pt")


def test_files_that_are_damaged_or_not_there(tmp_path: Path) -> None:
    torch.save(network().state_dict(), tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    for data in (b"", b"x", whole[:100], whole[:-100], b"\x80", b"\x80\x02}", b"\x80\x04\x95"):
        (tmp_path / "x.pt").write_bytes(data)
        with pytest.raises(UserError, match=r"cut short|pickle"):
            state_dicts.read(tmp_path / "x.pt")
    with pytest.raises(UserError, match="cannot read the weights"):
        state_dicts.read(tmp_path / "none.pt")
    with pytest.raises(UserError, match="cannot read the weights"):
        state_dicts.read(tmp_path)
