"""`foible hunt --pool`: rank images as they are, with no labels and no search."""

from __future__ import annotations

import json as json_module
from dataclasses import fields
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.recipes.config import HuntConfig

SHARED = (
    "suspect", "peers", "split", "canvas", "peer_confidence", "suspect_confidence", "realism", "unit"
)  # fmt: skip
IMPLIED = ("unlabelled", "shrink", "seed")  # say nothing here, and do no harm


def run_pool(
    networks: str | list[str],
    pool: str,
    *,
    out: Path,
    workers: int | None,
    device: str,
    trust: bool,
    json: bool,
    settings: dict[str, Any],
    **own: Any,
) -> None:
    """Rank the pool, write the report and print what it came to.

    settings: all of a hunt's; those that only a search could use are refused where they were given. own: settings of
    `PoolConfig` that a hunt does not have (top, label, labelled).
    """
    from foible.recipes.pool import rank, read_summary
    from foible.report import write_report

    usual = {field.name: field.default for field in fields(HuntConfig)}
    given = {name: value for name, value in settings.items() if value not in (usual[name], None, [], ())}
    useless = [f"--{name.replace('_', '-')}" for name in given if name not in (*SHARED, *IMPLIED)]
    if useless:
        raise UserError(f"{', '.join(useless)} beside --pool: a pool is ranked as it is, and nothing is searched")
    options = {name: value for name, value in given.items() if name in SHARED} | own
    rank(networks, pool, out=out, workers=workers, device=device, trust=trust, quiet=json, **options)
    report = write_report(out)
    print_pool(read_summary(out), json=json, run=str(out), report=str(report))


def print_pool(summary: dict[str, Any], *, json: bool = False, **more: Any) -> None:
    """How many images of the pool dissent, suspect by suspect; or the same as JSON."""
    if json:
        print(json_module.dumps({**summary, **more}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foible.data.dataset import shown

    console = Console()
    told = any(row["reliability"] for row in summary["suspects"])
    title = f"{summary['images']:,} images; all networks agree on {summary['agree']:,}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    named = ("suspect", "dissents", "share", "shown", "kept", *(("consensus right", "95 %") if told else ()))
    for name in named:
        first = name == "suspect"
        table.add_column(name, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    for row in summary["suspects"]:
        cells = [f"{row['dissent']:,}", f"{100 * row['dissent'] / summary['images']:.2f} %", f"{row['found']:,}"]
        sure = row["reliability"]
        how = ["–", "–"] if told else []
        if sure:
            how = [f"{sure['right']:,} of {sure['n']:,}", f"{100 * sure['low']:.0f}–{100 * sure['high']:.0f}"]
        table.add_row(Text(shown(row["suspect"])), *cells, f"{row['kept']:,}", *how)
    console.print(table)
    whose = (
        "The label of each is its peers' consensus."
        if summary["label"] == "consensus"
        else ("No label is claimed: foible export --to label-studio hands them to people.")
    )
    note = "dissents: all peers agree, the suspect says another. shown: the pixels that are kept show it too. "
    console.print(note + whose, style="dim")
    left = {
        "images where a network answered with NaN or infinity were left out.": summary["invalid"],
        "files could not be read: see unreadable.txt in the run.": summary["unreadable"],
    }
    for what, count in left.items():
        if count:
            console.print(f"{count:,} {what}", style="yellow")
    if more.get("report"):
        console.print(f"Report: {more['report']}", soft_wrap=True, markup=False)
