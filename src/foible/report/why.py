"""Why, beside a find: maps of what speaks for the answer of the suspect, and of a peer, kept with the run.

They are made at the end of a hunt, while its networks are open, of the findings that its report shows first, and lie in
`why.json` beside the shards: a report of a run that was copied, or whose networks are gone, shows them all the same.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foible.disk import write_atomically
from foible.errors import UserError
from foible.images import decode_png, encode_png
from foible.records import TEXT, check, read_json
from foible.report import choose
from foible.report.counts import count
from foible.report.pictures import Picture, picture
from foible.report.run import OpenRun

if TYPE_CHECKING:
    from torch import Tensor

    from foible.runs.folder import RunFolder
    from foible.runs.task import Task

WHY = "why.json"
SHOWN = 24  # findings that get maps: those shown step by step, then those at the head of the gallery
SESSIONS = 8
_COLUMNS = ("id", "suspect", "networks", "after", "truth", "consensus", "said", "image")
_FORM = {"maps": [{"id": TEXT, "peer": (None, TEXT), "how": [TEXT], "pictures": [TEXT]}]}
_COLOURS = ((213, 94, 0), (47, 115, 169))  # the suspect's and the peers', as on the page


@dataclass(frozen=True)
class Map:
    """What speaks for one network's answer. peer: its name, where it is not the suspect."""

    picture: Picture
    how: str
    peer: str | None


def keep(task: Task, _work: Any, folder: RunFolder | None) -> None:
    """Make the maps of a finished hunt; nothing is done again where they are there, nor for a run in memory."""
    if folder is None:
        return
    source = OpenRun.open(folder.path)
    result = count(source)
    first = choose.session_places(result, SESSIONS)
    others = [place for place, _ in sorted(choose.gallery_places(source, result, SHOWN), key=lambda item: item[1])]
    places = sorted(list(dict.fromkeys([*first, *others]))[:SHOWN])
    rows = [row for row in choose.rows_at(source, places, _COLUMNS) if _asked(row, task) is not None]
    if rows and [row["id"] for row in rows] != list(maps_of(source)):
        write_atomically(folder.path / WHY, json.dumps({"maps": _made(task, rows)}).encode())


def maps_of(source: OpenRun) -> dict[str, list[Map]]:
    """The maps that were kept with a run, by finding; none where there is no such file, or where it is not ours."""
    try:
        kept = check(read_json(source.folder / WHY, ""), _FORM, WHY) if source.folder is not None else {"maps": []}
    except (OSError, UserError):
        return {}
    return {one["id"]: _read(one) for one in kept["maps"]}


def _read(one: dict[str, Any]) -> list[Map]:
    maps = []
    for place, (how, text) in enumerate(zip(one["how"], one["pictures"], strict=False)):
        try:
            shown = picture(b64decode(text, validate=True))
        except ValueError:
            shown = None
        if shown is not None and (place == 0 or one["peer"] is not None):
            maps.append(Map(shown, how, one["peer"] if place else None))
    return maps[:2]


def _asked(row: dict[str, Any], task: Task) -> list[tuple[str, int, int]] | None:
    """Whom to ask about a row, and which class leads which: the suspect, and the peer that is surest; None where the
    row does not say what is right and what was said."""
    right = row["truth"] if row["truth"] is not None else row["consensus"]
    if right is None or row["said"] is None or row["image"] is None or row["suspect"] not in task.basket.names:
        return None
    held = {name: after[right] for name, after in zip(row["networks"], row["after"], strict=True)}
    peers = [name for name in held if name != row["suspect"] and name in task.basket.names]
    asked = [(row["suspect"], row["said"], right)]
    return [*asked, (max(peers, key=lambda name: held[name]), right, row["said"])] if peers else asked


def _made(task: Task, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The maps of these rows, for JSON: each network is asked once, about all the rows that it has a say in."""
    import torch

    from foible.images import to_floats
    from foible.inspect.saliency import saliency

    images = to_floats(torch.stack([decode_png(row["image"]) for row in rows])).to(task.basket.device)
    asked = [_asked(row, task) or [] for row in rows]
    drawn: dict[tuple[int, int], tuple[str, str]] = {}
    for name in task.basket.names:
        own = [
            (n, k, says, not_)
            for n, some in enumerate(asked)
            for k, (who, says, not_) in enumerate(some)
            if who == name
        ]
        if own:
            numbers, _, says, instead = (torch.tensor(part, device=images.device) for part in zip(*own, strict=True))
            maps, how = saliency(task.basket, name, images[numbers], says, instead)
            for (n, k, _, _), one in zip(own, maps, strict=True):
                drawn[n, k] = how, b64encode(encode_png(_drawn(images[n], one, _COLOURS[k]))).decode()
    return [
        {
            "id": row["id"], "peer": asked[n][1][0] if len(asked[n]) > 1 else None,
            "how": [drawn[n, k][0] for k in range(len(asked[n]))],
            "pictures": [drawn[n, k][1] for k in range(len(asked[n]))],
        }
        for n, row in enumerate(rows)
    ]  # fmt: skip


def _drawn(image: Tensor, weights: Tensor, colour: tuple[int, int, int]) -> Any:
    """The image in pale grey (channels, height, width), and over it in colour what speaks for the answer."""
    pale = (0.65 + 0.35 * image.mean(0)) * 255
    full = weights.new_tensor(colour)[:, None, None]
    mixed = pale + (full - pale) * weights.clamp(min=0)
    return mixed.round().clamp(0, 255).byte().cpu().numpy()
