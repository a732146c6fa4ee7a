"""Classifiers of transformers: small random ones, saved and opened again, against transformers' own pipeline."""

from __future__ import annotations

import importlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from foible.class_names import _synsets, imagenet
from foible.errors import UserError
from foible.networks.files import Entry
from foible.networks.load import huggingface
from foible.networks.load.specs import open_networks
from foible.permission import Permission

transformers = pytest.importorskip("transformers")

NAMES = {0: "cat", 1: "dog", 2: "eel"}


def model(kind: str, **more: Any) -> Any:
    torch.manual_seed(0)
    more = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}} | more
    if kind == "vit":
        config = transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32,
            patch_size=8, **more,
        )  # fmt: skip
        return transformers.ViTForImageClassification(config).eval()
    if kind == "resnet":
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], **more)
        return transformers.ResNetForImageClassification(config).eval()
    config = transformers.ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], **more)
    return transformers.ConvNextForImageClassification(config).eval()


def processor(kind: str, **settings: Any) -> Any:
    """The image processor that works on Pillow's images: there in every version, with or without torchvision."""
    module = pytest.importorskip(f"transformers.models.{kind.lower()}.image_processing_pil_{kind.lower()}")
    return getattr(module, next(name for name in dir(module) if name.endswith("ImageProcessorPil")))(**settings)


def photographs() -> list[Image.Image]:
    """Noise, smoothed, of sizes that leave half pixels to crop; and the real ones where they are."""
    made = []
    for width, height in ((61, 40), (40, 63), (47, 47), (120, 45), (45, 121), (32, 32)):
        pixels = np.random.default_rng(width).integers(0, 256, (height // 4, width // 4, 3), np.uint8)
        made.append(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))
    data = os.environ.get("FOIBLE_DATA")
    files = sorted(Path(data).glob("photos/*/*.JPEG"))[:12] if data else []
    return made + [Image.open(file).convert("RGB") for file in files]


def opened(folder: Path, options: str = "") -> Entry:
    [entry] = open_networks(f"hf:{folder}{options}", None, None)
    return entry


PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "ViT": ("ViT", {"size": {"height": 32, "width": 32}}),
    "ViT bicubic": ("ViT", {"size": {"height": 32, "width": 40}, "resample": 3, "image_std": [0.2, 0.3, 0.4]}),
    "Bit": ("Bit", {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}),
    "CLIP": ("CLIP", {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}),
    "DeiT": ("DeiT", {"size": {"height": 37, "width": 37}, "crop_size": {"height": 32, "width": 32}}),
    "ConvNext crops": ("ConvNext", {"size": {"shortest_edge": 32}, "crop_pct": 0.875}),
    "ConvNext stretches": ("ConvNext", {"size": {"shortest_edge": 384}}),
    "no normalising": ("ViT", {"size": {"height": 32, "width": 32}, "do_normalize": False}),
    "no rescaling": ("ViT", {"size": {"height": 32, "width": 32}, "do_rescale": False, "image_mean": [120.0] * 3}),
    "neither": ("ViT", {"size": {"height": 32, "width": 32}, "do_rescale": False, "do_normalize": False}),
    "EfficientNet": ("EfficientNet", {"size": {"height": 33, "width": 32}, "resample": 2}),
    "EfficientNet offset": (
        "EfficientNet",
        {
            "size": {"height": 32, "width": 32},
            "rescale_factor": 1 / 127.5,
            "rescale_offset": True,
            "include_top": False,
        },
    ),
    "Levit": ("LeViT", {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}),
    "MobileNetV2": ("MobileNet_V2", {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}),
    "MobileViT": ("MobileViT", {"size": {"shortest_edge": 40}, "crop_size": {"height": 32, "width": 32}}),
}


@pytest.mark.parametrize("kind", PROCESSORS)
def test_pixels_are_those_of_the_image_processor(kind: str, tmp_path: Path) -> None:
    name, settings = PROCESSORS[kind]
    theirs = processor(name, **settings)
    theirs.save_pretrained(tmp_path)
    model("resnet").save_pretrained(tmp_path)
    how = opened(tmp_path).preprocess
    assert how.view is not None
    for image in photographs():
        pixels = torch.from_numpy(how.view(image))[None].float() / 255
        ours = how(pixels)[0]
        expected = torch.tensor(np.array(theirs(image)["pixel_values"][0]))
        expected = expected.flip(0) if kind == "MobileViT" else expected  # the network turns the channels round
        assert ours.shape == expected.shape
        assert (ours - expected).abs().max() <= 2e-5 * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize(("kind", "name"), [("vit", "ViT"), ("resnet", "ConvNext"), ("convnext", "ConvNext")])
def test_answers_are_those_of_transformers(kind: str, name: str, tmp_path: Path) -> None:
    theirs = model(kind)
    theirs.save_pretrained(tmp_path / "net")
    size = {"height": 32, "width": 32} if kind == "vit" else {"shortest_edge": 32}
    prepare = processor(name, size=size)
    prepare.save_pretrained(tmp_path / "net")
    entry = opened(tmp_path / "net")
    assert (entry.name, entry.classes, entry.shape) == ("net", ("cat", "dog", "eel"), (3, 32, 32))
    assert entry.preprocess.view is not None
    for image in photographs():
        ours = entry.module(entry.preprocess(torch.from_numpy(entry.preprocess.view(image))[None] / 255))
        expected = theirs(pixel_values=torch.tensor(np.stack(prepare(image)["pixel_values"]))).logits
        assert torch.allclose(ours, expected, atol=1e-4)
        assert ours.argmax() == expected.argmax()


def test_a_network_that_takes_blue_first(tmp_path: Path) -> None:
    theirs = model("resnet")
    theirs.save_pretrained(tmp_path)
    processor("MobileViT", size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(opened(tmp_path).module(images), theirs(pixel_values=images.flip(1)).logits)


def test_weights_of_a_bin_file_load_without_trust(tmp_path: Path) -> None:
    theirs = model("vit")
    theirs.save_pretrained(tmp_path)
    processor("ViT", size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    before = opened(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    assert opened(tmp_path).sha256 == before.sha256


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def test_a_bin_file_cannot_run_code(tmp_path: Path) -> None:
    model("vit").save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"vit.w": Payload(tmp_path / "ran")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="could not be opened"):
        opened(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_folder_with_code_of_its_own_is_refused_and_does_not_run(tmp_path: Path) -> None:
    model("vit").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "mine.C", "AutoModelForImageClassification": "mine.M"}
    config["model_type"] = "mine"
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    with pytest.raises(UserError, match="could not be opened"):
        opened(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_names_that_name_nothing_are_no_list(tmp_path: Path) -> None:
    model("vit", id2label={0: "LABEL_0", 1: "LABEL_1"}, label2id={"LABEL_0": 0, "LABEL_1": 1}).save_pretrained(tmp_path)
    processor("ViT", size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="does not say which classes"):
        opened(tmp_path)
    (tmp_path / "c.txt").write_text("a\nb\n")
    assert opened(tmp_path, f"?classes={tmp_path / 'c.txt'}").classes == ("a", "b")
    (tmp_path / "c.txt").write_text("a\nb\nc\n")
    with pytest.raises(UserError, match=r"2 outputs, .*c\.txt has 3 classes"):
        opened(tmp_path, f"?classes={tmp_path / 'c.txt'}")


def test_imagenet_by_its_long_names(tmp_path: Path) -> None:
    names = {place: ", ".join(names) for place, (_, names) in enumerate(_synsets())}
    names[134] = names[517] = "crane"  # as the hub has them
    model("vit", id2label=names, label2id={name: number for number, name in names.items()}).save_pretrained(tmp_path)
    processor("ViT", size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    assert opened(tmp_path).classes == imagenet()


def test_preprocessing_that_is_not_said_or_not_known(tmp_path: Path) -> None:
    model("vit").save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"no preprocessor_config\.json\): add \?preprocess=inside"):
        opened(tmp_path)
    assert opened(tmp_path, "?preprocess=inside&size=32").shape == (3, 32, 32)
    record = {"image_processor_type": "ViltImageProcessor", "size": {"shortest_edge": 32}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="does not know what its Vilt"):
        opened(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("nonsense")
    with pytest.raises(UserError, match="its image processor could not be read"):
        opened(tmp_path)


def test_options_have_the_last_word(tmp_path: Path) -> None:
    model("resnet").save_pretrained(tmp_path)
    processor("Bit", size={"shortest_edge": 36}, crop_size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    how = opened(tmp_path, "?mean=0.1,0.2,0.3&interpolation=bilinear&size=64").preprocess
    assert how.mean == (0.1, 0.2, 0.3)
    assert how.std == pytest.approx((0.26862954, 0.26130258, 0.27577711))
    assert (how.size, how.resize, how.interpolation) == ((64, 64), 72, "bilinear")


@pytest.mark.parametrize("record", [None, "nonsense", '{"model_type": "bert"}', '{"model_type": "nothing"}'])
def test_a_folder_of_something_else(record: str | None, tmp_path: Path) -> None:
    if record is not None:
        (tmp_path / "config.json").write_text(record)
    with pytest.raises(UserError, match=r"could not be opened .*expected a folder that save_pretrained wrote"):
        opened(tmp_path)


def test_weights_of_another_network_are_named(tmp_path: Path) -> None:
    model("vit").save_pretrained(tmp_path)
    model("convnext").save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"lacks vit\.\S+.*has unexpected convnext"):
        opened(tmp_path)
    model("vit", id2label={0: "a", 1: "b"}, label2id={"a": 0, "b": 1}).save_pretrained(tmp_path / "two")
    (tmp_path / "two" / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"classifier\.bias has shape \(2,\), the network has \(3,\)"):
        opened(tmp_path)


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    says = (
        r"could not be had from the hub .*download config\.json.*model\.safetensors from "
        r"huggingface\.co/nobody/nothing.*hf:\./FOLDER"
    )
    with pytest.raises(UserError, match=says):
        open_networks("hf:nobody/nothing", None, None, Permission.typed("hf:nobody/nothing"))


def test_a_hub_that_does_not_answer_is_asked_once_and_shortly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library itself would try six times, for half a minute."""
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface, "SECONDS", 0.3)
    spec = "hf:nobody/nothing"
    with socket.socket() as deaf:  # takes the call, and says nothing
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        place = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", place)
        start = time.monotonic()
        with pytest.raises(UserError, match=rf"nothing answered at {place} within 0\.3 seconds\): check the name"):
            open_networks(spec, None, None, Permission.typed(spec))
        assert time.monotonic() - start < 5
    assert not constants.HF_HUB_OFFLINE
