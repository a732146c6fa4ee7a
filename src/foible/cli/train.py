"""`foible train`: networks of the zoo, and probes of networks that are there already, trained into a basket."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from foible.errors import UserError


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
        str | None,
        typer.Option(
            metavar="ACCURACY[,…]",
            help="Stop a network once its test accuracy is at least this, e.g. 0.98; with --within several, as "
            "0.975,0.98,0.985.",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(help="Keep networks where their test accuracy is ± this from each --target, e.g. 0.0005."),
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
    soft: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy",
            help="Learn these label distributions, or counts: a row for each training image, a column for each class.",
            show_default=False,
        ),
    ] = None,
    smooth: Annotated[
        float | None, typer.Option(help="Label smoothing: this share of each label spread over all classes, e.g. 0.1.")
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="BASKET", help="Distillation: learn the mean softmax of these networks.", show_default=False
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="The teacher's logits are divided by this first (default 1).")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    trust: Annotated[
        bool, typer.Option("--trust", help="Load backbones that can run code when loaded: pickles, TorchScript, .pt2.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train classifiers into a basket (an ensemble of named networks).

    Networks of one SPEC train together as a fleet. Where epochs, batch or rate are not given, each kind of network
    has its own default. Stopped or killed, the same command goes on where it was.

    With --within, networks of a wanted accuracy: each is kept, as a network of its own, where its test accuracy stands
    in the band around a target, and goes on to the next. One that goes past a target, or does not arrive within its
    epochs, is tried again from another seed, three times at most. What no seed reached is said (exit code 1), and
    everything else is kept.

    Probes are cheap peers for those who have one network. probe:BACKBONE is a linear classifier on the frozen features
    of a network that foible can open: a basket folder of one network, BASKET/NETWORK, hf:FOLDER, timm:NAME,
    torchvision:NAME, FILE.py:factory, SPEC?weights=FILE. With ,hidden=N it has a hidden layer; with
    ,features=logits it stands on the network's answers. Seed 0 learns from all images and features; every
    other seed from images drawn with replacement and from a random half of the features, so that peers differ.
    Each image goes through the backbone once. The basket holds the heads alone: keep the backbone where it is.

    Examples:

      foible train mlp:10 mlp:20 mlp:30 mlp:40 mlp:50 --data mnist --out basket

      foible train lenet --seeds 5 --target 0.98 --data mnist --out lenets

      foible train mlp4 --seeds 100 --target 0.975,0.98,0.985 --within 0.0005 --data mnist --out matched

      foible train resnet:20 --seeds 5 --augment "paper?flip=true" --data cifar10 --out robust

      foible train mlp:100-100,sigmoid softmax --data folder:photos --out mine

      foible train probe:hf:./my-model probe:hf:./my-model,hidden=128 --seeds 3 --data folder:photos --out peers
    """
    from foible.networks.probe import own_module
    from foible.recipes.train.train import missed_in
    from foible.recipes.train.train import train as train_networks
    from foible.records import NUMBER, TEXT, check
    from foible.text import shown, some

    entries = train_networks(
        specs, data, seeds=seeds, out=out, epochs=epochs, batch=batch, rate=rate, weight_decay=weight_decay,
        target=_targets(target), within=within, augment=augment, soft=soft, smooth=smooth, teacher=teacher,
        temperature=temperature, device=device, trust=trust, quiet=as_json,
    )  # fmt: skip
    missed = missed_in(out) if within is not None else []
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
        told_missed = {} if within is None else {"missed": [{"spec": spec, **one._asdict()} for spec, one in missed]}
        print(json.dumps({"basket": str(out), "networks": rows, **told_missed}, indent=1))
        raise typer.Exit(1 if missed else 0)
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
            f"{100 * row['train']:.1f}", f"{100 * row['test']:.{1 if within is None else 2}f}",
        )  # fmt: skip
    Console().print(table)
    if within is None:
        return
    retried = [entry for entry in entries if entry.training.get("retries")]
    if retried:
        print(f"tried again from another seed: {some([entry.name for entry in retried])}")
    for spec, one in missed:
        print(f"{shown(spec)}, seed {one.seed}: not at {one.target:g} ± {within:g} ({one.said()})", file=sys.stderr)
    if missed:
        print(f"{len(missed)} not reached: give more --epochs, a wider --within or other targets", file=sys.stderr)
        raise typer.Exit(1)


def _targets(given: str | None) -> float | list[float] | None:
    """From `0.98`, or `0.975,0.98`."""
    if given is None:
        return None
    try:
        targets = [float(one) for one in given.split(",")]
    except ValueError:
        raise UserError(f"--target {given!r}: expected an accuracy such as 0.98, or several with commas") from None
    return targets[0] if len(targets) == 1 else targets
