"""Images that a network gets right, driven to the class that it holds second: what mended mistakes are compared with.

Any change of an image has its favourite places. Where mistakes are mended is a bias only if right images that leave
their class do not change there as well. The paper has no such group, only mistakes (Sec. 5); the runner-up is our
reading, because a mistake's own class mostly comes second too. The rows lie beside the shards of a run, in a file of
their own: they are no mistakes, and nothing counts, exports or freezes them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible import specs
from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings import Findings, read_shard
from foible.processes import one_thread
from foible.recipes.explain.units import Explaining, images_of
from foible.runs.folder import RunFolder
from foible.runs.spans import Span
from foible.runs.task import Task, Work

CONTROL = "control.parquet"
LEAST = 5  # images that a mean is of


def drive(task: Task, work: Work, folder: RunFolder | None) -> None:
    """Write these rows: at most as many as there are mistakes, and as `control` says. What is there already stays."""
    if folder is None:  # in memory there is no page to show them on
        return
    config, wanted = task.config, min(task.config.control, sum(work.lanes))
    if config.to != "truth" or wanted < LEAST or specs.parse(task.named["search"]).name != "descend":
        return
    settings = task.settings | {"to": "runner-up", "effort": 0, "trials": wanted}
    right = replace(
        task, config=replace(config, to="runner-up", images=wanted, judge_all=False), settings=settings, quiet=True
    )
    known = control_of(folder.path)
    if known is not None and len(known) >= wanted and set(known.table.column("config").to_pylist()) == {right.key}:
        return
    try:
        seeds = images_of(right)
    except UserError:  # it gets none of these images right: they are somebody's findings, say
        return
    work = Explaining(replace(right, seeds=seeds.tensors))
    with one_thread():
        made: Any = work.unit(Span(0, 0, work.lanes[0]), lambda _: None)()
    out = pa.BufferOutputStream()
    pq.write_table(made, out, compression="zstd")
    write_atomically(folder.path / CONTROL, out.getvalue().to_pybytes())


def control_of(run: str | Path) -> Findings | None:
    """The rows that are kept with a run; None where there are none, or none that can be read."""
    file = Path(run) / CONTROL
    try:
        return Findings(read_shard(file)) if file.is_file() else None
    except UserError:
        return None
