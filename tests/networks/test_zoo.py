"""The zoo: every family builds for its shapes, and wrong specs are answered in words."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.zoo.layers import Dropout
from foible.recipes.train.config import RECIPES

EXAMPLES = [family.example for family in zoo.FAMILIES.values()]


@pytest.mark.parametrize("spec", EXAMPLES)
@pytest.mark.parametrize(("shape", "classes"), [((1, 28, 28), 10), ((3, 28, 42), 3)])
def test_every_family_gives_logits_and_gradients(spec: str, shape: tuple[int, int, int], classes: int) -> None:
    network = zoo.build(spec, shape, classes)
    outputs = network(torch.rand(4, *shape))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)  # auxiliary classifiers, while it is trained
    assert all(logits.shape == (4, classes) for logits in outputs)
    sum(logits.square().sum() for logits in outputs).backward()
    for name, weight in network.named_parameters():
        if weight.requires_grad:
            assert weight.grad is not None, name
            assert weight.grad.abs().sum() > 0 or name == "class_token", name


@pytest.mark.parametrize("spec", EXAMPLES)
def test_a_network_that_takes_its_weights_from_a_file_draws_none(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("drawing on the meta device loads torch's compiler, which takes seconds")

    monkeypatch.setattr(torch.Tensor, "normal_", drawn)
    with torch.device("meta"):
        zoo.build(spec, (1, 28, 28), 10)


def test_every_family_has_a_recipe() -> None:
    assert list(RECIPES) == list(zoo.FAMILIES)


def parameters(spec: str, shape: tuple[int, int, int] = (1, 28, 28)) -> int:
    return sum(weight.numel() for weight in zoo.build(spec, shape, 10).parameters())


def test_sizes_are_those_of_the_papers() -> None:
    assert parameters("softmax") == 784 * 10 + 10
    assert parameters("mlp:10") == 784 * 10 + 10 + 10 * 10 + 10
    assert parameters("mlp4") == 784 * 500 + 500 + 500 * 500 + 500 + 500 * 10 + 10
    assert parameters("ae:400") == 784 * 400 + 400 + 400 * 10 + 10
    assert parameters("lenet", (1, 28, 28)) == 61_706  # LeNet-5's well-known count
    assert parameters("lenet-caffe") == 20 * 26 + 50 * (20 * 25 + 1) + 500 * 801 + 10 * 501  # Caffe's 431,080
    assert parameters("resnet:20", (3, 32, 32)) == 269_722  # He et al.: 0.27 M
    assert parameters("resnet:32", (3, 32, 32)) == 464_154  # 0.46 M


def test_layers_are_those_of_the_papers() -> None:
    sigmoid = zoo.build("mlp:100-50,sigmoid", (1, 28, 28), 10)
    assert [type(layer) for layer in sigmoid] == [
        nn.Flatten, nn.Linear, nn.Sigmoid, nn.Linear, nn.Sigmoid, nn.Linear
    ]  # fmt: skip
    cnn = zoo.build("cnn4", (1, 28, 28), 10)
    kinds = [type(layer) for layer in cnn.modules()]
    assert (kinds.count(nn.Conv2d), kinds.count(nn.Linear), kinds.count(nn.BatchNorm2d)) == (4, 3, 4)
    assert [layer.p for layer in cnn.modules() if isinstance(layer, Dropout)] == [0.4]
    caffe = zoo.build("lenet-caffe", (1, 28, 28), 10)
    assert [name for name, _ in caffe.named_children()] == [
        "conv1", "pool1", "conv2", "pool2", "flatten", "hidden", "relu", "output"
    ]  # fmt: skip
    assert float(caffe.conv2.weight.detach().std()) == pytest.approx((20 * 25) ** -0.5, rel=0.05)  # "xavier"
    vit = zoo.build("vit4", (1, 28, 28), 10)
    assert len(vit.blocks) == 6
    assert {(block.heads, block.hidden.out_features) for block in vit.blocks} == {(8, 128)}


def test_the_autoencoder_is_frozen_below_its_classifier() -> None:
    network = zoo.build("ae:20", (1, 28, 28), 10)
    assert {name for name, weight in network.named_parameters() if weight.requires_grad} == {
        "output.weight",
        "output.bias",
    }
    assert zoo.autoencoder_for("mlp:20", (1, 28, 28)) is None


def test_attention_agrees_with_pytorch() -> None:
    block = zoo.build("vit4", (1, 28, 28), 10).blocks[0]
    reference = nn.MultiheadAttention(64, 8, batch_first=True)
    with torch.no_grad():
        reference.in_proj_weight.copy_(block.mixed.weight)
        reference.in_proj_bias.copy_(block.mixed.bias)
        reference.out_proj.load_state_dict(block.joined.state_dict())
        tokens = torch.randn(2, 5, 64)
        expected, _ = reference(tokens, tokens, tokens, need_weights=False)
        assert torch.allclose(block.attend(tokens), expected, atol=1e-5)


def test_names_are_file_names() -> None:
    assert zoo.name_of("mlp:10") == "mlp-10"
    assert zoo.name_of("mlp:100-100,sigmoid") == "mlp-100-100-sigmoid"
    assert zoo.name_of("resnet:20,width=8") == "resnet-20-width-8"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mpl:10", "did you mean 'mlp'"),
        ("", "unknown network"),
        ("MLP:10", "unknown network"),
        ("mlp", "not a number of units"),
        ("mlp:", "not a number of units"),
        ("mlp:0", "expected 1 to"),
        ("mlp:-5", "not a number of units"),
        ("mlp:10-", "not a number of units"),
        ("mlp:99999999", "expected 1 to"),
        ("mlp:٣", "not a number of units"),
        ("mlp:10,sigmod", "did you mean 'sigmoid'"),
        ("mlp:10?x=1", "not a number of units"),
        ("mlp:" + "-".join(["2"] * 65), "at most 64"),
        ("softmax:3", "takes nothing after its name"),
        ("ae", "not a number of units"),
        ("resnet:21", "6n+2"),
        ("resnet:60002", "6n+2"),
        ("resnet:20,wide=8", "width=N"),
        ("inception:wide=8", "width=N and modules=N"),
        ("vit4:patch=5", "do not divide"),
        ("vit4:7", "patch=N and width=N"),
    ],
)
def test_wrong_specs_are_answered(spec: str, says: str) -> None:
    with pytest.raises(UserError, match=says.replace("+", r"\+")):
        zoo.build(spec, (1, 28, 28), 10)


def test_images_that_are_too_small_and_too_few_classes() -> None:
    with pytest.raises(UserError, match=r"too small for 'lenet'.*12×12"):
        zoo.build("lenet", (1, 11, 28), 10)
    for name, family in zoo.FAMILIES.items():
        if name != "vit4":
            size = family.smallest
            assert zoo.build(family.example, (1, size, size), 2).eval()(torch.rand(2, 1, size, size)).shape == (2, 2)
    with pytest.raises(UserError, match="at least 2"):
        zoo.build("softmax", (1, 8, 8), 1)
