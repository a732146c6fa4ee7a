"""All networks disagree with the label: how such images rank, what is said of them, and when nothing is claimed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foible import Basket, UserError, cli
from foible.data import Dataset, load
from foible.findings import Findings
from foible.recipes.compare.against import (
    BANDS,
    FEW,
    IN,
    LEAST,
    OUT,
    UNKNOWN,
    kind_of,
    score,
    seen_before,
    summarise_against,
    tell_against,
    weights,
)
from foible.recipes.compare.ranked import ranked, read_against
from foible.recipes.compare.recipe import compare
from foible.recipes.train.train import train
from foible.report import write_report

SPECS = ["mlp:16", "softmax", "mlp:24"]


@pytest.fixture(scope="module")
def basket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("against") / "basket"
    train(SPECS, "digits", out=folder, epochs=12, device="cpu", quiet=True)
    return folder


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, set[int]]:
    """The test digits with 3 % of the labels wrong, and which they are."""
    digits = load("digits", "test", quiet=True)
    draw = np.random.default_rng(5)
    flipped = draw.choice(len(digits), round(0.03 * len(digits)), replace=False)
    labels = digits.labels.numpy().copy()
    labels[flipped] = (labels[flipped] + draw.integers(1, 10, len(flipped))) % 10
    file = tmp_path_factory.mktemp("planted") / "digits.npz"
    np.savez(file, x_test=digits.images.numpy(), y_test=labels, x_train=digits.images.numpy()[:20],
             y_train=labels[:20], classes=np.array(digits.classes))  # fmt: skip
    return f"npz:{file}", set(flipped.tolist())


@pytest.fixture(scope="module")
def run(basket: Path, planted: tuple[str, set[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("against-run") / "run"
    compare(basket, planted[0], out=out, unit=100, device="cpu", quiet=True)
    return out


def test_planted_wrong_labels_come_first(run: Path, planted: tuple[str, set[int]]) -> None:
    found, scores = ranked(run)
    wrong = np.isin(found.index, sorted(planted[1]))
    count = int(wrong.sum())
    assert count >= 0.8 * len(planted[1])  # the others are hard for a network
    assert len(wrong) > count  # hard images are in the list too, or nothing is tested
    assert wrong[:count].mean() >= 0.8
    assert (np.diff(scores) <= 0).all()


def test_the_page_shows_them_in_that_order_with_their_scores(run: Path) -> None:
    found, scores = ranked(run)
    text = write_report(run).read_text("utf-8")
    section = text[text.index('<section id="against-label"') :]
    places = [f"image {index}<" for index in found.index]
    at = [section.index(place) for place in places]
    assert at == sorted(at)
    assert f"score {scores[0]:.1f}<" in section
    assert "All networks disagree with the label" in section
    assert "label error" not in text.lower()


def test_with_three_networks_a_share_is_told_with_its_interval(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    against = json.loads((run / "compare.json").read_text("utf-8"))["against"]
    assert against["why_not"] is None
    assert sum(band["images"] for band in against["bands"]) == against["images"] == len(ranked(run)[0].index)
    expected = sum(
        band["images"] * measured.wrong / measured.n for band, measured in zip(against["bands"], BANDS, strict=True)
    )
    assert against["expected"]["share"] == pytest.approx(expected / against["images"])
    assert against["expected"]["low"] < against["expected"]["share"] < against["expected"]["high"]
    assert cli.run(["show", str(run)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"All networks disagree with the label on {against['images']} images." in told
    assert "95 % interval" in told
    assert "CIFAR-10's test images" in told
    assert "is not known" in told  # the file has another name than what they were trained on


def test_of_two_networks_the_list_is_there_and_no_share(
    basket: Path, planted: tuple[str, set[int]], tmp_path: Path
) -> None:
    summary = compare([f"{basket}/mlp-16", f"{basket}/mlp-24"], planted[0], out=tmp_path / "run", quiet=True)
    against = summary["against"]
    assert (against["why_not"], against["expected"]) == (FEW, None)
    assert {band["expected"] for band in against["bands"]} == {None}
    lines = tell_against(summary["doubtful"], against)
    assert "not told of fewer than 3 networks" in lines[1]
    assert "Expect" not in " ".join(lines)
    page = write_report(tmp_path / "run").read_text("utf-8")
    assert "not told of fewer than 3 networks" in page
    assert len(ranked(tmp_path / "run")[0].index) == summary["doubtful"] > 0


def test_networks_that_learnt_these_labels_are_named_and_claim_nothing(basket: Path, tmp_path: Path) -> None:
    summary = compare(basket, "digits", split="train", out=tmp_path / "in", quiet=True)
    assert [one["seen"] for one in summary["against"]["networks"]] == [IN] * 3
    assert summary["against"]["why_not"] == IN
    lines = " ".join(tell_against(5, summary["against"]))
    assert "In-sample: mlp-16, softmax, mlp-24 learnt these labels in training" in lines
    assert "Expect" not in lines
    summary = compare(basket, "digits", out=tmp_path / "out", quiet=True)
    assert [one["seen"] for one in summary["against"]["networks"]] == [OUT] * 3
    assert "Out-of-sample" in " ".join(tell_against(5, summary["against"]))


def test_the_score_by_hand() -> None:
    """Two networks of one kind and one of another; the second class is recognised half as surely as the first."""
    said, given = np.array([[0.8], [0.5], [0.9]]), np.array([[0.1], [0.25], [0.0]])
    usual, labels_usual = np.full((3, 1), 0.4), np.full((3, 1), 0.8)
    weight = weights(["mlp", "mlp", "resnet"], [OUT] * 3)
    assert weight == pytest.approx([0.3, 0.3, 0.4])  # 1 + ½ of the mlps, 1 of the resnet
    by_hand = 0.3 * np.log(8 * 2) + 0.3 * np.log(2 * 2) + 0.4 * np.log(0.9 / LEAST * 2)
    assert score(said, given, usual, labels_usual, weight)[0] == pytest.approx(by_hand)


def test_weights_of_kinds_and_of_networks_that_have_seen_the_images() -> None:
    assert weights(["a", "b", "c"], [OUT] * 3) == pytest.approx([1 / 3] * 3)
    assert weights(["a", "a"], [OUT, UNKNOWN]) == [0.5, 0.5]
    one, *others = weights(["b", *["a"] * 50], [OUT] * 51)
    assert sum(others) / one == pytest.approx(2, rel=1e-6)  # fifty of a kind count for less than two
    assert weights(["a", "a", "b"], [IN, OUT, OUT]) == [0, 0.5, 0.5]
    assert weights(["a", "b"], [IN, IN]) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("resnet:20", "resnet"),
        ("resnet:8,width=4?weights=a.safetensors", "resnet"),
        ("timm:resnet50d", "resnet"),
        ("hf:microsoft/resnet-50", "resnet"),
        ("onnx:models/vit_b.onnx", "vit"),
        ("nets.py:ResNet", "resnet"),
        ("probe:timm:vit_base,hidden=64", "vit"),
        ("probe:basket/mlp-10", "mlp"),
        ("mlp:10", "mlp"),
        ("softmax", "softmax"),
        ("vit4", "vit"),
        ("7", "7"),
    ],
)
def test_kinds(spec: str, kind: str) -> None:
    assert kind_of(spec) == kind


def test_whether_images_were_seen() -> None:
    trained = {"data": "cifar10", "split": "train"}
    assert seen_before(trained, "cifar10", "train") == IN
    assert seen_before(trained, "cifar10", "test") == OUT
    assert seen_before(trained, "mnist", "train") == OUT
    assert seen_before(trained, "npz:cifar.npz", "train") == UNKNOWN  # by its name nobody can tell
    assert seen_before({}, "cifar10", "test") == UNKNOWN


def test_bands_and_words_of_few() -> None:
    networks = [{"network": name, "kind": "a", "seen": OUT, "weight": 1 / 3, "thresholds": [0.5]} for name in "abc"]
    against = summarise_against(np.array([6.0, 5.9, 3.0, -1.0]), networks)
    assert [band["images"] for band in against["bands"]] == [1, 2, 1]
    assert "here 1 has that" in tell_against(4, against)[1]
    assert summarise_against(np.array([]), networks)["expected"] is None
    assert tell_against(0, against) == []
    assert tell_against(1, None) == ["All networks disagree with the label on 1 image."]


def test_a_network_without_a_number_and_a_class_without_an_image(tmp_path: Path) -> None:
    def broken(images: torch.Tensor) -> torch.Tensor:
        return torch.where(images[:, 0, 0, :1] > 0.5, torch.nan, torch.tensor([[3.0, 0.0, 0.0]]))

    images = torch.tensor([0, 0, 255], dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).clone()
    networks: dict[str, Any] = {"a": broken, "b": broken, "c": broken}
    three = Basket(networks, classes=tuple("xyz"), preprocess="inside")
    data = Dataset("three", "test", images, torch.tensor([0, 1, 1]), tuple("xyz"))
    summary = compare(three, data, out=tmp_path / "run", quiet=True)
    found, scores = ranked(tmp_path / "run")
    assert found.index.tolist() == [1]
    assert np.isfinite(scores).all()
    thresholds = summary["against"]["networks"][0]["thresholds"]
    right, other = torch.tensor([3.0, 0.0, 0.0]).softmax(0)[:2].tolist()
    assert thresholds[:2] == pytest.approx([right, other], abs=1e-6)  # what the label is given, not what is said
    assert thresholds[2] == pytest.approx((thresholds[0] + thresholds[1]) / 2, abs=1e-6)  # nobody is labelled z


def test_runs_of_before_are_told_without_scores(run: Path, tmp_path: Path) -> None:
    """A summary without the part, and answers without what was given to the label."""
    summary = json.loads((run / "compare.json").read_text("utf-8"))
    del summary["against"]
    for name in ("shards", "answers", "config.json"):
        (tmp_path / name).symlink_to(run / name)
    (tmp_path / "compare.json").write_text(json.dumps(summary), "utf-8")
    with pytest.raises(UserError, match="has no scores"):
        ranked(tmp_path)
    page = write_report(tmp_path).read_text("utf-8")
    assert "those where all are surest first" in page
    assert "score " not in page[page.index('<section id="against-label"') :]
    earlier = Path(__file__).parents[1] / "earlier" / "version-0.1.0" / "compare"
    found, thresholds = read_against(earlier, 3, 3)
    assert thresholds is None
    assert len(found.index) == json.loads((earlier / "compare.json").read_text("utf-8"))["doubtful"]


def test_a_damaged_summary_is_named(run: Path, tmp_path: Path) -> None:
    summary = json.loads((run / "compare.json").read_text("utf-8"))
    summary["against"]["networks"][1]["thresholds"].pop()
    (tmp_path / "compare.json").write_text(json.dumps(summary), "utf-8")
    with pytest.raises(UserError, match="thresholds of other networks or classes"):
        ranked(tmp_path)


def test_rows_carry_the_new_tag(run: Path) -> None:
    tags = {tag for tags in Findings.open(run).column("tags") for tag in tags}
    assert "against-label" in tags
    assert "label-error" not in tags
