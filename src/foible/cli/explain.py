"""`foible explain`: what would have mended a network's mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.telling import print_table, reported, tell, tell_run
from foible.cli.workers import soon
from foible.errors import UserError
from foible.recipes.config import ExplainConfig

if TYPE_CHECKING:
    from rich.console import Console

NOTE = (
    "first: the shift ‖e‖ at the first step that is mended, as in the paper; smallest: the nearest one known. Means "
    "over what was mended."
)


@flags(ExplainConfig)
def explain(
    source: Annotated[
        str | None,
        typer.Argument(help="A run, whose findings are explained, or one image file (with --truth). Default: --data."),
    ] = None,
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    truth: Annotated[str | None, typer.Option(help="The right class of the one image.", show_default=False)] = None,
    consensus: Annotated[
        bool, typer.Option("--consensus", help="Findings without a label: what their peers agree on is right.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/explain"),
    workers: Annotated[int | None, typer.Option(help="Processes (default: one a core).", show_default=False)] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Explain mistakes: the smallest change, drawn by a generator, with which the network would have been right.

    Each misclassified image x is encoded, and its code z shifted down the
    slope of the cross entropy: x' = g(z + e) + x - g(z). What must be added or
    taken away is then something that the generator knows how to draw. The
    first shift that mends it is kept, and the smallest one. The other networks
    of the basket are asked whether they accept what mends it.

    Example: foible explain --basket B --data mnist --generator G --suspect mlp-10 --out runs/why
    """
    soon("explain", workers, device)
    from foible.recipes.explain import EXPLAIN
    from foible.recipes.explain.recipe import explain as run_explain
    from foible.recipes.source import images_from

    networks: Any = listed(basket, network)
    given: Any = data
    ids: list[str] = []
    if source is not None:
        if data is not None:
            raise UserError(f"both {source!r} and --data {data} say what is explained: leave one out")
        if not Path(source).is_dir():
            from foible.basket import Basket

            networks = Basket.open(networks, device=device, trust=trust)
        classes = getattr(networks, "classes", ())
        given, ids = images_from(source, truth, consensus=consensus, classes=classes)
        settings |= {"split": "test", "control": 0}  # there are no right images among them
    elif truth is not None or consensus:
        raise UserError("--truth is for one image file, and --consensus for a run: give it as the first argument")
    run_explain(networks, given, out=out, workers=workers, device=device, trust=trust, quiet=json, **settings)
    if source is not None and ids:
        from foible.report.mended import keep_beside

        keep_beside(source, out, ids)
        reported(Path(source))
    tell_run(EXPLAIN, out, json=json, report=reported(out))


def print_explained(summary: dict[str, Any], **how: Any) -> None:
    """How many mistakes were mended and how far that is; or the same as JSON. how: as in `tell`."""
    tell(summary, lambda console: _print(console, summary), **how)


def _print(console: Console, summary: dict[str, Any]) -> None:
    if not summary["images"]:
        console.print("Nothing was explained yet.")
        return
    mends = summary["to"] == "truth"
    title = f"{summary['images']:,} {'mistakes' if mends else 'images and classes'} of {summary['suspect']}"
    columns = ("mended" if mends else "driven there", "share", "95 %", "steps", "first ‖e‖", "smallest ‖e‖")

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.3f}"

    cells = [
        f"{summary['mended']:,}", f"{100 * summary['share']:.1f} %",
        f"{100 * summary['low']:.0f}–{100 * summary['high']:.0f}",
        "–" if summary["steps"] is None else f"{summary['steps']:g}",
        number(summary["first"]), number(summary["closest"]),
    ]  # fmt: skip
    print_table(console, title, columns, [cells])
    console.print(NOTE, style="dim")
    if summary["peers"]:
        others = (
            "The other network accepts" if summary["peers"] == 1 else f"All {summary['peers']} other networks accept"
        )
        console.print(f"{others} {summary['accepted']:,} of {summary['mended']:,} mended images.")
    if summary["alone"]:
        console.print(
            f"{summary['alone']:,} of them are right already as the generator draws them, unshifted: there the shift "
            "explains little.",
            style="yellow",
        )
    if summary["invalid"]:
        console.print(f"{summary['invalid']:,} answers were not numbers.", style="yellow")
