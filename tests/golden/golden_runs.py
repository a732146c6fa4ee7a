"""Small runs of every verb and every search, and a hash of every column of what they found and of what is made of it:
what a change of the code must not change."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from small_tasks import SPACE, linear_task

import foible
from foible.findings import SCHEMA, Findings
from foible.findings.tally import summarise
from foible.recipes.cite import cite
from foible.recipes.distort.summary import summarise_distortions
from foible.recipes.rank.recipe import rank
from foible.recipes.replay import replay
from foible.recipes.suite.suite import make_suite
from foible.report import write_report
from foible.testing import CLASSES, blobs

LEFT_OUT = ("versions", "config")  # of libraries; the hash of the settings, of which a key may be spelt otherwise
SUMMARIES = ("compare.json", "pool.json")

HUNTS: dict[str, dict[str, Any]] = {
    "climb": {}, "all": {"search": "hill-climb?ask=all"}, "gradient": {"search": "gradient"},
    "genetic": {"search": "genetic"}, "pbil": {"search": "pbil"}, "strategy": {"search": "strategy"},
    "atlas": {"atlas": True}, "distances": {"objective": "distances"}, "swaps": {"space": "swaps", "trials": 8},
    "chain": {"space": "photometric+affine"}, "unlabelled": {"unlabelled": True, "trials": 12},
    "budget": {"budget": 60}, "peers": {"suspect": ("A",), "peers": ("B",)},
    "plain": {"shrink": False, "realism": "none"},
}  # fmt: skip
DISTORTIONS: dict[str, dict[str, Any]] = {
    "best": {}, "each": {"target": "each"}, "any linf": {"target": "any", "norm": "linf", "images": 4},
    "lbfgs": {"method": "lbfgs", "target": "next", "budget": 60}, "rounded": {"lattice": False, "target": "random"},
    "wrong": {"wrong": True, "target": "worst"}, "unlabelled": {"unlabelled": True},
}  # fmt: skip
COMPARISONS: dict[str, dict[str, Any]] = {"labelled": {}, "unlabelled": {"unlabelled": True}}
RANKINGS: dict[str, dict[str, Any]] = {"consensus": {}, "people": {"label": "people", "labelled": True, "top": 3}}
FOOLINGS: dict[str, dict[str, Any]] = {
    "cppn": {}, "direct": {"encoding": "direct"}, "ascent": {"encoding": "ascent?preset=sparse&steps=30"},
    "alone": {"of": "alone", "target": ("1",)},
}  # fmt: skip


def machine() -> dict[str, str]:
    """What the last bit of a float, and the bytes of a PNG, depend on."""
    return {
        "torch": torch.__version__, "numpy": np.__version__, "pyarrow": pa.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}", "last bits": _last_bits(),
    }  # fmt: skip


def _last_bits() -> str:
    """Libraries choose their kernels by the processor, also among those with the same instructions."""
    grid = torch.arange(40 * 784).view(40, 784).mul(7919).remainder(1009) / 1009
    made = [grid @ grid.t(), grid[:16, :144] @ grid[16:26, :144].t(), grid.exp(), grid.softmax(1)]
    made.append(torch.nn.functional.conv2d(grid.view(40, 1, 28, 28), grid[:8, :9].view(8, 1, 3, 3)))
    return hashlib.sha256(b"".join(one.numpy().tobytes() for one in made)).hexdigest()[:16]


def make_all(folder: Path) -> dict[str, dict[str, str]]:
    """By run, the hash of every column, and of its summary, report, citation and replay. Works in `folder`."""
    return {name: {**_columns(found), **_made_of(name, found)} for name, found in _runs(folder)}


def _runs(folder: Path) -> Iterator[tuple[str, Findings]]:
    os.chdir(folder)  # specs are relative: no path of this machine gets into a row
    linear_task(Path())
    _disputed()
    how: dict[str, Any] = {"split": "train", "quiet": True}
    for name, options in HUNTS.items():
        given = {"trials": 24, "unit": 12, "space": SPACE} | options
        if "objective" not in options:
            given["peer_confidence"] = 0  # sure peers of three linear networks make for long searches
        yield f"hunt {name}", foible.hunt("basket", "npz:data.npz", out=f"hunt {name}", workers=1, **how, **given)
    for name, options in DISTORTIONS.items():
        given = {"source": "A", "images": 16, "unit": 8} | options
        yield (
            f"distort {name}",
            foible.distort("basket", "npz:data.npz", out=f"distort {name}", workers=1, **how, **given),
        )
    for name, options in COMPARISONS.items():
        foible.compare("basket", "npz:disputed.npz", out=f"compare {name}", unit=40, **how, **options)
        yield f"compare {name}", Findings.open(f"compare {name}")
    foible.compare(["basket/A", "basket/B"], "npz:disputed.npz", out="compare two", unit=40, **how)
    yield "compare two", Findings.open("compare two")
    for name, options in RANKINGS.items():
        yield f"rank {name}", rank("basket", "npz:disputed.npz", out=f"rank {name}", unit=40, **how, **options)
    for name, options in FOOLINGS.items():
        given = {"suspect": "A", "runs": 3, "generations": 12, "population": 20, "confidence": 0.6, "unit": 2} | options
        foible.fool("basket", "npz:data.npz", out=f"fool {name}", workers=1, **how, **given)
        yield f"fool {name}", Findings.open(f"fool {name}")
    make_suite(["hunt climb", "compare labelled"], "suite", per_class=4, most=60)
    yield "suite", Findings.open("suite")


def _disputed() -> None:
    """Images between two classes: the networks of the task dissent on some of them, and some labels are wrong."""
    generator, labels = torch.Generator().manual_seed(7), torch.arange(120) % CLASSES
    mixed = 0.4 + 0.2 * torch.rand(120, 1, 1, 1, generator=generator)
    images = (1 - mixed) * blobs()[labels] + mixed * blobs()[(labels + 1) % CLASSES]
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    np.savez("disputed.npz", images=pixels, labels=labels.numpy(), classes=np.array(list("012")))


def _columns(findings: Findings) -> dict[str, str]:
    table, left_out = findings.table, LEFT_OUT
    if len(findings.configs) > 1:  # a suite: its ids, and so its order, hold hashes of settings, and it names a path
        ids = [id.partition(".")[2] for id in table.column("id").to_pylist()]
        table = table.set_column(0, "id", pa.array(ids))
        order = sorted(range(len(ids)), key=lambda row: (ids[row], table.column("image")[row].as_py()))
        table, left_out = table.take(pa.array(order)), (*LEFT_OUT, "origin_data")
    return {name: _hash(table.column(name).to_pylist()) for name in SCHEMA.names if name not in left_out}


def _made_of(name: str, findings: Findings) -> dict[str, str]:
    """Hashes of what is made of a run, versions and hashes of settings aside."""
    verb = name.partition(" ")[0]
    told: dict[str, Any] = {"cite": cite(name).bibtex}
    if verb != "suite":
        told["report"] = write_report(name, "report.html").read_text("utf-8")
        told["replay"] = [one.id for one in replay(name) if not one.holds]
    for file in SUMMARIES:
        if Path(name, file).is_file():
            told[file] = json.loads(Path(name, file).read_text("utf-8"))
    if verb in ("hunt", "distort"):
        told["summary"] = (summarise if verb == "hunt" else summarise_distortions)(name)
    aside = [*set(findings.column("versions")), *findings.configs]
    texts = {key: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for key, value in told.items()}
    return {f"its {key}": _hash(_plain(text, aside)) for key, text in texts.items()}


def _plain(text: str, aside: list[str]) -> str:
    for part in aside:
        text = text.replace(part, "")
    return re.sub(r"(foible|torch|python|device) [0-9.+a-z]+", "", text)


def _hash(value: Any) -> str:
    """Of Python values, floats by their bits."""
    digest = hashlib.sha256()

    def put(one: Any) -> None:
        if isinstance(one, float):
            digest.update(one.hex().encode())
        elif isinstance(one, bytes):
            digest.update(b"%d:" % len(one) + one)
        elif isinstance(one, list | tuple | dict):
            digest.update(f"{type(one).__name__} {len(one)}".encode())
            for part in one.items() if isinstance(one, dict) else one:
                put(part)
        else:
            digest.update(f"{one!r};".encode())

    put(value)
    return digest.hexdigest()[:16]
