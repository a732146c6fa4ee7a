"""`foible boundary`: images between two classes, and how networks and people take them."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.studio import STORE, KeptIn
from foible.cli.telling import plain, print_table, reported, tell, tell_run
from foible.recipes.config import BoundaryConfig

if TYPE_CHECKING:
    from rich.console import Console

NOTE = (
    "flips: changes of the answer on a line, the mean; once: lines with just one; at: the median place of the first, "
    "0 to 1; third: images that are called neither end."
)
LETTERS = {"a": "A", "both_disagree": "B", "both_agree": "B", "c": "C", "against": "×"}


class _Group(TyperGroup):
    """`foible boundary --network …` is `foible boundary make --network …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ours = bool(args) and args[0].startswith("-") and args[0] not in ("-h", "--help")
        return super().parse_args(ctx, ["make", *args] if ours else args)


app = typer.Typer(
    no_args_is_help=True,
    cls=_Group,
    rich_markup_mode="rich",
    help="Walk from one class to another, image by image: where networks change their mind, and where people do.",
)
Run = Annotated[Path, typer.Argument(help="Run folder of `foible boundary make`.", show_default=False)]


@app.command()
@flags(BoundaryConfig)
def make(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    first: Annotated[
        str | None, typer.Option("--from", help="An image file to begin with; with --to.", show_default=False)
    ] = None,
    second: Annotated[
        str | None, typer.Option("--to", help="An image file to end with; with --from.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/boundary"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Make images between classes, and have every network judge them (the word make may be left out).

    A generator draws them, along a line from the code of one class to that of
    another. Codes of its samples stand for the classes, those that all
    networks agree on with near-certainty and that look most real; or codes
    that you choose, of real images, or of two photographs of yours. People
    label the images with `foible label RUN`, blind; then `foible boundary
    types RUN` says where networks and people agree.

    Examples:

      foible boundary make --generator G --basket B --data mnist --out runs/between

      foible boundary --network timm:resnet18 --data folder:pets --generator pixels --pairs cat-dog

      foible boundary make --generator VAE --basket B --from a.png --to b.png
    """
    from foible.recipes.boundary import BOUNDARY
    from foible.recipes.boundary.recipe import boundary

    boundary(
        listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json, first=first,
        second=second, **settings,
    )  # fmt: skip
    tell_run(BOUNDARY, out, json=json, report=reported(out))


@app.command()
def types(
    run: Run,
    threshold: Annotated[
        float, typer.Option(min=0.5, max=1.0, help="People agree where so many of them chose one class; paper: all.")
    ] = 1.0,
    store: KeptIn = STORE,
    json: Annotated[bool, typer.Option("--json", help="Print every image as JSON.")] = False,
) -> None:
    """Say of which type each image is, once people have labelled it: A, B or C.

    A: networks disagree where people agree. B: both agree, or both disagree.
    C: networks agree where people disagree. Answers are taken from the file
    that `foible label` keeps them in, into the run; its report shows them.

    Example: foible boundary types runs/between
    """
    from foible.report.pages.boundary import typed
    from foible.studio.outcome import join_all

    join_all(store, run)
    rows, left = typed(run, threshold)
    report = reported(run)
    if json:
        print(codec.dumps({"run": str(run), "threshold": threshold, "unlabelled": left, "images": rows,
                           "report": str(report)}, ensure_ascii=False))  # fmt: skip
        return
    from rich.console import Console

    console = Console()
    if left:
        _print_left(console, left, len(rows), str(run))
    if left < len(rows):
        _print_types(console, rows)
    console.print(f"Report: {report}", soft_wrap=True, markup=False)


def _print_left(console: Console, left: int, images: int, run: str) -> None:
    console.print(f"Not labelled yet: {left:,} of {images:,}. People label them with", style="yellow")
    console.print(f"  foible label {run} --annotators 10", soft_wrap=True, markup=False)


def _print_types(console: Console, rows: list[dict[str, Any]]) -> None:
    from foible.studies.boundary.tables import WORDS

    labelled = [row for row in rows if row["type"] is not None]
    count = {name: sum(row["type"] == name for row in labelled) for name in WORDS}
    told = {name: f"{LETTERS[name]}: {words.rpartition(': ')[2]}" for name, words in WORDS.items()}
    print_table(
        console, f"{len(labelled):,} images, labelled by {max(row['people'] for row in labelled)} people",
        ("type", "images", "share"),
        ([told[name], f"{many:,}", f"{100 * many / len(labelled):.1f} %"] for name, many in count.items()),
    )  # fmt: skip
    walks: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        walks.setdefault(row["pair"], []).append(row)
    for some in walks.values():
        letters = " ".join(LETTERS.get(row["type"], "·") for row in some)
        console.print(plain(f"{some[0]['from']} → {some[0]['to']}  {letters}"))


def print_boundary(summary: dict[str, Any], **how: Any) -> None:
    """Where networks change their mind; or the same as JSON. how: as in `tell`."""
    tell(summary, lambda console: _print(console, summary, str(how.get("run", "RUN"))), **how)


def _print(console: Console, summary: dict[str, Any], run: str) -> None:
    if summary.get("candidates"):
        console.print(f"{summary['images']:,} candidates. Look at them, and tag one of each class with the word end:")
        console.print(f"  foible studio {run}", soft_wrap=True, markup=False)
        console.print(f"Then give --ends {run}.", soft_wrap=True, markup=False)
        return
    if not summary["images"]:
        console.print("Nothing was made yet.")
        return

    def percent(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.0f} %"

    print_table(
        console, f"{summary['images']:,} images on {summary['walks']:,} line{'' if summary['walks'] == 1 else 's'}",
        ("network", "flips", "once", "at", "third", "mean confidence"),
        ([row["network"], f"{row['flips']:.2f}", percent(row["once"]),
          "–" if row["where"] is None else f"{row['where']:.2f}", percent(row["third"]), f"{row['sure']:.3f}"]
         for row in summary["networks"]),
    )  # fmt: skip
    console.print(NOTE, style="dim")
    share = f"{100 * summary['share']:.1f} %, 95 %: {100 * summary['low']:.0f}–{100 * summary['high']:.0f}"
    console.print(f"Networks disagree on {summary['disagree']:,} of {summary['images']:,} images ({share}).")
    if summary["invalid"]:
        console.print(f"{summary['invalid']:,} answers were not numbers.", style="yellow")
    if summary["labelled"] < summary["images"]:
        _print_left(console, summary["images"] - summary["labelled"], summary["images"], run)
    else:
        console.print(f"Labelled by {summary['people']} people: foible boundary types {run}", markup=False)
