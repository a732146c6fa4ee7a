"""Imports point one way: from what stands on others to what they stand on."""

from __future__ import annotations

import ast
from pathlib import Path

import foible

LEAVES = (
    "errors", "text", "randomness", "randomness_gpu", "statistics", "odds", "progress", "processes", "memory", "disk",
    "records", "class_names", "class_lists", "permission", "specs", "spec_files", "cells", "png", "images", "views",
    "warping", "warping_gpu", "figures",
)  # fmt: skip
FLOORS = (  # of the house, from the ground
    LEAVES,
    ("data", "networks"),
    ("generators",),
    ("basket",),
    ("spaces", "objectives"),
    ("search",),
    ("runs.folder", "runs.record", "runs.spans"),  # a run on disk: shards and settings, whatever is in them
    ("findings", "realism", "sensitivity"),
    ("runs", "transfer", "rejection"),
    ("recipes", "inspect"),
    ("report", "studies", "testing"),
    ("studio",),
    ("cli",),
)
HOUSE = Path(foible.__file__).parent


def modules() -> dict[str, Path]:
    names = {}
    for file in HOUSE.rglob("*.py"):
        parts = file.relative_to(HOUSE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


def imported(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of Foible that a file imports anywhere: at its top, in a function, for types alone."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "foible":
            home = node.module.removeprefix("foible").removeprefix(".")
            inner = [f"{home}.{one.name}".removeprefix(".") for one in node.names]
            found |= {name if name in known else home for name in inner}
        elif isinstance(node, ast.Import):
            found |= {one.name.removeprefix("foible.") for one in node.names if one.name.startswith("foible.")}
    return found - {""}  # the package itself: its version


def floor(module: str) -> int:
    for number, rooms in enumerate(FLOORS):
        if module in rooms:
            return number
    return floor(module.rpartition(".")[0]) if "." in module else -1


def test_every_module_has_a_floor() -> None:
    assert [name for name in modules() if name and floor(name) < 0] == []


def test_imports_point_one_way() -> None:
    known = modules()
    against = [
        f"{name} imports {other}"
        for name, file in known.items()
        if name
        for other in sorted(imported(file, known))
        if floor(other) > floor(name)
    ]
    assert against == []


def test_data_and_networks_stand_beside_each_other() -> None:
    known = modules()
    for one, other in (("data", "networks"), ("networks", "data")):
        crossing = [
            f"{name} imports {what}"
            for name, file in known.items()
            if name.split(".")[0] == one
            for what in imported(file, known)
            if what.split(".")[0] == other
        ]
        assert crossing == []
