"""Networks that hide their gradient: each is told by its word, and distorted all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import linear_task
from torch import Tensor, nn

import foible
from foible import Basket, Findings, UserError
from foible.cli.distort import print_distortions
from foible.data import Dataset
from foible.images import to_floats
from foible.recipes.distort.gradients import look
from foible.recipes.distort.masking import WORDS
from foible.recipes.distort.summary import summarise_distortions
from foible.recipes.replay import replay
from foible.report import write_report
from foible.search.nearest import Nearest, reached
from foible.search.nearest.methods import METHODS
from foible.testing import SHAPE, linear_network

NAMES = ("0", "1", "2")
Forward = Callable[[nn.Module, Tensor], Tensor]


class Around(nn.Module):
    """A linear network, and what is made of it."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.inner, self.made = linear_network(0), forward

    def forward(self, images: Tensor) -> Tensor:
        return self.made(self.inner, images)


def plain(inner: nn.Module, images: Tensor) -> Tensor:
    logits: Tensor = inner(images)
    return logits


def saturated(inner: nn.Module, images: Tensor) -> Tensor:
    return (plain(inner, images) / 0.01).softmax(1)


def by_hand(inner: nn.Module, images: Tensor) -> Tensor:
    """The same, in a way that nobody recognises."""
    high = plain(inner, images) / 0.01
    powers = (high - high.amax(1, keepdim=True)).exp()
    return powers / powers.sum(1, keepdim=True)


def noisy(inner: nn.Module, images: Tensor) -> Tensor:
    return plain(inner, images + 0.1 * torch.randn_like(images))


def stepped(inner: nn.Module, images: Tensor) -> Tensor:
    return plain(inner, (images * 8).round() / 8)


def almost_stepped(inner: nn.Module, images: Tensor) -> Tensor:
    """It has a slope, which says nothing of what happens."""
    return plain(inner, (images * 8).round() / 8 + 1e-3 * images)


def half_flat(inner: nn.Module, images: Tensor) -> Tensor:
    """A slope where the answer is 0, and nowhere else."""
    logits = plain(inner, images)
    return torch.where((logits.argmax(1) == 0)[:, None], logits, logits.detach())


def frozen(images: Tensor) -> Tensor:
    with torch.no_grad():
        return plain(linear_network(0), images)


def basket_of(network: Any) -> Basket:
    network = network if isinstance(network, nn.Module) or network is frozen else Around(network)
    return Basket({"A": network}, classes=NAMES, preprocess="inside", shape=SHAPE)


def distorted(basket: Any, data: Any, **options: Any) -> Findings:
    return foible.distort(basket, data, **{"split": "train", "images": 4, "quiet": True, **options})


def masking(findings: Findings) -> list[str]:
    [row] = summarise_distortions(findings)
    return [one["kind"] for one in row.get("masking", ())]


def mean(findings: Findings) -> float:
    return float(sum(findings.column("distance"))) / len(findings)


@pytest.fixture(scope="module")
def known(data: Dataset) -> Findings:
    """What the network comes to that hides nothing."""
    found = distorted(basket_of(plain), data)
    assert masking(found) == []
    assert found.column("method") == [None] * 4
    return found


def test_a_saturated_softmax_is_looked_behind(known: Findings, data: Dataset) -> None:
    found = distorted(basket_of(saturated), data)
    assert masking(found) == ["saturated"]
    assert set(found.column("outcome")) == {"found"}
    assert found.column("distance") == pytest.approx(known.column("distance"), rel=1e-3)
    assert found.column("method") == [None] * 4, "by the ordinary method"
    layer = nn.Sequential(linear_network(0), nn.Softmax(1))
    layer[0][1].weight.data *= 100  # type: ignore[index]
    layer[0][1].bias.data *= 100  # type: ignore[index]
    assert mean(distorted(basket_of(layer), data)) == pytest.approx(mean(known), rel=1e-3)


def test_scaled_logits_hide_nothing(known: Findings, data: Dataset) -> None:
    found = distorted(basket_of(lambda inner, images: plain(inner, images) / 0.01), data)
    assert masking(found) == []
    assert found.column("distance") == pytest.approx(known.column("distance"), rel=1e-3)


@pytest.mark.parametrize(
    ("network", "kind"),
    [(by_hand, "no gradient"), (stepped, "no gradient"), (frozen, "no gradient"), (almost_stepped, "shattered"),
     (half_flat, "flat")],
)  # fmt: skip
def test_where_no_gradient_leads_answers_do(network: Any, kind: str, known: Findings, data: Dataset) -> None:
    found = distorted(basket_of(network), data)
    assert masking(found) == [kind]
    assert set(found.column("outcome")) == {"found"}
    assert mean(found) < 1.5 * mean(known)
    if kind == "no gradient":
        assert found.column("method") == ["decision"] * 4
        assert sum(found.column("backwards")) == 0
        assert all(row["said"] == row["target"] != row["truth"] for row in found), "its label is what it then says"


@pytest.mark.parametrize(
    "options",
    [{"target": "next"}, {"target": "each", "images": 2}, {"norm": "linf"}, {"unlabelled": True},
     {"target": "any", "method": "decision?queries=500"}],
)  # fmt: skip
def test_answers_alone_serve_every_question(options: dict[str, Any], data: Dataset) -> None:
    basket = basket_of(frozen)
    found = distorted(basket, data, **options)
    assert set(found.column("outcome")) == {"found"}
    image = to_floats(torch.stack(found.images()))
    aims = [row["truth"] if row["truth"] is not None else row["consensus"] for row in found]
    targets = None if found[0]["target"] is None else torch.tensor(found.column("target"))
    assert bool(reached(basket.judge(image)[0], torch.tensor(aims), targets).all())


def test_an_onnx_graph(known: Findings, data: Dataset, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    layer, helper, kind = linear_network(0)[1], onnx.helper, onnx.TensorProto.FLOAT  # type: ignore[index]
    weights = {"w": layer.weight.detach().t().contiguous().numpy(), "b": layer.bias.detach().numpy()}
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["product"]),
         helper.make_node("Add", ["product", "b"], ["logits"])],
        "g", [helper.make_tensor_value_info("x", kind, ["n", *SHAPE])],
        [helper.make_tensor_value_info("logits", kind, ["n", 3])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    spec = f"onnx:{tmp_path / 'net.onnx'}?preprocess=inside&classes=data"
    found = distorted([spec], data)
    assert masking(found) == ["no gradient"]
    assert set(found.column("outcome")) == {"found"}
    assert set(found.column("method")) == {"decision"}
    assert mean(found) < 1.5 * mean(known)
    with pytest.raises(
        UserError, match="is an ONNX graph; the method 'lbfgs' follows gradients: leave it out, or take"
    ):
        distorted([spec], data, method="lbfgs")


def test_a_stochastic_layer(data: Dataset) -> None:
    torch.manual_seed(0)
    basket = basket_of(noisy)
    found = distorted(basket, data, images=8)
    assert masking(found) == ["stochastic"]
    assert set(found.column("outcome")) <= {"found", "unsettled"}
    held = found.filter(outcome="found")
    assert len(held) > 2
    image, truth = to_floats(torch.stack(held.images())), torch.tensor(held.column("truth"))
    again = torch.stack([basket.judge(image)[0].argmax(1) != truth for _ in range(20)])
    assert float(again.double().mean()) > 0.8, "what only chance made is not claimed"
    [seen] = look(basket, "A", to_floats(data.images[:16]))
    assert 0 < seen.figures["largest change of a probability"] <= 1


def test_what_the_method_does_not_find_goes_on(known: Findings, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(model: Any, images: Tensor, labels: Tensor, *, only: int = 0, **more: Any) -> Nearest:
        """Finds nothing for most images."""
        made = closest(model, images, labels, **more)
        return Nearest(made.images, made.found & (labels == only), made.invalid, made.forwards, made.backwards)

    closest = METHODS["closest"]
    monkeypatch.setitem(METHODS, "closest", odd)
    found = distorted(basket_of(plain), data, target="any")
    assert set(found.column("outcome")) == {"found"}
    by = {row["truth"] == 0: row["method"] for row in found}
    assert by == {True: None, False: "decision"}
    assert mean(found) < 1.4 * mean(known)
    asked = distorted(basket_of(plain), data, target="any", method="closest?only=0")
    assert asked.column("outcome").count("exhausted") == sum(row["truth"] != 0 for row in found), "what was asked for"


def test_a_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    basket, out = basket_of(stepped), tmp_path / "run"
    distorted(basket, linear_task(tmp_path).data, out=out, quiet=False, target="any")
    told = "network 'A' has no slope on any of 16 images: its own forward (Around) passes no gradient on"
    assert told in capsys.readouterr().err
    assert any(told in note for note in json.loads((out / "config.json").read_text("utf-8"))["notes"])
    assert masking(Findings.open(out)) == ["no gradient"]
    print_distortions(summarise_distortions(out))
    assert WORDS["no gradient"].split(":")[0] in " ".join(capsys.readouterr().out.split())
    assert all(one.holds for one in replay(out, basket=basket))
    assert "has no slope on any of 16 images" in write_report(out).read_text("utf-8")


def test_a_method_of_ones_own_that_fails_without_a_gradient(data: Dataset) -> None:
    def steep(model: Any, images: Tensor, *_: Tensor, **__: Any) -> Nearest:
        torch.autograd.grad(model(images.requires_grad_()).sum(), images)
        raise AssertionError

    with pytest.raises(UserError, match="'A' has no gradient, and the method 'object:steep' fails with it"):
        distorted(basket_of(frozen), data, method=steep)
