"""Probes: where a network's features are, what a head learns from them, and that a basket of heads opens safely."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.hooks import find_layer
from foible.data import Dataset
from foible.errors import UserError
from foible.networks import zoo
from foible.networks.features import Backbone
from foible.networks.files import load_folder
from foible.networks.heads import Features, Head, accuracy, drawn, fit
from foible.networks.probe import Probe, ProbeSource, ProbeSpec, parse
from foible.permission import Permission
from foible.recipes.train.train import train

CLASSES = ("left", "middle", "right")


def stripes(n: int, split: str = "train", size: int = 8) -> Dataset:
    """A bright column in one of three places, under noise."""
    generator = torch.Generator().manual_seed(n)
    images = torch.randint(0, 120, (n, 1, size, size), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 3, (n,), generator=generator)
    for place in range(3):
        images[labels == place, :, :, 1 + 2 * place] += 100
    return Dataset("stripes", split, images, labels, CLASSES)


DATA, TEST = stripes(200), stripes(80, "test")


@pytest.fixture
def basket(tmp_path: Path) -> Path:
    """A basket of one network, not much trained."""
    train("mlp:40", DATA, test=TEST, epochs=1, out=tmp_path / "one", quiet=True)
    return tmp_path / "one"


def edit(folder: Path, change: Any) -> None:
    record = json.loads((folder / "basket.json").read_text("utf-8"))
    change(record)
    (folder / "basket.json").write_text(json.dumps(record), "utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("probe:basket", ProbeSpec("basket")),
        ("probe:hf:./folder,hidden=128", ProbeSpec("hf:./folder", 128)),
        ("probe:new=b/mlp-10,features=logits,hidden=8", ProbeSpec("new=b/mlp-10", 8, True)),
        ("probe:net.py:f?mean=0.5,0.5&std=1,1", ProbeSpec("net.py:f?mean=0.5,0.5&std=1,1")),
        ("probe:resnet:20,width=8?weights=w.pt,hidden=8", ProbeSpec("resnet:20,width=8?weights=w.pt", 8)),
        ("probe:resnet:20,width=8", ProbeSpec("resnet:20,width=8")),
    ],
)
def test_a_spec_is_taken_apart(text: str, expected: ProbeSpec) -> None:
    assert parse(text) == expected
    assert parse(f"probe:{expected.backbone}{expected.tail}") == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("probe:", "names no backbone"),
        ("probe:b,hidden=0", "hidden=0"),
        ("probe:b,hidden=many", "hidden=many"),
        ("probe:b,features=pixels", "expected layer"),
        ("probe:b,hiden=8", "did you mean 'hidden'"),
        ("probe:b,hidden=8,hidden=9", "twice"),
    ],
)
def test_a_wrong_spec_is_answered(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse(text)


@pytest.mark.parametrize("spec", [family.example for family in zoo.FAMILIES.values()])
def test_the_zoo_shows_its_features(spec: str) -> None:
    network = zoo.build(spec, (1, 28, 28), 10).eval()
    images = torch.rand(3, 1, 28, 28)
    assert find_layer(network, images, "x") == "output"
    features = Backbone(network, "output")(images)
    assert torch.allclose(network.output(features), network(images))


class Wrapped(nn.Module):
    """As adapters do: the real network inside, and a part of what it gives."""

    def __init__(self, body: nn.Module, head: nn.Module, after: Any) -> None:
        super().__init__()
        self.head = head  # named first, called last
        self.body, self.after = body, after

    def forward(self, images: Tensor) -> Tensor:
        return self.after(self.head(self.body(images)))


def test_heads_of_other_kinds_are_found() -> None:
    images, body = torch.rand(4, 1, 6, 6), nn.Sequential(nn.Conv2d(1, 7, 3), nn.ReLU())  # 7 maps of 4×4
    pooled = Wrapped(body, nn.Conv2d(7, 5, 1), lambda x: x.mean((2, 3)))
    assert find_layer(pooled, images, "x") == "head"
    assert torch.allclose(Backbone(pooled, "head")(images), body(images).mean((2, 3)))
    whole = Wrapped(body, nn.Conv2d(7, 5, 4), lambda x: x.flatten(1))
    assert find_layer(whole, images, "x") == "head"
    assert torch.equal(Backbone(whole, "head")(images), body(images).flatten(1))
    tokens = Wrapped(nn.Sequential(body, nn.Flatten(2)), nn.Linear(16, 5), lambda x: x.mean(1))
    assert find_layer(tokens, images, "x") == "head"
    assert torch.allclose(Backbone(tokens, "head")(images), body(images).flatten(2).mean(1))
    scaled = Wrapped(nn.Flatten(), nn.Linear(36, 5), lambda x: 3 * x)
    assert find_layer(scaled, images, "x") == "head"


def test_what_shows_no_features_is_said() -> None:
    images = torch.rand(2, 1, 6, 6)
    assert find_layer(lambda given: given.flatten(1)[:, :3], images, "x") is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.trace(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), images)
    assert find_layer(script, images, "x") is None
    chosen = Wrapped(nn.Flatten(), nn.Linear(36, 9), lambda x: x[:, :3])
    with pytest.raises(UserError, match=r"network 'x'.*,features=logits"):
        find_layer(chosen, images, "network 'x'")
    assert torch.equal(Backbone(chosen, None)(images), chosen(images))


def test_probes_of_one_backbone_share_it_and_its_work() -> None:
    calls: list[int] = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.output = nn.Linear(4, 3)

        def forward(self, images: Tensor) -> Tensor:
            calls.append(len(images))
            return self.output(images.flatten(1))

    backbone = Backbone(Counting(), "output")
    source = ProbeSource("s", "", "output", 4, None)
    first, second = (Probe(backbone, Head(4, 3), source).requires_grad_(False) for _ in range(2))
    images = torch.rand(5, 1, 2, 2)
    with torch.no_grad():
        first(images), second(images)
        assert calls == [5]
        images[0] = 0  # the same tensor, other images
        assert torch.equal(backbone(images), images.flatten(1))
        assert torch.equal(backbone(images.clone()), images.flatten(1))
    assert len(calls) == 3
    copies = copy.deepcopy([first, second])
    assert copies[0].backbone is copies[1].backbone is not backbone
    assert torch.equal(copies[1](images), second(images))
    images.requires_grad_()
    (first(images).sum() + second(images).sum()).backward()  # a graph each
    assert images.grad is not None
    assert images.grad.abs().sum() > 0


def test_a_copy_catches_its_own_features() -> None:
    backbone = Backbone(zoo.build("mlp:6", (1, 4, 4), 3), "output")
    images = torch.rand(4, 1, 4, 4)
    for again in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        with torch.no_grad():
            again.network.hidden1.weight.zero_()
            again.network.hidden1.bias.fill_(2.0)
            assert torch.equal(again(images), torch.full((4, 6), 2.0))
            assert not torch.equal(backbone(images), again(images))


def test_threads_do_not_mix_features() -> None:
    backbone = Backbone(zoo.build("mlp:64", (1, 8, 8), 3), "output")
    wrong: list[int] = []

    def look(number: int) -> None:
        images = torch.full((16, 1, 8, 8), number / 10)
        with torch.no_grad():
            expected = backbone._features(images)
            for _ in range(200):
                if not torch.equal(backbone(images.clone()), expected):
                    wrong.append(number)

    threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def cloud(n: int, d: int, seed: int = 0, spread: float = 1.0) -> Features:
    """Three classes around three means, features on very different scales."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    means = 2 * torch.randn(3, d, generator=torch.Generator().manual_seed(7))
    values = means[labels] + spread * torch.randn(n, d, generator=generator)
    return Features(values * torch.logspace(-2, 2, d) + 5, labels)


def test_a_linear_head_is_logistic_regression() -> None:
    seen, decay = cloud(150, 6, spread=3.0), 0.01
    head, record = fit(seen, 3, weight_decay=decay)
    assert record["stopped_because"] == "converged"
    values = seen.values.numpy().astype(np.float64)
    standard = (values - values.mean(0)) / values.std(0)
    known = LogisticRegression(C=1 / (decay * len(values)), tol=1e-10, max_iter=10_000).fit(standard, seen.labels)
    ours = head(seen.values).softmax(1).numpy()
    assert np.abs(ours - known.predict_proba(standard)).max() < 1e-3
    assert 0.5 < accuracy(head, seen) < 1


@pytest.mark.parametrize("hidden", [0, 16])
def test_features_that_separate_are_learnt_whole(hidden: int) -> None:
    seen = cloud(300, 24, spread=0.1)
    for seed in (0, 1):
        head, _ = fit(seen, 3, hidden, seed, epochs=100)
        assert accuracy(head, cloud(300, 24, seed=1, spread=0.1)) == 1.0


def test_a_feature_that_does_not_vary_is_left_out() -> None:
    seen = cloud(60, 5)
    seen.values[:, 2] = 1e4
    head, _ = fit(seen, 3)
    assert head.scale[2] == 0
    assert head(seen.values).isfinite().all()


@pytest.mark.parametrize("hidden", [0, 8])
def test_seeds_differ_in_what_they_are_given(hidden: int) -> None:
    seen = cloud(90, 64)
    rows, columns = drawn(seen, hidden, 0)
    assert rows.tolist() == list(range(90))
    assert columns.all()
    given = [drawn(seen, hidden, seed) for seed in (1, 2)]
    for rows, columns in given:
        assert columns.sum() == 32
        assert seen.labels[rows].bincount().tolist() == [30, 30, 30]
        assert 40 < len(rows.unique()) < 70  # about 1 - 1/e of them
    assert not torch.equal(given[0][1], given[1][1])
    heads = [fit(seen, 3, hidden, seed, epochs=60)[0] for seed in (0, 1, 2, 1)]
    answers = [head(seen.values) for head in heads]
    assert torch.equal(answers[1], answers[3])  # a seed is a function
    assert min((answers[i] - answers[j]).abs().max().item() for i, j in ((0, 1), (0, 2), (1, 2))) > 0.01
    assert ((heads[1].scale == 0) == ~given[0][1]).all()


def test_few_features_are_given_whole() -> None:
    assert drawn(cloud(30, 10), 0, 1)[1].all()


def test_a_basket_of_probes_holds_heads_alone(basket: Path, tmp_path: Path) -> None:
    made = train(
        [f"probe:{basket}", f"probe:{basket},hidden=12"], DATA, test=TEST, seeds=2, out=tmp_path / "p", quiet=True
    )
    assert [one.name for one in made] == [
        "probe-mlp-40-s0",
        "probe-mlp-40-s1",
        "probe-mlp-40-12-s0",
        "probe-mlp-40-12-s1",
    ]
    with safe_open(tmp_path / "p" / "probe-mlp-40-s0.safetensors", "pt") as file:
        assert sorted(file.keys()) == ["input.bias", "input.weight", "mean", "scale"]
    loaded = load_folder(tmp_path / "p")
    assert len({id(one.module.backbone) for one in loaded}) == 1
    images = TEST.floats()
    for one, again in zip(made, loaded, strict=True):
        assert torch.equal(one.module(images), again.module(images))
        assert again.accuracy == one.accuracy
        right = again.module(again.preprocess(images)).argmax(1) == TEST.labels
        assert right.float().mean().item() == pytest.approx(again.accuracy["test"])
        assert (again.classes, again.shape) == (CLASSES, (1, 8, 8))
        assert again.spec.startswith(f"probe:{basket.resolve()}/mlp-40")
    assert made[0].training["features"] == 40
    assert [one.training["features_given"] for one in made] == [40, 20, 40, 20]


def test_a_basket_judges_with_probes_beside_their_network(basket: Path, tmp_path: Path) -> None:
    train(f"probe:{basket}", DATA, test=TEST, seeds=2, out=tmp_path / "p", quiet=True)
    opened = Basket.open([str(basket), str(tmp_path / "p")])
    assert opened.names == ("mlp-40", "probe-mlp-40-s0", "probe-mlp-40-s1")
    first, second = (opened.network(name) for name in opened.names[1:])
    assert isinstance(first, Probe)
    assert isinstance(second, Probe)
    assert first.backbone is second.backbone
    assert len(set(opened.fingerprints.values())) == 3
    answers = opened.predict(TEST.images)
    for entry, logits in zip(load_folder(tmp_path / "p"), answers[1:], strict=True):
        assert (logits.argmax(1) == TEST.labels).float().mean().item() == pytest.approx(entry.accuracy["test"])


def test_a_transformers_network_is_a_backbone(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4,
        num_channels=3, id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "vit")
    coloured = [Dataset(d.name, d.split, d.images.expand(-1, 3, -1, -1), d.labels, CLASSES) for d in (DATA, TEST)]
    [made] = train(f"probe:hf:{tmp_path / 'vit'}", coloured[0], test=coloured[1], out=tmp_path / "p", quiet=True)
    assert (made.training["features"], made.shape, made.classes) == (32, (3, 16, 16), CLASSES)
    assert made.preprocess.mean == (0.5, 0.5, 0.5)
    assert made.module.source.layer == "inner.classifier"
    assert made.accuracy["test"] > 0.9  # of three classes that it has never heard of
    [again] = load_folder(tmp_path / "p")
    images = torch.rand(2, 3, 16, 16)
    assert torch.equal(again.module(images), made.module(images))


def test_a_backbone_that_changed_or_is_gone_is_named(basket: Path, tmp_path: Path) -> None:
    train(f"probe:{basket}", DATA, test=TEST, out=tmp_path / "p", quiet=True)
    basket.rename(tmp_path / "away")
    with pytest.raises(UserError, match=r"'probe-mlp-40': cannot open the backbone"):
        load_folder(tmp_path / "p")
    train("mlp:40", DATA, test=TEST, epochs=2, out=basket, quiet=True)
    with pytest.raises(UserError, match="not the one that the probe was trained on"):
        load_folder(tmp_path / "p")


CODE = """
from pathlib import Path
from torch import nn
import torch
Path({mark!r}).touch()
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 3))
def plain():
    return lambda images: images.mean(2).flatten(1)
"""


def test_code_as_a_backbone_runs_only_when_trusted(tmp_path: Path) -> None:
    mark, file = tmp_path / "ran", tmp_path / "net.py"
    file.write_text(CODE.format(mark=str(mark)), "utf-8")
    spec = f"probe:{file}:network?preprocess=inside&classes=data"
    kwargs: dict[str, Any] = {"test": TEST, "out": tmp_path / "p", "quiet": True}
    train(spec, DATA, **kwargs)  # the user named it
    [again] = train(spec, DATA, **kwargs)  # and names it again: opened without more trust
    assert again.accuracy["test"] > 0.9
    mark.unlink()
    with pytest.raises(UserError, match=r"code.*--trust"):
        load_folder(tmp_path / "p")
    assert not mark.exists()
    [trusted] = load_folder(tmp_path / "p", may=Permission(trust=True))
    assert torch.equal(trusted.module(TEST.floats()), again.module(TEST.floats()))
    assert mark.exists()


def test_a_plain_function_is_probed_on_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.py"
    file.write_text(CODE.format(mark=str(tmp_path / "ran")), "utf-8")
    spec = f"probe:{file}:plain?preprocess=inside&classes=data"
    [made] = train(spec, DATA, test=TEST, out=tmp_path / "p")
    assert "8 features, its answers, no layer being known" in capsys.readouterr().err
    assert made.accuracy["test"] == 1.0
    [again] = load_folder(tmp_path / "p", may=Permission(trust=True))
    assert torch.equal(again.module(TEST.floats()), made.module(TEST.floats()))


def test_which_network_of_a_basket(tmp_path: Path) -> None:
    train(["mlp:9", "mlp:20"], DATA, test=TEST, epochs=1, out=tmp_path / "two", quiet=True)
    with pytest.raises(UserError, match=r"holds 2 networks.*mlp-9"):
        train(f"probe:{tmp_path / 'two'}", DATA, test=TEST, quiet=True)
    [made] = train(f"probe:new={tmp_path / 'two' / 'mlp-20'}", DATA, test=TEST, out=tmp_path / "p", quiet=True)
    assert (made.name, made.training["features"]) == ("probe-new", 20)
    assert load_folder(tmp_path / "p")[0].module.source.features == 20
    with pytest.raises(UserError, match="0 networks called 'mlp-7'"):
        train(f"probe:{tmp_path / 'two' / 'mlp-7'}", DATA, test=TEST, quiet=True)
    with pytest.raises(UserError, match="is a probe itself"):
        train(f"probe:{tmp_path / 'p'}", DATA, test=TEST, quiet=True)


def test_a_basket_that_names_itself_ends(basket: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    train(f"probe:{basket}", DATA, test=TEST, out=folder, quiet=True)
    edit(folder, lambda record: record["networks"][0]["backbone"].update(spec=str(folder / "probe-mlp-40")))
    with pytest.raises(UserError, match="is a probe itself"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"features": 39}, "shape"),
        ({"features": True}, "has True at features, expected a whole number"),
        ({"features": 0}, "has 0 at features"),
        ({"layer": "nowhere"}, "no layer 'nowhere'"),
        ({"layer": 3}, "has 3 at layer, expected nothing or text"),
        ({"shape": [1, 8]}, r"has \[1, 8\] at shape, expected nothing or \[channels"),
        ({"more": 1}, "more, expected spec, sha256"),
    ],
)
def test_a_damaged_record_is_named(change: dict[str, Any], says: str, basket: Path, tmp_path: Path) -> None:
    train(f"probe:{basket}", DATA, test=TEST, out=tmp_path / "p", quiet=True)
    edit(tmp_path / "p", lambda record: record["networks"][0]["backbone"].update(change))
    with pytest.raises(UserError, match=says):
        load_folder(tmp_path / "p")
