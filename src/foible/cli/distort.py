"""`foible distort`: the smallest change of an image that changes a network's answer."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from foible.cli.flags import Device, Networks, OneBasket, Trust, flags, listed
from foible.recipes.config import DistortConfig


@flags(DistortConfig)
def distort(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Annotated[str, typer.Option(help="Data set: digits, mnist, folder:PATH, … (see `foible data`).")] = "digits",
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/distort"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Find the smallest change of each image that makes a network say another label, and who else falls for it.

    The source is the network that is distorted for (minimal adversarial
    perturbation); every other network of the basket judges the result
    (transfer). What is found is an 8-bit image: saved as PNG and loaded again
    it is still a mistake. Stop it with Ctrl-C and the same command goes on.

    Example: foible distort --basket B --source mlp-30 --data mnist --images 200
    """
    from foible.recipes.distort import distort as run_distort
    from foible.recipes.distort_summary import summarise_distortions
    from foible.report import write_report

    run_distort(
        listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json, **settings
    )
    print_distortions(summarise_distortions(out), json=json, run=str(out), report=str(write_report(out)))


def print_distortions(rows: list[dict[str, Any]], *, json: bool = False, **more: Any) -> None:
    """How far the answers of each source are from changing, and who else is fooled; or the same as JSON."""
    if json:
        print(json_module.dumps({"sources": rows, **more}))
        return
    from rich.console import Console
    from rich.text import Text

    from foible.data.dataset import shown

    console = Console()
    for row in rows:
        source, layer = shown(row["source"]), row["layer"]
        share = f"{100 * (row['share'] or 0):.1f} % ({100 * row['low']:.1f}–{100 * row['high']:.1f})"
        console.print(Text(f"{source}: {row['found']:,} of {row['rows']:,} distorted, {share}", style="bold"))
        for name, words in SIZES.items():
            if name in row:
                mean, middle = row[name]["mean"], row[name]["median"]
                words = words if row["lattice"] is not False else words.replace("smallest on", "rounded to")
                console.print(Text(f"  {words:<28} mean {mean:.5f}, median {middle:.5f}"))
        if row["already"]:
            console.print(f"  {row['already']:,} of these said it without any change: distance 0")
        spent = f"{row['forwards']:,.0f} forward and {row['backwards']:,.0f} backward passes an image"
        console.print(f"  {'cost':<28} {spent}")
        _print_rest(console, row)
        if row["transfer"]:
            _print_transfer(console, row["transfer"])
        elif layer is None:
            console.print("  no other network in the basket: nobody to transfer to")
    if more.get("report"):
        console.print(f"Report: {more['report']}", soft_wrap=True, markup=False)


SIZES = {
    "rms_before_8_bits": "RMS, as found in floats",
    "rms": "RMS, smallest on 8 bits",
    "linf": "largest pixel, on 8 bits",
    "rms_of_the_layer": "RMS over the layer's output",
    "share_of_the_layer": "as a share of its length",
}


def _print_rest(console: Any, row: dict[str, Any]) -> None:
    """What was not found, and why."""
    if row["exhausted"]:
        console.print(f"  {row['exhausted']:,} exhausted: what was asked for was not reached; the best effort is kept")
    if row["unsettled"]:
        console.print(f"  {row['unsettled']:,} unsettled: found in floats, and undone by rounding to 8 bits")
    if row["invalid"]:
        console.print(f"  {row['invalid']:,} invalid: the network answered with NaN or infinity", style="yellow")


def _print_transfer(console: Any, judges: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from foible.data.dataset import shown

    table = Table(title="Who else falls for it", title_justify="left", box=box.SIMPLE)
    for name in ("judge", "right before", "wrong now", "share", "95 %", "says the same"):
        named = name == "judge"
        table.add_column(name, justify="left" if named else "right", no_wrap=not named, overflow="fold")
    for row in judges:
        share = "–" if row["share"] is None else f"{100 * row['share']:.1f} %"
        table.add_row(
            Text(shown(row["judge"])), f"{row['right_before']:,}", f"{row['wrong_after']:,}", share,
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f}", f"{row['as_the_source']:,}",
        )  # fmt: skip
    console.print(table)
