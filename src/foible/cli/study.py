"""`foible study`: the papers' tables and figures, run again."""

from __future__ import annotations

import json as codec
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from foible.cli.flags import Device
from foible.errors import UserError
from foible.studies import STUDIES, default_folder, own_options, run_study

if TYPE_CHECKING:
    from foible.studies.common import Result, Row


# What a study takes of its own may stand as a flag of that name: what is unknown here is asked of the study.
OWN_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}


class StudyCommand(TyperCommand):
    """`foible study NAME --help` tells of that study's own options too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = next((one for one in args if one in STUDIES), None)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        if ctx.obj is None:
            return
        about, options = own_options(ctx.obj)
        width = min(100, shutil.get_terminal_size().columns)
        flags = [f"--{key.replace('_', '-')}" + (f"\u00a0({usual})" if usual not in (None, "", 0, -1) else "")
                 for key, usual in options.items()]  # fmt: skip
        parts = [f"Options of {ctx.obj} alone:", "   ".join(flags), *about.split("\n\n")]
        print("\n\n".join(textwrap.fill(part, width, break_on_hyphens=False) for part in parts) + "\n")


def study(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which study; none lists them.", show_default=False)
    ] = None,
    scale: Annotated[
        str, typer.Option(help="quick (less than a minute on 2 cores) or paper (as many trials as the paper).")
    ] = "quick",
    data: Annotated[
        str | None,
        typer.Option(help="Data set (default: the paper's where it is at hand, else digits).", show_default=False),
    ] = None,
    basket: Annotated[
        str | None,
        typer.Option(help="Basket folder to study (default: the paper's networks, trained now).", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results (default: runs/NAME-SCALE).", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of training and of every random draw.")] = 0,
    device: Device = "auto",
    option: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the study's own, which `foible study NAME --help` lists; repeat for several. Also: "
            "--KEY VALUE.",
        ),
    ] = [],  # noqa: B006 (typer reads it, nobody changes it)
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run a paper's experiment again and print its figures beside the measured ones (replication).

    Without NAME it lists the studies. A study trains the networks that it needs, and writes into its folder

        result.json  every figure: paper, measured, 95 % interval, count;
                     with settings, seed and versions
        table.md     the same as Markdown, with notes and settings
        *.png *.svg  the figures

    Networks and hunts stay in the folder too: stopped, the same command goes on.

    Examples:

      foible study

      foible study checkerboard

      foible study table1 --scale paper --data mnist --out runs/table1

      foible study boundary --data cifar10 --humans cifar10h
    """
    if name is None:
        _list(json)
        return
    options = dict(_pair(one) for one in [*option, *_flags(context.args)])
    folder = default_folder(name, scale) if out is None else out
    result = run_study(
        name, scale=scale, data=data, out=folder, seed=seed, device=device, basket=basket, quiet=json, options=options
    )
    if json:
        from foible.studies.common import as_json

        print(codec.dumps(as_json(result) | {"out": str(folder)}, ensure_ascii=False, allow_nan=False))
        return
    _print(result, folder)


def _flags(words: list[str]) -> list[str]:
    """`--humans cifar10h` and `--humans=cifar10h` as `humans=cifar10h`."""
    found, waiting = [], list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("--") or not word.strip("-"):
            raise UserError(f"{word!r} is no option of `foible study`: expected --KEY VALUE; one study at a time")
        key, equals, value = word[2:].partition("=")
        if not equals and not waiting:
            raise UserError(f"{word} is given no value: expected {word} VALUE")
        found.append(f"{key.replace('-', '_')}={value if equals else waiting.pop(0)}")
    return found


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"--set {text!r}: expected KEY=VALUE, such as --set trials=200")
    return key, value


def _list(json: bool) -> None:
    if json:
        print(codec.dumps({"studies": [{"name": name, "about": about} for name, (_, about) in STUDIES.items()]}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("study", "what it shows", title="Studies", title_justify="left", box=box.SIMPLE)
    for name, (_, about) in STUDIES.items():
        table.add_row(name, about)
    console = Console()
    console.print(table)
    console.print(
        "Run one: foible study checkerboard. As long as the paper's: --scale paper. Its own options: foible study "
        "checkerboard --help.", style="dim",
    )  # fmt: skip


def _print(result: Result, folder: Path) -> None:
    from rich.console import Console

    from foible.studies.common import tables

    console = Console()
    for title, rows in tables(result.rows).items():
        console.print(_table(title, rows))
    for note in result.notes:
        console.print(f"• {note}", markup=False, highlight=False)
    console.print(f"\nResults: {folder / 'table.md'}, result.json", soft_wrap=True, markup=False)
    if result.figures:
        console.print(f"Figures: {', '.join(f'{stem}.png' for stem in result.figures)}", soft_wrap=True, markup=False)


def _table(title: str, rows: list[Row]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from foible.studies.common import interval, shown

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE)
    table.add_column("")
    for column in ("paper", "measured", "95 % interval", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        count = "–" if row.n is None else f"{row.n:,}"
        table.add_row(Text(row.quantity), shown(row.paper), shown(row.measured), interval(row), count)
    return table
