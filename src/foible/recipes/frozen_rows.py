"""The rows of a suite, from the runs that its images were chosen in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch

from foible.data import open_data, read
from foible.data.dataset import shown
from foible.errors import UserError
from foible.findings import SCHEMA, read_shard
from foible.images import encode_pngs
from foible.recipes.frozen import ANCHOR, HUNT, Candidate, Source, answer_files, order_of
from foible.recipes.rows import as_table, versions
from foible.views import View


def rows_of(chosen: Sequence[Candidate], classes: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Rows by `SCHEMA`, classes counted by `classes`; and a note for each run whose anchors cannot be had any more."""
    shards: dict[tuple[Path, bool], list[Candidate]] = defaultdict(list)
    photographs: dict[str, list[Candidate]] = defaultdict(list)
    for one in chosen:
        if one.file is None:
            photographs[one.source.hash].append(one)
        else:
            shards[one.file, one.anchor].append(one)
    tables, notes = [SCHEMA.empty_table()], []
    for (file, anchor), members in shards.items():
        source = members[0].source
        table = read_shard(file).take([one.row for one in members]).select(SCHEMA.names).replace_schema_metadata()
        table = _anchors(table, source) if anchor else _mistakes(table, source)
        tables.append(_counted(table, source, classes))
    for members in photographs.values():
        source = members[0].source
        try:
            tables.append(_counted(_photographed(source, members), source, classes))
        except UserError as error:
            notes.append(f"no anchors from {source.path.name}: {error}")
    return pa.concat_tables(tables), notes


def _set(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        field = SCHEMA.field(name)
        made = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, field.type)
        table = table.set_column(SCHEMA.get_field_index(name), field, made)
    return table


def _unsearched(count: int) -> dict[str, Any]:
    """Columns of rows that nothing was searched for."""
    counts = dict.fromkeys(("moves", "candidates", "forwards", "backwards"), [0] * count)
    empty: dict[str, Any] = {name: [[] for _ in range(count)] for name in ("path", "point", "change")}
    return {**counts, **empty, "film": [None] * count, "outcome": ["held"] * count, "tags": [[ANCHOR]] * count}


def _mistakes(table: pa.Table, source: Source) -> pa.Table:
    ids = [f"{source.hash}.{id}" for id in table.column("id").to_pylist()]
    return _set(table, id=ids, tags=[[HUNT]] * len(ids) if source.is_hunt else table.column("tags"))


def _anchors(table: pa.Table, source: Source) -> pa.Table:
    """The seed images of a hunt's trials."""
    return _set(
        table,
        id=[f"{source.hash}.{ANCHOR}-{place:06d}" for place in table.column("origin_index").to_pylist()],
        image=table.column("origin"),
        after=table.column("before"),
        said=table.column("truth"),
        consensus=table.column("truth"),
        trace=pc.list_slice(table.column("trace").combine_chunks(), 0, 1),
        **_unsearched(table.num_rows),
    )


def _counted(table: pa.Table, source: Source, classes: Sequence[str]) -> pa.Table:
    """The same rows, where classes stand in the suite's order."""
    order = order_of(source, classes)
    if order == list(range(len(order))):
        return table
    places, back = pa.array(order, pa.int32()), [order.index(place) for place in range(len(order))]
    moved = {name: pc.take(places, table.column(name)) for name in ("truth", "consensus", "said")}
    shares = {
        name: [[[chances[k] for k in back] for chances in row] for row in table.column(name).to_pylist()]
        for name in ("before", "after")
    }
    return _set(table, **moved, **shares)


def _photographed(source: Source, members: Sequence[Candidate]) -> pa.Table:
    """Anchors of a compare: their pixels from its data, their answers from its answers/.

    Of an answer only the confidence was kept; what is left of 1 is spread evenly over the other classes.
    """
    settings, label = source.settings, {one.row: source.classes.index(one.label) for one in members}
    data = open_data(source.where["data"], settings["split"], quiet=True)
    if data.sha256 != settings["data_sha256"]:
        raise UserError(f"the data {shown(settings['data'])!r} is not what it was when the run was made")
    seen = read(data, torch.tensor(sorted(label)), [_view(settings["canvas"])])
    index = seen.index.tolist()
    count, truth, sure = len(index), [label[place] for place in index], _confidence(source.path, set(index))
    others = len(source.classes) - 1
    answers = [
        [[p if k == label[place] else (1 - p) / others for k in range(others + 1)] for p in sure[place]]
        for place in index
    ]
    pngs = encode_pngs(seen.images[0].numpy()) if count else []
    columns: dict[str, Any] = {
        "id": [f"{source.hash}.{ANCHOR}-{place:06d}" for place in index], "config": [source.hash] * count,
        "suspect": [settings["new"]] * count, "networks": [settings["names"]] * count, "lane": index,
        "image": pngs, "origin": pngs, "origin_data": [data.name] * count, "origin_split": [data.split] * count,
        "origin_index": index,
        "origin_file": [None if data.files is None else data.files[place] for place in index],
        "truth": truth, "label_from": ["label"] * count, "consensus": truth, "said": truth, "before": answers,
        "after": answers,
        "trace": [[sure[place]] for place in index], "versions": [versions(torch.device("cpu"))] * count,
        **_unsearched(count),
    }  # fmt: skip
    return as_table(columns, count)


def _view(canvas: dict[str, Any] | None) -> View | None:
    if canvas is None:
        return None
    height, width = canvas["size"]
    resize = canvas["resize"]
    return View((height, width), tuple(resize) if isinstance(resize, list) else resize, canvas["interpolation"])


def _confidence(run: Path, wanted: set[int]) -> dict[int, list[float]]:
    """How sure each network was of these images."""
    found: dict[int, list[float]] = {}
    for table in answer_files(run, ("index", "confidence")):
        rows = [row for row, place in enumerate(table.column("index").to_pylist()) if place in wanted]
        part = table.take(pa.array(rows, pa.int64()))
        found.update(zip(part.column("index").to_pylist(), part.column("confidence").to_pylist(), strict=True))
    return found
