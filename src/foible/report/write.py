"""Write the report of a run: the page of the recipe that made it."""

from __future__ import annotations

from pathlib import Path

from foible.disk import write_with_folder
from foible.errors import UserError
from foible.findings import Findings
from foible.report.run import OpenRun
from foible.runs.recipe import load


def write_report(
    run: str | Path | Findings,
    out: str | Path | None = None,
    *,
    title: str | None = None,
    gallery: int = 1000,
    sessions: int = 8,
) -> Path:
    """Write one HTML file that shows a run, and return its path.

    It needs nothing but itself: no network, no script. The same run gives the same bytes.

    run: a run folder of a hunt, a comparison, a ranking or a distortion, a Parquet file of findings, or findings in
        memory.
    out: the file to write, or a folder for `report.html`; by default inside the run folder, or beside
        the Parquet file.
    gallery: at most so many findings are shown as cards; fewer where the file would grow beyond 8 MB.
    sessions: so many findings of a hunt are shown step by step.
    """
    source = OpenRun.open(run)
    target = _target(run, out)
    page: str = load(source.recipe.page)(source, title=title, gallery=gallery, sessions=sessions)
    write_with_folder(target, page.encode("utf-8", "replace"))  # a name may hold half a surrogate pair
    return target


def _target(run: str | Path | Findings, out: str | Path | None) -> Path:
    if out is not None:
        return Path(out) / "report.html" if Path(out).is_dir() else Path(out)
    if isinstance(run, Findings):
        raise UserError(
            "these findings are in memory: say where the report goes, write_report(findings, 'report.html')"
        )
    return Path(run) / "report.html" if Path(run).is_dir() else Path(run).with_suffix(".html")
