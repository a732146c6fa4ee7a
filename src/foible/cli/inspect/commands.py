"""`foible inspect`: what is inside a network."""

from __future__ import annotations

import typer

from foible.cli.inspect.spectrum import spectrum
from foible.cli.inspect.units import units

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Look inside a network: what units answer to, what layers enlarge.",
)
app.command()(units)
app.command()(spectrum)
