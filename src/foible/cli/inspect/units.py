"""`foible inspect units`."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import Annotated, Any

import typer

from foible.cli.flags import Data, Device, OneBasket, Trust
from foible.errors import UserError


def units(
    basket: OneBasket = None,
    network: Annotated[
        str | None,
        typer.Option(help="Which network of the basket; or, without --basket, a [NAME=]SPEC.", show_default=False),
    ] = None,
    data: Data = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "test",
    layer: Annotated[
        str | None,
        typer.Option(
            help="Layer, by its name in the network (default: what its last layer with weights is given).",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="List the network's layers, and stop.")] = False,
    over: Annotated[
        str, typer.Option(help="Layers with positions: max or mean over them, or flat (every position is a unit).")
    ] = "max",
    against: Annotated[
        list[str], typer.Option(help="Random directions: random, whitened, positive; repeat for several.")
    ] = ["random"],  # noqa: B006 (typer reads it, nobody changes it)
    show: Annotated[int, typer.Option("--units", help="Rows to show of each kind.")] = 4,
    top: Annotated[int, typer.Option(help="Images in a row.")] = 10,
    most: Annotated[int, typer.Option(help="Units, and directions of each kind, that are compared.")] = 1000,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Held-out network that says how alike images are: one of the basket, a [NAME=]SPEC, or pixels "
            "(default: another one of the basket, else pixels).",
            show_default=False,
        ),
    ] = None,
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="For data without labels, which has no class purity.")
    ] = (False),
    canvas: Annotated[
        str | None,
        typer.Option(help="Size of photographs where the network says none: 224, 320x240.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figures and tables.")] = Path("runs/units"),
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show the images that most excite units and random directions of a layer, and measure how alike they are.

    Rows of images stand side by side in rows-*.png and .svg (activation
    maximisation over a data set). Purity is the share of a row's images that
    are of its commonest class; coherence the mean cosine similarity of its
    images in the features of a held-out network. Natural units are compared
    with random directions, and both with images drawn at random, by a
    permutation test. All rows are in rows.parquet, the summary in units.json,
    and all of it on one page in report.html.

    Examples:

      foible inspect units --basket B --network conv --data mnist

      foible inspect units --basket B --network conv --layer relu1

      foible inspect units --network timm:resnet50 --data folder:photos
    """
    if basket is None and network is None:
        raise UserError("give the network with --basket FOLDER --network NAME, or with --network [NAME=]SPEC")
    networks: Any = basket or [network]
    common: dict[str, Any] = {
        "network": network if basket else None, "split": split, "labelled": not unlabelled, "canvas": canvas,
        "device": device, "trust": trust,
    }  # fmt: skip
    if layers:
        from foible.inspect.unit.units import layers as list_layers

        _print_layers(list_layers(networks, data, **common), json)
        return
    from foible.inspect.unit.units import units as inspect_units

    found = inspect_units(
        networks, data, layer=layer, over=over, against=against, units=show, top=top, most=most, judge=judge,
        seed=seed, out=out, quiet=json, **common,
    )  # fmt: skip
    from foible.report.pages.inspect import write_units

    summary = found.summary()
    summary |= {"out": str(out), "report": str(write_units(summary, out))}
    if json:
        print(codec.dumps(summary, ensure_ascii=False, allow_nan=False))
    else:
        _print(summary, out)


def _print_layers(found: dict[str, tuple[int, ...]], json: bool) -> None:
    if json:
        print(codec.dumps({"layers": [{"name": name, "shape": shape} for name, shape in found.items()]}))
        return
    for name, shape in found.items():
        print(f"{name}  {'×'.join(map(str, shape))}")


def _print(summary: dict[str, Any], out: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    settings = summary["settings"]
    console = Console()
    title = f"{settings['network']}, {settings['layer']}: how alike the {settings['top']} most exciting images are"
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE)
    for name in ("rows", "n", "class purity", "coherence"):
        table.add_column(name, justify="left" if name == "rows" else "right", no_wrap=True)
    for kind, counts in summary["rows"].items():
        means = [summary["means"][measure][kind] for measure in ("purity", "coherence")]
        table.add_row(
            kind, str(counts["alive"]), *(f"{_number(m['mean'])} ({_span(m['low'], m['high'])})" for m in means)
        )
    console.print(table)
    for one in summary["differences"]:
        if one["p"] is not None:
            said = f"{one['measure']}, {one['first']} − {one['second']}: {one['difference']:+.3f}"
            console.print(f"{said} ({_span(one['low'], one['high'])}), p = {one['p']:.2g}", highlight=False)
    for note in summary["notes"]:
        console.print(f"• {note}", markup=False, highlight=False)
    note = f"Means with 95 % intervals; coherence by {settings['judge']}; chance: images drawn at random."
    console.print(note, style="dim", markup=False)
    console.print(f"Rows: {out / 'units.json'}, rows.parquet, rows-*.png", soft_wrap=True, markup=False)
    console.print(f"Report: {summary['report']}", soft_wrap=True, markup=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _span(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:.3f} to {high:.3f}"
