"""A labelling task from a run, from chosen findings, or from any data set: images re-encoded, nothing else taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foible.errors import UserError
from foible.findings import Findings, read_shard, shard_files
from foible.findings.labels import labels_of
from foible.images import decode_pixels, encode_png
from foible.runs.folder import RunFolder
from foible.runs.recipe import recipe_of
from foible.studio.base import Item, Task
from foible.studio.store import Store

SIDE = 768  # pixels: a larger photograph is shown smaller
ASKED = ("found", "between")  # outcomes of rows that people can say something about


def is_run(source: str) -> bool:
    """Whether a source is a run folder or a file of findings; else it is a data spec."""
    path = Path(source)
    return path.is_dir() or (path.is_file() and path.suffix == ".parquet")


def shown(png: bytes, of: str) -> bytes:
    """An image as it is shown: decoded and encoded again, so that nothing but pixels goes on; large ones smaller."""
    return _fit(decode_pixels(png, of))


def _fit(pixels: Any) -> bytes:
    """uint8 (channels, height, width) as PNG, at most SIDE wide and high."""
    if max(pixels.shape[1:]) > SIDE:
        from PIL import Image

        image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
        image.thumbnail((SIDE, SIDE))
        made = np.asarray(image)
        pixels = made[None] if made.ndim == 2 else made.transpose(2, 0, 1)
    return encode_png(pixels)


def of_run(
    run: str | Path, *, limit: int | None, checks: int, examples: int, seed: int
) -> tuple[tuple[str, ...], Iterator[Item]]:
    """The classes, and what was found, or lies between classes: dropped findings are passed over. checks: so many of
    the images that the finds began with, which all networks got right, under their labels. examples: so many of these
    for each class."""
    columns = ("id", "outcome", "image", "origin", "truth")
    files = shard_files(run)
    classes = Findings(read_shard(files[0], ("id",))).classes if files else ()
    dropped = labels_of(run).dropped
    ids = [
        id
        for file in files
        for id, outcome in zip(*read_shard(file, ("id", "outcome")).to_pydict().values(), strict=True)
        if outcome in ASKED and id not in dropped
    ]
    wanted = {ids[place] for place in _some(len(ids), limit, seed)}
    tested = {ids[place] for place in _some(len(ids), min(checks, len(ids)), seed + 1)} if checks else set()

    def items() -> Iterator[Item]:
        left = Counter(dict.fromkeys(range(len(classes)), examples))
        for file in files:
            for row in read_shard(file, columns).to_pylist():
                if row["id"] in wanted and row["image"] is not None:
                    yield Item(row["id"], shown(row["image"], row["id"]))
                if row["origin"] is None or row["truth"] is None:
                    continue
                if row["id"] in tested:
                    yield Item(row["id"], shown(row["origin"], row["id"]), row["truth"])
                elif row["outcome"] == "found" and left[row["truth"]] > 0:
                    left[row["truth"]] -= 1
                    yield Item(row["id"], shown(row["origin"], row["id"]), row["truth"], True)

    return classes, items()


def of_findings(findings: Findings) -> Iterator[Item]:
    """These findings, those that keep an image."""
    for row in findings.table.select(["id", "image"]).to_pylist():
        if row["image"] is not None:
            yield Item(row["id"], shown(row["image"], row["id"]))


def of_data(
    spec: str, split: str, *, limit: int | None, checks: int, examples: int, seed: int, labelled: bool
) -> tuple[tuple[str, ...], Iterator[Item]]:
    """The classes, and the images of a data set, drawn by the seed. checks, examples: so many more, and so
    many more of each class, under their labels."""
    from foible.data import Dataset, open_data
    from foible.data.decode import picture, pixels_of

    data = open_data(spec, split, labelled=labelled, whole=True, quiet=True)
    order = _some(len(data), None, seed)
    tested, shown_first = set[int](), set[int]()
    if data.classes and checks:
        tested = {order.pop() for _ in range(min(checks, len(order) - 1))}
    for label in range(len(data.classes)) if examples else ():
        some = [place for place in order if int(data.labels[place]) == label][:examples]
        shown_first |= set(some)
    order = [place for place in order if place not in shown_first]
    drawn = [*order[:limit], *tested, *shown_first]

    def items() -> Iterator[Item]:
        for place in sorted(drawn):
            name = f"{split}-{place}" if data.files is None else data.files[place]
            if isinstance(data, Dataset):
                pixels = data.images[place].numpy()
            else:
                mode, size = ("L" if data.look.grey else "RGB"), data.look.size
                pixels = pixels_of(picture(data.source.fetch(place), mode, size))
            known = int(data.labels[place]) if place in tested or place in shown_first else None
            yield Item(name, _fit(pixels), known, place in shown_first)

    return tuple(data.classes), items()


def _some(count: int, limit: int | None, seed: int) -> list[int]:
    order = np.random.Generator(np.random.Philox(key=[seed & 0xFFFFFFFF, 0])).permutation(count)
    return [int(place) for place in order[:limit]]


def make_task(
    store: Store, source: str, *, name: str | None = None, split: str = "test", limit: int | None = None,
    classes: Sequence[str] | None = None, checks: int = 0, examples: int = 0, annotators: int = 1,
    names: Sequence[str] = (), seed: int = 0, items: Iterable[Item] | None = None, **more: Any,
) -> Task:  # fmt: skip
    """A task of a run or a data set; `more` as `Store.add_task`. names: what people are called; codes without.
    items: only these, of the run. classes: to choose from; those of the source without."""
    run = str(Path(source).resolve()) if is_run(source) else None
    if classes and (checks or examples):
        raise UserError("checks and examples are known under the classes of the source: leave --classes out, or them")
    if items is not None:
        own, some = classes or (), items
    elif run is not None:
        own, some = of_run(run, limit=limit, checks=checks, examples=examples, seed=seed)
    else:
        own, some = of_data(
            source, split, limit=limit, checks=checks, examples=examples, seed=seed, labelled=classes is None
        )
    given = tuple(classes or own)
    if not given:
        raise UserError(f"{source!r} names no classes: say what there is to choose from, as in --classes cat,dog")
    people = [*names, *(f"annotator {number}" for number in range(len(names) + 1, annotators + 1))]
    return store.add_task(name or called(source), source, given, some, run=run, people=people, seed=seed, **more)


def by_everybody(source: str) -> bool:
    """Whether a source is a run of which every person labels every image, by its recipe."""
    if not (Path(source) / "config.json").is_file():
        return False
    recipe = recipe_of(RunFolder(source).config["settings"])
    return recipe is not None and recipe.everybody


def called(source: str) -> str:
    """The usual name of a task."""
    return Path(source).resolve().name if is_run(source) else source


def is_of(task: Task, source: str) -> bool:
    """Whether a task is of this source."""
    return task.run == str(Path(source).resolve()) if is_run(source) else task.source == source
