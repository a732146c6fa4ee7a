"""Tasks that take a moment, and ways to run the program on them; shared by tests/runs, faults, attacks and cli."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.torch import save

from foible.findings import Findings
from foible.runs.record import settings_hash
from foible.testing import SHAPE, linear_basket, linear_network, linear_trials

SPACE = "affine?degrees=8&percent=8&pixels=0.7"  # finds much in the linear task
# A test run in the background is deaf to Ctrl-C, and so are its children unless they say otherwise.
HEARING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
PROGRAM = f"{HEARING}; import sys; from foible.cli import main; sys.argv[0] = 'foible'; main()"

SLOW_SPACE = """
import time
from foible.spaces import Affine

class Slow(Affine):
    pause: float = 0.05

    def start(self, seeds):
        time.sleep(self.pause)
        return super().start(seeds)
"""


# A run as `RunFolder` knows it, where nobody looks at what its units hold.
SETTINGS: dict[str, Any] = {
    "recipe": "hunt", "data": "digits", "data_sha256": "0", "split": "test", "networks": {"A": "0"},
    "preprocess": {"A": {}}, "unit": 16, "device": "cpu", "suspects": ["A"], "peers": [], "trials": 10, "seed": 0,
    "space": "affine", "objective": "dissent", "search": "hill-climb",
}  # fmt: skip
WHERE: dict[str, Any] = {
    "basket": ["here"], "data": "digits", "device": "cpu", "space": "affine", "objective": "dissent",
    "search": "hill-climb",
}  # fmt: skip


def unit_table(rows: dict[str, Any] | None = None) -> pa.Table:
    """What a unit of that run writes: any rows, with the settings that say whose they are."""
    configs = json.dumps({settings_hash(SETTINGS): SETTINGS}, sort_keys=True)
    return pa.table(rows or {"a": [1]}).replace_schema_metadata({"foible.configs": configs})


@dataclass(frozen=True)
class Task:
    """Three linear networks and 60 small images of three classes, on disk."""

    basket: Path
    data: str  # a spec

    def hunt(self, *options: str) -> list[str]:
        """Arguments of a quick `foible hunt`; of an option given twice the second counts."""
        climbs = not {"--search", "--atlas"} & {*options}
        patience = ["--patience", "40"] if climbs else []
        return ["hunt", "--basket", str(self.basket), "--data", self.data, "--space", SPACE, *patience, *options]


def linear_task(folder: Path, classes: Sequence[str] = ("0", "1", "2"), names: Sequence[str] = ("A", "B", "C")) -> Task:
    """Write a basket folder by hand, so that names can be anything, and its data."""
    basket = folder / "basket"
    basket.mkdir(parents=True)
    networks = []
    for number, name in enumerate(names):
        layer = linear_network(number)[1]  # type: ignore[index]
        data = save({"output.weight": layer.weight.detach(), "output.bias": layer.bias.detach()})
        (basket / f"{number}.safetensors").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        networks.append({"name": name, "spec": "softmax", "file": f"{number}.safetensors", "sha256": digest})
    record = {"schema_version": 1, "classes": list(classes), "shape": list(SHAPE), "networks": networks}
    (basket / "basket.json").write_text(json.dumps(record), encoding="utf-8")
    trials = linear_trials(linear_basket(), 60)
    np.savez(
        folder / "data.npz", images=trials.seeds.numpy(), labels=trials.aims.numpy(), classes=np.array(list(classes))
    )
    return Task(basket, f"npz:{folder / 'data.npz'}")


def start(*args: object, **options: Any) -> subprocess.Popen[str]:
    """The program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env={key: value for key, value in os.environ.items() if key != "FOIBLE_DEBUG"}, **options,
    )  # fmt: skip


def program(*args: object, **options: Any) -> tuple[int, str, str]:
    """Run the program to its end: exit code, standard output, standard error."""
    with start(*args, **options) as process:
        out, err = process.communicate()
    return process.returncode, out, err


def shards(run: Path) -> dict[str, bytes]:
    """The bytes of every shard of a run."""
    return {file.name: file.read_bytes() for file in sorted((run / "shards").glob("*.parquet"))}


def leftovers(folder: Path) -> list[str]:
    """Temporary files anywhere in a folder."""
    return [file.name for file in folder.rglob("*") if ".tmp" in file.name or ".part" in file.name]


def same_table(one: Path, other: Path) -> None:
    """Two runs hold the same rows, column by column, and the same settings."""
    ours, theirs = Findings.open(one), Findings.open(other)
    assert ours.table.schema.equals(theirs.table.schema, check_metadata=True)
    for name in ours.table.column_names:
        assert ours.table.column(name).equals(theirs.table.column(name)), name


def wait_for(what: Callable[[], object], seconds: float = 60, why: str = "") -> None:
    """Look every few milliseconds until `what()` is true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, why or "waited too long"
        time.sleep(0.01)


def descendants(pid: int) -> list[int]:
    """Processes that this one started, and theirs (Linux only; elsewhere none are seen)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            child = int(stat.parent.name)
            found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
