"""`foible data`: what data there is, where it was found, and how to get the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _Group(TyperGroup):
    """`foible data folder:photos` is `foible data look folder:photos`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["look", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(invoke_without_command=True, no_args_is_help=False, cls=_Group)

SOME = 12  # classes that are listed

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead of a table.")]


@app.callback()
def data_list(context: typer.Context, json: Json = False) -> None:
    """List the data sets at hand, where they were found, and how to get the rest.

    Wherever Foible asks for data (--data), give a spec from this list:
    [bold]digits[/bold] is always there, [bold]mnist[/bold] once it is downloaded; your own data is

        folder:PATH      one folder of image files per class, or files with a
                         metadata.csv; folder:PATH?size=64 makes them one size
        csv:PATH         a table of image files and labels
        parquet:PATH     a file or folder with an image and a label column
        webdataset:PATH  tar shards of images and labels
        npz:PATH         NumPy arrays images and labels,
                         or x_train, y_train, x_test, y_test
        celeba:PATH      CelebA as its authors lay it out: ?trait=Smiling

    They are looked for in the folder that FOIBLE_DATA names, then in your cache.
    """
    if context.invoked_subcommand is not None:
        return
    from dataclasses import asdict

    from foible.data.catalogue import FORMS, available
    from foible.data.places import data_folder
    from foible.disk import cache_folder

    rows = available()
    if json:
        import json as codec

        folder = data_folder()
        summary = {
            "data_sets": [asdict(row) for row in rows],
            "forms": FORMS,
            "foible_data": str(folder) if folder else None,
            "cache": str(cache_folder()),
        }
        print(codec.dumps(summary, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("Spec", "What", "Train + test, size", title="Data sets", title_justify="left")
    table.add_column("Found in", overflow="fold")
    for row in rows:
        where = escape(row.found) if row.found else f"[yellow]not here[/yellow]: {escape(row.how)}"
        table.add_row(f"[bold]{escape(row.spec)}[/bold]", escape(row.what), row.size, where)
    console = Console()
    console.print(table)
    console.print("Your own data: " + "; ".join(escape(text) for text in FORMS.values()) + ".")
    home = data_folder()
    console.print(
        f"FOIBLE_DATA is {escape(str(home))}." if home else "Set FOIBLE_DATA to a folder of data sets to use it first."
    )


@app.command("look")
def data_look(
    spec: Annotated[str, typer.Argument(help="digits, folder:photos, parquet:FILE, …", show_default=False)],
    json: Json = False,
) -> None:
    """Say what a data set holds: how many images of which classes, how large, and what cannot be read.

    The word look may be left out. Example: foible data folder:photos
    """
    from foible.data import Dataset, open_data

    told: list[dict[str, Any]] = []
    for split in ("train", "test"):
        data = open_data(spec, split, whole=True, quiet=json)
        counts = data.labels.bincount(minlength=len(data.classes)).tolist()
        shape = list(data.images.shape[1:]) if isinstance(data, Dataset) else None
        told.append(
            {
                "split": split, "images": len(data), "classes": dict(zip(data.classes, counts, strict=True)),
                "shape": shape, "unreadable": list(data.problems), "notes": list(data.notes),
            }
        )  # fmt: skip
        if any("not split" in note for note in data.notes):
            told = told[-1:]
    if json:
        import json as codec

        print(codec.dumps({"data": spec, "splits": told}, ensure_ascii=False))
        return
    _print(told)


def _print(told: list[dict[str, Any]]) -> None:
    """A few lines for each split."""
    from rich.console import Console
    from rich.markup import escape

    from foible.text import shown

    console = Console()
    for one in told:
        counts = sorted(one["classes"].items(), key=lambda item: -item[1])
        size = "of their own sizes" if one["shape"] is None else "×".join(map(str, one["shape"]))
        split = "" if len(told) == 1 else f"{one['split']}: "
        console.print(f"[bold]{split}{one['images']:,} images[/bold], {size}, {len(counts):,} classes")
        if len(counts) > SOME and counts[0][1] == counts[-1][1]:
            few = f"{', '.join(shown(name) for name, _ in counts[:SOME])}, …: {counts[0][1]:,} of each"
        elif len(counts) > SOME:
            few = f"{_counted(counts[: SOME // 2])} (most), {_counted(counts[-SOME // 2 :])} (fewest)"
        else:
            few = _counted(counts)
        console.print(f"  {escape(few)}", highlight=False)
        for note in one["notes"]:
            console.print(f"  {escape(note)}", style="dim")
        if one["unreadable"]:
            lost = f"{len(one['unreadable']):,} cannot be read: {escape(one['unreadable'][0])}"
            console.print(f"  {lost}", style="yellow")


def _counted(classes: list[tuple[str, int]]) -> str:
    from foible.text import shown

    return ", ".join(f"{shown(name)} {count:,}" for name, count in classes)


@app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist, cifar10 or usps.")],
    to: Annotated[
        Path | None,
        typer.Option(help="Folder to put it in. Default: FOIBLE_DATA/NAME, else the cache folder."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Download again what is there already.")] = False,
    json: Json = False,
) -> None:
    """Download a data set and check it against its SHA-256.

    A file appears under its name only once it is whole and right, so a broken
    download leaves nothing behind: run the same command again. Then use the
    data by name: [bold]foible train mlp:10 --data mnist[/bold].
    """
    from foible.data import get
    from foible.data.catalogue import KNOWN

    folder = get(name, to, force=force, quiet=json)
    known = KNOWN[name]
    if json:
        import json as codec

        print(codec.dumps({"name": name, "folder": str(folder), "train": known.train, "test": known.test}))
        return
    from rich.console import Console
    from rich.markup import escape

    Console().print(f"[bold]{name}[/bold] ({known.size()}) is in {escape(str(folder))}")
    if known.find() is None:
        Console().print(f"Set FOIBLE_DATA to {escape(str(folder))} to use it by name.")
