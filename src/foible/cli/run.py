"""`foible run`: a recipe by name, or one of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, listed
from foible.cli.telling import reported
from foible.errors import UserError


def run(
    recipe: Annotated[str, typer.Argument(help="A recipe: hunt, distort, compare, rank, or FILE.py:NAME for yours.")],
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/own"),
    options: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the recipe, NAME=VALUE; repeat.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run a recipe of your own (docs/compose.md writes one), or one of ours by its name.

    It is resumed, shown, reported, replayed, exported and cited like any other. FILE.py:NAME runs your file.

    Example: foible run mine.py:MEND --basket B --data mnist --set trials=200 --out runs/mend
    """
    from foible.runs.job import run as run_recipe
    from foible.runs.recipe import find_recipe, load
    from foible.specs import bind

    given: dict[str, str] = {name: value for name, _, value in (text.partition("=") for text in options or [])}
    for text in options or []:
        if "=" not in text:
            raise UserError(f"--set {text!r}: expected NAME=VALUE, as in --set trials=200")
    _, found = find_recipe(recipe)
    lists = [name for name in ("suspect", "peers") if name in given]
    several: dict[str, Any] = {name: tuple(given.pop(name).split(",")) for name in lists}
    settings = {**several, **bind(found.config, given, f"the recipe {recipe!r}")}
    run_recipe(
        recipe, listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json,
        **settings,
    )  # fmt: skip
    report = reported(out)
    load(found.told)(load(found.summary)(out), json=json, report=report, run=str(out))
