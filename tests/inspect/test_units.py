"""`foible.inspect`'s units: directions, the best of a stream, how alike rows are, and the whole on networks whose
units are known."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy.stats import permutation_test, t, ttest_ind
from torch import Tensor, nn

from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.inspect.unit.coherence import coherence, compare, mean, purity
from foible.inspect.unit.directions import Moments, along, random_directions, some_units, spread
from foible.inspect.unit.tables import Units
from foible.inspect.unit.top import Top
from foible.inspect.unit.units import layers, units
from foible.randomness import integers, normals, uniforms

CLASSES = ("0", "1", "2", "3")


def _draws(rows: int, count: int, stream: str = "test") -> Tensor:
    return normals(0, torch.arange(rows), stream=stream, count=count)


# Directions


def test_units_of_layers_of_any_shape() -> None:
    assert spread(torch.zeros(2, 5)).shape == (2, 5, 1)
    assert spread(torch.zeros(2, 7, 5)).shape == (2, 5, 7)  # tokens stand before the units
    assert spread(torch.zeros(2, 5, 3, 4)).shape == (2, 5, 12)
    assert spread(torch.zeros(2, 5, 3, 4), "flat").shape == (2, 60, 1)


@pytest.mark.parametrize("over", ["max", "mean"])
def test_what_excites_a_direction(over: str) -> None:
    values, rows = _draws(4, 5 * 6).view(4, 5, 6), _draws(3, 5, "rows")
    at = torch.einsum("nup,ku->nkp", values, rows)
    wanted = at.amax(2) if over == "max" else at.mean(2)
    torch.testing.assert_close(along(values, rows, over), wanted)
    # A unit is the direction of its axis.
    torch.testing.assert_close(along(values, torch.tensor([3, 1]), over), along(values, torch.eye(5)[[3, 1]], over))


def test_random_directions_are_isotropic_and_do_not_depend_on_their_number() -> None:
    rows = random_directions("random", 4000, 8, 0)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(4000))
    torch.testing.assert_close(rows.t() @ rows / 4000, torch.eye(8) / 8, atol=0.01, rtol=0)
    assert torch.equal(rows[:3], random_directions("random", 3, 8, 0))
    assert not torch.allclose(rows[:3], random_directions("random", 3, 8, 1))
    assert (random_directions("positive", 50, 8, 0) >= 0).all()


def test_along_whitened_directions_all_images_vary_alike() -> None:
    scales = torch.tensor([10.0, 1.0, 0.1, 0.0])
    values = (_draws(5000, 4) * scales + 3)[:, :, None]
    moments = Moments.of(values[:1000]) + Moments.of(values[1000:])
    rows = random_directions("whitened", 2000, 4, 0, moments)
    assert float(rows[:, 3].abs().max()) < 1e-5  # an axis without variance has no weight
    weights = torch.nn.functional.normalize(rows * scales)[:, :3]
    torch.testing.assert_close(weights.t() @ weights / 2000, torch.eye(3) / 3, atol=0.03, rtol=0)
    whitened = values[:, :, 0].double() @ moments.whitener()
    torch.testing.assert_close(torch.cov(whitened.t())[:3, :3], torch.eye(3).double(), atol=1e-3, rtol=0)


def test_which_units_are_taken() -> None:
    assert sorted(some_units(20, 1000, 0).tolist()) == list(range(20))
    assert torch.equal(some_units(20, 1000, 0)[:4], some_units(20, 4, 0))


# The best of a stream


def test_the_best_are_those_of_a_full_sort_however_images_come() -> None:
    scores, index = _draws(300, 7), torch.arange(1000, 1300)
    order = scores.argsort(0, descending=True)[:10].t()
    for split in (300, 64, 7):
        found: Top | None = None
        for part in torch.arange(300).split(split):
            one = Top.of(scores[part], index[part], 10, 0)
            found = one if found is None else found.merge(one, 10)
        assert found is not None
        assert torch.equal(found.index, index[order])
        assert torch.equal(found.scores, scores.t().gather(1, order))
        assert found.alive.all()
        assert torch.equal(found.lowest, scores.amin(0))


def test_ties_are_broken_by_lot_and_not_by_place() -> None:
    scores, index = torch.ones(2000, 1), torch.arange(2000)
    whole = Top.of(scores, index, 10, 0)
    halves = Top.of(scores[:900], index[:900], 10, 0).merge(Top.of(scores[900:], index[900:], 10, 0), 10)
    assert torch.equal(whole.index, halves.index)
    assert int(whole.index.max()) > 1000  # not the first ten
    assert not torch.equal(whole.index, Top.of(scores, index, 10, 1).index)
    assert not whole.alive.any()  # one value on all images


def test_zero_has_no_sign_and_nan_never_wins() -> None:
    scores = torch.tensor([[-0.0, torch.nan], [0.0, -1.0], [-0.0, torch.inf], [0.0, -2.0]])
    top = Top.of(scores, torch.arange(4), 2, 0)
    assert not top.alive[0]
    assert top.index[1].tolist() == [1, 3]
    assert top.scores[1].tolist() == [-1.0, -2.0]
    assert top.broken == 2
    assert not Top.of(scores, torch.arange(4), 3, 0).alive[1]  # an image without a value is among its best


# How alike


def test_purity_of_rows() -> None:
    labels = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 2], [3, 2, 1, 0], [0, 0, 0, -1]])
    assert purity(labels)[:3].tolist() == [1.0, 0.5, 0.25]
    assert bool(purity(labels)[3].isnan())


def test_coherence_is_the_mean_over_pairs() -> None:
    features = _draws(3, 5 * 4).view(3, 5, 4)
    unit = torch.nn.functional.normalize(features.double(), dim=2)
    pairs = [(unit[:, i] * unit[:, j]).sum(1) for i in range(5) for j in range(i)]
    torch.testing.assert_close(coherence(features), torch.stack(pairs).mean(0))
    assert float(coherence(torch.ones(1, 5, 4) * torch.arange(1, 6)[:, None])) == pytest.approx(1)
    assert float(coherence(torch.eye(4)[None])) == pytest.approx(0)
    assert float(coherence(torch.tensor([[[1.0], [-2.0]]]))) == pytest.approx(-1)


def test_means_have_students_interval() -> None:
    values = _draws(1, 30)[0].tolist()
    found = mean(values)
    low, high = t.interval(0.95, 29, np.mean(values), np.std(values, ddof=1) / np.sqrt(30))
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((np.mean(values), low, high, 30))
    assert mean([]).mean is None
    assert mean([2.0]).low is None


def test_the_permutation_test_agrees_with_scipys() -> None:
    first, second = (_draws(1, 12)[0] + 1.2).tolist(), _draws(1, 9, "other")[0].tolist()
    found = compare(first, second, 0, permutations=20_000)
    peer = permutation_test(
        (first, second), lambda a, b: np.mean(a) - np.mean(b), n_resamples=10_000,
        rng=np.random.default_rng(0), vectorized=False,
    )  # fmt: skip
    assert found.difference == pytest.approx(peer.statistic)
    wanted = np.mean(np.abs(peer.null_distribution) >= abs(peer.statistic))
    assert found.p == pytest.approx(wanted, abs=0.01)
    assert 0.02 < wanted < 0.8
    welch = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((welch.low, welch.high))


def test_the_permutation_test_holds_its_level() -> None:
    """Of 200 tests of equal kinds, about one in twenty is below 0.05; values on a coarse grid, as purities are."""
    values = integers(0, torch.arange(200), stream="level", high=11, count=40).double() / 10
    ps = [compare(row[:25].tolist(), row[25:].tolist(), 0, permutations=499).p for row in values]
    assert 2 <= sum(p is not None and p < 0.05 for p in ps) <= 20
    assert compare([0.5] * 4, [0.5] * 6, 0).p == 1.0
    assert compare([0.1 * 3, 0.3], [0.3, 0.1 * 3], 0).p == 1.0  # equal but for rounding
    assert compare([1.0], [0.0, 0.0], 0).p is None


# The whole


class Named(nn.Sequential):
    """A network whose first layer is the identity on four pixels: unit k is pixel k."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(
            OrderedDict(flatten=nn.Flatten(), same=nn.Linear(4, 4), relu=nn.ReLU(), output=nn.Linear(4, 4))
        )
        with torch.no_grad():
            for layer in ("same", "output"):
                self.get_parameter(f"{layer}.weight").copy_(torch.eye(4) * scale)
                self.get_parameter(f"{layer}.bias").zero_()


def _basket() -> Basket:
    networks = {"seen": Named(), "judge": Named(2.0)}
    return Basket(networks, classes=CLASSES, preprocess="inside", shape=(1, 2, 2))


def _data(n: int = 400) -> Dataset:
    """Images of class k have a bright pixel k; the others are dim."""
    labels = torch.arange(n) % 4
    images = (uniforms(0, torch.arange(n), stream="test.images", count=4) * 100).to(torch.uint8)
    images[torch.arange(n), labels] += 120
    return Dataset("made", "test", images.view(n, 1, 2, 2), labels, CLASSES)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Units, Path]:
    out = tmp_path_factory.mktemp("units")
    kinds = ("random", "whitened")
    return units(_basket(), _data(), network="seen", layer="relu", against=kinds, top=8, out=out, quiet=True), out


def test_natural_units_find_their_own_pixel(found: tuple[Units, Path]) -> None:
    rows, data = found[0].kinds["natural"], _data()
    pixels = data.images.flatten(1).float()
    for row, unit in enumerate(rows.numbers.tolist()):
        best = pixels[:, unit].sort(descending=True).values[:8] / 255
        torch.testing.assert_close(rows.scores[row], best)
        torch.testing.assert_close(pixels[rows.index[row], unit] / 255, best)
    assert found[0].means["purity"]["natural"].mean == 1.0
    assert found[0].means["coherence"]["natural"].mean > 0.5  # type: ignore[operator]
    assert found[0].means["coherence"]["chance"].mean == pytest.approx(0, abs=0.15)
    assert found[0].settings["judge"] == "judge"


def test_random_directions_find_the_images_along_them(found: tuple[Units, Path]) -> None:
    rows = found[0].kinds["random"]
    pixels = _data().images.flatten(1).float() / 255
    scores = pixels @ random_directions("random", 4, 4, 0).t()
    assert torch.equal(rows.index, scores.argsort(0, descending=True)[:8].t())


def test_files_say_the_same(found: tuple[Units, Path]) -> None:
    units_found, out = found
    summary = json.loads((out / "units.json").read_text())
    table = pq.read_table(out / "rows.parquet").to_pylist()
    assert len(table) == 4 * 4
    natural = [row for row in table if row["kind"] == "natural"]
    rows = units_found.kinds["natural"]
    assert [row["index"] for row in natural] == rows.index.tolist()
    assert [row["direction"] for row in natural] == rows.numbers.tolist()
    assert natural[0]["label"] == [str(rows.numbers[0].item())] * 8
    assert summary["means"]["purity"]["natural"]["mean"] == np.mean([row["purity"] for row in natural])
    assert {(one["measure"], one["first"], one["second"]) for one in summary["differences"]} >= {
        ("purity", "natural", "random"), ("coherence", "natural", "whitened"), ("coherence", "random", "chance"),
    }  # fmt: skip
    assert summary["figures"] == ["rows-random", "rows-whitened", "alike"]
    for stem in summary["figures"]:
        with Image.open(out / f"{stem}.png") as image:
            assert len(np.unique(np.asarray(image.convert("L")))) > 10
        assert "<svg" in (out / f"{stem}.svg").read_text()


def test_batches_and_threads_change_nothing() -> None:
    alone = units(_basket(), _data(), network="seen", top=8, workers=1, quiet=True)
    many = units(_basket(), _data(), network="seen", top=8, workers=4, quiet=True)
    assert alone.summary() == many.summary()
    assert alone.settings["layer"] == "input of output"


def test_a_dead_unit_is_left_out_and_told() -> None:
    network = Named()
    with torch.no_grad():
        network.get_parameter("same.bias")[2] = -10.0
    basket = Basket({"seen": network}, classes=CLASSES, preprocess="inside", shape=(1, 2, 2))
    found = units(basket, _data(), layer="relu", quiet=True)
    rows = found.kinds["natural"]
    assert rows.numbers[~rows.alive].tolist() == [2]
    assert found.means["purity"]["natural"].n == 3
    assert "1 of 4 natural directions have one value on all images: left out." in found.notes
    assert found.settings["judge"] == "pixels"
    assert "no held-out network" in found.notes[0]


def test_channels_are_compared_over_positions() -> None:
    convolution = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 1), flatten=nn.Flatten(), output=nn.Linear(8, 4)))
    with torch.no_grad():
        convolution.get_parameter("conv.weight").copy_(torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
        convolution.get_parameter("conv.bias").zero_()
    basket = Basket({"conv": convolution}, classes=CLASSES, preprocess="inside", shape=(1, 2, 2))
    pixels = _data().images.flatten(1).float() / 255
    wanted: dict[str, Any] = {"max": pixels.amax(1), "mean": pixels.mean(1)}
    for over, values in wanted.items():
        rows = units(basket, _data(), layer="conv", over=over, top=5, quiet=True).kinds["natural"]
        unit = rows.numbers.tolist().index(0)
        torch.testing.assert_close(rows.scores[unit], values.sort(descending=True).values[:5])
    flat = units(basket, _data(), layer="conv", over="flat", top=5, quiet=True)
    assert flat.settings["width"] == 8


def test_photographs_are_streamed(tmp_path: Path) -> None:
    data = _data(40)
    for place, image in enumerate(data.images):
        folder = tmp_path / "photos" / "test" / CLASSES[int(data.labels[place])]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = image[0].repeat_interleave(8, 0).repeat_interleave(8, 1).numpy()
        Image.fromarray(pixels).save(folder / f"{place:03}.png")
    (tmp_path / "photos" / "test" / "0" / "broken.png").write_bytes(b"none")
    found = units(
        _basket(), f"folder:{tmp_path / 'photos'}", network="seen", layer="relu", canvas="2", top=4, quiet=True
    )
    assert found.settings["unreadable"] == 1
    assert found.means["purity"]["natural"].mean == 1.0
    row = found.row("natural", 0)
    assert all(name.startswith(f"{row['direction']}/") or f"/{row['direction']}/" in name for name in row["file"])


def test_layers_are_listed_with_their_shapes() -> None:
    assert layers(_basket(), _data(), network="seen") == {"flatten": (4,), "same": (4,), "relu": (4,), "output": (4,)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"network": None}, "which network is to be inspected"),
        ({"network": "sene"}, "no network 'sene' in the basket; did you mean 'seen'"),
        ({"layer": "rleu"}, "there is no layer 'rleu'; did you mean 'relu'"),
        ({"over": "sum"}, "over is 'sum': expected max, mean, flat"),
        ({"against": ("witened",)}, "against is 'witened'; did you mean 'whitened'"),
        ({"judge": "seen"}, "judge 'seen' is the network that is inspected"),
        ({"judge": "nobody"}, "judge 'nobody' is no network of the basket"),
        ({"top": 1}, "top is 1: expected at least 2"),
        ({"top": 500}, "has 400 images"),
        ({"units": 0}, "units is 0"),
    ],
)
def test_what_the_user_got_wrong_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        units(_basket(), _data(), quiet=True, **({"network": "seen"} | options))
