"""What a run has on disk, in words: for who stops it, and for who looks at it before it is finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.progress import roughly
from foible.runs.folder import RunFolder
from foible.runs.recipe import recipe_of
from foible.runs.record import extents
from foible.runs.spans import gaps

SHORT, LONG, OFFERED = 60, 300, 120  # seconds: not worth a word, worth an offer, and what is offered
BEFORE = "ranking"  # the folder, in a run, of units that come before the others


def counted(settings: Mapping[str, Any]) -> str:
    """What the lanes of a run are."""
    recipe = recipe_of(settings)
    return "lanes" if recipe is None else recipe.counted


def there(folder: RunFolder) -> tuple[int, int, int, str]:
    """Units on disk, lanes on disk, lanes in all, and what these are; of a stage that comes first while the others have
    not begun."""
    for stage in (folder, RunFolder(folder.path / BEFORE)):
        try:
            config, spans = stage.config, list(stage.spans())
        except UserError:  # no run, or nothing that could be counted
            continue
        what = counted(config["settings"]) if "lanes" in config else "units"
        if spans or not (stage.path / BEFORE / "config.json").exists():
            return len(spans), sum(span.size for span in spans), sum(stage.lanes), what
    return 0, 0, 0, "lanes"


def forecast(
    settings: Mapping[str, Any], lanes: Sequence[int], *, left: int, pace: float, workers: int, least: int
) -> str:
    """What is left of a run will take so long, by what a lane took (`pace`, seconds); where that is long, what fewer
    would take, but at least `least`. Nothing of what takes less than a minute."""
    takes = pace * left / workers
    if takes < SHORT:
        return ""
    what, parts = counted(settings), [count for count in lanes if count]
    whole = f"{len(parts)} × {parts[0]:,}" if len(set(parts)) == 1 and len(parts) > 1 else f"{sum(parts):,}"
    some = f"{whole} {what}" if left > 0.8 * sum(parts) else f"the {left:,} of {whole} {what} that are left"
    where = f"on {workers} cores" if workers > 1 else "in one process"
    told = f"About {roughly(takes)} for {some} {where}: {pace:.2g} seconds each, by those so far."
    names = extents(settings)
    if takes <= LONG or not names:
        return told
    few = max(least, _round(int(OFFERED * workers / (pace * len(parts)))))
    less = pace * few * len(parts) / workers
    return f"{told} `--{names[0]} {few}` takes about {roughly(less)}." if 2 * less < takes else told


def _round(number: int) -> int:
    """Down to one digit and zeros: 40, 200."""
    zeros = int("1" + "0" * (len(str(number)) - 1))
    return number // zeros * zeros


def unfinished(run: str | Path) -> str:
    """What of a run that is not finished is on disk, and how it goes on; nothing of one that is, or that is none."""
    folder = RunFolder(run)
    try:
        lanes, spans = folder.config.get("lanes", [folder.config.get("units")]), folder.spans()
    except UserError:
        return ""
    if lanes and not gaps(spans, lanes):
        return ""
    return f"the run is not finished: {told_of(run)}; the command that began it goes on with it"


def told_of(run: str | Path) -> str:
    """`3 units, 150 of 600 trials, are on disk in RUN`."""
    units, done, whole, what = there(RunFolder(run))
    if not units:
        return f"no unit is finished, so nothing is on disk in {run} yet"
    are = "is" if units == 1 else "are"
    if what == "units":
        return f"{done:,} of {whole:,} units {are} on disk in {run}"
    return f"{units:,} {'unit' if units == 1 else 'units'}, {done:,} of {whole:,} {what}, {are} on disk in {run}"
