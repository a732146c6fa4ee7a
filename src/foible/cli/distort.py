"""`foible distort`: the smallest change of an image that changes a network's answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.telling import plain, print_table, reported, tell, tell_run
from foible.cli.workers import soon
from foible.errors import UserError
from foible.recipes.config import DistortConfig

if TYPE_CHECKING:
    from rich.console import Console


@flags(DistortConfig)
def distort(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/distort"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    eps: Annotated[
        list[str],
        typer.Option(help="Tell the robust accuracy at this distance too, such as 0.1 or 8/255; repeat for several."),
    ] = [],  # noqa: B006
    amplify: Annotated[
        list[float],
        typer.Option(help="Judge this multiple of each distortion too, such as 2, and tell whom it fools; repeat."),
    ] = [],  # noqa: B006
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
    soon("distort", workers, device)
    from foible.recipes.distort import DISTORT
    from foible.recipes.distort.bystander import check_factor
    from foible.recipes.distort.recipe import distort as run_distort
    from foible.recipes.distort.robust import read_eps
    from foible.runs.folder import RunFolder

    for factor in amplify:
        check_factor(factor)
    if amplify and settings["layer"] is not None:
        raise UserError("--amplify enlarges changes of images, and --layer distorts a layer: leave one of them out")
    for one in eps:
        read_eps(one)  # what is wrong with it should be said before the run
    run_distort(
        listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json, **settings
    )
    if eps:
        RunFolder(out).note(eps=eps)  # beside the settings: no result depends on it
    if amplify:
        from foible.permission import Permission
        from foible.recipes.distort.amplify import amplify as judge_larger

        may = Permission.typed(listed(basket, network), settings["method"], trust=trust)
        for factor in amplify:
            judge_larger(out, factor, may=may.reading(RunFolder(out).config["where"]["data"]))
    tell_run(DISTORT, out, json=json, report=reported(out))


def print_distortions(rows: list[dict[str, Any]], **how: Any) -> None:
    """How far the answers of each source are from changing, and who else is fooled; or the same as JSON. how: as in
    `tell`."""
    tell({"sources": rows}, lambda console: _print(console, rows), **how)


def _print(console: Console, rows: list[dict[str, Any]]) -> None:
    from rich.text import Text

    from foible.text import shown

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
        if row["nearest"]:
            by = ", ".join(f"{shown(name)} {count:,}" for name, count in row["nearest"].items())
            console.print(Text(f"  {'the nearest was found by':<28} {by}"))
        for one in row.get("masking", ()):
            console.print(Text(f"  {'hides its gradient':<28} {shown(one['words'])}", style="yellow"))
        _print_rest(console, row)
        if row["robust"]:
            _print_robust(console, row["robust"])
        if row["transfer"]:
            _print_transfer(console, row["transfer"], "Who else falls for it")
            for one in row["amplified"]:
                still = f"{one['fooled']:,} of {one['images']:,} fool {source}, mean RMS {one['rms']:.5f}"
                _print_transfer(console, one["transfer"], f"Who falls for {one['factor']:g} times the change ({still})")
        elif layer is None:
            console.print("  no other network in the basket: nobody to transfer to")


SIZES = {
    "rms_before_8_bits": "RMS, as found in floats",
    "rms": "RMS, smallest on 8 bits",
    "linf": "largest pixel, on 8 bits",
    "rms_of_the_layer": "RMS over the layer's output",
    "share_of_the_layer": "as a share of its length",
}


def _print_rest(console: Console, row: dict[str, Any]) -> None:
    """What was not found, and why."""
    if row["exhausted"]:
        console.print(f"  {row['exhausted']:,} exhausted: what was asked for was not reached; the best effort is kept")
    if row["unsettled"]:
        changes = any(one["kind"] == "stochastic" for one in row.get("masking", ()))
        why = "in floats, and undone by rounding to 8 bits" if not changes else "once, and not each time it was asked"
        console.print(f"  {row['unsettled']:,} unsettled: found {why}")
    if row["invalid"]:
        console.print(f"  {row['invalid']:,} invalid: the network answered with NaN or infinity", style="yellow")


def _print_robust(console: Console, robust: dict[str, Any]) -> None:
    from foible.recipes.distort.robust import in_words

    columns = ("ε", "still right", "of", "share", "95 %")
    rows = (
        (
            line["text"], f"{line['right']:,}", f"{robust['n']:,}", f"{100 * line['share']:.1f} %",
            f"{100 * line['low']:.0f}–{100 * line['high']:.0f}",
        )
        for line in robust["at"]
    )  # fmt: skip
    print_table(console, f"Robust accuracy, {robust['norm']}", columns, rows)
    console.print(plain(f"  {in_words(robust)}."))


def _print_transfer(console: Console, judges: list[dict[str, Any]], title: str) -> None:
    columns = ("judge", "right before", "wrong now", "share", "95 %", "says the same")
    rows = (
        (
            row["judge"], f"{row['right_before']:,}", f"{row['wrong_after']:,}",
            "–" if row["share"] is None else f"{100 * row['share']:.1f} %",
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f}", f"{row['as_the_source']:,}",
        )
        for row in judges
    )  # fmt: skip
    print_table(console, title, columns, rows)
