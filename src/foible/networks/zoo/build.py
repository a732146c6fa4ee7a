"""The papers' networks, built from short specs: `mlp:30`, `mlp:100-100,sigmoid`, `resnet:20,width=8`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from foible.errors import UserError
from foible.networks.zoo import alexnet, convolutional, dense
from foible.networks.zoo.inception import FORMS, Inception
from foible.networks.zoo.resnet import ResNet
from foible.networks.zoo.vit import HEADS, ViT
from foible.text import did_you_mean

Shape = tuple[int, int, int]
MOST_UNITS = 100_000  # in one layer; a spec may come from a file that somebody else wrote


@dataclass(frozen=True)
class Family:
    """One kind of network. `make(arguments, shape, classes)` gets what stands after the colon."""

    make: Callable[[str, Shape, int], nn.Module]
    example: str
    about: str
    normalise: bool = True  # train on pixels minus their mean, by their standard deviation; else on [0, 1]
    smallest: int = 1  # height and width must be at least this


def build(spec: str, shape: Shape, classes: int) -> nn.Module:
    """A network with fresh weights (from PyTorch's generator) that maps preprocessed images (n, *shape) to
    logits (n, classes)."""
    family, arguments = _parse(spec)
    if len(shape) != 3 or min(shape) < 1:
        raise UserError(f"images of shape {tuple(shape)}: expected (channels, height, width), all at least 1")
    if classes < 2:
        raise UserError(f"{classes} classes for network {spec!r}: expected at least 2")
    if min(shape[1:]) < family.smallest:
        raise UserError(
            f"images of {shape[1]}×{shape[2]} pixels are too small for {spec!r}: "
            f"it needs at least {family.smallest}×{family.smallest}; take another network or larger images"
        )
    return family.make(arguments, shape, classes)


def family_of(spec: str) -> Family:
    return _parse(spec)[0]


def name_of(spec: str) -> str:
    """A short name that is also a file name: `mlp:100-100,sigmoid` is `mlp-100-100-sigmoid`."""
    _parse(spec)
    return re.sub(r"[^a-z0-9]+", "-", spec).strip("-")


def autoencoder_for(spec: str, shape: Shape) -> dense.Autoencoder | None:
    """What the network of `spec` learns before its classifier, or None: only `ae` has such a phase."""
    name, _, arguments = spec.partition(":")
    return dense.Autoencoder(shape, _units(spec, arguments)) if name == "ae" else None


def _parse(spec: str) -> tuple[Family, str]:
    name, _, arguments = spec.partition(":")
    if name not in FAMILIES:
        examples = ", ".join(family.example for family in FAMILIES.values())
        raise UserError(f"unknown network {spec!r}{did_you_mean(name, FAMILIES)}; the zoo has {examples}")
    return FAMILIES[name], arguments


def _units(spec: str, text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text) or int(text) > MOST_UNITS:
        raise UserError(
            f"{text!r} in network {spec!r} is not a number of units: "
            f"expected 1 to {MOST_UNITS}, as in {family_of(spec).example!r}"
        )
    return int(text)


def _plain(name: str, make: Callable[[Shape, int], nn.Module]) -> Callable[[str, Shape, int], nn.Module]:
    def checked(arguments: str, shape: Shape, classes: int) -> nn.Module:
        if arguments:
            raise UserError(f"network '{name}:{arguments}': {name!r} takes nothing after its name")
        return make(shape, classes)

    return checked


def _mlp(arguments: str, shape: Shape, classes: int) -> nn.Module:
    activations: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid}
    widths, comma, name = arguments.partition(",")
    if comma and name not in activations:
        raise UserError(
            f"unknown activation {name!r} in network 'mlp:{arguments}'{did_you_mean(name, activations)}; "
            "it is relu (the default) or sigmoid"
        )
    numbers = [_units(f"mlp:{arguments}", width) for width in widths.split("-")]
    if len(numbers) > 64:
        raise UserError(f"network 'mlp:{arguments[:40]}…' has {len(numbers)} hidden layers: at most 64")
    return dense.mlp(shape, classes, numbers, activations[name or "relu"])


def _ae(arguments: str, shape: Shape, classes: int) -> nn.Module:
    return dense.autoencoder_softmax(shape, classes, _units(f"ae:{arguments}", arguments))


def _resnet(arguments: str, shape: Shape, classes: int) -> nn.Module:
    spec = f"resnet:{arguments}"
    depth, *options = arguments.split(",")
    layers = _units(spec, depth)
    if layers % 6 != 2 or not 8 <= layers <= 1202:
        raise UserError(f"{layers} layers in network {spec!r}: a CIFAR ResNet has 6n+2, as 8, 14, 20, 32, 44, 56, 110")
    return ResNet(shape, classes, layers, _numbers(spec, options, {"width": 16})["width"])


def _inception(arguments: str, shape: Shape, classes: int) -> nn.Module:
    spec = f"inception:{arguments}"
    given = _numbers(spec, arguments.split(",") if arguments else [], {"width": 16, "modules": 9})
    if given["modules"] not in FORMS:
        raise UserError(f"{given['modules']} modules in network {spec!r}: expected 9, as GoogLeNet has, 6 or 3")
    return Inception(shape, classes, **given)


def _alexnet(arguments: str, shape: Shape, classes: int) -> nn.Module:
    spec = f"alexnet:{arguments}"
    given = _numbers(spec, arguments.split(",") if arguments else [], {"width": 96, "groups": 1})
    if given["groups"] not in (1, 2):
        raise UserError(f"{given['groups']} groups in network {spec!r}: expected 1, or 2 as on AlexNet's two GPUs")
    if given["width"] % 12:
        raise UserError(f"width {given['width']} in network {spec!r}: expected a multiple of 12, such as 24, 48 or 96")
    return alexnet.alexnet(shape, classes, **given)


def _numbers(spec: str, options: list[str], defaults: dict[str, int]) -> dict[str, int]:
    """`width=8` and the like, where `spec` takes them."""
    numbers = dict(defaults)
    for option in options:
        key, _, value = option.partition("=")
        if key not in defaults:
            takes, example = " and ".join(f"{name}=N" for name in defaults), family_of(spec).example
            raise UserError(f"unknown option {option!r} in network {spec!r}: it takes {takes}, as {example}")
        numbers[key] = _units(spec, value)
    return numbers


def _vit4(arguments: str, shape: Shape, classes: int) -> nn.Module:
    spec = f"vit4:{arguments}"
    numbers = _numbers(spec, arguments.split(",") if arguments else [], {"patch": 4, "width": 64})
    patch, width = numbers["patch"], numbers["width"]
    if shape[1] % patch or shape[2] % patch:
        raise UserError(
            f"patches of {patch} do not divide images of {shape[1]}×{shape[2]}: "
            f"give vit4:patch=N with an N that divides both"
        )
    if width % HEADS:
        raise UserError(f"{spec!r} has {width} numbers a token and {HEADS} heads: give a width that {HEADS} divides")
    return ViT(shape, classes, patch, width)


FAMILIES: dict[str, Family] = {
    "softmax": Family(_plain("softmax", dense.softmax), "softmax", "one linear layer (paper 3)", normalise=False),
    "mlp": Family(_mlp, "mlp:100-100,sigmoid", "hidden layers of any widths (papers 1, 3)", normalise=False),
    "ae": Family(_ae, "ae:400", "softmax on a frozen sparse autoencoder (paper 3)", normalise=False),
    "conv": Family(_plain("conv", convolutional.conv), "conv", "one convolution, dropout (paper 3)", smallest=6),
    "lenet": Family(_plain("lenet", convolutional.lenet), "lenet", "LeNet-5", smallest=12),
    "lenet-caffe": Family(
        _plain("lenet-caffe", convolutional.lenet_caffe),
        "lenet-caffe",
        "Caffe's LeNet (paper 5)",
        normalise=False,
        smallest=16,
    ),
    "mlp4": Family(
        _plain("mlp4", lambda shape, classes: dense.mlp(shape, classes, (500, 500))),
        "mlp4",
        "the MLP of paper 4: 500-500",
    ),
    "cnn4": Family(_plain("cnn4", convolutional.cnn4), "cnn4", "the CNN of paper 4", smallest=4),
    "vit4": Family(_vit4, "vit4:patch=7,width=128", "the vision transformer of paper 4"),
    "resnet": Family(_resnet, "resnet:20,width=8", "CIFAR ResNet of 6n+2 layers (He et al.)", smallest=8),
    "inception": Family(_inception, "inception:width=8", "GoogLeNet's form, with its auxiliary heads", smallest=16),
    "alexnet": Family(
        _alexnet, "alexnet:width=24,groups=2", "the AlexNet of 2012 (paper 3, Table 5)", smallest=alexnet.SMALLEST
    ),
}
