"""Transfer as a tensor: known answers on linear networks, amplification to the digit, controls, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.images import to_floats
from foible.search import closest
from foible.statistics import wilson
from foible.testing import linear_basket, linear_trials
from foible.transfer import SCHEMA, Source, amplify, from_findings, load, rms, save, select, transfer
from foible.transfer import tensor as module
from foible.transfer.figures import draw, heat_map
from foible.transfer.tables import grid, markdown

SHAPE = (1, 2, 2)


class Brighter(nn.Module):
    """Says class 1 where the mean of the pixels is above a threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, images: Tensor) -> Tensor:
        over = images.flatten(1).mean(1) - self.threshold
        return torch.stack([-over, over], 1)


class Lost(nn.Module):
    """Answers NaN where the first pixel is above a half."""

    def forward(self, images: Tensor) -> Tensor:
        bad = images.flatten(1)[:, :1] > 0.5
        return torch.where(bad, math.nan, torch.tensor([[1.0, 0.0]]).expand(len(images), 2))


def basket(**networks: nn.Module) -> Basket:
    return Basket(networks or {"A": Brighter(0.5), "B": Brighter(0.7)}, classes=["dark", "light"], preprocess="inside")


def flat(*values: float) -> Tensor:
    """Images of one grey each."""
    return torch.tensor(values).view(-1, 1, 1, 1).expand(-1, *SHAPE).contiguous()


def sources(**options: Any) -> dict[str, Source]:
    """Four dark images, brightened to just beyond A's threshold and to just beyond B's; one is light for A already."""
    origins, labels = flat(0.1, 0.2, 0.3, 0.6), torch.zeros(4, dtype=torch.int64)
    return {
        "A": Source(flat(0.51, 0.51, 0.51, 0.6), origins, labels, **options),
        "B": Source(flat(0.71, 0.71, 0.71, 0.71), origins, labels, **options),
    }


def one(table: Any, **wanted: Any) -> dict[str, Any]:
    (row,) = select(table, **wanted)
    return row


def test_errors_of_every_judge_on_every_source() -> None:
    table = transfer(sources(), basket(), own_noise=False)
    assert table.schema.equals(SCHEMA)
    shares = {(row["source"], row["judge"]): row["errors"] for row in select(table, kind="distortion")}
    assert shares == {("A", "A"): 4, ("A", "B"): 0, ("B", "A"): 4, ("B", "B"): 4}
    row = one(table, kind="distortion", source="A", judge="B")
    assert (row["n"], row["share"], row["low"], row["high"]) == (4, 0.0, *wilson(0, 4))
    assert row["rms"] == pytest.approx((0.41 + 0.31 + 0.21 + 0) / 4, abs=1e-6)


def test_clean_rows_and_what_was_turned() -> None:
    table = transfer(sources(), basket(), own_noise=False)
    assert one(table, kind="clean", judge="A")["errors"] == 1
    assert one(table, kind="clean", judge="B")["errors"] == 0
    row = one(table, kind="distortion", source="B", judge="A")
    assert (row["errors"], row["right"], row["turned"]) == (4, 3, 3)


@pytest.mark.parametrize("size", [0.1, 0.3])
def test_amplified_to_just_that_rms_along_the_same_line(size: float) -> None:
    origins = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    images = origins + 0.01 * torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    more = amplify(origins, images, size) - origins
    assert rms(more) == pytest.approx(torch.full((5,), size).numpy(), rel=1e-5)
    cosine = torch.cosine_similarity(more.flatten(1), (images - origins).flatten(1))
    assert cosine.min() > 0.9999
    # The formula as read: σ √d r / ‖r‖.
    away = (images - origins).flatten(1)
    assert torch.allclose(more.flatten(1), size * math.sqrt(48) * away / away.norm(dim=1, keepdim=True), atol=1e-6)


def test_no_distortion_is_not_amplified() -> None:
    origins = flat(0.1, 0.6)
    assert torch.equal(amplify(origins, origins, 0.3), origins)


def test_amplified_unclipped_and_clipped() -> None:
    table = transfer(sources(), basket(), amplifications=(None, 0.8), own_noise=False)
    free = one(table, kind="distortion", source="B", judge="B", amplification=0.8, clipped=False)
    kept = one(table, kind="distortion", source="B", judge="B", amplification=0.8, clipped=True)
    assert free["rms"] == pytest.approx(0.8, abs=1e-6)
    assert kept["rms"] == pytest.approx((0.8 + 0.8 + 0.7 + 0.4) / 4, abs=1e-6)  # they end at 1
    assert len(select(table, kind="distortion", amplification=None, source="A", judge="A")) == 1


def test_noise_has_the_size_that_was_asked_for() -> None:
    origins, labels = torch.full((200, 1, 12, 12), 0.5), torch.zeros(200, dtype=torch.int64)
    small = Source(origins + 0.02, origins, labels)
    table = transfer({"A": small}, basket(), noise=(0.1, 0.3))
    for size in (0.1, 0.3):
        assert one(table, kind="noise", judge="A", amplification=size, clipped=False)["rms"] == pytest.approx(
            size, rel=0.02
        )
    own = one(table, kind="own-noise", source="A", judge="A", clipped=False)
    assert own["rms"] == pytest.approx(0.02, rel=1e-4)
    # Noise lightens about half of what stands at A's threshold, and next to nothing of what stands far below B's.
    assert 60 < one(table, kind="noise", judge="A", amplification=0.1, clipped=False)["errors"] < 140
    assert one(table, kind="noise", judge="B", amplification=0.1, clipped=False)["errors"] == 0


def test_own_noise_is_as_large_as_each_images_distortion() -> None:
    given = sources()["A"]
    variant = module._Variant("own-noise", "A", given, None, False)
    _, added = variant.added(given, slice(0, 4), seed=3)
    assert torch.allclose(rms(added), torch.tensor([0.41, 0.31, 0.21, 0.0]), atol=1e-6)


def test_no_figure_depends_on_the_batch() -> None:
    n = 30
    origins = torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(5))
    labels = (origins.flatten(1).mean(1) > 0.5).long()
    made = {"A": Source((origins + 0.05).clamp(0, 1), origins, labels)}
    options: dict[str, Any] = {"amplifications": (None, 0.2), "noise": (0.2,), "seed": 7}
    whole, parts = (transfer(made, basket(), batch=size, **options) for size in (1000, 7))
    for name in whole.column_names:
        if name == "rms":
            assert whole["rms"].to_pylist() == pytest.approx(parts["rms"].to_pylist(), rel=1e-6)
        else:
            assert whole[name].equals(parts[name]), name
    other = transfer(made, basket(), **(options | {"seed": 8}))
    assert not other.equals(whole)


def test_nan_is_no_error() -> None:
    origins, labels = flat(0.1, 0.2), torch.tensor([0, 1])
    table = transfer(
        {"A": Source(flat(0.9, 0.2), origins, labels)}, basket(A=Brighter(0.5), lost=Lost()), own_noise=False
    )
    row = one(table, kind="distortion", judge="lost")
    assert (row["errors"], row["n"], row["invalid"], row["right"]) == (1, 1, 1, 0)


def test_training_splits_norms_and_targets_are_columns() -> None:
    both = {
        "A": [sources()["A"], sources(norm="linf", target="any", method="lbfgs")["B"]],
    }
    table = transfer(both, basket(), splits={"A": "P1", "B": "P2"}, image_split="test", own_noise=False)
    row = one(table, kind="distortion", norm="linf", judge="B")
    assert (row["source_split"], row["judge_split"], row["image_split"]) == ("P1", "P2", "test")
    assert (row["target"], row["method"], row["errors"]) == ("any", "lbfgs", 4)
    assert one(table, kind="distortion", norm="l2", judge="B")["errors"] == 0


def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    table = transfer(sources(), basket(), noise=(0.1,))
    assert load(save(table, tmp_path / "deep" / "t.parquet")).equals(table)
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        load(tmp_path / "bad.parquet")


def test_what_does_not_fit_is_refused() -> None:
    given = sources()
    with pytest.raises(UserError, match="at least one source"):
        transfer({}, basket())
    with pytest.raises(UserError, match="different images"):
        transfer(given | {"B": Source(flat(0.7), flat(0.1), torch.tensor([0]))}, basket())
    with pytest.raises(UserError, match="one label an image"):
        transfer({"A": Source(flat(0.7), flat(0.1), torch.tensor([0, 1]))}, basket())
    with pytest.raises(UserError, match="0 or more"):
        transfer(given, basket(), noise=(-1.0,))
    with pytest.raises(UserError, match="did you mean 'judge'"):
        select(transfer(given, basket()), juge="A")


def test_a_grid_is_sources_by_judges_with_controls_below() -> None:
    table = transfer(sources(), basket(), amplifications=(None, 0.8), noise=(0.1, 0.3))
    shown = grid(table, noise=(0.3,))
    assert shown.rows == ("A", "B", "Gaussian noise, σ = 0.3")
    assert shown.columns == ("A", "B")
    assert shown.controls == 1
    assert [cell and cell["errors"] for cell in shown.cells[0]] == [4, 0]
    everything = grid(table, kinds=module.KINDS, amplification=0.8, clipped=True)
    assert everything.rows[:3] == ("A", "B", "undistorted")
    assert everything.rows[3:] == (
        "noise as large as A's", "noise as large as B's", "Gaussian noise, σ = 0.1", "Gaussian noise, σ = 0.3",
    )  # fmt: skip
    assert everything.sizes[1] == pytest.approx(0.675, abs=1e-6)
    with pytest.raises(UserError, match="no row of"):
        grid(table, target="worst", kinds=("distortion",))


def test_as_markdown() -> None:
    shown = grid(transfer(sources(), basket(), noise=(0.1,)))
    lines = markdown(shown).splitlines()
    assert lines[0] == "| minimal distortion, best target | A | B | mean RMS |"
    assert lines[2] == "| A | 100 (51–100) | 0 (0–49) | 0.232 |"  # Wilson: 4 of 4, 0 of 4


def test_heat_maps_are_drawn_with_every_percentage(tmp_path: Path) -> None:
    table = transfer(sources(), basket(), amplifications=(None, 0.8), noise=(0.1,))
    figure = heat_map([grid(table)], papers=[{("A", "B"): 26.2}])
    words = {text.get_text() for axis in figure.axes for text in axis.texts}
    assert {"100", "0.0", "(26.2)", "0.232"} <= words
    assert draw(table, tmp_path, papers={None: {("A", "A"): 100.0}}, heading="Who errs too?") == "transfer"
    from PIL import Image

    with Image.open(tmp_path / "transfer.png") as image:
        assert min(image.size) > 200
    assert "<path" in (tmp_path / "transfer.svg").read_text(encoding="utf-8")


NAMES = ("A", "B", "C")
ALONE: dict[str, Any] = {"workers": 1, "quiet": True, "unit": 30}


def blobs(basket: Basket, count: int = 30) -> Dataset:
    trials = linear_trials(basket, count)
    return Dataset("blobs", "test", trials.seeds, trials.aims, basket.classes)


def distorted(basket: Basket, data: Dataset, name: str, **options: Any) -> Findings:
    return foible.distort(basket, data, source=name, **(ALONE | {"images": 30, "wrong": True} | options))


def same(one: Source, other: Source) -> None:
    assert torch.equal(one.images, other.images)
    assert torch.equal(one.origins, other.origins)
    assert torch.equal(one.labels, other.labels)
    assert (one.norm, one.target, one.method) == (other.norm, other.target, other.method)


@pytest.mark.parametrize(("norm", "count"), [("l2", 30), ("linf", 3)])
def test_findings_give_the_table_that_the_method_gives(norm: str, count: int, tmp_path: Path) -> None:
    basket = linear_basket()
    data = blobs(basket, count)
    images = to_floats(data.images)

    def by_hand(name: str) -> Source:
        """In the order of the draw, as `distort` has them."""
        origins, labels = images[drawn], data.labels[drawn]
        found = closest(lambda rows: basket.judge(rows, [name])[0], origins, labels, norm=norm)
        return Source(found.images, origins, labels, norm=norm, target="any")

    runs: list[Any] = [distorted(basket, data, name, target="any", norm=norm) for name in NAMES]
    distorted(basket, data, "C", target="any", norm=norm, out=tmp_path / "run")
    runs[2] = tmp_path / "run"  # from a folder as from memory
    read = from_findings(*runs)
    assert list(read) == list(NAMES)
    drawn = torch.tensor(runs[0].column("origin_index"))
    for name, (part,) in read.items():
        same(part, by_hand(name))
        assert part.found is not None
        assert part.found.all()
        assert part.places is not None
        assert part.places.tolist() == drawn.tolist()
    assert sorted(drawn.tolist()) == list(range(count))
    options: dict[str, Any] = {"amplifications": (None, 0.1), "noise": (0.1,)}
    ours = transfer(read, basket, **options)
    assert ours.equals(transfer({name: by_hand(name) for name in NAMES}, basket, **options))
    assert from_findings(Findings.concat([runs[0], runs[1]]))["B"][0].images.equal(read["B"][0].images)


def test_of_every_label_there_are_the_best_the_random_and_the_worst() -> None:
    basket = linear_basket()
    data = blobs(basket)
    parts = from_findings(distorted(basket, data, "A", target="each"))["A"]
    assert [part.target for part in parts] == ["best", "random", "worst"]
    for part in parts:
        (alone,) = from_findings(distorted(basket, data, "A", target=part.target))["A"]
        assert torch.allclose(part.images, alone.images, atol=1e-5)
    best, random, worst = (rms(part.images - part.origins) for part in parts)
    assert bool(((best <= random) & (random <= worst)).all())
    assert bool((best < worst).any())
    (saved, *_) = from_findings(distorted(basket, data, "A", target="each"), images="saved")["A"]
    assert torch.equal((saved.images * 255).round() / 255, saved.images)
    assert not torch.equal(saved.images, parts[0].images)
    few = from_findings(distorted(basket, data, "A", target="each", likeliest=1))["A"]
    assert [part.target for part in few] == ["best", "worst"]


def test_images_that_all_runs_have_are_compared() -> None:
    basket = linear_basket()
    data = blobs(basket)
    some = distorted(basket, data, "B", target="any", images=12)
    parts = from_findings(distorted(basket, data, "A", target="any"), some)
    assert len(parts["A"][0].labels) == len(parts["B"][0].labels) == 12
    assert parts["A"][0].places is not None
    assert sorted(parts["A"][0].places.tolist()) == sorted(some.column("origin_index"))
    transfer(parts, basket)


def test_findings_that_cannot_be_transferred_are_refused() -> None:
    basket = linear_basket()
    data = blobs(basket)
    with pytest.raises(UserError, match="expected exact or saved"):
        from_findings(distorted(basket, data, "A", target="any"), images="png")
    with pytest.raises(UserError, match="expected those of `foible distort`"):
        from_findings(foible.hunt(basket, data, trials=4, workers=1, quiet=True))
    found, other = (distorted(basket, data, name, target="any").table for name in ("A", "B"))
    with pytest.raises(UserError, match="no image was distorted in all runs"):
        from_findings(Findings(found.slice(0, 3)), Findings(other.slice(5)))
    bare = found.set_column(found.column_names.index("point"), found.field("point"), pa.nulls(30, found["point"].type))
    with pytest.raises(UserError, match="do not hold their exact floats"):
        from_findings(Findings(bare))
    with pytest.raises(UserError, match="nothing to put together"):
        from_findings()
