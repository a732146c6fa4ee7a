from __future__ import annotations

from pathlib import Path

import pytest
import torch

from foible import figures
from foible.basket import Basket
from foible.errors import UserError
from foible.findings import Findings
from foible.images import decode_png
from foible.spaces import Affine
from foible.studies.peer_pressure.sessions import (
    MOST_ROWS,
    Session,
    draw_session,
    save_session,
    session_figure,
    several,
    shown_moves,
    sureness,
    typical,
    walk,
)


def test_a_session_is_walked_from_the_seed_to_the_finding(findings: Findings, networks: Basket) -> None:
    found = findings.filter(outcome="found")
    assert len(found) > 5
    for row in list(found)[:6]:
        session = walk(findings, row["id"], Affine(), networks)
        assert session.moves == row["moves"]
        assert torch.equal(session.images[0], decode_png(row["origin"]))
        assert torch.equal(session.images[-1], decode_png(row["image"]))
        assert torch.allclose(session.activations[-1], torch.tensor(row["after"]), atol=1e-5)
        held, trace = session.activations[:, :, row["truth"]], torch.tensor(row["trace"])
        assert torch.allclose(held, trace, atol=0.02)  # the trace is of unrounded pixels
        assert (held[1:, 0] < held[:-1, 0] + 0.02).all()  # every accepted move lowers the suspect's


def test_the_row_alone_knows_the_true_class_and_both_ends(findings: Findings) -> None:
    row = max(findings.filter(outcome="found"), key=lambda one: one["moves"])
    session = walk(findings, row, Affine())
    assert torch.equal(session.activations[:, :, row["truth"]], torch.tensor(row["trace"]))
    assert session.activations[1:-1, :, row["said"]].isnan().all()
    assert not session.activations[[0, -1]].isnan().any()


def test_a_figure_has_a_row_for_each_move_and_the_suspect_at_the_left_of_each_group(
    findings: Findings, networks: Basket
) -> None:
    row = typical(findings, 3)
    axes = session_figure(findings, row, Affine(), networks).axes
    assert len(axes) == 2 * len(shown_moves(row["moves"]))
    bars = axes[-1].containers
    assert len(bars) == len(networks)
    assert bars[0][0].get_x() < bars[1][0].get_x()
    blue, green = ([bar.get_facecolor() for bar in container] for container in bars[:2])
    assert set(blue) != set(green)
    said = bars[0][row["said"]].get_height()
    assert said == pytest.approx(row["after"][0][row["said"]], abs=1e-5)


def test_long_sessions_keep_both_ends() -> None:
    assert shown_moves(4) == [0, 1, 2, 3, 4]
    assert shown_moves(0) == [0]
    long = shown_moves(41)
    assert len(long) == MOST_ROWS
    assert (long[0], long[-1]) == (0, 41)


def test_of_many_classes_those_that_matter_have_bars() -> None:
    activations = torch.zeros(2, 3, 100)
    activations[:, :, 70] = 0.2
    session = Session("A", 90, 80, tuple(map(str, range(100))), torch.zeros(2, 1, 4, 4, dtype=torch.uint8), activations)
    figure, _ = figures.new()
    figure.clear()
    draw_session(figure, session)
    names = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert {"70", "80", "90"} <= set(names)
    assert len(names) == 10


def test_a_typical_session_has_nearly_so_many_moves_and_is_sure(findings: Findings) -> None:
    found = list(findings.filter(outcome="found"))
    wanted = found[0]["moves"]
    row = typical(findings, wanted)
    assert row["moves"] == wanted
    assert sureness(row) == max(sureness(one) for one in found if one["moves"] == wanted)
    assert typical(findings, wanted, [row["truth"]])["truth"] != row["truth"]


def test_saved_from_a_run_on_disk(findings: Findings, digits_run: Path, tmp_path: Path) -> None:
    id = findings.filter(outcome="found")[0]["id"]
    png = save_session(digits_run, id, tmp_path / "pictures")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.with_suffix(".svg").is_file()
    lost = findings.filter(outcome="exhausted")
    with pytest.raises(UserError, match="is exhausted"):
        save_session(digits_run, lost[0]["id"], tmp_path)


def test_several_sessions_put_the_longest_at_the_left(findings: Findings, networks: Basket) -> None:
    sessions = [walk(findings, typical(findings, moves), Affine(), networks) for moves in (1, 4, 2)]
    figure = several(sessions)
    left, right = figure.subfigs
    assert len(left.axes) == 2 * len(shown_moves(max(one.moves for one in sessions)))
    assert len(right.subfigs) == 2
    assert len(several(sessions[:1]).axes) == 2 * len(shown_moves(sessions[0].moves))
