"""`foible suite` and `foible gate`: freeze images, and let a new version through or not."""

from __future__ import annotations

import json as json_module
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foible.cli.flags import Device, Networks, Trust

if TYPE_CHECKING:
    from foible.recipes.gate.checks import Gated

FEWEST = 5  # images of a class, from which on it is listed though it does not fail
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def suite(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders of hunt, distort, compare or rank.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the suite.", show_default=False)],
    per_class: Annotated[
        int, typer.Option(help="Images of each class that are drawn before any network is asked: they decide.")
    ] = 20,
    most: Annotated[int, typer.Option(help="Most images in the suite.")] = 2000,
    add: Annotated[
        bool, typer.Option("--add", help="Add to the suite that is there; nothing is ever dropped.")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Read the images of a compare from wherever its run says that they lie.")
    ] = False,
    json: Json = False,
) -> None:
    """Freeze a suite (regression set) for `foible gate` from runs.

    It takes what runs found, what compares list as broken, fixed or dissent, and from a compare's data images that no
    network had a say in: these decide, the others are watched. The same runs give the same suite.

    Example: foible suite runs/v2 runs/hunt --out suite
    """
    from foible.recipes.suite.suite import make_suite
    from foible.text import shown

    record = make_suite(runs, out, per_class=per_class, most=most, add=add, trust=trust)
    if json:
        print(json_module.dumps({**record, "suite": str(out)}))
        return
    kinds = ", ".join(f"{count} {shown(tag)}" for tag, count in record["tags"].items())
    print(f"{out}: {record['rows']} images ({record['added']} added): {kinds}")
    for note in record["notes"]:
        print(f"  {shown(note)}")


def gate(
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    suite: Annotated[
        Path | None,
        typer.Option(help="Judge a suite's images: new=SPEC and, if at hand, old=SPEC.", show_default=False),
    ] = None,
    hunt: Annotated[
        bool, typer.Option("--hunt", help="Hunt old and new against the same peers (all other networks): nightly.")
    ] = False,
    old: Annotated[
        str | None,
        typer.Option(
            help="With --suite: measure against the answers that it records for this network.", show_default=False
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="With --hunt: where seed images come from (see `foible data`).", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="With --hunt: folder of the run; an unfinished one there is resumed.")
    ] = Path("runs/gate"),
    split: Annotated[str, typer.Option(help="With --hunt: which part of the data.")] = "test",
    trials: Annotated[int, typer.Option(help="With --hunt: trials for each of the two.")] = 1000,
    peer_confidence: Annotated[
        float, typer.Option(help="With --hunt: least probability that every peer must give the class.")
    ] = 0.9,
    seed: Annotated[int, typer.Option(help="With --hunt: seed of every random draw.")] = 0,
    space: Annotated[str, typer.Option(help="With --hunt: where to search.")] = "affine",
    patience: Annotated[
        int | None, typer.Option(help="With --hunt: candidates without improvement before a trial ends (default: 250).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="With --hunt: processes (default: one a core).", show_default=False)
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Percentage points by which new may be worse.")] = 5.0,
    class_tolerance: Annotated[float, typer.Option(help="The same for any one class.")] = 20.0,
    hunt_tolerance: Annotated[
        float, typer.Option(help="With --hunt: points by which the share of trials that found a mistake may be higher.")
    ] = 10.0,
    strict: Annotated[bool, typer.Option("--strict", help="Fail where the verdict is inconclusive.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.", show_default=False)] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a summary for a pull request here.", show_default=False)
    ] = None,
    device: Device = "auto",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Let a new version through, or not: is it worse than the old one by more than is tolerated?

    The verdict is pass, fail or inconclusive, from the difference of errors on the same images with its 95 % interval
    (non-inferiority test). Exit code 0 pass, 0 with a warning where inconclusive (1 with --strict), 1 fail.

    Examples:

      foible gate --suite suite --network new=v3 --junit gate.xml --markdown gate.md

      foible gate --hunt --network old=v2 --network new=v3 --network A=a --network B=b --data folder:photos
    """
    from foible.disk import write_with_folder
    from foible.errors import UserError
    from foible.recipes.gate import verdicts

    if (suite is None) == (not hunt):
        raise UserError("give --suite SUITE (every pull request) or --hunt --data DATA (nightly), one of the two")
    if suite is not None:
        from foible.recipes.gate.suite_gate import gate as judge

        if data is not None:
            raise UserError("--data goes with --hunt: a suite holds its own images")
        gated = judge(
            suite, list(network), old=old, tolerance=tolerance, class_tolerance=class_tolerance, device=device,
            trust=trust, quiet=json,
        )  # fmt: skip
    else:
        from foible.recipes.gate.hunt_gate import gate_hunt

        if data is None or old is not None:
            raise UserError("--hunt needs --data DATA for its seed images, and OLD as a network: --network old=SPEC")
        gated = gate_hunt(
            list(network), data, out=out, tolerance=tolerance, class_tolerance=class_tolerance,
            hunt_tolerance=hunt_tolerance, trials=trials,
            peer_confidence=peer_confidence, split=split, seed=seed, space=space, patience=patience, workers=workers,
            device=device, trust=trust, quiet=json,
        )  # fmt: skip
    if junit is not None:
        write_with_folder(junit, verdicts.junit(gated, strict=strict))
    if markdown is not None:
        write_with_folder(markdown, verdicts.markdown(gated, strict=strict).encode())
    if json:
        print(json_module.dumps(gated.to_json()))
    else:
        _print(gated, str(suite if suite is not None else out / "hunt"))
    if gated.verdict == "inconclusive":
        print(
            "foible: WARNING: inconclusive: too few images to tell whether new is worse than is tolerated, or some "
            "could not be judged, or none can decide",
            file=sys.stderr,
        )
    if gated.failed(strict):
        raise typer.Exit(1)


def _print(gated: Gated, where: str) -> None:
    """The verdict, what it rests on, and the worst classes. where: the folder that the ids are in."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from foible.recipes.gate.verdicts import figures
    from foible.text import shown

    console = Console()
    style = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}
    console.print(Text(f"{gated.verdict}: new against {shown(gated.against)}", style=style[gated.verdict]))
    if gated.networks:
        console.print(Text(f"{shown(gated.named)}."))
    limits = {
        "in any one class" if check.kind == "class" else f"for {check.name}": f"{check.tolerance:g}"
        for check in gated.checks
        if check.tolerance is not None
    }
    if limits:
        told = ", ".join(f"{points} {what}" for what, points in limits.items())
        console.print(f"Tolerated, in percentage points worse: {told}.", highlight=False)
    table = Table(box=box.SIMPLE, collapse_padding=True, pad_edge=False)
    for name in ("check", "n", "broken", "fixed", "worse by", "interval", "verdict"):
        left = name in ("check", "verdict")
        table.add_column(
            name, justify="left" if left else "right", no_wrap=name != "check", min_width=12 if left else 1
        )
    worst = [check for check in gated.worst() if check.verdict == "fail" or check.n >= FEWEST]
    for check in [*gated.of("overall"), *gated.of("tag"), *worst]:
        kind = "" if check.kind == "overall" else f"{check.kind} "
        table.add_row(
            Text(kind + shown(check.name)), f"{check.n:,}", f"{check.broken:,}", f"{check.fixed:,}",
            *figures(check),
            Text(check.verdict or "", style=style[check.verdict] if check.verdict else ""),
        )  # fmt: skip
    console.print(table)
    classes = gated.of("class")
    undecided = sum(check.verdict == "inconclusive" for check in classes)
    if undecided:
        console.print(f"{undecided} of {len(classes)} classes have too few images to be sure of at that tolerance.")
    if gated.broken:
        console.print(Text("First broken: " + ", ".join(shown(id) for id in gated.broken[:5])))
        command = shlex.join(["foible", "show", where, gated.broken[0]])
        console.print(Text(f"To look at one: {shown(command)}"), soft_wrap=True)
    for note in gated.notes:
        console.print(Text(shown(note)))
