"""From a spec to a data set: the one table of what can be loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from foible.data.catalogue import FORMS, KNOWN, form_of
from foible.data.celeba import list_celeba
from foible.data.cifar import load_cifar10
from foible.data.csv_files import list_csv
from foible.data.dataset import SPLITS, Dataset, UnsplitError
from foible.data.digits import load_digits
from foible.data.folder import list_folder
from foible.data.idx import load_idx
from foible.data.npz import load_npz
from foible.data.parquet import list_parquet
from foible.data.photographs import Photographs
from foible.data.pictures import gather
from foible.data.usps import load_usps
from foible.data.webdataset import list_webdataset
from foible.errors import UserError
from foible.specs import bind, parse
from foible.text import did_you_mean, shown

LOADERS: dict[str, Callable[..., Dataset]] = {
    "digits": load_digits,
    "mnist": load_idx,
    "fashion-mnist": load_idx,
    "cifar10": load_cifar10,
    "usps": load_usps,
    "npz": load_npz,
}
LISTERS: dict[str, Callable[..., Photographs]] = {
    "folder": list_folder,
    "parquet": list_parquet,
    "csv": list_csv,
    "webdataset": list_webdataset,
    "celeba": list_celeba,
}


def load(spec: str | Dataset, split: str = "train", *, quiet: bool = False) -> Dataset:
    """The data set that `spec` names, in memory; a `Dataset` is handed back as it is.

    `spec` is a name (`digits`, `mnist`, `fashion-mnist`, `cifar10`, `usps`) or a form with a path
    (`folder:PATH?size=64`, `parquet:PATH`, `csv:PATH`, `webdataset:PATH`, `npz:PATH`); `split` is "train" or "test".
    `quiet` shows no progress bar. What could not be read is listed in the result's `problems`.
    """
    if isinstance(spec, Dataset):
        return spec
    found = _find(spec, split, True, quiet)
    data = gather(found, quiet) if isinstance(found, Photographs) else found
    _tell(data, quiet)
    return data


def open_data(
    spec: str | Dataset | Photographs, split: str = "train", *, labelled: bool = True, whole: bool = False,
    quiet: bool = False,
) -> Dataset | Photographs:  # fmt: skip
    """As `load`, but the photographs of `folder:`, `parquet:`, `csv:` and `webdataset:` stay on disk until `read` or
    `stream` asks for them. What is not text is handed back as it is.

    `labelled=False` takes a pool: every image file below a folder at any depth, rows without a label column; `labels`
    are all -1 and `classes` is empty. A pool that has a part for `split` is that part, and otherwise all of it.
    `whole=True`, for what only judges, does the same with labelled data in which nothing says what is for testing, and
    a note of the data says so.
    """
    if not isinstance(spec, str):
        return spec
    try:
        data = _find(spec, split, labelled, quiet)
    except UnsplitError:
        if not whole:
            raise
        data = _find(spec, "train", labelled, quiet)
        said = f"{spec} is not split into train and test: all {len(data)} images are taken"
        data = replace(data, split=split, notes=(*data.notes, said))
    _tell(data, quiet)
    return data


def _find(spec: str, split: str, labelled: bool, quiet: bool) -> Dataset | Photographs:
    if split not in SPLITS:
        raise UserError(f"the split is {split!r}: expected 'train' or 'test'{did_you_mean(str(split), SPLITS)}")
    parsed = parse(spec)
    if parsed.name in LISTERS:
        lister = LISTERS[parsed.name]
        try:
            return lister(spec, parsed.argument, split, labelled, **bind(lister, parsed.options, spec))
        except OSError as error:
            where = f" {shown(error.filename)}" if error.filename else ""
            raise UserError(f"{spec}: cannot read{where}: {error.strerror or error}") from error
    loader = LOADERS.get(parsed.name)
    if loader is None:
        raise _unknown(spec, parsed.name)
    if parsed.name in KNOWN and spec != parsed.name:
        raise UserError(
            f"{spec!r}: {parsed.name} takes no path and no options; "
            "set FOIBLE_DATA to the folder that it is to be looked for in"
        )
    return loader(spec, parsed.argument, split, quiet, **bind(loader, parsed.options, spec))


def _tell(data: Dataset | Photographs, quiet: bool, most: int = 10) -> None:
    """Say on standard error what was left out, so that nobody learns of it by counting."""
    if quiet or not data.problems:
        return
    there = f"{len(data)} {'read' if isinstance(data, Dataset) else 'listed'}"
    lines = [f"{shown(data.name)} ({data.split}): {len(data.problems)} left out, {there}"]
    lines += [f"  {shown(problem)}" for problem in data.problems[:most]]
    if len(data.problems) > most:
        lines.append(f"  … and {len(data.problems) - most} more")
    print("\n".join(lines), file=sys.stderr)


def _unknown(spec: str, name: str) -> UserError:
    with suppress(OSError, ValueError):
        form = form_of(Path(spec))
        if form is not None:
            return UserError(f"{spec!r} is no data set, but there is such a file or folder here: write {form}:{spec}")
    hint = did_you_mean(name.lower(), [*LOADERS, *LISTERS])
    if hint:
        return UserError(f"there is no data set called {spec!r}{hint} `foible data` lists what is at hand")
    if any(mark in spec for mark in "/\\."):
        hint = f"; for a path write folder:{spec}, parquet:{spec}, csv:{spec}, webdataset:{spec} or npz:{spec}"
    return UserError(
        f"there is no data set called {spec!r}{hint}; known are {', '.join(KNOWN)}, and "
        f"{'; '.join(FORMS.values())}. `foible data` lists what is at hand"
    )
