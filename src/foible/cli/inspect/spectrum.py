"""`foible inspect spectrum`."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Device, OneBasket, Trust
from foible.errors import UserError

if TYPE_CHECKING:
    from foible.inspect.spectrum.record import Spectrum


def spectrum(
    basket: OneBasket = None,
    network: Annotated[
        str | None,
        typer.Option(help="Which network of the basket; without --basket a [NAME=]SPEC.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Labelled images to distort, to see what layers really do; none: bounds alone.", show_default=False
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--from", help="A run of `foible distort`: its distortions, in place of new ones.", show_default=False
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of the data: train or test.")] = "test",
    images: Annotated[int, typer.Option(help="Images to distort, of those that the network gets right.")] = 64,
    out: Annotated[Path, typer.Option(help="Folder for spectrum.json, .parquet, .png and .svg.")] = Path(
        "runs/spectrum"
    ),
    fold: Annotated[bool, typer.Option(help="Take batch normalisation together with the layer before it.")] = True,
    real: Annotated[bool, typer.Option(help="Check the circular bounds on the real, zero-padded layers.")] = True,
    grid: Annotated[
        int | None, typer.Option(help="Most frequencies along an axis (default: all).", show_default=False)
    ] = None,
    most: Annotated[
        int, typer.Option(help="Largest min(inputs, outputs) of a linear layer whose lower bound is worked out.")
    ] = 8192,
    seed: Annotated[int, typer.Option(help="Seed of the choice of images and of the noise.")] = 0,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Bound how much each layer can enlarge a change, and measure how much it does (Lipschitz constants).

    Lower and upper frame bound (smallest and largest singular value) of every
    linear and convolutional layer, by the Fourier formula for circular
    boundaries and on the layer as it is, and their product for networks whose
    layers form a chain. With --data, or --from a run of `foible distort`,
    also the growth of minimal distortions, layer by layer, beside noise as
    long: which layer does the damage? (Szegedy et al. 2014, Sec. 4.3.)

    Example: foible inspect spectrum --basket B --network conv --data mnist
    """
    if basket is None and network is None:
        raise UserError("give the networks with --basket FOLDER [--network NAME], or one with --network [NAME=]SPEC")
    for name, value in (("images", images), ("grid", grid), ("most", most)):
        if value is not None and value < 1:
            raise UserError(f"--{name} is {value}: expected at least 1")
    from foible.inspect.spectrum import spectrum as inspect_spectrum
    from foible.inspect.spectrum.bounds import Effort

    found = inspect_spectrum(
        basket if basket is not None else [network or ""], network=network if basket is not None else None, data=data,
        run=run, out=out, images=images, split=split, effort=Effort(fold, real, grid, most, seed), device=device,
        trust=trust, quiet=json,
    )  # fmt: skip
    from foible.report.pages.inspect import write_spectrum

    report = write_spectrum(found, out)
    if json:
        from foible.inspect.spectrum.record import as_json

        told = as_json(found) | {"out": str(out), "report": str(report)}
        print(codec.dumps(told, ensure_ascii=False, allow_nan=False, default=str))
        return
    _print(found, out)
    print(f"Report: {report}")


def _print(found: Spectrum, out: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foible.text import shown

    title = Text(f"What each layer of {shown(found.network)} does to a small change")
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("layer", overflow="fold", min_width=10)
    table.add_column("size", overflow="fold", min_width=8)
    headings = ["lower", "upper", "real"] + (["distortion", "noise", "gain"] if found.growth else [])
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    grown = [list(map(_number, (one.distortion, one.noise, one.gain))) for one in found.growth] or [[]]
    named = [one for one in found.bounds if one.weighted or one.first < 0]
    for place, one in enumerate(named):
        cells = [_number(one.lower), _number(one.upper), _number(one.real_upper)]
        table.add_row(Text(shown(one.name)), one.size or one.kind, *cells, *grown[min(place, len(grown) - 1)])
    console = Console()
    console.print(table)
    for line in found.words():
        console.print(f"• {line}", markup=False, highlight=False)
    others = [one for one in found.bounds if not one.weighted and one.first >= 0 and one.upper != 1]
    if others:
        said = ", ".join(f"{shown(one.name)} {_number(one.upper)}" for one in others)
        console.print(f"Layers without weights that are not 1-Lipschitz: {said}.", style="dim", markup=False)
    for one in found.bounds:
        if one.note and one.weighted:
            console.print(f"{shown(one.name)}: {one.note}", style="dim", markup=False, highlight=False)
    if any(one.papers_upper is not None for one in found.bounds):
        said = ", ".join(f"{shown(o.name)} {_number(o.papers_upper)}" for o in found.bounds if o.papers_upper)
        console.print(f"Strided layers, upper bound in the paper's own form: {said}.", style="dim", markup=False)
    console.print(
        "lower, upper: frame bounds with circular boundaries; real: the upper one of the layer as it is.", style="dim"
    )
    if found.growth:
        note = "Growth is of a layer with weights and all that follows it up to the next (geometric means over images)."
        alone = "Growth is of each layer with weights alone (geometric means over images)."
        console.print(note if found.chain else alone, style="dim")
    console.print(f"Results: {out / 'spectrum.json'}, spectrum.parquet, spectrum.png", soft_wrap=True, markup=False)


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}"
