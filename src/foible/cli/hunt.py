"""`foible hunt` and `foible demo`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from foible.cli.flags import Device, Networks, OneBasket, Trust, flags, listed
from foible.errors import UserError
from foible.recipes.config import HuntConfig

TOP = 1000
DEMO = ("mlp:10", "mlp:20", "mlp:30", "mlp:40", "mlp:50")


def print_summary(rows: list[dict[str, Any]], report: Path | None, *, json: bool, **more: Any) -> None:
    """A table of what each suspect came to, or the same as JSON."""
    if json:
        print(json_module.dumps({"suspects": rows, "report": None if report is None else str(report), **more}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foible.data.dataset import shown

    title = "What each network gets wrong that all its peers get right"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for name in ("suspect", "trials", "found", "success", "95 %", "moves", "inferences", "paper"):
        named = name == "suspect"
        table.add_column(name, justify="left" if named else "right", no_wrap=not named, overflow="fold")
    for row in rows:
        table.add_row(
            Text(shown(row["suspect"])), f"{row['trials']:,}", f"{row['found']:,}",
            f"{100 * (row['success'] or 0):.1f} %",
            f"{100 * row['low']:.0f}–{100 * row['high']:.0f}", _mean(row["moves"], 1),
            _mean(row["inference_equivalents"], 0), _mean(row["inferences_as_the_paper_counts"], 0),
        )  # fmt: skip
    console = Console()
    console.print(table)
    note = (
        "Means over successful trials: accepted moves, inferences spent (a gradient counts as two further ones), and "
        "inferences as the paper counts them."
    )
    console.print(note, style="dim")
    different = ", ".join(f"{shown(row['suspect'])} {row['cells']:,}" for row in rows if row["cells"])
    if different:
        console.print(f"Different mistakes, by class, answer, kind and size of move: {different}.", markup=False)
    invalid = sum(row["invalid"] for row in rows)
    if invalid:
        console.print(f"{invalid} trials ended invalid: a network answered with NaN or infinity.", style="yellow")
    if report is not None:
        console.print(f"Report: {report}", soft_wrap=True, markup=False)


def _mean(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


@flags(HuntConfig)
def hunt(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Annotated[str, typer.Option(help="Data set: digits, mnist, folder:PATH, … (see `foible data`).")] = "digits",
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/hunt"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    pool: Annotated[
        str | None,
        typer.Option(help="Rank these images as they are, and search nothing: folder:PATH, …", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option(help="With --pool: most images to keep for each suspect.")] = TOP,
    label: Annotated[str, typer.Option(help="With --pool: label from the peers' consensus, or leave to people.")] = (
        "consensus"
    ),
    labelled: Annotated[bool, typer.Option("--labelled", help="With --pool: it has labels to check against.")] = False,
    **settings: Any,
) -> None:
    """Find images that a suspect (model under test) gets wrong while all its peers get them right.

    Starts from images that the whole basket classifies right and searches small, realistic changes of them
    (differential testing; natural adversarial examples). Writes findings to a run folder, shard by shard: stop it
    with Ctrl-C and the same command goes on.

    --search gradient finds more with fewer inferences; --atlas looks for different mistakes; --pool ranks unlabelled
    images as they are, and searches nothing.

    Example: foible hunt --basket B --data mnist --suspect mlp-10 --peer-confidence 0.9 --out runs/mnist
    """
    if not pool and (top != TOP or label != "consensus" or labelled):
        raise UserError("--top, --label and --labelled belong to --pool: give it, or leave them out")
    if pool:
        from foible.cli.pool import run_pool

        run_pool(
            listed(basket, network), pool, out=out, workers=workers, device=device, trust=trust, json=json,
            settings=settings, top=top, label=label, labelled=labelled,
        )  # fmt: skip
        return
    from foible.recipes.hunt import hunt as run_hunt
    from foible.report import write_report
    from foible.summary import summarise

    run_hunt(listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, **settings)
    print_summary(summarise(out), write_report(out), json=json, run=str(out))


def demo(
    out: Annotated[Path, typer.Option(help="Where basket, run and report go.")] = Path("runs/demo"),
    trials: Annotated[int, typer.Option(help="Trials for each of the five suspects.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train five small networks on bundled digits, hunt each one's mistakes, and write the report. Two minutes."""
    from foible.recipes.hunt import hunt as run_hunt
    from foible.recipes.train import train
    from foible.report import write_report
    from foible.summary import summarise

    train(list(DEMO), "digits", out=out / "basket")
    run_hunt(out / "basket", "digits", out=out / "hunt", trials=trials, peer_confidence=0.9)
    print_summary(
        summarise(out / "hunt"),
        write_report(out / "hunt", out / "report.html"),
        json=json,
        run=str(out / "hunt"),
    )
