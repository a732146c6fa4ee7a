"""`foible train`: networks of the zoo, and probes of networks that are there already, trained into a basket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def train(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC...",
            help="Networks: softmax, mlp:30, mlp:100-100,sigmoid, ae:400, conv, lenet, lenet-caffe, mlp4, cnn4, vit4, "
            "resnet:20, inception; or probes: probe:BACKBONE, probe:BACKBONE,hidden=128.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the basket.", show_default=False)],
    data: Annotated[str, typer.Option(help="Data set (see `foible data`).")] = "digits",
    seeds: Annotated[int, typer.Option(min=1, help="Networks of each SPEC, which differ.")] = 1,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training images.")] = None,
    target: Annotated[
        float | None, typer.Option(help="Stop a network once its test accuracy is at least this, e.g. 0.98.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Images in one step.")] = None,
    rate: Annotated[float | None, typer.Option(help="Learning rate of Adam.")] = None,
    weight_decay: Annotated[
        float, typer.Option(min=0, help="Above 0: AdamW with this decay (probes always have a little).")
    ] = 0.0,
    augment: Annotated[
        str,
        typer.Option(
            help="Training images changed anew in every step: none, crops (of 8–100 % of the area) or paper (also "
            "rotation, brightness, contrast, saturation, hue); with options, as paper?flip=true."
        ),
    ] = "none",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    trust: Annotated[
        bool, typer.Option("--trust", help="Load backbones that can run code when loaded: pickles, TorchScript, .pt2.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train classifiers into a basket (an ensemble of named networks).

    Networks of one SPEC train together as a fleet. Where epochs, batch or rate are not given, each kind of network
    has its own default. Stopped or killed, the same command goes on where it was.

    Probes are cheap peers for those who have one network. probe:BACKBONE is a linear classifier on the frozen features
    of a network that foible can open: a basket folder of one network, BASKET/NETWORK, hf:FOLDER, timm:NAME,
    torchvision:NAME, FILE.py:factory, SPEC?weights=FILE. With ,hidden=N it has a hidden layer; with
    ,features=logits it stands on the network's answers. Seed 0 learns from all images and features; every
    other seed from images drawn with replacement and from a random half of the features, so that peers differ.
    Each image goes through the backbone once. The basket holds the heads alone: keep the backbone where it is.

    Examples:

      foible train mlp:10 mlp:20 mlp:30 mlp:40 mlp:50 --data mnist --out basket

      foible train lenet --seeds 5 --target 0.98 --data mnist --out lenets

      foible train resnet:20 --seeds 5 --augment "paper?flip=true" --data cifar10 --out robust

      foible train mlp:100-100,sigmoid softmax --data folder:photos --out mine

      foible train probe:hf:./my-model probe:hf:./my-model,hidden=128 --seeds 3 --data folder:photos --out peers
    """
    from foible.networks.probe import own_module
    from foible.recipes.train.train import train as train_networks
    from foible.records import NUMBER, TEXT, check
    from foible.text import shown

    entries = train_networks(
        specs, data, seeds=seeds, out=out, epochs=epochs, batch=batch, rate=rate, weight_decay=weight_decay,
        target=target, augment=augment, device=device, trust=trust, quiet=as_json,
    )  # fmt: skip
    told = {"epochs": NUMBER, "stopped_because": TEXT, "train": NUMBER, "test": NUMBER}
    rows = [
        {
            "name": entry.name,
            "parameters": sum(weight.numel() for weight in own_module(entry.module).parameters()),
            **{key: check({**entry.training, **entry.accuracy}, told, f"{out}: {entry.name}")[key] for key in told},
        }
        for entry in entries
    ]
    if as_json:
        print(json.dumps({"basket": str(out), "networks": rows}, indent=1))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table("network", title=f"Basket {escape(str(out))}")
    for column in ("parameters", "epochs", "train %", "test %"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            Text(shown(row["name"])), f"{row['parameters']:,}", f"{row['epochs']:g}",
            f"{100 * row['train']:.1f}", f"{100 * row['test']:.1f}",
        )  # fmt: skip
    Console().print(table)
