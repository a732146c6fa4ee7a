"""`foible hunt` and `foible demo`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.telling import print_table, reported, tell, tell_run
from foible.cli.workers import soon
from foible.errors import UserError
from foible.recipes.config import HuntConfig

if TYPE_CHECKING:
    from rich.console import Console

DEMO = ("mlp:10", "mlp:20", "mlp:30", "mlp:40", "mlp:50")
DEMO_EPOCHS = 60  # of its generator: some ten seconds
TITLE = "What each network gets wrong that all its peers get right"
COLUMNS = ("suspect", "trials", "found", "success", "95 %", "moves", "inferences")
NOTE = "Means over successful trials: accepted moves, and inferences spent (a gradient counts as two further ones)."


def print_summary(rows: list[dict[str, Any]], **how: Any) -> None:
    """A table of what each suspect came to, or the same as JSON. how: as in `tell`."""
    tell({"suspects": rows}, lambda console: _print(console, rows), **how)


def _print(console: Console, rows: list[dict[str, Any]]) -> None:
    from foible.text import shown

    print_table(
        console, TITLE, COLUMNS,
        (
            (
                row["suspect"], f"{row['trials']:,}", f"{row['found']:,}", f"{100 * (row['success'] or 0):.1f} %",
                f"{100 * row['low']:.0f}–{100 * row['high']:.0f}", _mean(row["moves"], 1),
                _mean(row["inference_equivalents"], 0),
            )
            for row in rows
        ),
    )  # fmt: skip
    console.print(NOTE, style="dim")
    images = ", ".join(f"{shown(row['suspect'])} {row['images_solved']:,} of {row['images']:,}" for row in rows)
    console.print(f"Different images made wrong: {images}.", markup=False, highlight=False)
    different = ", ".join(f"{shown(row['suspect'])} {row['cells']:,}" for row in rows if row["cells"])
    if different:
        console.print(f"Different mistakes, by class, answer, kind and size of move: {different}.", markup=False)
    invalid = sum(row["invalid"] for row in rows)
    if invalid:
        console.print(f"{invalid} trials ended invalid: a network answered with NaN or infinity.", style="yellow")


def _mean(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


@flags(HuntConfig)
def hunt(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/hunt"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Find images that a suspect (model under test) gets wrong while all its peers get them right.

    Starts from images that the whole basket classifies right and searches small, realistic changes of them
    (differential testing; natural adversarial examples). Writes findings to a run folder, shard by shard: stop it
    with Ctrl-C and the same command goes on.

    --search gradient took fewer inferences for a find with MLPs on MNIST and ResNets on CIFAR-10, where it was
    measured; --atlas looks for different mistakes; --most bounds the whole change. To search nothing, and rank
    unlabelled images as they are: foible rank.

    Example: foible hunt --basket B --data mnist --suspect mlp-10 --peer-confidence 0.9 --out runs/mnist
    """
    soon("hunt", workers, device)
    if device != "cpu":
        from foible.warping_gpu import wake

        wake()
    from foible.recipes.hunt import HUNT
    from foible.recipes.hunt.recipe import hunt as run_hunt

    run_hunt(listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, **settings)
    tell_run(HUNT, out, json=json, report=reported(out))


def refuse_pool(args: Sequence[str]) -> None:
    """Say what `hunt --pool` is called now, where these words of a command line are of that kind."""
    if args[:1] == ["hunt"] and any(word.partition("=")[0] == "--pool" for word in args):
        now = [word.replace("--pool", "--data", 1) if word.partition("=")[0] == "--pool" else word for word in args[1:]]
        raise UserError(f"ranking is a command of its own now: foible rank {shlex.join(now)}")


def demo(
    out: Annotated[Path, typer.Option(help="Where basket, run and report go.")] = Path("runs/demo"),
    trials: Annotated[int, typer.Option(help="Trials for each of the five suspects.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train five small networks on bundled digits, hunt each one's mistakes, explain those of the smallest network with
    a small generator, and write the reports. Two minutes."""
    from foible.generators.train import train_generator
    from foible.recipes.explain import EXPLAIN
    from foible.recipes.explain.recipe import explain
    from foible.recipes.hunt import HUNT
    from foible.recipes.hunt.recipe import hunt as run_hunt
    from foible.recipes.source import images_from
    from foible.recipes.train.train import train

    train(list(DEMO), "digits", out=out / "basket")
    run_hunt(out / "basket", "digits", out=out / "hunt", trials=trials, peer_confidence=0.9)
    from foible.report.mended import keep_beside

    train_generator("vae:10", "digits", out=out / "generator", epochs=DEMO_EPOCHS)
    found, ids = images_from(str(out / "hunt"), None)
    explain(out / "basket", found, out=out / "explained", generator=str(out / "generator"), images=100, split="test")
    keep_beside(out / "hunt", out / "explained", ids)
    tell_run(HUNT, out / "hunt", json=json, report=reported(out / "hunt", out / "report.html"))
    page = reported(out / "explained")
    if not json:
        tell_run(EXPLAIN, out / "explained", json=False, report=page)
