"""Does a recipe keep its promises?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foible.findings import Findings
from foible.recipes.cite import cite
from foible.recipes.export import export
from foible.recipes.replay import replay
from foible.report import write_report
from foible.runs.job import run
from foible.runs.recipe import Recipe
from foible.testing.linear import write_linear_task
from foible.testing.promises import require


def check_recipe(recipe: str | Recipe, *, basket: str = "", data: str = "", **options: Any) -> None:
    """A recipe: its units are pure, a run of it resumes and replays, and whatever takes findings takes its own.

    recipe: a name, FILE.py:NAME (then worker processes are tried too), or a `Recipe`. basket, data: what it needs,
    where the linear networks A, B and C and 60 images that they get right will not do. options: of its config, for a
    run of several units that takes a moment.
    """
    with TemporaryDirectory() as scratch:
        here = Path(scratch)
        linear = write_linear_task(here)
        networks, images = basket or linear[0], data or linear[1]

        def made(out: str, workers: int = 1) -> Any:
            """The bytes of all shards; where their sizes are measured, the rows, but for films, of which each unit
            keeps a few."""
            run(recipe, networks, images, out=here / out, workers=workers, quiet=True, **options)
            if options.get("unit"):
                return {file.name: file.read_bytes() for file in sorted((here / out / "shards").iterdir())}
            return repr(Findings.open(here / out).table.drop_columns(["film"]).to_pylist())

        whole = made("whole")
        require(made("again") == whole, "units must be pure: the same settings gave other rows")
        for file in sorted((here / "again" / "shards").iterdir())[::2]:
            file.unlink()
        require(made("again") == whole, "a run must resume: missing units came out otherwise than the first time")
        if isinstance(recipe, str):
            require(made("apart", workers=2) == whole, "worker processes must give the same rows")
        findings = Findings.open(here / "whole")
        require(len(findings) > 0, "it must have rows")
        if isinstance(recipe, str):
            differ = [one.id for one in replay(here / "whole", trust=True) if not one.holds]
            require(not differ, f"every row must replay: {', '.join(differ[:5])} did not")
        write_report(here / "whole")
        export(here / "whole", "csv", here / "table.csv", everything=True)
        cite(here / "whole")
