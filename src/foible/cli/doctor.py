"""`foible doctor`: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import platform
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

# What `pip install foible` brings: a missing one is a broken installation.
CORE = (
    "torch", "numpy", "scipy", "pillow", "pyarrow", "safetensors", "scikit-learn", "matplotlib",
    "jinja2", "typer", "rich", "filelock", "starlette", "uvicorn",
)  # fmt: skip

# module: what it is good for here, and how to get it. Nothing in the package needs these.
EXTRAS = {
    "pandas": ("findings as data frames: Findings.to_pandas()", "pip install 'foible[pandas]'"),
    "torchvision": ("networks as torchvision:NAME", "pip install 'foible[zoo]'"),
    "timm": ("networks as timm:NAME", "pip install 'foible[zoo]'"),
    "transformers": ("networks as hf:FOLDER", "pip install 'foible[hf]'"),
    "datasets": ("reads what `foible export --to hf` writes", "pip install 'foible[hf]'"),
    "onnxruntime": ("networks as onnx:FILE", "pip install 'foible[onnx]'"),
    "ray": ("hunts on many machines: not used by this version", "pip install ray"),
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Check this installation: versions, devices (CPU, CUDA, MPS), optional packages and data sets found."""
    found = examine()
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    if found["problems"]:
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Everything `foible doctor` knows, as plain JSON values; `problems` has a line for each broken part."""
    from foible import __version__

    problems: list[str] = []
    versions: dict[str, str | None] = {"foible": __version__, "python": platform.python_version()}
    for name in CORE:
        versions[name] = _version(name)
        if versions[name] is None:
            problems.append(f"{name} is not installed, and foible needs it: pip install {name}")
    folder = os.environ.get("FOIBLE_DATA") or None
    if folder and not Path(folder).is_dir():
        problems.append(f"FOIBLE_DATA is {folder!r}, which is no folder: correct it or unset it")
    return {
        "versions": versions,
        "platform": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": sys.executable,
        },
        "devices": _attempt(_devices, problems) or {},
        "extras": [_extra(name) for name in EXTRAS],
        "data": _attempt(_data, problems) or [],
        "folders": {"FOIBLE_DATA": folder, "cache": _attempt(_cache, problems)},
        "problems": problems,
    }


def _attempt(part: Any, problems: list[str]) -> Any:
    """A doctor reports what is broken and goes on."""
    try:
        return part()
    except Exception as error:
        problems.append(f"{part.__name__.lstrip('_')}: {type(error).__name__}: {error}")
        return None


def _version(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _extra(name: str) -> dict[str, Any]:
    """Found means imported: some install well and then fail, such as torchvision beside another torch."""
    purpose, install = EXTRAS[name]
    row = {"name": name, "version": None, "problem": None, "purpose": purpose, "install": install}
    if importlib.util.find_spec(name) is None:
        return row
    try:
        # Whatever they print or warn of at import is not part of our output.
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
    except Exception as error:
        first = str(error).strip().splitlines()
        return row | {"problem": f"{type(error).__name__}: {first[0] if first else 'no message'}"}
    return row | {"version": _version(name) or getattr(module, "__version__", "unknown")}


def _devices() -> dict[str, Any]:
    import torch

    from foible.processes import cores

    cuda = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(index)
            cuda.append({"name": card.name, "memory_gib": round(card.total_memory / 2**30, 1)})
    return {
        "cpu": {"cores": os.cpu_count(), "usable": cores(), "torch_threads": torch.get_num_threads()},
        "cuda": cuda,
        "cuda_build": torch.version.cuda,
        "mps": torch.backends.mps.is_available(),
    }


def _data() -> list[dict[str, Any]]:
    from foible.data import available

    return [
        {"name": row.spec, "found": row.found is not None, "where": row.found, "how": row.how} for row in available()
    ]


def _cache() -> str:
    from foible.disk import cache_folder

    return str(cache_folder())


def _print(found: dict[str, Any]) -> None:
    """Tables; without colour or frames where the output is piped."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foible.text import shown

    # A pipe has no width: one row, one line, for grep and for reports of problems.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 500)

    def section(title: str, rows: list[tuple[str, ...]]) -> None:
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
        )
        for row in rows:
            table.add_row(*(Text(shown(cell)) for cell in row))  # a path or a variable may hold control characters
        console.print(table)
        console.print()

    section("Versions", [(name, version or "missing") for name, version in found["versions"].items()])
    section("Platform", [(key, str(value)) for key, value in found["platform"].items()])
    section("Devices", _device_rows(found["devices"]))
    section(
        "Optional packages",
        [
            (
                row["name"],
                row["version"] or ("broken" if row["problem"] else "missing"),
                row["problem"] or row["purpose"],
            )
            + (() if row["version"] else (row["install"],))
            for row in found["extras"]
        ],
    )
    section(
        "Data sets",
        [
            (row["name"], "found" if row["found"] else "missing", row["where"] or row["how"] or "")
            for row in found["data"]
        ],
    )
    folders = found["folders"]
    section(
        "Folders",
        [("FOIBLE_DATA", folders["FOIBLE_DATA"] or "not set"), ("cache", folders["cache"] or "unknown")],
    )
    if found["problems"]:
        section("Problems", [(line,) for line in found["problems"]])
    else:
        console.print("All is well.")


def _device_rows(devices: dict[str, Any]) -> list[tuple[str, ...]]:
    if not devices:
        return [("unknown", "torch could not be asked; see Problems")]
    cpu = devices["cpu"]
    rows: list[tuple[str, ...]] = [
        ("cpu", f"{cpu['cores']} cores, {cpu['usable']} usable, {cpu['torch_threads']} torch threads")
    ]
    for card in devices["cuda"]:
        rows.append(("cuda", f"{card['name']}, {card['memory_gib']} GiB"))
    if not devices["cuda"]:
        build = devices["cuda_build"]
        rows.append(("cuda", "none found" if build else "none: this torch was built without CUDA"))
    rows.append(("mps", "available" if devices["mps"] else "none (Apple's GPUs only)"))
    return rows
