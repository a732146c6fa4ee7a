"""`foible fool`: images that mean nothing to people and everything to a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.telling import print_table, reported, tell, tell_run
from foible.cli.workers import soon
from foible.recipes.config import FoolConfig

if TYPE_CHECKING:
    from rich.console import Console

NOTE = "median, least: the confidence in the class that an image was made for, over all images and classes."
WHO = "Of the images that the suspect takes for the class: how many another network takes for it too."


@flags(FoolConfig)
def fool(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/fool"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Fool networks: make images from nothing that a network is sure of, class by class (fooling images, MAP-Elites).

    Small networks that draw patterns (CPPNs) grow and change; whoever raises
    the confidence in any class takes that class's place in an archive, and
    has children. --encoding direct evolves pixels, --encoding ascent climbs
    the gradient. A network that is sure of such images needs a rule that says
    when not to trust it: foible reject fit RUN makes one.

    Examples:

      foible fool --basket B --data mnist --suspect mlp-10 --out runs/fool

      foible fool --basket B --encoding ascent --target cat --target dog
    """
    soon("fool", workers, device)
    from foible.recipes.fool import FOOL
    from foible.recipes.fool.recipe import fool as run_fool

    run_fool(
        listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json, **settings
    )
    tell_run(FOOL, out, json=json, report=reported(out))


def print_fooled(summary: dict[str, Any], **how: Any) -> None:
    """How sure each suspect is of images that mean nothing; or the same as JSON. how: as in `tell`."""
    tell(summary, lambda console: _print(console, summary), **how)


def _print(console: Console, summary: dict[str, Any]) -> None:
    rows = summary["suspects"]
    if not rows:
        console.print("Nothing was made yet.")
        return
    title = f"{rows[0]['classes']:,} classes × {rows[0]['runs']:,} runs, {rows[0]['method']}"
    columns = ("suspect", "fooled", "share", "95 %", "classes", "median", "least")
    print_table(console, title, columns, map(_cells, rows))
    console.print(NOTE, style="dim")
    for row in rows:
        if not row["found"] and row["most"] is not None:
            console.print(
                f"{row['suspect']} was never confident enough: the most it gave a class was {_percent(row['most'])}.",
                style="yellow", markup=False,
            )  # fmt: skip
        if row["invalid"]:
            console.print(
                f"{row['invalid']:,} answers of {row['suspect']} were not numbers.", style="yellow", markup=False
            )
    judged = [(row["suspect"], judge) for row in rows for judge in row["judges"] if judge["images"]]
    if judged:
        print_table(
            console, "Who else falls for it",
            ("suspect → judge", "images", "same answer", "share", "95 %", "both ≥ 99 %"),
            ([f"{name} → {one['judge']}", f"{one['images']:,}", f"{one['same']:,}",
              f"{100 * one['same'] / one['images']:.1f} %", f"{100 * one['low']:.0f}–{100 * one['high']:.0f}",
              f"{one['both']:,}"] for name, one in judged),
        )  # fmt: skip
        console.print(WHO, style="dim")


def _cells(row: dict[str, Any]) -> list[str]:
    share = "–" if row["share"] is None else f"{100 * row['share']:.1f} %"
    return [
        row["suspect"], f"{row['found']:,} of {row['images']:,}", share,
        f"{100 * row['low']:.0f}–{100 * row['high']:.0f}", f"{row['reached']:,} of {row['classes']:,}",
        _percent(row["median"]), _percent(row["least"]),
    ]  # fmt: skip


def _percent(value: float | None) -> str:
    if value is not None and value > 0.99995:
        return ">99.99 %"
    return "–" if value is None else f"{100 * value:.2f} %"
