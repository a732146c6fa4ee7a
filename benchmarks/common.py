"""What every benchmark shares: a row is a ratio measured in one run, with the bar it must reach."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from foible.memory import keep


@dataclass(frozen=True)
class Row:
    """`ratio` is what is held against `bar`; `ours` and `peer` are what it was made of, in `unit`."""

    name: str
    ours: float
    peer: float
    peer_name: str
    ratio: float
    bar: float
    unit: str = ""
    at_most: bool = False  # the ratio must stay at or below the bar instead of reaching it

    @property
    def holds(self) -> bool:
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count() or 1,
        "device": device,
    }


def arguments(description: str) -> argparse.ArgumentParser:
    keep()  # as the program itself does; for both sides of every ratio
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="write the rows here too")
    return parser


def report(rows: list[Row], json_path: Path | None = None) -> None:
    """Print the rows as a table and, where asked, write them as JSON."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "ours", "peer", "peer is", "ratio", "bar", "holds")
    for row in rows:
        sign = "≤" if row.at_most else "≥"
        unit = f" {row.unit}" if row.unit else ""
        table.add_row(
            row.name, f"{row.ours:,.4g}{unit}", f"{row.peer:,.4g}{unit}", row.peer_name,
            f"{row.ratio:.3g}", f"{sign} {row.bar:g}", "yes" if row.holds else "NO",
        )  # fmt: skip
    Console(width=140).print(table)
    if json_path:
        content = {"machine": machine(), "rows": [asdict(row) | {"holds": row.holds} for row in rows]}
        json_path.write_text(json.dumps(content, indent=1))
