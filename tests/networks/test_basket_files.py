"""A basket on disk: it comes back as it was, and everything that is wrong with one is named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.files import Entry, load_folder, load_weights, save_basket
from foible.networks.preprocess import Preprocess

SHAPE = (1, 28, 28)
CLASSES = tuple("0123456789")


def entry(spec: str, name: str | None = None, **changes: Any) -> Entry:
    module = zoo.build(spec, SHAPE, len(CLASSES)).eval()
    given = {"accuracy": {"train": 0.9, "test": 0.8}, "seed": 3, "training": {"epochs": 2}} | changes
    return Entry(name or zoo.name_of(spec), module, Preprocess((0.5,), (0.25,)), CLASSES, SHAPE, spec, **given)


@pytest.fixture
def basket(tmp_path: Path) -> Path:
    save_basket(tmp_path / "b", [entry("mlp:5"), entry("cnn4")])
    return tmp_path / "b"


def edit(folder: Path, change: Any) -> None:
    record = json.loads((folder / "basket.json").read_text())
    change(record)
    (folder / "basket.json").write_text(json.dumps(record))


@pytest.mark.parametrize("spec", [family.example for family in zoo.FAMILIES.values()])
def test_a_network_comes_back_as_it_was(spec: str, tmp_path: Path) -> None:
    [before] = save_basket(tmp_path, [entry(spec)])
    generator = torch.random.get_rng_state()
    [after] = load_folder(tmp_path)
    assert torch.equal(generator, torch.random.get_rng_state())  # loading draws nothing
    images = torch.rand(3, *SHAPE)
    assert torch.equal(before.module(images), after.module(images))
    assert not after.module.training
    for key in ("name", "preprocess", "classes", "shape", "spec", "sha256", "accuracy", "seed", "training"):
        assert getattr(before, key) == getattr(after, key), key
    assert {n for n, w in after.module.named_parameters() if w.requires_grad} == {
        n for n, w in before.module.named_parameters() if w.requires_grad
    }


def test_the_same_networks_give_the_same_bytes(basket: Path, tmp_path: Path) -> None:
    save_basket(tmp_path / "again", load_folder(basket))
    for file in basket.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


class Payload:
    """Writes a file when it is unpickled: harmless, and seen if it ever happens."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.marker,))


@pytest.mark.parametrize("kind", ["protocol 0", "protocol 2", "protocol 5", "torch", "legacy torch"])
def test_a_pickle_is_refused_and_does_not_run(kind: str, basket: Path, tmp_path: Path) -> None:
    marker, file = tmp_path / "ran", basket / "mlp-5.safetensors"
    if kind.startswith("protocol"):
        file.write_bytes(pickle.dumps(Payload(marker), protocol=int(kind[-1])))
    else:
        torch.save({"w": Payload(marker)}, file, _use_new_zipfile_serialization=kind == "torch")
    with pytest.raises(UserError, match=r"pickle|not a safetensors file"):
        load_weights(zoo.build("mlp:5", SHAPE, 10), file)
    with pytest.raises(UserError):
        load_folder(basket)
    assert not marker.exists()
    if kind.startswith("protocol"):  # the payload is a real one
        pickle.loads(file.read_bytes())
        assert marker.exists()


def test_a_changed_byte_is_noticed(basket: Path) -> None:
    file = basket / "mlp-5.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(UserError, match="SHA-256"):
        load_folder(basket)


def test_weights_of_another_network_are_named(basket: Path, tmp_path: Path) -> None:
    mlp = basket / "mlp-5.safetensors"
    with pytest.raises(UserError, match=r"lacks hidden2\.bias, hidden2\.weight"):
        load_weights(zoo.build("mlp:5-5", SHAPE, 10), mlp)
    with pytest.raises(UserError, match=r"unexpected hidden1\.bias"):
        load_weights(zoo.build("softmax", SHAPE, 10), mlp)
    with pytest.raises(UserError, match=r"hidden1\.weight has shape \(5, 784\), the network has \(6, 784\)"):
        load_weights(zoo.build("mlp:6", SHAPE, 10), mlp)
    state = load_file(mlp)
    state["hidden1.bias"] = state["hidden1.bias"].long()
    save_file(state, tmp_path / "ints.safetensors")
    with pytest.raises(UserError, match=r"torch\.int64"):
        load_weights(zoo.build("mlp:5", SHAPE, 10), tmp_path / "ints.safetensors")
    mlp.write_bytes(mlp.read_bytes()[:-10])
    with pytest.raises(UserError, match="cut short"):
        load_weights(zoo.build("mlp:5", SHAPE, 10), mlp)
    with pytest.raises(UserError, match="cannot read"):
        load_weights(zoo.build("mlp:5", SHAPE, 10), tmp_path / "none.safetensors")


def test_half_precision_weights_become_float32(basket: Path, tmp_path: Path) -> None:
    state = load_file(basket / "mlp-5.safetensors")
    save_file({key: value.half() for key, value in state.items()}, tmp_path / "half.safetensors")
    network = zoo.build("mlp:5", SHAPE, 10)
    load_weights(network, tmp_path / "half.safetensors")
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/hosts", "a/b", "a\\b", "..", ".", "C:x", "", "x\n", 3])
def test_a_file_outside_the_folder_is_refused(file: object, basket: Path) -> None:
    edit(basket, lambda record: record["networks"][0].update(file=file))
    with pytest.raises(UserError, match=r"has .* at networks\[0\]\.file, expected a plain name, without folders"):
        load_folder(basket)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.update(schema_version=2), "schema_version 2"),
        (lambda r: r.pop("schema_version"), "schema_version None"),
        (lambda r: r.update(classes=list("012")), "number of classes"),
        (lambda r: r.update(classes=["a"] * 10), "same name"),
        (lambda r: r.update(classes="0123456789"), "has '0123456789' at classes, expected a list"),
        (lambda r: r.update(classes=["0"]), "list of at least 2"),
        (lambda r: r.update(shape=[28, 28]), "expected .channels, height, width"),
        (lambda r: r.update(shape=[1, 28, 10**9]), "expected .channels, height, width"),
        (lambda r: r.update(networks=[]), "lists no networks"),
        (lambda r: r["networks"][1].update(name="mlp-5"), "two networks are called 'mlp-5'"),
        (lambda r: r["networks"][0].update(spec="mlp:100000"), "the network has"),  # allocates nothing
        (lambda r: r["networks"][0].update(spec="nonsense"), "unknown network"),
        (lambda r: r["networks"][0].update(preprocess={"mean": [0, 0], "std": [1, 1]}), "2 means for 1 channels"),
        (lambda r: r["networks"][0].update(accuracy={"test": "high"}), "accuracy.test, expected a finite number"),
        (lambda r: r["networks"].append("x"), "expected an object"),
    ],
)
def test_a_damaged_record_is_named(change: Any, says: str, basket: Path) -> None:
    edit(basket, change)
    with pytest.raises(UserError, match=says):
        load_folder(basket)


def test_truncated_json_and_no_basket(basket: Path, tmp_path: Path) -> None:
    file = basket / "basket.json"
    file.write_text(file.read_text()[:-20])
    with pytest.raises(UserError, match="cannot be read"):
        load_folder(basket)
    file.write_text("[" * 100_000)
    with pytest.raises(UserError, match="cannot be read"):
        load_folder(basket)
    with pytest.raises(UserError, match="not a basket"):
        load_folder(tmp_path)


def test_only_one_task_goes_into_a_basket(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two networks are called"):
        save_basket(tmp_path, [entry("softmax"), entry("softmax")])
    with pytest.raises(UserError, match="plain file name"):
        save_basket(tmp_path, [entry("softmax", name="../softmax")])
    with pytest.raises(UserError, match="at least one"):
        save_basket(tmp_path, [])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        save_basket(tmp_path / "file" / "b", [entry("softmax")])
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_a_full_disk_leaves_the_old_file(basket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = {file.name: file.read_bytes() for file in basket.iterdir()}
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left"):
        save_basket(basket, [entry("mlp:5")])
    assert {file.name: file.read_bytes() for file in basket.iterdir()} == before
