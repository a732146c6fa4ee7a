"""`foible compare`: two versions, or more networks, on labelled images as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.flags import Data, Device, Networks, OneBasket, Trust, flags, listed
from foible.cli.telling import print_table, reported, tell, tell_run
from foible.recipes.config import CompareConfig

if TYPE_CHECKING:
    from rich.console import Console


@flags(CompareConfig)
def compare(
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    data: Data = None,
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run there is resumed.")] = Path("runs/compare"),
    workers: Annotated[
        int | None, typer.Option(help="Processes (default: this one, with a thread a core).", show_default=False)
    ] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    **settings: Any,
) -> None:
    """Judge labelled images as they are with two versions or more: what did the new one break, and what did it fix?

    Every network sees each image through its own preprocessing, and classes meet by name. Broken and fixed images
    (negative and positive flips), images where one network dissents from all the others, and images where all networks
    disagree with the label become findings: report, export, suite and gate take them as they take a hunt's.

    Example: foible compare --network old=v1 --network new=v2 --data folder:photos --out runs/v2
    """
    from foible.recipes.compare import COMPARE
    from foible.recipes.compare.recipe import compare as run_compare

    run_compare(
        listed(basket, network), data, out=out, workers=workers, device=device, trust=trust, quiet=json, **settings
    )
    tell_run(COMPARE, out, json=json, report=reported(out))


def print_comparison(summary: dict[str, Any], **how: Any) -> None:
    """The figures that matter, or all of them as JSON. how: as in `tell`."""
    tell(summary, lambda console: _print(console, summary), **how)


def _print(console: Console, summary: dict[str, Any]) -> None:
    from rich.text import Text

    from foible.recipes.compare.against import tell_against
    from foible.text import shown

    old, new = summary["old"], summary["new"]
    if not summary["labelled"]:
        agree, images = summary["consensus"]["agree"], summary["images"]
        console.print(f"{images:,} images without labels; all networks agree on {agree:,}")
        for name, count in summary["dissent"].items():
            console.print(Text(f"  {shown(name)} alone against all the others: {count:,}"))
        return
    rows = (
        (
            row["network"], f"{row['right']:,}", f"{row['n']:,}", f"{100 * row['share']:.2f} %",
            f"{100 * row['low']:.1f}–{100 * row['high']:.1f}", f"{summary['dissent'][row['network']]:,}",
        )
        for row in summary["accuracy"]
    )  # fmt: skip
    print_table(console, "Accuracy", ("network", "right", "of", "accuracy", "95 %", "alone wrong"), rows)
    flips = summary["flips"]
    rate, change = flips["negative_flip_rate"], flips["difference"]
    console.print(
        Text(
            f"From {shown(old)} to {shown(new)}: {flips['broken']:,} broken, {flips['fixed']:,} fixed, "
            f"{flips['both_wrong']:,} wrong in both.\n"
            f"Negative flips: {100 * rate['share']:.2f} % ({100 * rate['low']:.2f}–{100 * rate['high']:.2f}). "
            f"Accuracy {change['points']:+.2f} points ({change['low']:+.2f} to {change['high']:+.2f}; "
            f"McNemar p = {flips['mcnemar_p']:.2g})."
        )
    )
    changes = sorted(summary["per_class"], key=lambda row: (row["fixed"] - row["broken"]) / row["n"])
    worst = [row for row in changes[:5] if row["broken"] > row["fixed"]]
    if worst:
        told = (
            f"{shown(row['class'])} {100 * (row['fixed'] - row['broken']) / row['n']:+.1f} (n = {row['n']:,})"
            for row in worst
        )
        console.print(Text("Worst classes, in points: " + ", ".join(told)))
    for line in tell_against(summary["doubtful"], summary.get("against")):
        console.print(Text(line))
    if summary["unreadable"]:
        console.print(f"{summary['unreadable']:,} files could not be read: see unreadable.txt in the run.")
