"""Files of networks that say more than they should, or are no files at all: refused with a word, and nothing runs."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from small_tasks import Task, linear_task

from foible import class_lists as classes
from foible import cli
from foible.errors import UserError
from foible.networks.load import state_dicts
from foible.networks.load.specs import open_networks
from foible.testing import linear_network

HALF = "\ud800"  # half a surrogate pair


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return linear_task(tmp_path)


def refused(spec: str, *said: str) -> None:
    with pytest.raises(UserError) as error:
        open_networks(spec, ("0", "1", "2"), (1, 12, 12))
    for text in said:
        assert text in str(error.value)


# Folders of transformers


@pytest.fixture
def vit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small classifier as save_pretrained writes it; whoever asks the hub for anything leaves a marker."""
    transformers = pytest.importorskip("transformers")
    hub = pytest.importorskip("huggingface_hub")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8,
        id2label={0: "0", 1: "1", 2: "2"}, label2id={"0": 0, "1": 1, "2": 2},
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    processing = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
    processing.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "vit")

    def asked(*given: Any, **named: Any) -> None:
        (tmp_path / "asked").write_text(f"{given} {named}")
        raise OSError("there is no hub")

    for name in ("hf_hub_download", "snapshot_download"):
        monkeypatch.setattr(hub, name, asked)
    kernels = pytest.importorskip("transformers.integrations.hub_kernels")
    monkeypatch.setattr(kernels, "load_and_register_attn_kernel", asked, raising=False)
    for module in ("transformers.modeling_utils", "transformers.modeling_flash_attention_utils"):
        monkeypatch.setattr(f"{module}.lazy_import_flash_attention", asked, raising=False)
    return tmp_path / "vit"


def edit(folder: Path, name: str = "config.json", **changes: Any) -> None:
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def test_the_folder_is_a_good_one(vit: Path) -> None:
    for allowed in ("eager", "sdpa", None):
        edit(vit, _attn_implementation=allowed)
        [entry] = open_networks(f"hf:{vit}", None, None)
        assert entry.module(torch.zeros(1, 3, 32, 32)).shape == (1, 3)
    assert not (vit.parent / "asked").exists()


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
@pytest.mark.parametrize("kernel", ["kernels-community/flash-attn2", "evil/kernel@main:f", "flash_attention_2", ["x"]])
def test_an_attention_kernel_is_not_fetched(key: str, kernel: Any, vit: Path) -> None:
    for value in (kernel, {"": kernel}):
        edit(vit, **{key: value})
        refused(f"hf:{vit}", key, '"eager" and "sdpa"')
    edit(vit, **{key: None, "text_config": {"inner": [{key: kernel}]}})
    refused(f"hf:{vit}", key, '"eager" and "sdpa"')
    assert not (vit.parent / "asked").exists()


@pytest.mark.parametrize("key", ["quantization_config", "fusion_config", "compression_config"])
def test_what_loads_further_code_is_refused(key: str, vit: Path) -> None:
    edit(vit, **{key: {"quant_method": "gptq", "bits": 4}})
    refused(f"hf:{vit}", key, "further code")


def test_an_adapter_does_not_bring_its_base_network(vit: Path) -> None:
    (vit / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}')
    refused(f"hf:{vit}", "adapter")
    assert not (vit.parent / "asked").exists()


def test_weights_are_those_of_the_folder(vit: Path) -> None:
    (vit / "model.safetensors").rename(vit.parent / "outside.safetensors")
    for place in ("../outside.safetensors", str(vit.parent / "outside.safetensors")):
        index = {"metadata": {}, "weight_map": {"classifier.bias": place}}
        (vit / "model.safetensors.index.json").write_text(json.dumps(index))
        refused(f"hf:{vit}", "weight_map", "a plain name")


def test_code_in_the_folder_does_not_run(vit: Path) -> None:
    (vit / "mine.py").write_text(f"open({str(vit.parent / 'ran')!r}, 'w')\nclass Config: pass\nclass Net: pass\n")
    edit(vit, auto_map={"AutoConfig": "mine.Config", "AutoModelForImageClassification": "mine.Net"})
    open_networks(f"hf:{vit}", None, None)  # transformers has a network of that kind itself
    edit(vit, model_type="mine")
    refused(f"hf:{vit}", "config.json")
    edit(vit, "preprocessor_config.json", auto_map={"AutoImageProcessor": "mine.Net"}, image_processor_type="Mine")
    refused(f"hf:{vit}")
    assert not (vit.parent / "ran").exists()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("config.json", {"hidden_size": "x"}),
        ("config.json", {"hidden_size": 1e400}),
        ("config.json", {"num_labels": 10**30}),
        ("config.json", {"id2label": {"0": HALF, "1": "b"}}),
        ("config.json", {"id2label": [[1], {}]}),
        ("config.json", {"model_type": ["vit"]}),
        ("config.json", {"model_type": HALF}),
        ("config.json", {"dtype": "torch.nope"}),
        ("config.json", {"to_dict": 1}),
        ("config.json", {"architectures": {"a": [None]}, "__class__": "x"}),
        ("preprocessor_config.json", {"size": {"height": -1, "width": 1e400}}),
        ("preprocessor_config.json", {"image_mean": [1, 2], "image_std": [1, 2, 3]}),
        ("preprocessor_config.json", {"image_mean": {"a": 1}}),
        ("preprocessor_config.json", {"rescale_factor": 0}),
        ("preprocessor_config.json", {"rescale_factor": "\x1b[31m"}),
        ("preprocessor_config.json", {"resample": "x"}),
        ("preprocessor_config.json", {"image_processor_type": 3}),
    ],
)
def test_fields_of_the_wrong_kind_are_told(
    name: str, changes: dict[str, Any], vit: Path, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(vit, name, **changes)
    command = ["compare", "--network", f"A=hf:{vit}", "--network", str(task.basket / "B"), "--data", task.data]
    assert cli.run([*command, "--split", "train", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr()
    assert f"hf:{vit}" in said.err
    assert "\x1b[31m" not in said.out + said.err


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("text", ["", "[]", "3", '{"a":' * 100_000, "[" * 100_000, f"[{'9' * 5000}]", '"\\ud800"'])
def test_json_that_is_none(name: str, text: str, vit: Path) -> None:
    if name == "model.safetensors.index.json":
        (vit / "model.safetensors").unlink()
    (vit / name).write_text(text, encoding="utf-8")
    refused(f"hf:{vit}")


# What is no file


def odd_places(folder: Path) -> list[Path]:
    places = [folder / "a folder"]
    places[0].mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")
        places.append(folder / "pipe")
    return places + [device for device in (Path("/dev/zero"),) if device.exists()]


def test_a_pipe_a_device_or_a_folder_is_no_file_of_weights(tmp_path: Path) -> None:
    for place in odd_places(tmp_path):
        refused(f"softmax?weights={place}&classes=data", str(place), "an ordinary file")
        refused(f"onnx:{place}?preprocess=inside", str(place), "an ordinary file")
        with pytest.raises(UserError, match="an ordinary file"):
            classes.read(place)
        for kind in ("pickle", "torchscript", "pt2"):
            refused(f"{kind}:{place}?preprocess=inside&classes=data", str(place), "an ordinary file")


def test_a_pipe_in_a_folder_of_transformers(vit: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs pipes with names")
    for name in ("config.json", "preprocessor_config.json", "model.safetensors"):
        kept = (vit / name).read_bytes()
        (vit / name).unlink()
        os.mkfifo(vit / name)
        refused(f"hf:{vit}", name, "an ordinary file")
        (vit / name).unlink()
        (vit / name).write_bytes(kept)


def test_a_huge_sparse_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "huge"
    with file.open("wb") as stream:
        stream.truncate(2**40)
    refused(f"softmax?weights={file}&classes=data", str(file))
    refused(f"onnx:{file}?preprocess=inside", str(file), "bytes")
    refused(f"pickle:{file}?preprocess=inside&classes=data", "can run any program")
    with pytest.raises(UserError, match="more than"):
        classes.read(file)


# What a file says of its classes


@pytest.mark.parametrize(
    "text",
    ["{[]: 1}", "{{}: 'a'}", "(" * 100_000, "-" * 100_000 + "1", "[" * 100_000, "[1e400, 2]", f"[{'9' * 5000}]"],
)
def test_metadata_that_is_no_list(text: str, tmp_path: Path) -> None:
    assert classes.from_record({"classes": text}, "it") is None
    header = json.dumps({"__metadata__": {"classes": text}}).encode()
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert state_dicts.read(tmp_path / "w.safetensors").classes is None


@pytest.mark.parametrize("text", ['["a", "\\ud800"]', '{"0": "\\ud800", "1": "b"}', "['a', '\\ud800']"])
def test_half_a_character_is_no_class(text: str) -> None:
    with pytest.raises(UserError, match="not text that can be written"):
        classes.from_record({"classes": text}, "it")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f"[{'9' * 5000}]", "[[], {}]", "{}", "[1.5, 2]"])
def test_class_lists_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "classes.json").write_text(text)
    with pytest.raises(UserError, match=r"classes\.json"):
        classes.read(tmp_path / "classes.json")


def test_a_name_that_stands_a_million_times_is_told_in_a_line() -> None:
    with pytest.raises(UserError) as error:
        classes.checked(["x" * 1000] * 100_000, "it")
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("odd", [torch.zeros(3).to_sparse(), torch.empty(3, device="meta")])
def test_weights_that_are_no_plain_numbers(odd: torch.Tensor, tmp_path: Path) -> None:
    layer = linear_network(0)[1]  # type: ignore[index]
    torch.save({"output.weight": layer.weight.detach(), "output.bias": odd}, tmp_path / "w.pt")
    refused(f"softmax?weights={tmp_path / 'w.pt'}&classes=data", "w.pt")


def test_metadata_of_an_onnx_file_that_is_no_text(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["images"], ["logits"])], "g",
        [helper.make_tensor_value_info("images", 1, ["n", 1, 1, 2])],
        [helper.make_tensor_value_info("logits", 1, ["n", 2])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    for text in ("{[]: 1}", "[" * 100_000, '["a", "\\ud800"]', "MARK"):
        del model.metadata_props[:]
        helper.set_model_props(model, {"classes": text})
        data = model.SerializeToString().replace(b"MARK", b"\xff\xfe\xff\xfe")
        (tmp_path / "net.onnx").write_bytes(data)
        refused(f"onnx:{tmp_path / 'net.onnx'}?preprocess=inside", "net.onnx")


# What a network does with images


ANSWERS = {
    "integers": "torch.zeros(len(x), 3, dtype=torch.int64)",
    "complex": "torch.zeros(len(x), 3, dtype=torch.complex64)",
    "booleans": "torch.zeros(len(x), 3, dtype=torch.bool)",
    "nowhere": "torch.zeros(len(x), 3, device='meta')",
    "sparse": "torch.zeros(len(x), 3).to_sparse()",
    "a list": "[0.0]",
    "nothing": "None",
    "a shape": "torch.zeros(3)",
    "too many": "torch.zeros(len(x), 4)",
    "an error": "torch.zeros(len(x), 5) @ torch.zeros(3, 5)",
    "stop": "next(iter(()))",
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_network_that_answers_something_else_is_named(
    kind: str, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(f"import torch\ndef net():\n    return lambda x: {ANSWERS[kind]}\n")
    odd = f"odd={tmp_path / 'mine.py'}:net?preprocess=inside&classes=data"
    common = ["--network", str(task.basket / "A"), "--network", odd, "--data", task.data, "--split", "train"]
    for verb in ("compare", "hunt"):
        assert cli.run([verb, *common, "--out", str(tmp_path / verb)]) == 2
        err = capsys.readouterr().err
        assert "network 'odd'" in err
        if kind in ("an error", "stop"):
            assert "cannot take images of shape (16, 1, 12, 12)" in err
            assert ("RuntimeError: mat1" in err) or ("StopIteration" in err)
        assert "Traceback" not in err


def test_one_that_fails_later_is_named_too(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "from foible.testing import linear_network\n"
        "def net():\n    inner = linear_network(0)\n"
        "    return lambda x: inner(x if len(x) < 30 else x[..., :5]).detach()\n"
    )
    odd = f"odd={tmp_path / 'mine.py'}:net?preprocess=inside&classes=data"
    common = ["--network", str(task.basket / "A"), "--network", odd, "--data", task.data, "--split", "train"]
    for verb in ("compare", "hunt"):
        assert cli.run([verb, *common, "--out", str(tmp_path / verb)]) == 2
        assert "network 'odd' cannot take images of shape (60, 1, 12, 12)" in capsys.readouterr().err


def test_a_realism_network_that_fails_is_told(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        raise IndexError('no')\n"
    )
    spec = f"network:{tmp_path / 'mine.py'}:Net?preprocess=inside&classes=data"
    assert cli.run(task.hunt("--split", "train", "--realism", spec, "--out", str(tmp_path / "run"))) == 2
    assert "the realism network 'Net' cannot take images" in capsys.readouterr().err
