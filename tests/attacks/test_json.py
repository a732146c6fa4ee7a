"""Every JSON file that we read, with every field of it replaced, removed or added to: it is refused with a reason or it
does no harm. Never an error that we did not foresee, and nothing that it names is run.

A few values are tried for each field, others for the next one; FOIBLE_ALL_JSON=1 tries all of them, in an hour.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load, save
from small_tasks import SPACE, linear_task

import foible
from foible import cli, studies
from foible.errors import Interrupted, UserError
from foible.networks import course

ALL = bool(os.environ.get("FOIBLE_ALL_JSON"))
DEEP = "@deep@"  # stands for lists inside each other, which Python's own writer would not write
NESTED = "[" * 5000 + "]" * 5000
CODE = "sub/evil.py:f"  # a file that is there, and leaves a mark when it is run
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 1.5, float("nan"), "", "x", "../../x", CODE, f"{CODE}?preprocess=inside",
    f"network:{CODE}?preprocess=inside", [f"A={CODE}?preprocess=inside"], "9" * 5000, "\ud800", "\x1b[2J\n", [], [[]],
    ["x"], {}, {"a": {}}, DEEP,
)  # fmt: skip
KEYS = ("more", "", "\ud800", "k" * 5000)  # that nobody knows
GONE = object()
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Home:
    """Small real runs of everything that writes JSON, made once; tests work on copies of these folders."""

    path: Path

    @property
    def marker(self) -> Path:
        return self.path / "marker"

    @property
    def data(self) -> str:
        return f"npz:{self.path / 'data.npz'}"

    @property
    def noisy(self) -> str:
        return f"npz:{self.path / 'noisy.npz'}"

    @property
    def lessons(self) -> str:
        return f"{self.data}?test=0.2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.path)
        _make(made)
        yield made


def _make(home: Home) -> None:
    task = linear_task(home.path)
    _add_noise(home.path)
    (home.path / "sub").mkdir()
    (home.path / "sub" / "evil.py").write_text(f"open({str(home.marker)!r}, 'w').close()\nf = None\n")
    shutil.copytree(home.path / "sub", home.path / "basket" / "sub")
    quick = ("--split", "train", "--device", "cpu")
    for command in (
        task.hunt("--suspect", "A", "--trials", "16", "--patience", "20", "--workers", "1", "--out", "hunt"),
        ["compare", "--basket", "basket", "--data", home.noisy, *quick, "--out", "compare"],
        ["compare", "--basket", "basket", "--data", home.noisy, *quick, "--unlabelled", "--out", "guessed"],
        ["distort", "--basket", "basket", "--source", "A", "--data", home.data, *quick, "--images", "2",
         "--workers", "1", "--out", "distort"],
        ["rank", "--basket", "basket", "--data", home.noisy, "--realism", "none", "--out", "pool"],
        ["suite", "hunt", "--out", "suite", "--most", "12"],
        ["suite", "compare", "hunt", "--out", "both", "--most", "12"],
        ["train", "softmax", "--data", home.lessons, "--epochs", "1", "--out", "one"],
        ["train", "probe:one", "--data", home.lessons, "--epochs", "1", "--out", "probe"],
    ):  # fmt: skip
        assert cli.run(list(map(str, command))) == 0, command
    shutil.copytree(home.path / "sub", home.path / "one" / "sub")
    shutil.copytree(home.path / "sub", home.path / "probe" / "sub")
    _half_trained(home)


def _add_noise(folder: Path) -> None:
    """noisy.npz: the images of data.npz and some noise, on which the networks differ."""
    with np.load(folder / "data.npz") as held:
        images, labels, classes = (held[name] for name in ("images", "labels", "classes"))
    noise = np.random.default_rng(0).integers(0, 256, (20, *images.shape[1:])).astype(images.dtype)
    if images.dtype != np.uint8:
        noise = noise / images.dtype.type(255)
    both = {"images": np.concatenate([images[:20], noise]), "labels": np.concatenate([labels[:20], labels[:20]])}
    np.savez(folder / "noisy.npz", **both, classes=classes)


def _half_trained(home: Home) -> None:
    """A training that was stopped after its second step: .training/config.json and a checkpoint."""
    steps = [0]
    real = course.batches

    def some(*args: Any) -> Any:
        steps[0] += 1
        if steps[0] > 2:
            raise KeyboardInterrupt
        return real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "batches", some)
        with pytest.raises(Interrupted):
            foible.train("softmax", home.lessons, out="half", epochs=2, batch=20, checkpoint_seconds=0, quiet=True)


# What is mutated: how a file is read as JSON, and how it is written with other JSON in it.


def _dumped(value: Any) -> str:
    return json.dumps(value).replace(f'"{DEEP}"', NESTED)


def _read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))


def _write(file: Path, value: Any) -> None:
    file.write_text(_dumped(value))


def _write_hashed(file: Path, value: Any) -> None:
    """With the hash that its settings have now, so that what is behind it is reached."""
    if isinstance(value, dict) and "hash" in value and isinstance(value.get("settings"), dict):
        text = json.dumps(value["settings"], sort_keys=True)
        value = {**value, "hash": hashlib.sha256(text.encode()).hexdigest()[:12]}
    _write(file, value)


def _metadata(key: str) -> tuple[Callable[[Path], Any], Callable[[Path, Any], None]]:
    """JSON in the metadata of a Parquet file; that of a suite gets its new SHA-256 into suite.json."""

    def read(file: Path) -> Any:
        return json.loads(pq.read_schema(file).metadata[key.encode()])

    def write(file: Path, value: Any) -> None:
        table = pq.read_table(file, partitioning=None)
        changed = {**table.schema.metadata, key.encode(): _dumped(value).encode()}
        _rewrite(file, table.replace_schema_metadata(changed))

    return read, write


def _rewrite(file: Path, table: pa.Table) -> None:
    pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    record = file.parent / "suite.json"
    if record.exists():
        _write(record, {**_read(record), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()})


def _read_versions(file: Path) -> Any:
    return json.loads(pq.read_table(file, partitioning=None).column("versions")[0].as_py())


def _write_versions(file: Path, value: Any) -> None:
    table = pq.read_table(file, partitioning=None)
    texts = pa.array([_dumped(value)] * table.num_rows, pa.string())
    _rewrite(file, table.set_column(table.column_names.index("versions"), "versions", texts))


def _read_checkpoint(file: Path) -> Any:
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["record"])


def _write_checkpoint(file: Path, value: Any) -> None:
    file.write_bytes(save(load(file.read_bytes()), metadata={"record": _dumped(value)}))


JSON, HASHED = (_read, _write), (_read, _write_hashed)
VERSIONS, CHECKPOINT = (_read_versions, _write_versions), (_read_checkpoint, _write_checkpoint)
CLASSES, CONFIGS, COUNTS, NETWORKS = map(
    _metadata, ("foible.classes", "foible.configs", "foible.counts", "foible.networks")
)

SHARD = "shards/unit-*.parquet"  # the first
HUNT = ["hunt", "--basket", "basket", "--data", "{data}", "--space", SPACE, "--suspect", "A", "--trials", "16",
        "--patience", "20", "--workers", "1", "--out", "work"]  # fmt: skip
COMPARE = ["compare", "--basket", "basket", "--data", "{noisy}", "--split", "train", "--device", "cpu", "--out", "work"]
DISTORT = ["distort", "--basket", "basket", "--source", "A", "--data", "{data}", "--split", "train", "--device", "cpu",
           "--images", "2", "--workers", "1", "--out", "work"]  # fmt: skip
POOL = ["rank", "--basket", "basket", "--data", "{noisy}", "--realism", "none", "--out", "work"]
SHOW, REPORT, REPLAY, CITE = ["show", "work"], ["report", "work"], ["replay", "work", "{id}"], ["cite", "work"]
JSON_TOO = ["show", "work", "--json"]
EXPORT = ["export", "work", "--to", "csv", "--all", "--out", "out.csv"]
FREEZE = ["suite", "work", "--out", "out"]
GATE = ["gate", "--suite", "work", "--network", "new=basket/A"]
NEW_GATE = ["gate", "--suite", "suite", "--network", "new=work/A"]
ONLY_GATE = ["gate", "--suite", "suite", "--network", "new=work"]
ONLY_GATE = ["gate", "--suite", "suite", "--network", "new=work"]
GROW = ["suite", "hunt", "--out", "work", "--add"]
SPECTRUM = ["inspect", "spectrum", "--basket", "work", "--network", "{network}", "--out", "out"]
JUDGE = ["compare", "--basket", "work", "--data", "{data}", "--split", "train", "--out", "out"]
HUNT_WITH = ["hunt", "--basket", "work", "--data", "{data}", "--trials", "2", "--patience", "2", "--workers", "1",
             "--out", "out"]  # fmt: skip
ALONE = ["distort", "--basket", "work", "--data", "{data}", "--split", "train", "--images", "1", "--workers", "1",
         "--out", "out"]  # fmt: skip
TRAIN = ["train", "softmax", "--data", "{lessons}", "--epochs", "2", "--batch", "20", "--out", "work"]
TRAINED = ["train", "softmax", "--data", "{lessons}", "--epochs", "1", "--out", "work"]
ON_IT = ["train", "probe:work", "--data", "{lessons}", "--epochs", "1", "--out", "out"]

# A folder, a file in it, how its JSON is reached, and the commands that read it; those in the second list less often.
Case = tuple[str, str, tuple[Callable[[Path], Any], Callable[[Path, Any], None]], list[list[str]], list[list[str]]]
CASES: dict[str, Case] = {
    "hunt": ("hunt", "config.json", JSON, [REPLAY, HUNT], [SHOW, REPORT, CITE, FREEZE]),
    "hunt, hash": ("hunt", "config.json", HASHED, [REPLAY, HUNT], [SHOW, REPORT, CITE, FREEZE]),
    "compare, hash": ("compare", "config.json", HASHED, [REPLAY, COMPARE], [SHOW, REPORT, FREEZE, EXPORT]),
    "distort, hash": ("distort", "config.json", HASHED, [REPLAY, DISTORT], [SHOW, REPORT, CITE]),
    "pool, hash": ("pool", "config.json", HASHED, [REPLAY, POOL], [SHOW, REPORT]),
    "ranking, hash": ("pool", "ranking/config.json", HASHED, [POOL], [SHOW]),
    "compare.json": ("compare", "compare.json", JSON, [SHOW, JSON_TOO], [REPORT, COMPARE]),
    "compare.json, unlabelled": ("guessed", "compare.json", JSON, [SHOW], [REPORT]),
    "pool.json": ("pool", "pool.json", JSON, [SHOW, JSON_TOO], [REPORT]),
    "suite.json": ("both", "suite.json", JSON, [GATE], [SHOW, GROW, REPORT]),
    "basket.json": ("basket", "basket.json", JSON, [NEW_GATE], [JUDGE, HUNT_WITH, SPECTRUM]),
    "basket.json of one": ("one", "basket.json", JSON, [ON_IT], [TRAINED, SPECTRUM]),
    "basket.json with a probe": ("probe", "basket.json", JSON, [ONLY_GATE], [ALONE, SPECTRUM]),
    "settings of training": ("half", ".training/config.json", JSON, [TRAIN], []),
    "checkpoint": ("half", ".training/softmax.safetensors", CHECKPOINT, [TRAIN], []),
    "classes of a shard": ("hunt", SHARD, CLASSES, [SHOW], [REPORT, REPLAY, FREEZE, EXPORT]),
    "settings of a shard": ("hunt", SHARD, CONFIGS, [SHOW, CITE], [REPORT, FREEZE, EXPORT]),
    "settings of a distortion's shard": ("distort", SHARD, CONFIGS, [SHOW], [REPORT, CITE]),
    "settings of a suite": ("both", "suite.parquet", CONFIGS, [SHOW], [GATE, GROW, REPORT, CITE]),
    "classes of a suite": ("both", "suite.parquet", CLASSES, [SHOW], [GATE, GROW, REPORT]),
    "versions of rows": ("hunt", SHARD, VERSIONS, [CITE], [REPORT, SHOW]),
    "counts of a ranking": ("pool", f"ranking/{SHARD}", COUNTS, [POOL], []),
    "networks of answers": ("compare", "answers/unit-*.parquet", NETWORKS, [COMPARE, FREEZE], []),
}


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every node of a JSON value, its own place first; of a list, whose members are alike, the last member."""
    yield at
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, (*at, key))
    elif isinstance(value, list) and value:
        yield from _places(value[-1], (*at, len(value) - 1))


def _changed(value: Any, at: Place, to: Any) -> Any:
    """The same with another value at that place, or without it."""
    if not at:
        return to
    made = copy.deepcopy(value)
    around = made
    for key in at[:-1]:
        around = around[key]
    if to is GONE:
        del around[at[-1]]
    else:
        around[at[-1]] = to
    return made


def _mutants(value: Any, each: int) -> Iterator[tuple[Place, Any, Any]]:
    """(place, what is there now, all of it): `each` values at each place, different ones from place to place; keys
    removed, and keys added that nobody knows."""
    places = list(_places(value))
    for number, at in enumerate(places):
        for turn in range(len(VALUES) if ALL else each):
            to = VALUES[(number * each + turn) % len(VALUES)]
            yield at, to, _changed(value, at, to)
        if at and (ALL or number % 4 == 0):
            yield at, GONE, _changed(value, at, GONE)
        here = value
        for key in at:
            here = here[key]
        if isinstance(here, dict):
            for key in KEYS if ALL else KEYS[number % len(KEYS) :][:1]:
                for to in (1, DEEP):
                    yield at, {key: to}, _changed(value, at, {**here, key: to})


@pytest.mark.parametrize("name", CASES)
def test_whatever_a_json_file_holds(name: str, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file, (read, write), often, seldom = CASES[name]
    file = _first(home.path / folder, file)
    value = read(home.path / folder / file)
    words = {
        "{data}": home.data,
        "{lessons}": home.lessons,
        "{noisy}": home.noisy,
        "{network}": "softmax" if folder == "one" else "A",
    }
    if folder == "probe":
        words["{network}"] = _read(home.path / "probe" / "basket.json")["networks"][0]["name"]
    if (home.path / folder / _first(home.path / folder, SHARD)).exists():
        shard = home.path / folder / _first(home.path / folder, SHARD)
        words["{id}"] = pq.read_table(shard, columns=["id"])[0][0].as_py()
    each, wrong = 2 if len(list(_places(value))) < 20 else 1, []
    for number, (at, to, mutant) in enumerate(_mutants(value, each)):
        commands = [often[number % len(often)]]
        if seldom and number % (2 if ALL else 6) == 0:
            commands.append(seldom[number // 2 % len(seldom)])
        for command in commands:
            _fresh(home, folder)
            write(home.path / "work" / file, mutant)
            code = cli.run([words.get(word, word) for word in command])
            said = capsys.readouterr()
            allowed = (0, 1, 2) if command[0] in ("replay", "gate") else (0, 2)
            if code not in allowed or "Traceback" in said.err or home.marker.exists():
                wrong.append(f"{file} with {str(to)[:60]!r} at {at}: {' '.join(command)}: {code}, {said.err[-400:]}")
                home.marker.unlink(missing_ok=True)
    assert not wrong, f"{len(wrong)} of {number + 1}:\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("command", [REPLAY, HUNT, REPORT, FREEZE], ids=lambda command: command[0])
def test_settings_that_were_changed_are_not_believed(
    command: list[str], home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hash of a run is computed from its settings, not read beside them."""
    _fresh(home, "hunt")
    file = home.path / "work" / "config.json"
    config = _read(file)
    _write(file, {**config, "settings": {**config["settings"], "trials": 17}})
    words = {"{data}": home.data, "{id}": "A-000000"}
    assert cli.run([words.get(word, word) for word in command]) == 2
    assert "config.json was changed after the run was made" in capsys.readouterr().err


def test_whatever_the_result_of_a_study_holds(tmp_path: Path) -> None:
    values = (*VALUES, *({"study": value, "scale": "quick"} for value in VALUES), {"study": "\x1b[2J", "scale": "x"})
    for value in values:
        _write(tmp_path / "result.json", value)
        with pytest.raises(UserError, match="holds the study") as error:
            studies.run_study(next(iter(studies.STUDIES)), scale="quick", out=tmp_path)
        assert "\x1b" not in str(error.value)


def _first(folder: Path, file: str) -> str:
    """The first file of this kind; of a name, itself."""
    return min((found.relative_to(folder).as_posix() for found in folder.glob(file)), default=file)


def _fresh(home: Home, folder: str) -> None:
    """A new copy of the folder as work/, and nothing that another command wrote."""
    for name in ("work", "out"):
        shutil.rmtree(home.path / name, ignore_errors=True)
    for left in home.path.glob("out*"):
        left.unlink() if left.is_file() else shutil.rmtree(left)
    shutil.copytree(home.path / folder, home.path / "work")
