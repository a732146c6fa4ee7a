"""Distortions of networks whose boundaries are known planes: what is found, what is saved, and what is said of it."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from small_tasks import linear_task, shards
from torch import Tensor, nn

import foible
from foible import Basket, Findings, UserError
from foible.basket import Budget
from foible.data import Dataset
from foible.images import decode_png, to_floats
from foible.recipes.distort.summary import summarise_distortions
from foible.recipes.distort.targets import read_target, targets_of
from foible.recipes.replay import replay
from foible.search.nearest import Model, Nearest, margin, reached
from foible.testing import SHAPE, Counting, linear_network

SETTINGS: dict[str, Any] = {"source": "A", "split": "train", "images": 12, "quiet": True}
NAMES = ("0", "1", "2")


def distorted(basket: Any, data: Any, **options: Any) -> Findings:
    return foible.distort(basket, data, **{**SETTINGS, **options})


def one(network: Any, **more: Any) -> Basket:
    return Basket({"A": network}, classes=NAMES, preprocess="inside", shape=SHAPE, **more)


def pictures(findings: Findings, column: str = "image") -> Tensor:
    return to_floats(torch.stack(findings.images(column)))


@pytest.fixture(scope="module")
def best(basket: Basket, data: Dataset) -> Findings:
    return distorted(basket, data)


@pytest.fixture(scope="module")
def each(basket: Basket, data: Dataset) -> Findings:
    return distorted(basket, data, target="each")


def test_what_is_saved_is_found(best: Findings, basket: Basket) -> None:
    assert set(best.column("outcome")) == {"found"}
    assert best[0]["networks"] == ["A", "B", "C"]
    logits = basket.judge(pictures(best), ["A", "B", "C"])
    targets, truth = torch.tensor(best.column("target")), torch.tensor(best.column("truth"))
    assert bool(reached(logits[0], truth, targets).all()), "the PNGs themselves are called as asked"
    assert best.column("said") == targets.tolist()
    assert best.column("said") != best.column("truth")
    after = torch.tensor(best.column("after"))
    assert torch.allclose(after, logits.softmax(2).transpose(0, 1), atol=1e-5)
    before = torch.tensor(best.column("before"))
    assert bool((before[:, 0].argmax(1) == truth).all()), "only images that the source gets right"


def test_distances_are_those_of_the_images(best: Findings) -> None:
    moved = (pictures(best) - pictures(best, "origin")).flatten(1)
    assert best.column("distance") == pytest.approx(moved.norm(dim=1).tolist(), rel=1e-5)
    exact = torch.tensor(best.column("point")).view_as(moved) - pictures(best, "origin").flatten(1)
    assert best.column("distance_exact") == pytest.approx(exact.norm(dim=1).tolist(), rel=1e-4)
    change = dict(best[0]["change"])
    assert change["rms"] == pytest.approx(best[0]["distance"] / 12, rel=1e-5)  # 144 pixels
    assert change["linf"] == pytest.approx(float(moved[0].abs().max()), rel=1e-5)
    assert change["rms before 8 bits"] == pytest.approx(best[0]["distance_exact"] / 12, rel=1e-4)


def test_no_plane_is_nearer_than_what_is_known(each: Findings, basket: Basket) -> None:
    """The nearest point beyond a plane, without the box, is as far as the gap over the length of its normal."""
    layer = basket.network("A")[1]  # type: ignore[index]
    truth, target = torch.tensor(each.column("truth")), torch.tensor(each.column("target"))
    logits = basket.judge(pictures(each, "origin"), ["A"])[0]
    gap = logits.gather(1, truth[:, None])[:, 0] - logits.gather(1, target[:, None])[:, 0]
    least = gap / (layer.weight[truth] - layer.weight[target]).norm(dim=1)
    exact = torch.tensor(each.column("distance_exact"))
    assert bool((exact >= least * 0.9999).all())
    assert float((exact / least).median()) < 1.5, "the box costs something, but a method that wanders costs more"


def test_best_is_the_nearest_label_and_worst_the_farthest(
    best: Findings, each: Findings, basket: Basket, data: Dataset
) -> None:
    assert len(each) == 2 * len(best)
    assert len(set(each.column("id"))) == len(each)
    nearest: dict[int, float] = {}
    farthest: dict[int, float] = {}
    for row in each:
        place, far = row["origin_index"], row["distance_exact"]
        nearest[place], farthest[place] = min(far, nearest.get(place, far)), max(far, farthest.get(place, far))
    assert best.column("distance_exact") == pytest.approx([nearest[i] for i in best.column("origin_index")], rel=1e-3)
    worst = distorted(basket, data, target="worst")
    assert worst.column("distance_exact") == pytest.approx(
        [farthest[i] for i in worst.column("origin_index")], rel=1e-3
    )
    assert sum(worst.column("forwards")) > sum(distorted(basket, data, target="next").column("forwards"))


def test_the_labels_that_are_tried() -> None:
    labels, positions, logits = torch.tensor([0, 2, 1]), torch.tensor([5, 9, 700]), torch.eye(4)[[1, 3, 0]]
    kinds: dict[str, Any] = {
        name: targets_of(name, labels, positions, logits, seed=3) for name in ("best", "next", "random")
    }
    assert kinds["best"].tolist() == [[1, 2, 3], [0, 1, 3], [0, 2, 3]]
    assert kinds["next"].tolist() == [[1], [3], [2]]
    assert bool((kinds["random"][:, 0] != labels).all())
    again = targets_of("random", labels[1:], positions[1:], logits[1:], seed=3)
    assert again is not None
    assert torch.equal(kinds["random"][1:], again), "what is drawn hangs on the image alone"
    many = targets_of("random", torch.zeros(400, dtype=torch.int64), torch.arange(400), torch.zeros(400, 4), seed=0)
    assert many is not None
    counts = many.flatten().bincount(minlength=4).tolist()
    assert counts[0] == 0
    assert min(counts[1:]) > 90
    likely = targets_of("best", labels, positions, logits, seed=0, likeliest=1)
    assert likely is not None
    assert likely.tolist() == [[1], [3], [0]]
    assert targets_of("any", labels, positions, logits, seed=0) is None
    assert read_target("class:best", ("best", "cat")) == 0
    assert read_target("cat", ("best", "cat")) == 1


def test_an_image_that_says_it_already_is_at_distance_0(basket: Basket, data: Dataset) -> None:
    found = distorted(basket, data, target="1")
    same = [row for row in found if row["truth"] == 1]
    assert same
    assert all(row["outcome"] == "found" and row["distance"] == row["distance_exact"] == 0 for row in same)
    assert all(row["image"] == row["origin"] and row["backwards"] == 0 for row in same)
    assert summarise_distortions(found)[0]["already"] == len(same) < len(found)


def test_images_that_are_wrong_already(basket: Basket, data: Dataset) -> None:
    wrong = Dataset("wrong", "train", data.images, (data.labels + 1) % 3, NAMES)
    with pytest.raises(UserError, match=r"none of the 60 images .* is classified right by 'A'"):
        distorted(basket, wrong)
    kept = distorted(basket, wrong, wrong=True, target="any")
    assert kept.column("distance") == [0.0] * 12
    assert set(kept.column("outcome")) == {"found"}


def test_untargeted_has_no_target(basket: Basket, data: Dataset) -> None:
    found = distorted(basket, data, target="any")
    assert found.column("target") == [None] * 12
    assert all(row["said"] != row["truth"] for row in found)


def test_without_labels_the_answer_stands_in(basket: Basket, data: Dataset) -> None:
    blank = Dataset("blank", "train", data.images, data.labels.flip(0), NAMES)
    found = distorted(basket, blank, unlabelled=True)
    assert found.column("truth") == [None] * 12
    origin = basket.judge(pictures(found, "origin"), ["A"])[0].argmax(1)
    assert found.column("consensus") == origin.tolist()
    assert all(row["said"] != row["consensus"] for row in found)


def test_a_label_that_is_never_given(data: Dataset) -> None:
    class Never(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear_network(0)

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.inner(images)
            lower = logits[:, :2].amin(1) - 1 - 0.05 * images.flatten(1).sum(1)
            return torch.cat([logits[:, :2], lower[:, None]], 1)

    two = Dataset("two", "train", data.images[data.labels < 2], data.labels[data.labels < 2], NAMES)
    lost = distorted(one(Never()), two, target="2", images=4, budget=40)
    assert lost.column("outcome") == ["exhausted"] * 4
    assert all(far > 0 for far in lost.column("distance")), "the best effort is kept"
    assert all(row["forwards"] <= 42 for row in lost), "it stops at its budget"
    assert summarise_distortions(lost)[0]["share"] == 0
    tried = distorted(one(Never()), two, target="best", images=4, budget=40)
    assert set(tried.column("outcome")) == {"found"}, "another label can be reached"
    assert 2 not in tried.column("target")


def honest(_: Model, images: Tensor, labels: Tensor, **__: Any) -> Nearest:
    """White everywhere, and says it found nothing."""
    none = torch.zeros(len(images), dtype=torch.bool)
    return Nearest(torch.ones_like(images), none, none.clone(), torch.ones_like(labels), torch.zeros_like(labels))


def liar(_: Model, images: Tensor, labels: Tensor, **__: Any) -> Nearest:
    every = torch.ones(len(images), dtype=torch.bool)
    return Nearest(images.clone(), every, ~every, torch.ones_like(labels), torch.zeros_like(labels))


def broken(_: Model, images: Tensor, labels: Tensor, **__: Any) -> Nearest:
    every = torch.ones(len(images), dtype=torch.bool)
    return Nearest(images * torch.nan, ~every, every, torch.ones_like(labels), torch.ones_like(labels))


def test_a_method_is_not_taken_at_its_word(basket: Basket, data: Dataset) -> None:
    assert distorted(basket, data, method=liar).column("outcome") == ["exhausted"] * 12
    invalid = distorted(basket, data, method=broken)
    assert invalid.column("outcome") == ["invalid"] * 12
    assert invalid.column("image") == invalid.column("origin"), "NaN is no picture"


def test_nan_is_invalid(data: Dataset) -> None:
    class Fragile(nn.Module):
        """NaN for any image that is not on 8 bits."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = linear_network(0)

        def forward(self, images: Tensor) -> Tensor:
            off = ((images * 255).detach() - (images * 255).detach().round()).abs().amax((1, 2, 3)) > 1e-3
            logits: Tensor = self.inner(images)
            return torch.where(off[:, None], torch.nan, logits)

    found = distorted(one(Fragile()), data, target="next", images=4, lattice=False)
    assert found.column("outcome") == ["invalid"] * 4


def test_rounding_undoes_and_the_lattice_does_not(basket: Basket, data: Dataset, best: Findings) -> None:
    rounded = distorted(basket, data, lattice=False, images=60)
    counts = {name: rounded.column("outcome").count(name) for name in ("found", "unsettled")}
    assert counts["unsettled"] > 5
    assert sum(counts.values()) == 60
    for row in rounded.filter(outcome="unsettled").head(5):
        logits = basket.judge(to_floats(decode_png(row["image"]))[None], ["A"])[0]
        assert float(margin(logits, torch.tensor([row["truth"]]), torch.tensor([row["target"]]))) < 1e-3
    ratio = sum(best.column("distance")) / sum(best.column("distance_exact"))
    assert ratio < 1.05, "8 bits cost little"


def test_costs_are_counted(data: Dataset) -> None:
    counting = Counting(linear_network(0))
    network = one(counting)
    inner: Counting = network.network("A")  # type: ignore[assignment]
    found = distorted(network, data, target="next", images=64, unit=64)
    spent = sum(found.column("forwards"))
    # Padding, the images looked at and the last judging are not the search's.
    assert 0 < spent <= sum(inner.calls)
    assert spent > 0.5 * (sum(inner.calls) - 300)


def test_shares_and_transfer(best: Findings, basket: Basket) -> None:
    [row] = summarise_distortions(best)
    assert (row["rows"], row["found"], row["share"]) == (12, 12, 1.0)
    said = basket.judge(pictures(best), ["B", "C"]).argmax(2)
    was = basket.judge(pictures(best, "origin"), ["B", "C"]).argmax(2)
    truth = torch.tensor(best.column("truth"))
    for place, judge in enumerate(row["transfer"]):
        right = was[place] == truth
        assert judge["judge"] == "BC"[place]
        assert judge["right_before"] == int(right.sum())
        assert judge["wrong_after"] == int((right & (said[place] != truth)).sum())
        assert judge["low"] <= judge["share"] <= judge["high"]
    rms = [dict(change)["rms"] for change in best.column("change")]
    assert row["rms"]["mean"] == pytest.approx(sum(rms) / 12)
    assert row["forwards"] == sum(best.column("forwards")) / 12


def test_batch_mates_do_not_matter(best: Findings, basket: Basket, data: Dataset) -> None:
    """Units of 5 and of all give the same images to 1 in 1000, and the same answers."""
    parts = distorted(basket, data, unit=5)
    assert parts.column("origin_index") == best.column("origin_index")
    assert parts.column("target") == best.column("target")
    assert parts.column("distance_exact") == pytest.approx(best.column("distance_exact"), rel=1e-3)


def test_fewer_images_are_among_more(best: Findings, basket: Basket, data: Dataset) -> None:
    fewer = distorted(basket, data, images=4)
    assert set(fewer.column("origin_index")) < set(best.column("origin_index"))
    other = distorted(basket, data, images=4, seed=1)
    assert fewer.column("origin_index") != other.column("origin_index")


def test_images_that_are_asked_for_by_their_place(each: Findings, basket: Basket, data: Dataset) -> None:
    places = each.column("origin_index")[::4]
    some = distorted(basket, data, places=[*reversed(places)], target="each", seed=7)
    assert some.column("origin_index")[::2] == [*reversed(places)], "in the order that was asked for"
    drawn = {row["id"]: row["distance_exact"] for row in each}
    assert all(row["distance_exact"] == pytest.approx(drawn[row["id"]], rel=1e-5) for row in some)
    [settings] = some.configs.values()
    assert settings["places"] == [*reversed(places)]
    assert settings["images"] == len(places)
    assert "places" not in next(iter(each.configs.values())), "a run without them is called what it was called"
    wrong = Dataset(
        "half", "train", data.images, torch.where(torch.arange(60) < 5, 9, data.labels), (*NAMES, *"3456789")
    )
    with pytest.raises(UserError, match=r"places: 60 is no image of 'blobs' \(train\), which has 60"):
        distorted(basket, data, places=[3, 60])
    with pytest.raises(UserError, match=r"places: 4 is no image of 'half' .* or has no label that the networks know"):
        distorted(basket, wrong, places=[7, 4])
    with pytest.raises(UserError, match="an image is given twice"):
        distorted(basket, data, places=[3, 3])
    flipped = Dataset(
        "flipped", "train", data.images, torch.where(torch.arange(60) == 4, (data.labels + 1) % 3, data.labels), NAMES
    )
    assert distorted(basket, flipped, places=[6, 4, 2]).column("origin_index") == [6, 2], "only what it gets right"
    assert distorted(basket, flipped, places=[6, 4, 2], wrong=True).column("origin_index") == [6, 4, 2]


def test_floats_of_large_images_are_kept_where_asked_for() -> None:
    shape = (3, 65, 65)
    layers = nn.Sequential(nn.Flatten(), nn.Linear(12_675, 3))
    network = Basket({"A": layers}, classes=NAMES, preprocess="inside", shape=shape)
    pixels = torch.randint(0, 256, (3, *shape), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    large = Dataset("large", "train", pixels, network.predict(pixels)[0].argmax(1), NAMES)
    assert distorted(network, large, target="any").column("point") == [None] * 3
    kept = distorted(network, large, target="any", floats=True)
    moved = torch.tensor(kept.column("point")) - to_floats(pixels[kept.column("origin_index")]).flatten(1)
    assert kept.column("distance_exact") == pytest.approx(moved.norm(dim=1).tolist(), rel=1e-3)


def test_linf(basket: Basket, data: Dataset) -> None:
    found = distorted(basket, data, norm="linf", target="next", images=3)
    moved = (pictures(found) - pictures(found, "origin")).flatten(1)
    assert found.column("distance") == pytest.approx(moved.abs().amax(1).tolist(), rel=1e-5)
    with pytest.raises(UserError, match="norm is 'linf', and the method 'lbfgs' knows l2 alone"):
        distorted(basket, data, norm="linf", method="lbfgs")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "a"}, "no network 'a' in the basket"),
        ({"source": None}, "which network is to be distorted for.*one of A, B, C"),
        ({"target": "bets"}, "target is 'bets'; did you mean 'best'"),
        ({"target": "3"}, "expected best, worst, random, next, each, any, or a class of the networks"),
        ({"method": "closset"}, "unknown method 'closset'; did you mean 'closest'"),
        ({"method": "closest?norm=l2"}, "norm is a setting of `foible distort` itself"),
        ({"method": "closest?step=1"}, "no option 'step'"),
        ({"norm": "l1"}, "norm is 'l1'.*expected l2 or linf"),
        ({"images": 0}, "images is 0: expected at least 1"),
        ({"budgets": 3}, "distort has no option 'budgets'; did you mean 'budget'"),
        ({"layer": "outptu"}, "there is no layer 'outptu'"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, Any], message: str, basket: Basket, data: Dataset) -> None:
    with pytest.raises(UserError, match=message):
        distorted(basket, data, **options)


class Steps(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, values: Tensor) -> Tensor:
        if self.kind == "round":
            return (values * 8).round() / 8
        return nn.functional.one_hot(values.argmax(1), values.shape[1]).float()


@pytest.mark.parametrize("kind", ["argmax", "round"])
def test_a_layer_without_a_gradient_is_named(kind: str, data: Dataset) -> None:
    network = nn.Sequential(linear_network(0), Steps(kind), nn.Linear(3, 3))
    network[2].load_state_dict({"weight": torch.eye(3), "bias": torch.zeros(3)})
    with pytest.raises(UserError, match=r"the layer '1' \(Steps\) passes no gradient on"):
        distorted(one(network), data, method="lbfgs")


def test_networks_without_gradients(data: Dataset) -> None:
    inner = linear_network(0)

    def frozen(images: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = inner(images)
        return answer

    class Frozen(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return frozen(images)

    with pytest.raises(UserError, match="the function frozen gives back no gradient"):
        distorted(one(frozen), data, method="lbfgs")
    with pytest.raises(UserError, match=r"its own forward \(Frozen\) passes no gradient on"):
        distorted(one(Frozen()), data, layer="1")


def test_the_output_of_the_last_layer_has_a_known_answer(basket: Basket, data: Dataset) -> None:
    """Two logits meet half way: the least change of logits is their gap over the square root of 2."""
    found = distorted(basket, data, layer="1", target="best")
    assert set(found.column("outcome")) == {"found"}
    top = basket.judge(pictures(found, "origin"), ["A"])[0].topk(2, 1).values
    least = ((top[:, 0] - top[:, 1]) / math.sqrt(2)).tolist()
    assert found.column("distance_exact") == pytest.approx(least, rel=0.03)
    assert found.column("distance") == [None] * 12
    assert found.column("image") == found.column("origin")
    assert [max(range(3), key=row["after"][0].__getitem__) for row in found] == found.column("target")
    assert all(row["after"][1:] == row["before"][1:] for row in found), "the others see the image as it is"


def test_a_layer_that_a_shortcut_goes_around(data: Dataset) -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.flat = linear_network(0), nn.Flatten()

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.inner(images) + self.flat(images)[:, :3]
            return logits

    bright = Dataset("bright", "train", data.images.clamp_min(9), data.labels, NAMES)
    bright.images[:, :, 0, :3] = torch.arange(60, dtype=torch.uint8)[:, None, None]
    with pytest.raises(UserError, match="goes around its layer 'inner'"):
        distorted(one(Around()), bright, layer="inner")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished run of 3 units in one process, and its task."""
    folder = tmp_path_factory.mktemp("distort")
    task = linear_task(folder)
    distorted(task.basket, task.data, out=folder / "run", unit=4, workers=1)
    return folder / "run", folder


def test_a_run_resumes_to_the_same_bytes(run: tuple[Path, Path], tmp_path: Path) -> None:
    made, folder = run
    assert len(shards(made)) == 3
    shutil.copytree(made, tmp_path / "half")
    sorted((tmp_path / "half" / "shards").iterdir())[1].unlink()
    distorted(folder / "basket", f"npz:{folder / 'data.npz'}", out=tmp_path / "half", unit=4, workers=1)
    assert shards(tmp_path / "half") == shards(made)


def test_two_workers_write_the_same_bytes(run: tuple[Path, Path], tmp_path: Path) -> None:
    made, folder = run
    distorted(folder / "basket", f"npz:{folder / 'data.npz'}", out=tmp_path / "two", unit=4, workers=2)
    assert shards(tmp_path / "two") == shards(made)


def test_rows_replay(run: tuple[Path, Path], tmp_path: Path) -> None:
    made, folder = run
    again = replay(made)
    assert len(again) == 12
    assert all(one.holds and one.now == "found" for one in again)
    layer = tmp_path / "layer"
    distorted(folder / "basket", f"npz:{folder / 'data.npz'}", out=layer, layer="output", workers=1)
    assert all(one.holds and one.now == "found" for one in replay(layer))


def test_a_run_with_code_of_ones_own(run: tuple[Path, Path], tmp_path: Path) -> None:
    _, folder = run
    (tmp_path / "mine.py").write_text("from foible.search.nearest.closest import closest as mine\n")
    method = f"{tmp_path / 'mine.py'}:mine"
    out = tmp_path / "own"
    distorted(folder / "basket", f"npz:{folder / 'data.npz'}", out=out, method=method, workers=1)
    with pytest.raises(UserError, match="names code"):
        replay(out)
    assert all(one.holds for one in replay(out, trust=True))


def test_photographs(tmp_path: Path, basket: Basket, data: Dataset) -> None:
    for place in range(6):
        pixels = data.images[place, 0].numpy()
        folder = tmp_path / "photos" / NAMES[int(data.labels[place])]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((24, 30)).save(folder / f"{place}.png")
    for name in NAMES:
        (tmp_path / "photos" / name).mkdir(exist_ok=True)
    sized = Basket(
        {name: basket.network(name) for name in "AB"}, classes=NAMES,
        preprocess=foible.Preprocess(size=(12, 12)), shape=SHAPE,
    )  # fmt: skip
    found = distorted(sized, f"folder:{tmp_path / 'photos'}", split="train", target="any", images=3)
    assert set(found.column("outcome")) == {"found"}
    assert all(file.endswith(".png") for file in found.column("origin_file"))
    assert pictures(found).shape[2:] == (12, 12)


def test_older_findings_have_no_target(basket: Basket, data: Dataset) -> None:
    hunted = foible.hunt(basket, data, trials=16, suspect="A", quiet=True, realism="none")
    assert hunted.column("target") == [None] * 16
    assert hunted.column("distance") == [None] * 16


def test_a_budget_is_kept(basket: Basket, data: Dataset) -> None:
    seen: list[Budget] = []

    def noting(model: Model, images: Tensor, labels: Tensor, *, budget: Budget, **more: Any) -> Nearest:
        seen.append(budget)
        return honest(model, images, labels, **more)

    found = distorted(basket, data, method=noting, budget=17)
    assert set(seen) == {Budget(17, 17)}
    assert set(found.column("outcome")) <= {"exhausted", "found"}  # rounding may have made one
