"""Paper 1's checkerboard: the task, its networks, and the scan for dissent."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from pictures import check_figure

from foible.basket import Basket
from foible.errors import UserError
from foible.studies import run_study
from foible.studies.peer_pressure.checkerboard import board
from foible.studies.peer_pressure.checkerboard import study as checkerboard


@pytest.fixture(scope="module")
def basket() -> Basket:
    points = [board.samples(2, 50, 0, 0)]
    return board.train(points, 2, seed=0, steps=120, rate=0.02)[0]


def test_squares_alternate() -> None:
    middles = torch.tensor([[0.125, 0.125], [0.375, 0.125], [0.375, 0.375], [0.875, 0.125], [1.0, 1.0]])
    assert board.squares_of(middles, 4).tolist() == [0, 1, 0, 1, 0]


def test_distance_to_the_true_boundary() -> None:
    points = torch.tensor([[0.5, 0.1], [0.25, 0.25], [0.0, 0.0], [0.4, 0.9]])
    assert board.to_boundary(points, 2).tolist() == pytest.approx([0.0, 0.5, 1.0, 0.2])
    assert board.to_boundary(torch.tensor([[0.375, 0.375], [0.0, 0.125]]), 4).tolist() == pytest.approx([0.5, 0.5])
    # On a large board a square's points are ⅓·½ away on average; at the rim there is no line on one side.
    assert board.to_boundary(checkerboard.grid(400), 20).mean().item() == pytest.approx(1 / 6, abs=0.02)


def test_distance_is_that_to_the_nearest_point_of_the_other_class() -> None:
    points, dense = board.samples(4, 20, 1, 0), checkerboard.grid(200)
    other = board.squares_of(points, 4)[:, None] != board.squares_of(dense, 4)
    nearest = torch.cdist(points, dense).masked_fill(~other, math.inf).amin(1)
    assert torch.allclose(board.to_boundary(points, 4) / 4, nearest, atol=0.006)


def test_samples_are_as_many_of_each_class_and_depend_on_seed_and_replicate() -> None:
    points = board.samples(4, 100, 0, 0)
    assert points.shape == (200, 2)
    assert board.squares_of(points, 4).bincount().tolist() == [100, 100]
    assert torch.equal(points, board.samples(4, 100, 0, 0))
    assert not torch.equal(points, board.samples(4, 100, 1, 0))
    assert not torch.equal(points, board.samples(4, 100, 0, 1))


def test_networks_are_the_papers(basket: Basket) -> None:
    assert basket.names == ("10", "12", "14", "16", "18")
    for name in basket.names:
        shapes = [tuple(weight.shape) for weight in basket.network(name).parameters()]  # type: ignore[union-attr]
        units = int(name)
        assert shapes == [(units, 2), (units,), (units, units), (units,), (1, units), (1,)]


def test_networks_learn_the_board(basket: Basket) -> None:
    points = board.samples(2, 50, 0, 0)
    right = basket.predict(board.as_images(points)).argmax(2) == board.squares_of(points, 2)
    assert right.float().mean(1).min() > 0.95


def test_units_that_a_narrow_network_lacks_stay_zero() -> None:
    layers = [layer.requires_grad_() for layer in board.first_weights((3, 5), 0, 1)]
    shown = torch.rand(2, 20, 2, generator=torch.Generator().manual_seed(0))
    before = [layer.detach().clone() for layer in layers]
    board.fit(layers, shown, (shown[..., 0] > 0.5).float(), 10, 0.05, lambda: None)
    assert all(not torch.equal(layer, was) for layer, was in zip(layers, before, strict=True))
    first, second, last = (layer.detach() for layer in layers[::2])
    assert first[0, :, 3:].eq(0).all()
    assert second[0, 3:].eq(0).all()
    assert second[0, :, 3:].eq(0).all()
    assert last[0, 3:].eq(0).all()
    assert all(layer.detach()[0, :, 3:].eq(0).all() for layer in layers[1:-1:2])
    assert second[1].ne(0).all()


def test_the_scan_finds_what_asking_point_by_point_finds(basket: Basket) -> None:
    side = 15
    seen = checkerboard.scan(basket, side)
    assert seen.dissents.any()
    for place, (x, y) in enumerate(seen.points.tolist()):
        assert (x, y) == pytest.approx(((place % side + 0.5) / side, (place // side + 0.5) / side))
        point = (torch.tensor([[[[x]], [[y]]]]) - 0.5) * math.sqrt(12)
        answers = [int(basket.network(name)(point).item() > 0) for name in basket.names]
        for network, answer in enumerate(answers):
            peers = answers[:network] + answers[network + 1 :]
            alone = all(peer != answer for peer in peers)
            assert bool(seen.dissents[network, place]) == alone


def test_dissent_needs_all_the_peers() -> None:
    said = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 1, 0]])
    assert checkerboard.dissenting(said).tolist() == [
        [False, False, False, True], [False, True, False, False], [False, False, False, False],
    ]  # fmt: skip


def test_what_dissent_comes_to_on_a_plane_that_is_known() -> None:
    """Four networks that are always right, and a fifth whose boundary x = ½ lies at x = ¾."""
    side = 8
    points = checkerboard.grid(side)
    truth = board.squares_of(points, 2)
    moved = torch.stack([(points[:, 0] - 0.25).clamp(0), points[:, 1]], 1)
    said = torch.stack([truth, truth, truth, truth, board.squares_of(moved, 2)])
    seen = checkerboard.Scan(side, points, said, checkerboard.dissenting(said))
    found = checkerboard.measured(seen, 4, 2)
    assert (found.share, found.right) == (25.0, 100.0)
    # Columns at x = 0.5625 and 0.6875; rows as far or nearer only in the two middle ones.
    far = [min(abs(x - 0.5), abs(y - 0.5)) * 2 for x in (0.5625, 0.6875) for y in points[::side, 1].tolist()]
    assert found.true == pytest.approx(sum(far) / len(far))
    none = checkerboard.measured(seen, 0, 2)
    assert none.share == 0
    assert math.isnan(none.right)


def test_distance_to_a_networks_own_boundary() -> None:
    said = (checkerboard.grid(10)[:, 0] > 0.5).long()
    away = checkerboard.own_boundary(said, 10, 2).view(10, 10)
    assert away[3].tolist() == pytest.approx([0.8, 0.6, 0.4, 0.2, 0, 0, 0.2, 0.4, 0.6, 0.8])
    assert checkerboard.own_boundary(torch.zeros(100, dtype=torch.long), 10, 2).isinf().all()


def test_notes_say_whether_the_papers_claims_hold() -> None:
    means = {"share": 2.0, "true": 0.1, "own": 0.02, "right": 70.0, "plane": 0.25}
    assert "lie nearer to the true boundary" in checkerboard.notes(means)[1]
    assert "70 % of such points, not at all of them" in checkerboard.notes(means)[2]
    assert "lie no nearer" in checkerboard.notes(means | {"true": 0.3})[1]
    assert "100 % of such points, as the paper says" in checkerboard.notes(means | {"right": 100.0})[2]
    assert "No network disagrees" in checkerboard.notes(means | {"true": None, "right": None})[0]


def test_the_study_writes_figures_and_rows(tmp_path: Path) -> None:
    options = {"steps": "60", "replicates": "2", "side": "24"}
    result = run_study("checkerboard", out=tmp_path, seed=1, quiet=True, options=options)
    assert result.figures == ["figure2", "figure3", "figure4"]
    for stem in result.figures:
        check_figure(tmp_path, stem)
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert len(rows) == 2 * 5 + 4 * 6 + 1
    assert {row["paper"] for row in rows} == {None}
    for row in rows:
        assert row["quantity"].endswith("units") or row["quantity"] in ("all", "every point of the plane")
    again = run_study("checkerboard", out=tmp_path / "again", seed=1, quiet=True, options=options)
    assert again.rows == result.rows
    for stem in result.figures:
        assert (tmp_path / f"{stem}.png").read_bytes() == (tmp_path / "again" / f"{stem}.png").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": "mnist"}, "leave out --data and --basket"),
        ({"basket": "b"}, "leave out --data and --basket"),
        ({"options": {"squares": "1"}}, "expected at least 2 squares"),
        ({"options": {"side": "5"}}, "2 points of the scan a square"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run_study("checkerboard", out=tmp_path, quiet=True, **options)  # type: ignore[arg-type]
