"""`foible show`, `report`, `replay`, `export` and `cite`: what can be done with a run on disk."""

from __future__ import annotations

import json as json_module
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from foible.findings import Findings

Run = Annotated[Path, typer.Argument(help="Run folder, or a Parquet file of findings.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def show(
    run: Run,
    id: Annotated[str | None, typer.Argument(help="One finding, in full.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many findings to list.")] = 10,
    json: Json = False,
) -> None:
    """Show what a run found: the summary and the first findings, or one finding in full."""
    from foible.cli.compare import print_comparison
    from foible.cli.hunt import print_summary
    from foible.cli.pool import print_pool
    from foible.findings import Findings
    from foible.recipes.pool_summary import SUMMARY, read_summary
    from foible.summary import summarise

    findings = Findings.open(run)
    if id is not None:
        _show_one(findings, id, json)
        return
    listed = [_brief(findings, row) for row in findings.filter(outcome="found").head(limit)]
    comparison = _comparison(run)
    if (run / SUMMARY).is_file():
        print_pool(read_summary(run), json=json, run=str(run), **({"findings": listed} if json else {}))
    elif _recipe(findings) == "distort":
        from foible.cli.distort import print_distortions
        from foible.recipes.distort_summary import summarise_distortions

        print_distortions(summarise_distortions(run), json=json, run=str(run), **({"findings": listed} if json else {}))
    elif comparison is None:
        print_summary(summarise(run), None, json=json, run=str(run), **({"findings": listed} if json else {}))
    elif json:
        print(json_module.dumps({**comparison, "run": str(run), "findings": listed}))
    else:
        print_comparison(comparison)
    if not json:
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(box=box.SIMPLE)
        for name in ("id", "truth", "suspect said", "peers said", "moves", "inferences", "tags"):
            table.add_column(name, overflow="fold", no_wrap=name in ("moves", "inferences"))
        for brief in listed:
            table.add_row(*(_plain(value) for value in brief.values()))
        Console().print(table)


def _recipe(findings: Findings) -> str:
    """What made these rows; nothing where several did."""
    made = {str(settings.get("recipe")) for settings in findings.configs.values()}
    return made.pop() if len(made) == 1 else ""


def _plain(value: object) -> Text:
    """A name as it is: no markup, no emoji, and control characters shown, not obeyed."""
    from rich.text import Text

    from foible.data.dataset import shown

    return Text(shown(value))


def _strict(value: Any) -> Any:
    """For JSON, which has no NaN and no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    return [_strict(one) for one in value] if isinstance(value, list | tuple) else value


def _brief(findings: Findings, row: dict[str, Any]) -> dict[str, Any]:
    name = findings.name_of
    return {
        "id": row["id"],
        "truth": name(row["truth"]),
        "said": name(row["said"]),
        "peers": name(row["consensus"]),
        "moves": row["moves"],
        "inferences": row["forwards"],
        "tags": ", ".join(row["tags"] or []),
    }


def _comparison(run: Path) -> dict[str, Any] | None:
    """The summary of a finished comparison; None where the run is none."""
    from foible.errors import UserError

    try:
        return dict(json_module.loads((run / "compare.json").read_text("utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{run / 'compare.json'} is damaged ({error}): delete it, and compare again") from error


def _show_one(findings: Findings, id: str, json: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    row = findings.get(id)
    plain = {key: value for key, value in row.items() if not isinstance(value, bytes)}
    if json:
        print(json_module.dumps(_strict(plain)))
        return
    console = Console()
    console.print(_plain(f"{row['id']}: {row['outcome']} after {row['moves']} moves, {row['forwards']} inferences"))
    where = f"{row['origin_data']} ({row['origin_split']}) image {row['origin_index']}"
    known = row["truth"] is not None
    whose = "class" if known else "no label, called by the peers"
    console.print(_plain(f"from {where}, {whose} {findings.name_of(row['truth'] if known else row['consensus'])}"))
    for part, value in row["change"] or []:
        console.print(_plain(f"  {part:>12} {value:+.2f}"))
    table = Table("network", "before", "after", box=box.SIMPLE)
    for name, before, after in zip(row["networks"], row["before"], row["after"], strict=True):
        cells = [f"{findings.classes[max(range(len(p)), key=p.__getitem__)]} ({max(p):.3f})" for p in (before, after)]
        table.add_row(_plain(name), *(_plain(cell) for cell in cells))
    console.print(table)


def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(help="HTML file (default: report.html in the run).", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Write one self-contained HTML file: figures, gallery, confusion, and what the mistakes are made of."""
    from foible.report import write_report

    file = write_report(run, out)
    print(json_module.dumps({"report": str(file)}) if json else f"Report: {file}")


def replay(
    run: Annotated[Path, typer.Argument(help="Run folder.", show_default=False)],
    ids: Annotated[
        list[str] | None, typer.Argument(help="Findings; without any, every row.", show_default=False)
    ] = None,
    basket: Annotated[
        list[str] | None,
        typer.Option(help="Judge with these networks instead of the ones that the run names.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the one image replayed here, as PNG.", show_default=False)
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run the Python files that the run names.")] = False,
    json: Json = False,
) -> None:
    """Compute findings again from their rows and judge them again. Exit code 1 where anything differs."""
    from foible.basket import Basket
    from foible.data.dataset import shown
    from foible.disk import write_atomically
    from foible.errors import UserError
    from foible.findings import Findings
    from foible.images import decode_png, encode_png
    from foible.recipes.replay import replay as run_replay

    if out is not None and len(ids or []) != 1:
        raise UserError("--out writes one image: name one finding")
    opened = None
    if basket:
        findings = Findings.open(run)
        channels, height, width = decode_png(findings[0]["image"]).shape
        opened = Basket.open(basket, classes=findings.classes, shape=(channels, height, width))
    results = run_replay(run, ids or None, basket=opened, trust=trust)
    if out is not None:
        write_atomically(out, encode_png(results[0].image))
    differ = [result for result in results if not result.holds]
    largest = max((result.difference for result in results), default=0.0)
    if json:
        print(
            json_module.dumps(
                _strict({"replayed": len(results), "differ": [r.id for r in differ], "largest_difference": largest})
            )
        )
    else:
        for result in differ[:20] or (results if len(results) <= 5 else []):
            pixels = "same pixels" if result.same_image else "other pixels"
            change = f"probabilities within {result.difference:.1e}"
            print(f"{shown(result.id)}: stored as {result.stored}, now {result.now}; {pixels}; {change}")
        well = len(results) - len(differ)
        print(f"{well} of {len(results)} rows replay: same pixels, same answers (within {largest:.1e})")
    if differ:
        raise typer.Exit(1)


def export(
    run: Run,
    to: Annotated[
        str,
        typer.Option(
            help="folder (PNGs, one folder a class), hf (an ImageFolder for Hugging Face datasets), parquet (the same "
            "as one file), csv, label-studio, fiftyone, or findings (the table itself, in one Parquet file)."
        ),
    ] = "folder",
    out: Annotated[Path, typer.Option(help="Where to; must not exist yet.", show_default=False)] = Path("export"),
    all: Annotated[bool, typer.Option("--all", help="Every row, not only what was found.")] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only rows with this tag, such as broken; repeat for several.", show_default=False),
    ] = None,
    predictions: Annotated[
        bool, typer.Option("--predictions", help="For label-studio: show people what the networks said.")
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="For hf: train (default), validation or test.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Hand findings to people and other tools, in the layout that each tool reads."""
    from foible.recipes.export import export as run_export

    count = run_export(run, to, out, everything=all, tags=tag or (), predictions=predictions, split=split)
    print(json_module.dumps({"written": count, "out": str(out)}) if json else f"{count} rows written to {out}")


def cite(run: Run, json: Json = False) -> None:
    """Print BibTeX of the methods that a run used and of Foible, with the hash of the run's settings."""
    from foible.recipes.cite import cite as run_cite

    cited = run_cite(run)
    print(json_module.dumps(cited.to_json()) if json else cited.bibtex)
