"""`foible generator`: train generators of images, and look at them."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import Annotated, Any

import typer

from foible.cli.flags import Device

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Train generators of images (an encoder to a few numbers and a decoder back), and look at them.",
)
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


@app.command()
def train(
    spec: Annotated[str, typer.Argument(help="vae:10, vae:2?width=500, vaegan:1024, dcgan, …", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the generator.", show_default=False)],
    data: Annotated[str, typer.Option(help="Data set (see `foible data`).")] = "digits",
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training images.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images in one step.")] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate of Adam.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of first weights, order and noise.")] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train a generator: a variational autoencoder, or one with a GAN.

    vae:N has N latent dimensions and is meant for small images; its options
    are width (units of a hidden layer) and beta (weight of the divergence).
    vaegan:N is for photographs, all of one size, and wants a GPU; it has
    gamma besides (weight of the reconstruction against the discriminator).
    dcgan draws and does not encode: for images between classes; it has side
    (pixels of what is drawn before it is brought to the images' size) and width.

    Stopped or killed, the same command goes on where it was. A generator that
    collapsed (NaN, posterior collapse, mode collapse) is kept, named and
    refused: exit code 1.

    Examples:

      foible generator train vae:10 --data mnist --out G

      foible generator train vaegan:1024 --data "folder:photos?size=64&test=0.1" --out G
    """
    from foible.generators.files import FILE, Collapsed
    from foible.generators.train import train_generator

    try:
        train_generator(
            spec, data, out=out, epochs=epochs, batch=batch, rate=rate, seed=seed, device=device, quiet=json
        )
    except Collapsed:
        if (out / FILE).is_file():
            _tell(out, json)
        raise
    _tell(out, json)


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Folder of a generator.", show_default=False)],
    json: Json = False,
) -> None:
    """Say how well a generator does, and write its report.html.

    Example: foible generator show G
    """
    _tell(folder, json)


def _tell(folder: Path, json: bool) -> None:
    from foible.generators.files import read_record
    from foible.report.pages.generator import summary, write_generator

    told: dict[str, Any] = summary(read_record(folder))
    report = write_generator(folder)
    if json:
        print(codec.dumps({"generator": str(folder), **told, "report": str(report)}, indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foible.text import shown

    table = Table(show_header=False, title=Text(f"Generator {shown(folder)}"), title_justify="left")
    for name, value in told.items():
        if value is not None:
            table.add_row(name, Text(shown(value)))
    console = Console()
    console.print(table)
    print(f"Report: {report}")
