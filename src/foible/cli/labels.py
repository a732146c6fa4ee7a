"""`foible import`: labels that people gave, back into a run."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON as Label Studio exports it, or CSV with the columns id and label (empty, or ?, where nobody "
            "could tell).",
            show_default=False,
        ),
    ],
    run: Annotated[Path, typer.Argument(help="Run folder that the images were exported from.", show_default=False)],
    drop: Annotated[
        bool,
        typer.Option(
            "--drop", help="Pass over the findings that people do not confirm: in galleries, exports, suites."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Take the verdicts of people into a run: which of its findings hold. No shard is rewritten.

    Example: foible import project-1.json runs/mnist --drop
    """
    from foible.recipes.labels import import_labels

    made = import_labels(file, run, drop=drop)
    print(json_module.dumps({**made.told, "run": str(run)}) if json else made.words)
