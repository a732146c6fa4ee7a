"""Where a hunt begins: who is suspect and who is peer, and the images that all of them get right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.clean import Clean, answers, hints, none_read, tell, tell_unreadable
from foible.errors import UserError
from foible.judging import judged
from foible.meeting import Meeting
from foible.progress import progress
from foible.runs.job import Seeds, Task


def peers_of(basket: Basket, suspect: str, peers: Sequence[str]) -> list[str]:
    """The peers that were named, or every other network."""
    return list(peers) or basket.peers(suspect)


def chosen(basket: Basket, config: Any) -> Basket:
    """Suspects and peers alone, where the config names peers; otherwise everybody."""
    suspects, peers = config.suspect, config.peers
    for name in (*suspects, *peers):
        basket.peers(name)  # or an error that names it
    if not peers:
        return basket
    tested = suspects or [name for name in basket.names if name not in peers]
    if not tested:
        raise UserError("every network is a peer: leave at least one to be the suspect")
    return basket.only([*tested, *peers])


def tell_few(peers: int) -> None:
    """Say what few peers are worth."""
    if peers < 3:
        print(
            f"{peers} peer{'' if peers == 1 else 's'}: findings may be images that nobody could get right. In paper 1 "
            "(Table 2, pixel swaps) searches that ended in an unrealistic image fell from 299 of 300 without peers to "
            "145, 96, 72 and 57 with one to four. `foible train probe:NETWORK` makes more from one network.",
            file=sys.stderr,
        )


def right_under_all(task: Task) -> Seeds:
    """`eligible`: positions of the images that every network gets right (or, without labels, that all call the same),
    and `aims`: their classes."""
    basket, meeting, labelled, quiet = task.basket, task.meeting, not task.config.unlabelled, task.quiet
    data, clean = meeting.data, Clean(basket.names, basket.classes)
    aims = torch.full((len(data),), -1)
    unreadable: list[str] = []
    few: list[tuple[Tensor, Tensor]] = []
    seen = 0
    with progress("Judging seed images", len(meeting.index), quiet=quiet) as bar:
        for part in judged(basket, data, index=meeting.index, canvas=meeting.canvas, native=False, keep=labelled):
            said = answers(part.logits)
            labels = meeting.labels[part.index] if labelled else said[0]
            right = (said == labels).all(0) & (labels >= 0) & part.logits.isfinite().all(2).all(0)
            aims[part.index] = torch.where(right, labels, -1)
            seen += len(part.index)
            unreadable += [f"{data.files[place] if data.files else place}: {why}" for place, why in part.problems]
            if labelled:
                clean.add(said, labels)
                if part.canvas is not None and sum(len(images) for images, _ in few) < 256:
                    few.append((part.canvas, labels))
            bar.advance(len(part.index) + len(part.problems))
    if not seen:
        raise none_read(data.name, len(meeting.index), unreadable[0])
    if not quiet:
        tell_unreadable(unreadable)
    advice = hints(basket, clean, *(torch.cat(parts) for parts in zip(*few, strict=True))) if labelled else {}
    eligible = (aims >= 0).nonzero()[:, 0]
    if not quiet:
        notes = [*basket.notes, *meeting.notes, *_canvas_note(meeting)]
        if labelled:
            tell(clean, notes, advice)
        else:
            agreed = f"{len(eligible)} of {seen} images are called the same by all {len(basket)} networks: the seeds"
            print("\n  ".join(["Without labels:", *notes, agreed]), file=sys.stderr)
    if not len(eligible):
        how = "classified right" if labelled else "called the same"
        raise UserError(
            f"none of the {seen} images of {data.name!r} ({data.split}) is {how} by all of "
            f"{', '.join(basket.names)}: check the class order and the preprocessing.{''.join(advice.values())}"
        )
    if not quiet:
        tell_few(len(task.config.peers) or len(basket) - 1)
    return Seeds({"eligible": eligible, "aims": aims[eligible]}, clean.rows() if labelled else None, unreadable)


def _canvas_note(meeting: Meeting) -> list[str]:
    if meeting.canvas is None:
        return []
    height, width = meeting.canvas.size
    return [f"moves act on a canvas of {width}×{height}; each network sees all of it, at its own input size"]
