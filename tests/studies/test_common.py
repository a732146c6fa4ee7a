"""Results as files, intervals, data and baskets of studies."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from pictures import check_figure
from scipy.stats import ttest_1samp
from small_tasks import Task

from foible.errors import UserError
from foible.figures import new, save
from foible.statistics import wilson
from foible.studies import SCALES, STUDIES, run_study
from foible.studies.common import Result, Row, basket_for, data_for, interval, mean_row, share_row, shown, write


def test_result_json_has_the_promised_shape(toy: str, tmp_path: Path) -> None:
    run_study(toy, scale="paper", data="digits", out=tmp_path, seed=3)
    record = json.loads((tmp_path / "result.json").read_text())
    assert list(record) == ["study", "scale", "settings", "seed", "versions", "rows"]
    assert (record["study"], record["scale"], record["seed"]) == ("toy", "paper", 3)
    assert record["settings"]["moves"] == {"degrees": 5.0, "pixels": 1.0}
    assert {"foible", "python", "torch"} <= set(record["versions"])
    for row in record["rows"]:
        assert list(row) == ["table", "quantity", "paper", "measured", "low", "high", "n"]
    assert record["rows"][0]["measured"] == 60.25
    assert record["rows"][2]["measured"] is None  # NaN is not JSON


def test_table_md_sets_paper_beside_measured(toy: str, tmp_path: Path) -> None:
    run_study(toy, out=tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "| A: success, % | 63 | 60.2 | 50 to 70 | 1,000 |" in text
    assert "| A: a\\|b | – | – | – | 0 |" in text
    assert text.index("## Table 9") < text.index("## Trends") < text.index("## Notes") < text.index("## Settings")
    assert "- A note." in text
    assert "![toy](toy.png)" in text
    assert "(toy.svg)" in text
    assert "| moves | degrees 5, pixels 1 |" in text
    check_figure(tmp_path, "toy")


def test_a_study_writes_the_same_bytes_again(toy: str, tmp_path: Path) -> None:
    run_study(toy, out=tmp_path / "one")
    run_study(toy, out=tmp_path / "two")
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert names == ["result.json", "table.md", "toy.png", "toy.svg"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_the_users_own_style_of_drawing_is_left_alone(toy: str, tmp_path: Path) -> None:
    import matplotlib as mpl

    run_study(toy, out=tmp_path / "one")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        run_study(toy, out=tmp_path / "two")
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "one" / "toy.png").read_bytes() == (tmp_path / "two" / "toy.png").read_bytes()


def test_a_figure_that_was_not_drawn_is_not_listed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        write(Result("toy", "quick", {}, 0, figures=["absent"]), tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "tabel1"}, "there is no study 'tabel1'; did you mean 'table1'"),
        ({"scale": "huge"}, "scale is 'huge': expected quick or paper"),
        ({"options": {"trails": "5"}}, "no option 'trails'; did you mean 'trials'"),
        ({"options": {"trials": "many"}}, "trials is 'many': expected int"),
        ({"options": {"seed": "5"}}, "no option 'seed'"),
    ],
)
def test_wrong_input_is_named(toy: str, tmp_path: Path, options: dict[str, object], said: str) -> None:
    given = {"name": toy, "out": tmp_path / "out"} | options
    with pytest.raises(UserError) as error:
        run_study(**given)  # type: ignore[arg-type]
    assert said in str(error.value)
    assert not (tmp_path / "out").exists(), "what is refused leaves nothing behind"


def test_a_study_that_refuses_its_data_leaves_no_folder_and_takes_none_away(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "had").mkdir()
    (tmp_path / "had" / "notes.txt").write_text("mine")
    for folder in (tmp_path / "new", tmp_path / "empty", tmp_path / "had"):
        with pytest.raises(UserError, match="no data set called 'nowhere'"):
            run_study("table1", data="nowhere", out=folder, quiet=True)
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["empty", "had", "notes.txt"]


def test_own_options_arrive_with_their_types(toy: str, tmp_path: Path) -> None:
    result = run_study(toy, out=tmp_path, options={"trials": "12", "sizes": "true"})
    assert (result.settings["trials"], result.settings["sizes"]) == (12, True)


def test_a_folder_of_another_study_is_refused(toy: str, tmp_path: Path) -> None:
    run_study(toy, out=tmp_path)
    run_study(toy, out=tmp_path)
    with pytest.raises(UserError, match=r"holds the study toy \(quick\): give another --out for toy \(paper\)"):
        run_study(toy, scale="paper", out=tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        run_study(toy, out=tmp_path / "file")


def test_every_study_says_what_it_shows() -> None:
    assert SCALES == ("quick", "paper")
    for name, (module, about) in STUDIES.items():
        stem = name.replace("-", "_")
        fooled = stem.removeprefix("fooling_")
        papers = rf"(peer_pressure|intriguing|sympathetic|boundary)\.{stem}|easily_fooled\.{fooled}"
        home = rf"foible\.studies\.({papers}|{stem})(\.study)?"
        assert re.fullmatch(home, module)
        assert about.endswith(".")
        assert len(about) < 110


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (math.nan, "–"), (63.0, "63"), (5.125, "5.12"), (1208.3, "1,208"), (12.34, "12.3"),
        (0.0312, "0.031"), (-0.1, "-0.10"), (0.0, "0"),
    ],
)  # fmt: skip
def test_numbers_as_people_read_them(value: float | None, text: str) -> None:
    assert shown(value) == text


def test_an_interval_that_is_none_is_a_dash() -> None:
    assert interval(Row("t", "q", None, 1.0, 0.5, 2.0)) == "0.50 to 2"
    assert interval(Row("t", "q", None, 1.0)) == interval(Row("t", "q", None, None, math.nan, math.nan)) == "–"


def test_a_shares_interval_is_wilsons() -> None:
    row = share_row("t", "q", 63.0, 63, 100)
    low, high = wilson(63, 100)
    assert (row.paper, row.measured, row.low, row.high, row.n) == (63, 63, 100 * low, 100 * high, 100)
    assert share_row("t", "q", None, 0, 0).measured is None


def test_a_means_interval_is_students() -> None:
    values = [1.0, 4.0, 2.5, 7.0]
    row = mean_row("t", "q", None, values)
    known = ttest_1samp(values, 0).confidence_interval(0.95)
    assert row.measured == pytest.approx(np.mean(values))
    assert (row.low, row.high) == (pytest.approx(known.low), pytest.approx(known.high))
    assert mean_row("t", "q", None, values, least=0).low == 0
    assert mean_row("t", "q", None, [2.0]).low is None
    assert mean_row("t", "q", None, []).measured is None


def test_data_is_what_was_asked_for_then_mnist_then_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOIBLE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_for("cifar10", "quick") == "cifar10"
    assert data_for(None, "quick") == "digits"
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"")
    assert data_for(None, "paper") == "mnist"


def test_a_basket_is_trained_once_and_other_settings_get_another(task: Task, tmp_path: Path) -> None:
    data, options = f"{task.data}?test=0.2", {"seed": 0, "quiet": True, "device": "cpu"}
    first = basket_for(["softmax"], data, tmp_path, epochs=1, **options)  # type: ignore[arg-type]
    file = tmp_path / "basket" / "softmax.safetensors"
    before = file.stat().st_mtime_ns
    again = basket_for(["softmax"], data, tmp_path, epochs=1, **options)  # type: ignore[arg-type]
    assert file.stat().st_mtime_ns == before
    assert again.fingerprints == first.fingerprints
    other = basket_for(["softmax"], data, tmp_path, epochs=2, **options)  # type: ignore[arg-type]
    assert other.fingerprints != first.fingerprints
    assert file.stat().st_mtime_ns == before
    assert basket_for(["softmax"], data, tmp_path, epochs=2, **options).fingerprints == other.fingerprints  # type: ignore[arg-type]
    assert len(list(tmp_path.glob("basket-*"))) == 1


def test_a_given_basket_is_not_trained(task: Task, tmp_path: Path) -> None:
    basket = basket_for(["mlp:10"], "digits", tmp_path, seed=0, given=str(task.basket))
    assert basket.names == ("A", "B", "C")
    assert list(tmp_path.iterdir()) == []


def test_wrong_settings_of_training_are_not_mistaken_for_another_basket(task: Task, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="epochs is 0"):
        basket_for(["softmax"], task.data, tmp_path, seed=0, quiet=True, epochs=0)


def test_new_always_gives_a_grid_of_axes(tmp_path: Path) -> None:
    for rows, columns in ((1, 1), (2, 1), (1, 3)):
        figure, axes = new(rows, columns)
        assert axes.shape == (rows, columns)
        axes[0, 0].imshow(np.random.default_rng(0).random((8, 8)))
        check_figure(tmp_path, save(figure, tmp_path, f"grid{rows}{columns}"))
