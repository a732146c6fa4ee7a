"""A run of `boundary` read back: its images between classes, what networks say of them, and what people said."""

from __future__ import annotations

import hashlib
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foible.errors import UserError
from foible.findings import Findings
from foible.findings.labels import labels_of
from foible.findings.tally import Opened, tables
from foible.text import shown

if TYPE_CHECKING:
    from torch import Tensor

Run = str | PathLike[str] | Findings | Opened
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ALPHA = "α"  # how far along the line, in a row's `change`
COLUMNS = ("id", "config", "lane", "image", "after", "networks", "change")


class Interpolations(NamedTuple):
    """n images, walk after walk, each from its first end to its second."""

    ids: list[str]
    pngs: list[bytes]
    pair: Ints  # (n,), the number of its walk
    ends: Ints  # (n, 2), the classes at both ends of its walk; -1 of a photograph on which networks have no majority
    alpha: Floats  # (n,), 0 at the first end, 1 at the second
    said: Ints  # (networks, n), -1 where an answer is no number
    sure: Floats  # (networks, n), the largest softmax
    networks: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def images(self) -> Tensor:
        """uint8 (n, channels, height, width)."""
        import torch  # not above: a summary is read without it

        from foible.images import decode_png

        read = [decode_png(png, repr(id)) for id, png in zip(self.ids, self.pngs, strict=True)]
        return torch.stack(read) if read else torch.empty(0)


def interpolations(run: Run) -> Interpolations:
    """The images of a run of `foible boundary make`, in order."""
    rows, classes, configs = _rows(run, COLUMNS)
    if any(one.get("recipe") != "boundary" or one.get("candidates") for one in configs.values()):
        raise UserError(
            "these findings are no images between classes: expected a run of `foible boundary make`, and not one of "
            "its sheets of candidates"
        )
    try:
        return _made(rows, classes, configs)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:  # they may be anybody's
        raise UserError(f"these rows are damaged or not ours ({type(error).__name__}: {error})") from error


def _made(rows: list[dict[str, Any]], classes: tuple[str, ...], configs: dict[str, Any]) -> Interpolations:
    settings = [configs[row["config"]] for row in rows]
    networks, pngs = tuple(rows[0]["networks"]) if rows else (), [row["image"] for row in rows]
    if not all(pngs):
        raise ValueError("an image is missing")
    after = np.asarray([row["after"] for row in rows], np.float64).reshape(len(rows), len(networks), len(classes))
    finite = np.isfinite(after).all(2)
    said = np.where(finite, np.nan_to_num(after).argmax(2), -1).T
    pair = np.asarray([row["lane"] for row in rows], np.int64)
    return Interpolations(
        ids=[row["id"] for row in rows],
        pngs=pngs,
        pair=pair,
        ends=_ends(pair, said, settings, len(classes)),
        alpha=np.asarray([round(dict(row["change"])[ALPHA], 6) for row in rows], np.float64),
        said=said.astype(np.int64),
        sure=np.where(finite, after.max(2, initial=0.0), np.nan).T,
        networks=networks,
        classes=classes,
    )


def candidates(run: Run) -> int:
    """How many candidates for ends a run has; 0 where it has images between classes."""
    rows, _, configs = _rows(run, ("config",))
    return len(rows) if any(one.get("candidates") for one in configs.values()) else 0


def _ends(pair: Ints, said: Ints, settings: list[dict[str, Any]], classes: int) -> Ints:
    """The classes of the settings; of two photographs, which have none, what most networks call the walk's ends."""
    known = np.asarray([one["pairs"][lane] for lane, one in zip(pair.tolist(), settings, strict=True)], np.int64)
    ends = known.reshape(len(pair), 2)
    if (ends >= classes).any():
        raise ValueError("a line leads to no class")
    for lane in np.unique(pair[(ends < 0).any(1)]) if len(pair) else ():
        mine = np.flatnonzero(pair == lane)
        ends[mine] = [_most(said[:, place]) for place in (mine[0], mine[-1])]
    return ends


def _most(said: Ints) -> int:
    """What more than half of the networks say; -1 where there is no such class."""
    known, counts = np.unique(said[said >= 0], return_counts=True)
    return int(known[counts.argmax()]) if 2 * counts.max(initial=0) > len(said) else -1


def people_one_by_one(run: Run) -> Ints:
    """(people, n): the class that each person chose, -1 where they were not asked or could not tell. (0, n) where
    nobody has labelled the run yet. Labels of other images are refused."""
    rows, classes, _ = _rows(run, ("id", "image"))
    labels = labels_of(run)  # type: ignore[arg-type]
    places = {row["id"]: place for place, row in enumerate(rows)}
    for id, known in labels.images.items():
        if id not in places or hashlib.sha256(rows[places[id]]["image"] or b"").hexdigest() != known:
            raise UserError(
                f"the labels beside these findings are of other images ({shown(id)[:60]!r}): label this run itself, or "
                "put the labels back where they belong"
            )
    numbers = {name: number for number, name in enumerate(classes)}
    said = np.full((len(labels.people), len(rows)), -1, np.int64)
    for person, answers in enumerate(labels.people[name] for name in sorted(labels.people)):
        for id, name in answers.items():
            if id not in labels.images or name not in numbers:
                raise UserError(f"a label says {shown(name)[:40]!r} of {shown(id)[:60]!r}: it is not of this run")
            said[person, places[id]] = numbers[name]
    return said


def people_on(run: Run) -> Ints:
    """(n, classes): how many people chose each class for each image; all 0 where nobody has yet."""
    said = people_one_by_one(run)
    _, classes, _ = _rows(run, ("id",))
    return np.stack([(said == number).sum(0) for number in range(len(classes))], 1).astype(np.int64)


def _rows(run: Run, columns: tuple[str, ...]) -> tuple[list[dict[str, Any]], tuple[str, ...], dict[str, Any]]:
    """Rows in the order of their walks, with the classes and the settings behind them."""
    parts = [Findings(table) for table in tables(run, columns)]
    if not parts:
        raise UserError("no unit of this run is finished yet: run the same command again to go on with it")
    configs = {key: settings for part in parts for key, settings in part.configs.items()}
    return [row for part in parts for row in part.table.to_pylist()], parts[0].classes, configs
