"""Nobody waits for nothing: unit sizes change no row, a run goes on and on further, and says what it will take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small_tasks import SPACE, Task, linear_task

import foible
from foible import cli, progress
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.runs import spans
from foible.runs.folder import RunFolder
from foible.runs.record import settings_hash
from foible.runs.spans import Plan, Span
from foible.runs.told import forecast, told_of
from foible.testing import linear_network
from foible.testing.linear import Counting

HUNT: dict[str, Any] = {
    "space": SPACE, "split": "train", "search": "hill-climb?patience=10", "peer_confidence": 0, "quiet": True,
    "suspect": "A", "workers": 1, "shrink": False, "realism": "none",
}  # fmt: skip
DISTORT: dict[str, Any] = {"source": "A", "split": "train", "quiet": True, "workers": 1}
MADE = {"hunt": (foible.hunt, {**HUNT, "trials": 24}), "distort": (foible.distort, {**DISTORT, "images": 9}),
        "compare": (foible.compare, {"split": "train", "quiet": True}),
        "rank": (foible.rank, {"split": "train", "quiet": True, "realism": "none"})}  # fmt: skip


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("linear"))


def _rows(run: Path) -> list[dict[str, Any]]:
    """But for films, which are kept of the most telling of each unit."""
    return Findings.open(run).table.drop_columns(["film"]).to_pylist()


def _spans(run: Path) -> list[Span]:
    return list(RunFolder(run).spans())


@pytest.mark.parametrize("verb", MADE)
def test_unit_sizes_are_no_setting_and_any_shards_are_gone_on_with(verb: str, task: Task, tmp_path: Path) -> None:
    make, options = MADE[verb]
    for name, more in {"measured": {}, "mixed": {"unit": 5}}.items():
        make(task.basket, task.data, out=tmp_path / name, **options, **more)
    assert _spans(tmp_path / "measured") != _spans(tmp_path / "mixed") or verb == "rank"
    for file in RunFolder(tmp_path / "mixed").shards()[1::2]:
        file.unlink()
    make(task.basket, task.data, out=tmp_path / "mixed", **options)  # by another process, which sizes them otherwise
    whole = _rows(tmp_path / "measured")
    assert repr(_rows(tmp_path / "mixed")) == repr(whole)  # in which NaN is itself
    keys = {RunFolder(tmp_path / name).config["hash"] for name in ("measured", "mixed")}
    assert len(keys) == 1
    assert RunFolder(tmp_path / "mixed").missing() == []


def test_a_unit_is_sized_by_what_the_ones_before_took(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if every trial took five seconds."""
    took = Plan.took
    monkeypatch.setattr(Plan, "took", lambda plan, span, _: took(plan, span, 5.0 * span.size))
    monkeypatch.setattr(spans, "SECONDS", 100.0)
    foible.hunt(task.basket, task.data, out=tmp_path / "run", **HUNT | {"trials": 160})
    first, *others = [span.size for span in _spans(tmp_path / "run")]
    assert first == 64
    assert set(others) == {19, 20}


@pytest.mark.parametrize(("search", "first"), [("hill-climb", 160), ("gradient", 160), ("genetic", 64)])
def test_small_networks_and_quick_searches_begin_with_a_whole_batch(
    search: str, first: int, task: Task, tmp_path: Path
) -> None:
    """Two thousand lanes of a slow search would take minutes, and nothing would be on disk until then."""
    foible.hunt(
        task.basket, task.data, out=tmp_path / "run", **HUNT | {"trials": 160, "search": search, "space": "affine"}
    )
    assert _spans(tmp_path / "run")[0].size == first


@pytest.mark.parametrize("verb", ["hunt", "distort"])
def test_a_run_that_is_extended_is_the_longer_run(verb: str, task: Task, tmp_path: Path) -> None:
    make, options = MADE[verb]
    if verb == "hunt":
        options = options | {"realism": "patches", "shrink": True}  # which depend on nothing but the lane either
    count = "trials" if verb == "hunt" else "images"
    short = make(task.basket, task.data, out=tmp_path / "run", **options | {count: 8})
    before = {file.name: file.read_bytes() for file in RunFolder(tmp_path / "run").shards()}
    long = make(task.basket, task.data, out=tmp_path / "run", **options | {count: 16})
    for name, data in before.items():
        assert (tmp_path / "run" / "shards" / name).read_bytes() == data, "what was done is not done again"
    once = make(task.basket, task.data, out=tmp_path / "once", **options | {count: 16})
    assert (len(short), len(long)) == (8, 16)
    assert _rows(tmp_path / "run") == _rows(tmp_path / "once")
    assert long.configs == once.configs
    assert RunFolder(tmp_path / "run").config["settings"][count] == 16
    with pytest.raises(UserError, match=rf"has 16 {count} already, and 12 were asked for.*nothing there was changed"):
        make(task.basket, task.data, out=tmp_path / "run", **options | {count: 12})
    assert _rows(tmp_path / "run") == _rows(tmp_path / "once")


def test_a_run_is_extended_on_the_command_line_and_told_as_one(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    command = [*task.hunt("--suspect", "A", "--patience", "5", "--workers", "1", "--json"), "--out", str(run)]
    for trials, found in (("20", 20), ("40", 40)):
        assert cli.run([*command, "--trials", trials]) == 0
        assert json.loads(capsys.readouterr().out)["suspects"][0]["trials"] == found
    assert cli.run([*command, "--trials", "10"]) == 2
    assert "has 40 trials already" in capsys.readouterr().err
    assert "not finished" not in (run / "report.html").read_text("utf-8")


def test_fewer_may_be_asked_for_while_no_more_are_there(task: Task, tmp_path: Path) -> None:
    foible.hunt(task.basket, task.data, out=tmp_path / "run", **HUNT | {"trials": 96, "unit": 16})
    for file in RunFolder(tmp_path / "run").shards()[2:]:
        file.unlink()
    less = foible.hunt(task.basket, task.data, out=tmp_path / "run", **HUNT | {"trials": 40})
    assert less.column("lane") == list(range(40))


def test_an_atlas_is_of_so_many_trials(task: Task, tmp_path: Path) -> None:
    options = HUNT | {"atlas": True, "budget": 40}
    del options["search"]
    foible.hunt(task.basket, task.data, out=tmp_path / "run", **options, trials=16)
    assert [span.size for span in _spans(tmp_path / "run")] == [16], "its lanes touch: the whole map is one unit"
    with pytest.raises(UserError, match="together: 16 there, 32 here"):
        foible.hunt(task.basket, task.data, out=tmp_path / "run", **options, trials=32)


def _as_before(run: Path, unit: int) -> None:
    """Turn a run of units of this size into one of the version before: numbers for names, and its size a setting."""
    folder = RunFolder(run)
    config, shards = folder.config, folder.shards()
    settings = {**config["settings"], "unit": unit}
    key = settings_hash(settings)
    for number, file in enumerate(shards):
        table = pq.read_table(file)
        place = table.schema.get_field_index("config")
        table = table.set_column(place, "config", pa.array([key] * len(table)))
        notes = {**table.schema.metadata, b"foible.configs": json.dumps({key: settings}, sort_keys=True).encode()}
        pq.write_table(table.replace_schema_metadata(notes), file.with_name(f"unit-{number:06d}.parquet"))
        file.unlink()
    del config["lanes"], config["whole"]
    config |= {"hash": key, "settings": settings, "units": len(shards)}
    (run / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("unit", [7, 64])
def test_a_run_of_the_version_before_is_opened_and_gone_on_with(unit: int, task: Task, tmp_path: Path) -> None:
    run = tmp_path / "run"
    foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 32, "unit": 8})
    whole = [{**row, "config": ""} for row in _rows(run)]
    _as_before(run, 8)
    config = RunFolder(run).config
    assert [{**row, "config": ""} for row in _rows(run)] == whole
    for number in (1, 3):
        (run / "shards" / f"unit-{number:06d}.parquet").unlink()
    assert told_of(run) == f"2 of 4 units are on disk in {run}"
    with pytest.raises(UserError, match="earlier Foible"):
        foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 64})
    with pytest.raises(UserError, match="seed: 0 there, 1 here"):
        foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 32, "seed": 1})
    again = foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 32, "unit": unit})
    assert list(again.configs) == [config["hash"]]
    # A run of 60 images has the same seeds and the same typical images as before: the rows are the same too.
    assert [{**row, "config": ""} for row in _rows(run)] == whole


def test_lanes_that_come_twice_are_named(task: Task, tmp_path: Path) -> None:
    run = tmp_path / "run"
    foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 32, "unit": 16})
    (first, _) = RunFolder(run).shards()
    first.rename(RunFolder(run).shard(Span(0, 0, 20)))
    with pytest.raises(UserError, match="hold the same lanes: delete one of them"):
        Findings.open(run)


def _begun(task: Task, run: Path) -> None:
    """A hunt that was stopped before its first unit was finished."""
    foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 32})
    for file in (*RunFolder(run).shards(), run / "why.json"):
        file.unlink(missing_ok=True)


def test_a_run_without_a_finished_unit_is_opened_and_says_so(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    _begun(task, run)
    found = Findings.open(run)
    assert len(found) == 0
    assert list(found.configs) == [RunFolder(run).config["hash"]]
    for command in (["show", str(run)], ["report", str(run)]):
        assert cli.run(command) == 0
        said = capsys.readouterr()
        assert "no unit is finished, so nothing is on disk" in said.out
        assert "Traceback" not in said.err
        assert cli.run([*command, "--json"]) == 0
        assert "no unit is finished" in json.loads(capsys.readouterr().out)["unfinished"]
    assert "0 of its 32 trials are here" in (run / "report.html").read_text("utf-8")


def test_what_is_on_disk_is_counted(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    foible.hunt(task.basket, task.data, out=run, **HUNT | {"trials": 96, "unit": 16})
    for file in RunFolder(run).shards()[3:]:
        file.unlink()
    assert told_of(run) == f"3 units, 48 of 96 trials, are on disk in {run}"
    assert cli.run(["show", str(run)]) == 0
    assert "The run is not finished: 3 units, 48 of 96 trials, are on disk" in capsys.readouterr().out


class _Asked(torch.nn.Module):
    """A network that says when it is asked."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a network was asked before what is wrong was said")


def _unasked() -> Basket:
    networks = {name: _Asked(linear_network(k)) for k, name in enumerate("ABC")}
    return Basket(networks, classes=["0", "1", "2"], preprocess="inside", shape=(1, 12, 12))


@pytest.mark.parametrize(
    ("verb", "options", "message"),
    [
        ("hunt", {"space": "pixels?shape=1x8x8"}, "pixels has the shape 1x8x8, the images 1x12x12"),
        ("hunt", {"search": "gradient", "space": "swaps"}, "Swaps has no slope to follow"),
        ("hunt", {"search": "pbil", "space": "swaps"}, "swaps has no box"),
        ("hunt", {"search": "hill-climb?width=0"}, "width is 0"),
        ("hunt", {"search": "genetic?mutation=2"}, "mutation is 2"),
        ("hunt", {"suspect": "Z"}, "no network 'Z'"),
        ("distort", {"target": "cow"}, "cow"),
        ("distort", {"places": (3, 99)}, "places: 99 is no image"),
        ("distort", {"norm": "linf", "method": "lbfgs"}, "linf"),
    ],
)
def test_what_can_be_known_is_refused_before_a_network_is_asked(
    verb: str, options: dict[str, Any], message: str, task: Task, tmp_path: Path
) -> None:
    make: Callable[..., Any] = {"hunt": foible.hunt, "distort": foible.distort}[verb]
    fixed = {"hunt": HUNT, "distort": DISTORT}[verb]
    with pytest.raises(UserError, match=message):
        make(_unasked(), task.data, out=tmp_path / "run", **fixed | options)
    assert not (tmp_path / "run").exists(), "and nothing is left behind"


def test_a_run_of_other_settings_is_refused_before_a_network_is_asked(task: Task, tmp_path: Path) -> None:
    foible.hunt(_basket(), task.data, out=tmp_path / "run", **HUNT | {"trials": 16})
    settings = RunFolder(tmp_path / "run").config["settings"]
    basket = _unasked()
    basket.fingerprints = dict(settings["networks"])  # the same ones, as far as a run can tell
    for options, message in ({"seed": 3}, "seed: 0 there, 3 here"), ({"trials": 8}, "has 16 trials already"):
        with pytest.raises(UserError, match=message):
            foible.hunt(basket, task.data, out=tmp_path / "run", **HUNT | {"trials": 16} | options)
    with RunFolder(tmp_path / "run").lock(), pytest.raises(UserError, match="another process is working on the run"):
        foible.hunt(basket, task.data, out=tmp_path / "run", **HUNT | {"trials": 16})
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="which is a file: give another --out"):
        foible.hunt(basket, task.data, out=tmp_path / "file", **HUNT)


def _basket() -> Basket:
    networks = {name: linear_network(k) for k, name in enumerate("ABC")}
    return Basket(networks, classes=["0", "1", "2"], preprocess="inside", shape=(1, 12, 12))


def test_a_network_without_a_gradient_is_refused_before_seeds_are_judged(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linear = linear_network(0)
    networks = {"A": linear_network(1), "B": lambda images: linear(images).detach()}
    basket = Basket(networks, classes=["0", "1", "2"], preprocess="inside", shape=(1, 12, 12))
    with pytest.raises(UserError, match="network 'B' gives no gradient"):
        foible.hunt(basket, task.data, out=tmp_path / "run", **HUNT | {"search": "gradient", "quiet": False})
    assert "Judging" not in capsys.readouterr().err
    with pytest.raises(UserError, match="nowhere"):
        foible.distort(basket, task.data, out=tmp_path / "run", **DISTORT | {"layer": "nowhere", "quiet": False})
    assert "Choosing" not in capsys.readouterr().err
    command = ["distort", "--basket", str(task.basket), "--data", task.data, "--source", "A"]
    assert cli.run([*command, "--layer", "output", "--amplify", "2", "--out", str(tmp_path / "run")]) == 2
    assert "leave one of them out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


SETTINGS = {"recipe": "hunt", "trials": 1000}


@pytest.mark.parametrize(
    ("left", "pace", "told"),
    [
        (4000, 0.02, ""),
        (4000, 0.05, "About 2 minutes for 4 × 1,000 trials on 2 cores: 0.05 seconds each, by those so far."),
        (
            4000,
            0.36,
            "About 12 minutes for 4 × 1,000 trials on 2 cores: 0.36 seconds each, by those so far. `--trials 100` "
            "takes about 72 seconds.",
        ),
        (1200, 1.0, "About 10 minutes for the 1,200 of 4 × 1,000 trials that are left on 2 cores: 1 seconds each"),
        (4000, 90.0, "About 50.0 hours for 4 × 1,000 trials on 2 cores.*`--trials 16` takes about 48 minutes"),
    ],
)
def test_what_a_hunt_will_take_is_told_and_something_smaller_offered(left: int, pace: float, told: str) -> None:
    said = forecast(SETTINGS, [1000] * 4, left=left, pace=pace, workers=2, least=16)
    assert said.startswith(told) if "*" not in told else all(part in said for part in told.split(".*"))
    assert bool(said) == bool(told)
    of_images = forecast({"recipe": "compare"}, [50_000], left=50_000, pace=0.1, workers=1, least=16)
    assert of_images == "About 83 minutes for 50,000 images in one process: 0.1 seconds each, by those so far."


def test_it_is_told_after_the_first_unit_on_standard_error(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    took = Plan.took
    monkeypatch.setattr(Plan, "took", lambda plan, span, _: took(plan, span, 10.0 * span.size))
    command = [*task.hunt("--suspect", "A", "--patience", "5", "--workers", "1", "--json"), "--trials", "256"]
    assert cli.run([*command, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    json.loads(said.out)
    lines = [line for line in said.err.splitlines() if line.startswith("About")]
    assert lines == [
        "About 32 minutes for the 192 of 256 trials that are left in one process: 10 seconds each, by those so far. "
        "`--trials 64` takes about 11 minutes."
    ]
    assert said.err.index(lines[0]) < said.err.index("Hunting: 256/256")


def test_a_lane_of_large_images_costs_what_it_costs(tmp_path: Path) -> None:
    """On a CPU such images are shown to a network two at a time, and not padded to sixteen: a unit may be two lanes."""
    shape = (3, 96, 96)
    network = Counting(torch.nn.Sequential(torch.nn.AvgPool2d(24), torch.nn.Flatten(), torch.nn.Linear(48, 3)))
    basket = Basket(
        {"A": network, "B": network}, classes=["0", "1", "2"], preprocess="inside", shape=shape, copies=False
    )
    images = torch.rand(5, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = basket.judge(images, ["A"])
        assert set(network.calls[-3:]) == {2}
        alone = torch.cat([basket.judge(image[None], ["A"]) for image in images], 1)
    assert together.equal(alone), "and its answer does not depend on its neighbours"
    pixels = (255 * images).byte()
    data = Dataset("large", "train", pixels, basket.predict(pixels)[0].argmax(1), ("0", "1", "2"))
    foible.hunt(basket, data, out=tmp_path / "run", **HUNT | {"trials": 5})
    assert _spans(tmp_path / "run")[0] == Span(0, 0, 2)


def test_progress_goes_on_through_shrinking(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search, shrinking and the rest are parts of one bar, which is full when all of them are done."""
    told: list[float] = []
    at: dict[str, list[float]] = {"search": [], "shrink": []}
    tick = progress.Stages.tick

    def watched(stages: progress.Stages, stage: str, each: float = 1) -> Callable[[float], None]:
        heard = tick(stages, stage, each)

        def noted(amount: float) -> None:
            heard(amount)
            at[stage].append(sum(told))

        return noted

    monkeypatch.setattr(progress._Silent, "advance", lambda _, amount=1, *__: told.append(amount))
    monkeypatch.setattr(progress.Stages, "tick", watched)
    foible.hunt(task.basket, task.data, **HUNT | {"trials": 24, "shrink": True})
    seeds = 24  # as many as there are trials; they have a bar of their own, full before
    assert sum(told) == pytest.approx(seeds + 24)
    assert seeds < at["search"][-1] < at["shrink"][0] < at["shrink"][-1] <= seeds + 24.001
    assert len(set(at["shrink"])) > 20, "little by little"
