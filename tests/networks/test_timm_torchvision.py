"""timm and torchvision, where they are: our pixels against their own transforms, and checkpoints of every sort.

Weights are random; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from foible.class_lists import checked
from foible.class_names import imagenet
from foible.errors import UserError
from foible.networks.files import Entry
from foible.networks.load import hubs
from foible.networks.load.specs import open_networks
from foible.networks.preprocess import Preprocess
from foible.permission import Permission

try:
    import timm
    import timm.data
    import timm.utils
    from torchvision import models
except Exception as error:  # torchvision raises RuntimeError where it was built for another torch
    pytest.skip(f"timm and torchvision cannot be imported: {error}", allow_module_level=True)


def photographs(most: int = 80) -> list[Image.Image]:
    """Smoothed noise of sizes that leave half pixels to crop, and the first `most` real ones where they are."""
    made = []
    for width, height in ((500, 375), (375, 501), (333, 333), (640, 251), (251, 641), (224, 224), (90, 70)):
        pixels = np.random.default_rng(width).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
        made.append(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))
    data = os.environ.get("FOIBLE_DATA")
    files = sorted(Path(data).glob("photos/*/*.JPEG"))[:most] if data else []
    return made + [Image.open(file).convert("RGB") for file in files]


def ours(how: Preprocess, image: Image.Image) -> torch.Tensor:
    assert how.view is not None
    return how(torch.from_numpy(how.view(image))[None] / 255)


def opened(text: str, classes: tuple[str, ...] | None = None) -> Entry:
    [entry] = open_networks(text, classes, None, Permission.typed(text))
    return entry


def agree(entry: Entry, network: torch.nn.Module, transform: Any) -> None:
    """The same pixels, and the same answer to every photograph."""
    entry.module.eval()
    network.eval()
    with torch.no_grad():
        for image in photographs():
            here, there = ours(entry.preprocess, image), transform(image)[None]
            assert here.shape == there.shape
            assert (here - there).abs().max() < 1e-5
            answers = entry.module(here), network(there)
            assert torch.allclose(*answers, atol=1e-3)
            assert answers[0].argmax() == answers[1].argmax()


TIMM = [
    "resnet18",
    "vit_tiny_patch16_224",
    "convnext_atto",
    "efficientnet_b0",
    "mobilenetv3_small_050",
    "tf_mobilenetv3_small_075",
]


@pytest.mark.parametrize("name", TIMM)
def test_timm_networks_see_what_timm_shows_them(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = timm.create_model(name, pretrained=False, num_classes=5)
    torch.save({"state_dict": network.state_dict(), "classes": list("abcde")}, tmp_path / "w.pt")
    entry = opened(f"timm:{name}?checkpoint={tmp_path / 'w.pt'}")
    assert (entry.name, entry.classes) == (name, tuple("abcde"))
    config = timm.data.resolve_model_data_config(network)
    agree(entry, network, timm.data.create_transform(**config, is_training=False))


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("size", [(3, 64, 64), (3, 64, 80)])
@pytest.mark.parametrize("share", [0.875, 0.95, 1.0])
@pytest.mark.parametrize("filter_name", ["bilinear", "bicubic"])
def test_every_way_of_timm_to_crop(mode: str, size: tuple[int, ...], share: float, filter_name: str) -> None:
    config = {
        "input_size": size, "crop_pct": share, "crop_mode": mode, "interpolation": filter_name,
        "mean": (0.48, 0.45, 0.4), "std": (0.2, 0.3, 0.25),
    }  # fmt: skip
    how = hubs.timm_preprocess(config)
    transform = timm.data.create_transform(**config, is_training=False)
    for image in photographs(5):
        here, there = ours(how, image), transform(image)[None]
        assert here.shape == there.shape
        assert (here - there).abs().max() < 1e-5


def test_a_size_of_the_user_s_goes_into_a_transformer(tmp_path: Path) -> None:
    network = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=5, img_size=96)
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    entry = opened(
        f"timm:vit_tiny_patch16_224?checkpoint={tmp_path / 'w.safetensors'}&classes=data&size=96", tuple("abcde")
    )
    assert entry.shape == (3, 96, 96)
    config = timm.data.resolve_data_config(args={"input_size": (3, 96, 96)}, model=network)
    agree(entry, network, timm.data.create_transform(**config, is_training=False))
    network = timm.create_model("resnet18", pretrained=False, num_classes=5)
    torch.save(network.state_dict(), tmp_path / "w.pt")
    assert opened(f"timm:resnet18?checkpoint={tmp_path / 'w.pt'}&classes=data&size=96", tuple("abcde")).shape == (
        3,
        96,
        96,
    )


def test_checkpoints_of_timm_s_own_saver(tmp_path: Path) -> None:
    network = timm.create_model("resnet18", pretrained=False, num_classes=4)
    averaged = timm.utils.ModelEmaV2(network, decay=0.5)
    with torch.no_grad():
        network.fc.weight.add_(1.0)
    saver = timm.utils.CheckpointSaver(
        model=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.1),
        args=argparse.Namespace(model="resnet18", lr=0.1, mean=None, sched="cosine"),
        model_ema=averaged,
        checkpoint_dir=str(tmp_path),
        recovery_dir=str(tmp_path),
    )
    saver.save_checkpoint(0, metric=0.5)
    [file, *_] = sorted(tmp_path.glob("*.pth.tar"))
    for option, expected in (("", network), ("&ema=true", averaged.module)):
        entry = opened(f"timm:resnet18?checkpoint={file}&classes=data{option}", tuple("abcd"))
        assert torch.equal(entry.module.fc.weight, expected.fc.weight)


def test_grey_networks_of_timm_say_their_own_mean(tmp_path: Path) -> None:
    network = timm.create_model("resnet18", pretrained=False, num_classes=4, in_chans=1)
    torch.save(network.state_dict(), tmp_path / "w.pt")
    text = f"timm:resnet18?checkpoint={tmp_path / 'w.pt'}&classes=data"
    with pytest.raises(UserError, match=r"configuration is for 3 channels, the network takes 1.*add \?preprocess"):
        opened(text, tuple("abcd"))
    entry = opened(f"{text}&mean=0.5&std=0.25&size=64", tuple("abcd"))
    assert entry.shape == (1, 64, 64)
    assert entry.module.eval()(entry.preprocess(torch.rand(2, 1, 64, 64))).shape == (2, 4)


TORCHVISION = [
    "resnet18",
    "mobilenet_v3_small",
    "squeezenet1_1",
    "shufflenet_v2_x0_5",
    "vit_b_32",
    "swin_t",
    "efficientnet_b0",
]


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_networks_see_what_torchvision_shows_them(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = models.get_model(name, weights=None, num_classes=6)
    torch.save({f"module.{key}": value for key, value in network.state_dict().items()}, tmp_path / "w.pth")
    entry = opened(f"torchvision:{name}?checkpoint={tmp_path / 'w.pth'}&classes=data", tuple("abcdef"))
    assert entry.classes == tuple("abcdef")
    agree(entry, network, models.get_model_weights(name).DEFAULT.transforms())


def test_every_preset_of_torchvision() -> None:
    names = models.list_models(module=models)
    for name in names:
        for preset in models.get_model_weights(name):
            how = hubs.torchvision_preprocess(preset.transforms())
            image = photographs(0)[0]
            assert (ours(how, image) - preset.transforms()(image)[None]).abs().max() < 1e-5, preset


def test_a_preset_can_be_named(tmp_path: Path) -> None:
    network = models.resnet50(num_classes=3)
    torch.save(network.state_dict(), tmp_path / "w.pth")
    text = f"torchvision:resnet50?checkpoint={tmp_path / 'w.pth'}&classes=data"
    assert opened(text, tuple("abc")).preprocess.resize == 232
    assert opened(f"{text}&preset=IMAGENET1K_V1", tuple("abc")).preprocess.resize == 256
    with pytest.raises(UserError, match=r"no preset 'V1'; it has IMAGENET1K_V1, IMAGENET1K_V2"):
        opened(f"{text}&preset=V1", tuple("abc"))


def test_torchvision_s_names_are_imagenet_s() -> None:
    assert checked(models.ResNet18_Weights.DEFAULT.meta["categories"], "x") == imagenet()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timm:resnet19?checkpoint=w.pt", "timm has no network 'resnet19'; did you mean 'resnet1"),
        ("timm:resnet18.nothing?checkpoint=w.pt", "could not be made"),
        ("timm:resnet34?checkpoint=w.pt&classes=data", r"lacks layer1\.2\.\S+.*another architecture"),
        ("timm:vit_tiny_patch16_224?checkpoint=w.pt&classes=data", r"lacks .* and has unexpected"),
        ("timm:resnet18?checkpoint=w.pt", r"does not say which classes"),
        ("timm:resnet18?checkpoint=w.pt&classes=imagenet", "7 outputs, ImageNet has 1000 classes"),
        ("timm:resnet18?checkpont=w.pt", "no option 'checkpont'; did you mean 'checkpoint'"),
        ("timm:hf-hub:a/b?checkpoint=w.pt", "brings its own weights"),
        ("torchvision:resnet17?checkpoint=w.pt", "torchvision has no classifier 'resnet17'; did you mean"),
        ("torchvision:fcn_resnet50?checkpoint=w.pt", "torchvision has no classifier"),
        ("torchvision:resnet34?checkpoint=w.pt&classes=data", r"lacks layer1\.2\.\S+"),
        ("torchvision:resnet18?checkpoint=w.pt&classes=data", "7 outputs, the data has 2 classes"),
    ],
)
def test_mistakes_are_named(text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(timm.create_model("resnet18", pretrained=False, num_classes=7).state_dict(), "w.pt")
    with pytest.raises(UserError, match=says):
        opened(text, ("a", "b"))


def refuse(*_: object, **__: object) -> None:
    raise OSError("the network is unreachable")


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.hub.download_url_to_file", refuse)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(
        UserError, match=r"unreachable.*download https://\S+resnet18\S+.*torchvision:resnet18\?checkpoint=FILE"
    ):
        opened("torchvision:resnet18")
    monkeypatch.setattr(timm, "create_model", refuse)
    says = r"unreachable.*model\.safetensors from huggingface\.co/timm/resnet18\.\S+ .*timm:resnet18\?checkpoint=FILE"
    with pytest.raises(UserError, match=says):
        opened("timm:resnet18")


def test_weights_that_were_downloaded_bring_imagenet_s_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    network = models.resnet18(weights=None)
    state = network.state_dict()
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *_, **__: state)
    entry = opened("torchvision:resnet18")
    assert entry.classes == imagenet()
    agree(entry, network, models.ResNet18_Weights.DEFAULT.transforms())
    made = timm.create_model("resnet18", pretrained=False)
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: made)
    assert opened("A=timm:resnet18").classes == imagenet()
