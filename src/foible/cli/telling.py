"""How every command says what a run came to: tables and lines for a terminal, or the same as JSON."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foible.report.run import OpenRun
    from foible.runs.recipe import Recipe


def tell_run(recipe: Recipe, run: Path | OpenRun, *, json: bool, **more: Any) -> None:
    """What a run came to, in the words of its recipe. more: what is said beside it, such as `report`, its file."""
    from foible.errors import UserError
    from foible.runs.recipe import load, recipe_called

    try:
        summary = load(recipe.summary)(run)
    except UserError as error:
        if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise
        recipe = recipe_called("hunt")  # it is not finished, or the findings are without their run: they are counted
        summary = load(recipe.summary)(run)
    load(recipe.told)(summary, json=json, run=str(Path(run)), **more)


def reported(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run, under a bar of its own: of many findings it takes a while."""
    from foible.progress import progress
    from foible.report import write_report

    with progress("Writing the report", 1) as bar:
        file = write_report(run, out)
        bar.advance()
    return file


def tell(
    summary: dict[str, Any],
    lines: Callable[[Console], None],
    *,
    json: bool = False,
    report: Path | str | None = None,
    **more: Any,
) -> None:
    """The summary, and whatever else there is, as JSON; or what `lines` prints, and where the report is."""
    if json:
        print(json_module.dumps({**summary, "report": None if report is None else str(report), **more}))
        return
    from rich.console import Console

    console = Console()
    lines(console)
    if report is not None:
        console.print(f"Report: {report}", soft_wrap=True, markup=False)


def print_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose first column is names, folded where they are long; numbers stand to the right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for first, *rest in rows:
        table.add_row(plain(first), *rest)
    console.print(table)


def plain(value: object) -> Text:
    """A name as it is: no markup, no emoji, and control characters shown, not obeyed."""
    from rich.text import Text

    from foible.text import shown

    return Text(shown(value))
