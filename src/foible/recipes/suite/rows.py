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
from foible.errors import UserError
from foible.findings import SCHEMA, read_shard
from foible.findings.rows import agreed, answered, as_column, as_table, cost, identity, known, origin, unmoved
from foible.images import encode_pngs
from foible.objectives import of_class
from foible.permission import Permission
from foible.recipes.compare.answers import answer_files
from foible.recipes.suite.choosing import ANCHOR, DRAWN, Candidate, FrozenRun, order_of
from foible.runs.reopen import data_of
from foible.text import shown
from foible.views import View

_OF_A_SEARCH = (
    "target", "distance", "distance_exact", "method", "score", "size", "kinds", "realism", "least_path",
    "least_image", "least_change", "least_forwards",
)  # fmt: skip


def rows_of(chosen: Sequence[Candidate], classes: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Rows by `SCHEMA`, classes counted by `classes`; and a note for each run whose drawn images cannot be had now."""
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
        table = table.filter(table.column("image").is_valid())
        tables.append(_counted(table, source, classes))
    for members in photographs.values():
        source = members[0].source
        try:
            tables.append(_counted(_photographed(source, members), source, classes))
        except UserError as error:
            notes.append(f"no drawn images from {source.path.name}, and only these decide: {error}")
    return pa.concat_tables(tables), notes


def _set(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        made = values if isinstance(values, pa.ChunkedArray) else as_column(name, values, table.num_rows)
        table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), made)
    return table


def _unsearched(count: int, tag: str) -> dict[str, Any]:
    """Columns of rows that nothing was searched for: images that are kept to be asked about again."""
    held = {"outcome": ["held"] * count, "tags": [[tag]] * count, "film": None}
    return {**cost(0, candidates=0), **unmoved(count), **held}


def _mistakes(table: pa.Table, source: FrozenRun) -> pa.Table:
    ids = [f"{source.hash}.{id}" for id in table.column("id").to_pylist()]
    tags = table.column("tags").to_pylist()
    return _set(table, id=ids, tags=[given if source.by_place else source.kinds(given) for given in tags])


def _anchors(table: pa.Table, source: FrozenRun) -> pa.Table:
    """The seed images of trials."""
    right = pc.coalesce(table.column("truth"), table.column("consensus"))
    return _set(
        table,
        id=[f"{source.hash}.{ANCHOR}-{place:06d}" for place in table.column("origin_index").to_pylist()],
        image=table.column("origin"),
        after=table.column("before"),
        said=right,
        consensus=right,
        trace=pc.list_slice(table.column("trace").combine_chunks(), 0, 1),
        **dict.fromkeys(_OF_A_SEARCH),
        **_unsearched(table.num_rows, ANCHOR),
    )


def _counted(table: pa.Table, source: FrozenRun, classes: Sequence[str]) -> pa.Table:
    """The same rows, where classes stand in the suite's order."""
    order = order_of(source, classes)
    if order == list(range(len(order))):
        return table
    places, back = pa.array(order, pa.int32()), [order.index(place) for place in range(len(order))]
    moved = {name: pc.take(places, table.column(name)) for name in ("truth", "consensus", "said", "target")}
    shares = {
        name: [[[chances[k] for k in back] for chances in row] for row in table.column(name).to_pylist()]
        for name in ("before", "after")
    }
    return _set(table, **moved, **shares)


def _photographed(source: FrozenRun, members: Sequence[Candidate]) -> pa.Table:
    """Drawn images of a comparison: their pixels from its data, their answers from its answers/.

    Of an answer only the class and the confidence were kept; what is left of 1 is spread evenly over the other classes.
    """
    settings, label = source.settings, {one.row: source.classes.index(one.label) for one in members}
    named = data_of(source.path, source.where["data"], Permission(trust=source.trust))
    data = open_data(named, settings["split"], whole=True, quiet=True)
    if data.sha256 != settings["data_sha256"]:
        raise UserError(f"the data {shown(settings['data'])!r} is not what it was when the run was made")
    canvas = settings.get("canvas")
    view = None if canvas is None else View.from_json(canvas, f"{source.path}: canvas")
    index: list[int] = []
    pngs: list[bytes] = []
    for part in torch.tensor(sorted(label)).split(16):  # the pixels of all of them may not fit into memory
        seen = read(data, part, [view])
        index += seen.index.tolist()
        pngs += encode_pngs(seen.images[0].numpy()) if len(seen.index) else []
    names, count, answers = settings["names"], len(index), _answers(source.path, set(index))
    truth, pictures = torch.tensor([label[place] for place in index]), pa.array(pngs, pa.binary())
    said = torch.tensor([answers[place][0] for place in index]).view(count, len(names)).t()
    sure = torch.tensor([answers[place][1] for place in index], dtype=torch.float64).view(count, len(names)).t()
    chances = ((1 - sure) / (len(source.classes) - 1))[..., None].repeat(1, 1, len(source.classes))
    chances.scatter_(2, said.clamp_min(0)[..., None], sure[..., None])
    chances[said < 0] = torch.nan
    others = [place for place, name in enumerate(names) if name != settings["new"]]
    return as_table(
        identity([names] * count, index, config=source.hash, device=torch.device("cpu")),
        origin(data, index, pictures),
        answered(chances, chances, said, truth=truth, label_from="label", consensus=agreed(said[others])),
        _unsearched(count, DRAWN),
        {
            "id": [f"{source.hash}.{DRAWN}-{place:06d}" for place in index],
            "suspect": settings["new"],
            "said": known(said[names.index(settings["new"])]),
            "origin_data": settings["data"],
            "image": pictures,
            "trace": [[each] for each in of_class(chances, truth).t().tolist()],
        },
        count=count,
    )


def _answers(run: Path, wanted: set[int]) -> dict[int, tuple[list[int], list[float]]]:
    """What each network said of these images, and how surely."""
    found: dict[int, tuple[list[int], list[float]]] = {}
    for table in answer_files(run, ("index", "said", "confidence")):
        rows = [row for row, place in enumerate(table.column("index").to_pylist()) if place in wanted]
        part = table.take(pa.array(rows, pa.int64()))
        columns = (part.column(name).to_pylist() for name in ("index", "said", "confidence"))
        found.update((place, (said, sure)) for place, said, sure in zip(*columns, strict=True))
    return found
