"""`foible show`, `report`, `replay`, `export` and `cite`: what can be done with a run on disk."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foible.cli.telling import plain, tell_run

if TYPE_CHECKING:
    from foible.findings import Findings
    from foible.report.run import OpenRun

Run = Annotated[Path, typer.Argument(help="Run folder, or a Parquet file of findings.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def show(
    run: Run,
    id: Annotated[str | None, typer.Argument(help="One finding, in full.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many findings to list.")] = 10,
    json: Json = False,
) -> None:
    """Show what a run found: the summary and the first findings, or one finding in full."""
    from foible.findings.labels import labels_of
    from foible.processes import without_pandas
    from foible.report.run import OpenRun

    without_pandas()
    source = OpenRun.open(run)
    if id is not None:
        _show_one(source, id, json)
        return
    listed = list(islice(_briefs(source), limit))
    labels = labels_of(run)
    told = {
        "findings": listed, **({"labels": labels.told} if labels.labels else {}),
        **({"unfinished": source.unfinished} if source.unfinished else {}),
    }  # fmt: skip
    if json or source.parts or not source.unfinished:
        tell_run(source.recipe, source, json=json, **(told if json else {}))
    if not json and source.unfinished:
        print(_sentence(source.unfinished))
    if not json and source.parts:
        _print_briefs(listed)
        if labels.words:
            print(labels.words)


def _strict(value: Any) -> Any:
    """For JSON, which has no NaN and no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    return [_strict(one) for one in value] if isinstance(value, list | tuple) else value


LISTED = {
    "id": "id", "truth": "truth", "said": "suspect said", "peers": "peers said", "moves": "moves",
    "inferences": "inferences", "tags": "tags",
}  # fmt: skip


def _print_briefs(listed: Sequence[dict[str, Any]]) -> None:
    """A line each. An id is on one line, however narrow the terminal, so that it can be copied; what tells nothing
    (peers that all say the truth, no moves, no tags) is left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if not listed:
        return
    idle = {
        "peers": all(one["peers"] == one["truth"] for one in listed),
        "moves": not any(one["moves"] for one in listed),
        "inferences": not any(one["moves"] for one in listed),
        "tags": not any(one["tags"] for one in listed),
    }
    names = [name for name in LISTED if not idle.get(name)]
    table, console = Table(box=box.SIMPLE, pad_edge=False), Console()
    for name in names:
        table.add_column(LISTED[name], overflow="fold", no_wrap=name in ("id", "moves", "inferences"))
    for one in listed:
        table.add_row(*(plain(one[name]) for name in names))
    console.width = max(console.width, Console(width=10_000).measure(table).minimum)
    console.print(table)


BRIEF = ("id", "outcome", "truth", "said", "consensus", "moves", "forwards", "tags")


def _briefs(source: OpenRun) -> Iterator[dict[str, Any]]:
    """What is found, a line each; a shard is read when its turn comes, and without its images."""
    from foible.findings import Findings

    for table in source.tables(BRIEF):
        part = Findings(table)
        for row in part.filter(outcome="found"):
            yield {
                "id": row["id"],
                "truth": part.name_of(row["truth"]),
                "said": part.name_of(row["said"]),
                "peers": part.name_of(row["consensus"]),
                "moves": row["moves"],
                "inferences": row["forwards"],
                "tags": ", ".join(row["tags"] or []),
            }


def _find(source: OpenRun, id: str) -> tuple[Findings, dict[str, Any]]:
    """The shard that has this id, and its row: no other shard is read but for its ids."""
    from foible.findings import SCHEMA, Findings

    ids = [Findings(table) for table in source.tables(("id",))]
    Findings.concat(ids).get(id)  # or an error that says what ids look like
    part = next(part for part, some in enumerate(ids) if len(some.filter(id=id)))
    shard = Findings(source.read(part, SCHEMA.names))
    return shard, shard.get(id)


def _show_one(source: OpenRun, id: str, json: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    findings, row = _find(source, id)
    if json:
        told = {key: value for key, value in row.items() if not isinstance(value, bytes)}
        print(json_module.dumps(_strict(told)))
        return
    console = Console()
    console.print(plain(f"{row['id']}: {row['outcome']} after {row['moves']} moves, {row['forwards']} inferences"))
    where = f"{row['origin_data']} ({row['origin_split']}) image {row['origin_index']}"
    file = f", {row['origin_file']}" if row["origin_file"] else ""
    known = row["truth"] is not None
    whose = "class" if known else "no label, called by the peers"
    origin = f"from {where}{file}, {whose} {findings.name_of(row['truth'] if known else row['consensus'])}"
    console.print(plain(origin), soft_wrap=True)
    least = dict(row["least_change"] or [])
    if least:
        console.print(f"  {'':>12} the way  smallest that holds")
    for part, value in row["change"] or []:
        smallest = f"{least[part]:+9.2f}" if abs(least.get(part, 0.0)) >= 0.005 else ""
        console.print(plain(f"  {part:>12} {value:+7.2f}{smallest}"))
    table = Table("network", "before", "after", box=box.SIMPLE)
    for name, before, after in zip(row["networks"], row["before"], row["after"], strict=True):
        cells = [f"{findings.classes[max(range(len(p)), key=p.__getitem__)]} ({max(p):.3f})" for p in (before, after)]
        table.add_row(plain(name), *(plain(cell) for cell in cells))
    console.print(table)


def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(help="HTML file (default: report.html in the run).", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Write one self-contained HTML file: figures, gallery, confusion, and what the mistakes are made of."""
    from foible.processes import without_pandas
    from foible.report import write_report
    from foible.report.run import OpenRun

    without_pandas()
    file, left = write_report(run, out), OpenRun.open(run).unfinished
    if json:
        print(json_module.dumps({"report": str(file), **({"unfinished": left} if left else {})}))
    else:
        print(f"{_sentence(left)}\nReport: {file}" if left else f"Report: {file}")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


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
    size: Annotated[
        int | None,
        typer.Option(help="Only draw the one image anew, so many pixels large (of `foible fool`).", show_default=False),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the Python files, and read the data anywhere, that the run names.")
    ] = False,
    json: Json = False,
) -> None:
    """Compute findings again from their rows and judge them again. Exit code 1 where anything differs."""
    from foible.basket import Basket
    from foible.disk import write_atomically
    from foible.errors import UserError
    from foible.findings import Findings
    from foible.images import decode_pixels, encode_png
    from foible.recipes.replay import replay as run_replay
    from foible.text import shown

    if out is not None and len(ids or []) != 1:
        raise UserError("--out writes one image: name one finding")
    if size is not None:
        if out is None or not ids:
            raise UserError("--size draws one image anew: name one finding, and say where it goes with --out FILE.png")
        from foible.recipes.fool.replay import draw_again

        write_atomically(out, encode_png(draw_again(run, ids[0], size)))
        print(f"{out}: {shown(ids[0])}, drawn anew")
        return
    opened = None
    if basket:
        findings = Findings.open(run)
        kept = findings.table.column("image").drop_null()
        shape = decode_pixels(kept[0].as_py(), f"a row of {str(run)!r}").shape if len(kept) else None
        opened = Basket.open(basket, classes=findings.classes, shape=shape)
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
    trust: Annotated[
        bool,
        typer.Option("--trust", help="With --all: run the Python files and read the data that the run names."),
    ] = False,
    json: Json = False,
) -> None:
    """Hand findings to people and other tools, in the layout that each tool reads."""
    from foible.recipes.export import export as run_export

    count = run_export(run, to, out, everything=all, tags=tag or (), predictions=predictions, split=split, trust=trust)
    print(json_module.dumps({"written": count, "out": str(out)}) if json else f"{count} rows written to {out}")


def cite(run: Run, json: Json = False) -> None:
    """Print BibTeX of the methods that a run used and of Foible, with the hash of the run's settings."""
    from foible.recipes.cite import cite as run_cite

    cited = run_cite(run)
    print(json_module.dumps(cited.to_json()) if json else cited.bibtex)
