"""Which images are distorted: drawn from the data, those that the source gets right."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from foible.clean import Clean, answers, hints, none_read, tell, tell_unreadable
from foible.errors import UserError
from foible.judging import judged
from foible.progress import progress
from foible.randomness import words
from foible.runs.job import Seeds, Task


def right_under_source(task: Task) -> Seeds:
    """`chosen`: positions of the images. The first network of the basket is the source; fewer images are the first of
    more. With `wrong` also those that it gets wrong; without labels every image that it answers will do."""
    config, basket, meeting, quiet = task.config, task.basket, task.meeting, task.quiet
    count, seed, wrong, labelled = config.images, config.seed, config.wrong, not config.unlabelled
    data, clean = meeting.data, Clean(basket.names, basket.classes)
    drawn = words(seed, meeting.index, stream="distort.images", count=1)[:, 0]
    order = meeting.index[drawn.argsort(stable=True)]
    unreadable: list[str] = []
    chosen: list[Tensor] = []
    few: list[tuple[Tensor, Tensor]] = []
    left = count
    with progress("Choosing images", min(len(order), count), quiet=quiet) as bar:
        for part in judged(basket, data, index=order, canvas=meeting.canvas, native=False, keep=labelled):
            said = answers(part.logits)
            good = said[0] >= 0
            if labelled:
                labels = meeting.labels[part.index]
                good = torch.ones_like(good) if wrong else good & (said[0] == labels)
                clean.add(said, labels)
                if part.canvas is not None and sum(len(images) for images, _ in few) < 256:
                    few.append((part.canvas, labels))
            unreadable += [f"{data.files[place] if data.files else place}: {why}" for place, why in part.problems]
            chosen.append(part.index[good])
            left -= len(chosen[-1])
            bar.advance(len(chosen[-1]) + min(0, left))
            if left <= 0:
                break
    if len(unreadable) == len(order):
        raise none_read(data.name, len(order), unreadable[0])
    found = torch.cat(chosen)[:count].sort().values
    if not quiet:
        tell_unreadable(unreadable)
        if labelled and clean.seen:
            advice = hints(basket, clean, *(torch.cat(parts) for parts in zip(*few, strict=True)))
            tell(clean, [*basket.notes, *meeting.notes], advice)
        if 0 < len(found) < count:
            print(f"{len(found)} images are all that there are to distort ({count} were asked for)", file=sys.stderr)
    if not len(found):
        how = "classified right" if labelled else "answered"
        raise UserError(
            f"none of the {len(order)} images of {data.name!r} ({data.split}) is {how} by {basket.names[0]!r}: check "
            "the class order and the preprocessing"
        )
    return Seeds({"chosen": found}, clean.rows() if labelled else None, unreadable)
