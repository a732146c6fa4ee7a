"""`foible rank`: images as they are, those first on which a suspect dissents most clearly. No labels, no search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.telling import print_table, reported, tell, tell_run
from foible.recipes.config import RankConfig

if TYPE_CHECKING:
    from rich.console import Console

NOTE = "dissents: all peers agree, the suspect says another. shown: the pixels that are kept show it too. "
WHOSE = {
    "consensus": "The label of each is its peers' consensus.",
    "people": "No label is claimed: foible export --to label-studio hands them to people.",
}
LEFT = {
    "invalid": "images where a network answered with NaN or infinity were left out.",
    "unreadable": "files could not be read: see unreadable.txt in the run.",
}


@flags(RankConfig)
def rank(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/rank"),
    workers: Annotated[
        int | None, typer.Option(help="Processes (default: this one, with a thread a core).", show_default=False)
    ] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Rank unlabelled images as they are: first those on which a suspect dissents most clearly from all its peers.

    Nothing is searched or changed (active learning: query by committee). Where
    all peers agree on a class and the suspect says another, somebody is wrong.
    The clearest are kept, labelled by the peers' consensus, or left to people
    with --label people. Stop it with Ctrl-C and the same command goes on.

    Example: foible rank --basket B --data folder:photos --suspect mlp-10 --top 500 --out runs/pool
    """
    from foible.recipes.rank import RANK
    from foible.recipes.rank.recipe import rank as run_rank

    run_rank(
        listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json, **settings
    )
    tell_run(RANK, out, json=json, report=reported(out))


def print_ranking(summary: dict[str, Any], **how: Any) -> None:
    """How many images of the pool dissent, suspect by suspect; or the same as JSON. how: as in `tell`."""
    tell(summary, lambda console: _print(console, summary), **how)


def _print(console: Console, summary: dict[str, Any]) -> None:
    told = any(row["reliability"] for row in summary["suspects"])
    title = f"{summary['images']:,} images; all networks agree on {summary['agree']:,}"
    columns = ("suspect", "dissents", "share", "shown", "kept", *(("consensus right", "95 %") if told else ()))
    print_table(console, title, columns, (_cells(row, summary["images"], told) for row in summary["suspects"]))
    console.print(NOTE + WHOSE["consensus" if summary["label"] == "consensus" else "people"], style="dim")
    for name, what in LEFT.items():
        if summary[name]:
            console.print(f"{summary[name]:,} {what}", style="yellow")


def _cells(row: dict[str, Any], images: int, told: bool) -> list[str]:
    """One suspect. told: whether labels say of any suspect how often the consensus is right."""
    cells = [
        row["suspect"], f"{row['dissent']:,}", f"{100 * row['dissent'] / images:.2f} %", f"{row['found']:,}",
        f"{row['kept']:,}",
    ]  # fmt: skip
    sure = row["reliability"]
    if sure:
        return [*cells, f"{sure['right']:,} of {sure['n']:,}", f"{100 * sure['low']:.0f}–{100 * sure['high']:.0f}"]
    return [*cells, "–", "–"] if told else cells
