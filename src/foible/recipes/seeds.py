"""Where searches begin: who is suspect and who is peer, and the images that are worth beginning with.

Nothing is judged that nobody needs: images are looked at in an order that is a function of the seed, and only until
there are enough. A hunt of a hundred trials over a million photographs begins after a few hundred of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import Accuracy, answers, hints, none_read, suspicious, tell, tell_unreadable
from foible.basket.judging import Judged, judged, plain
from foible.basket.matching import Matched
from foible.data import read
from foible.errors import Interrupted, UserError
from foible.progress import progress
from foible.randomness import words
from foible.runs.kept_seeds import Answers
from foible.runs.task import Seeds, Task

LEAST = 64  # images that are looked at together
SPARE = 1.1  # look at so many times what should be enough
RAREST = 0.02  # the share of good images that is reckoned with at the least
FEW = 256  # images that hints are tried on
TYPICAL, TYPICAL_PIXELS = 2000, 10_000_000  # of images that tell what is typical

Good = Callable[[Judged, Tensor, Tensor], tuple[Tensor, Tensor]]  # (batch, said, labels) -> which are good, their aims


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


@dataclass
class Looked:
    """What was looked at: good positions and their classes, in order; accuracies; what could not be read."""

    clean: Accuracy
    looked: list[Tensor] = field(default_factory=list)  # positions of all that could be read, in order
    positions: list[Tensor] = field(default_factory=list)
    aims: list[Tensor] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    order: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))  # of all positions
    have: int = 0
    seen: int = 0
    answers: list[Answers] = field(default_factory=list)  # all of it, to be kept

    def add(self, new: Answers, labels: Tensor | None) -> int:
        """Take in what was said of some images; labels: (n,) of all of them. Returns how many are good."""
        self.answers.append(new)
        self.looked.append(new.index)
        self.positions.append(new.index[new.good])
        self.aims.append(new.aims[new.good])
        self.unreadable += new.unreadable
        self.seen += len(new.index)
        if labels is not None:
            self.clean.add(new.said, labels)
        count = int(new.good.sum())
        self.have += count
        return count

    def next(self, wanted: int) -> int:
        """How many images to look at now, by what the share of good ones was so far."""
        if not self.seen:
            return max(LEAST, wanted)
        return max(LEAST, math.ceil(SPARE * (wanted - self.have) / max(RAREST, self.have / self.seen)))

    def all_answers(self) -> Answers:
        """As one, to be kept."""
        said = torch.cat([one.said for one in self.answers], 1)
        index, good, aims = (
            torch.cat([getattr(one, name) for one in self.answers]) for name in ("index", "good", "aims")
        )
        return Answers(index, said, good, aims, self.unreadable)


def look(task: Task, stream: str, wanted: int, good: Good, doing: str) -> Looked:
    """Judge images, in an order that the seed gives, until `wanted` are good; all of them with `judge_all`. What was
    said before in this run is not asked again."""
    basket, matched, labelled = task.basket, task.matched, not task.config.unlabelled
    found = Looked(Accuracy(basket.names, basket.classes))
    drawn = words(task.config.seed, matched.index, stream=stream, count=1)[:, 0]
    order, place = matched.index[drawn.argsort(stable=True)], 0
    found.order = order

    def take(new: Answers) -> int:
        return found.add(new, matched.labels[new.index] if labelled else None)

    known = task.kept.read(order, len(basket), len(basket.classes)) if task.kept is not None else None
    if known is not None:
        place = known.looked
        take(known)

    def more() -> bool:
        return place < len(order) and (found.have < wanted or task.config.judge_all)

    if more():
        total = min(len(order), wanted)
        try:
            with progress(doing, total, done=min(total, found.have), quiet=task.quiet) as bar:
                while more():
                    some = order[place:] if task.config.judge_all else order[place : place + found.next(wanted)]
                    place += len(some)
                    for part in judged(basket, matched.data, index=some, canvas=matched.canvas, native=False):
                        said, labels = answers(part.logits), matched.labels[part.index]
                        fine, aims = good(part, said, labels)
                        before = found.have
                        new = take(Answers(part.index, said, fine, aims, [*map(matched.told, part.problems)]))
                        bar.advance(max(0, min(wanted - before, new)))
        except KeyboardInterrupt:
            if task.kept is None or not found.seen:
                raise
            task.kept.answers = found.all_answers()
            with suppress(UserError):  # a full disk: then they are asked again
                task.kept.write()
            said_of = f"what the networks said of {found.seen:,} images is kept in {task.kept.folder}"
            raise Interrupted(f"stopped while images were judged; {said_of}") from None
        if task.kept is not None and found.seen:
            task.kept.answers = found.all_answers()
    if not found.seen:
        raise none_read(matched.data.name, len(order), found.unreadable[0])
    return found


def tell_looked(task: Task, found: Looked, notes: Sequence[str]) -> dict[str, str]:
    """Say how good each network is on what was looked at, and what could not be read; hints where one seems broken."""
    if not task.quiet:
        tell_unreadable(found.unreadable)
    if task.config.unlabelled:
        return {}
    advice = {}
    if any(map(suspicious, found.clean.rows().values())):
        some = torch.cat(found.looked)[:FEW]
        seen = read(task.matched.data, some, [plain(task.matched.canvas, task.matched.data)])
        advice = hints(task.basket, found.clean, seen.images[0], task.matched.labels[seen.index])
    if not task.quiet:
        tell(found.clean, [*task.basket.notes, *task.matched.notes, *notes])
    return advice


def seeds_of(task: Task, found: Looked, **tensors: Tensor) -> Seeds:
    return Seeds(tensors, None if task.config.unlabelled else found.clean.rows(), found.unreadable)


def right_under_all(task: Task) -> Seeds:
    """`eligible`: positions of images that every network gets right (or, without labels, that all call the same), as
    many as there are trials if there are so many; and `aims`: their classes. `typical`: positions of images that tell
    what is typical, judged or not; they are the same however many trials there are."""
    labelled, earlier = not task.config.unlabelled, "unit" in task.settings  # a run of an earlier version
    wanted = max(LEAST, task.config.trials) if earlier else task.config.trials

    def good(part: Judged, said: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        aims = labels if labelled else said[0]
        return (said == aims).all(0) & (aims >= 0) & part.logits.isfinite().all(2).all(0), aims

    found = look(task, "hunt.seeds", wanted, good, "Judging seed images")
    advice = tell_looked(task, found, _canvas_note(task.matched))
    data, names = task.matched.data, ", ".join(task.basket.names)
    if not task.quiet and not labelled:
        notes = [*task.basket.notes, *task.matched.notes, *_canvas_note(task.matched)]
        agreed = (
            f"{found.have} of {found.seen} images are called the same by all {len(task.basket)} networks: the seeds"
        )
        print("\n  ".join(["Without labels:", *notes, agreed]), file=sys.stderr)
    if not found.have:
        how = "classified right" if labelled else "called the same"
        raise UserError(
            f"none of the {found.seen} images of {data.name!r} ({data.split}) is {how} by all of {names}: check the "
            f"class order and the preprocessing{''.join(f'. {one}' for one in advice.values())}"
        )
    if not task.quiet:
        _tell_few(len(task.config.peers) or len(task.basket) - 1)
    eligible, aims = (torch.cat(parts)[:wanted] for parts in (found.positions, found.aims))
    if earlier:  # which takes its seeds for typical
        return seeds_of(task, found, eligible=eligible, aims=aims)
    height, width = task.matched.size
    typical = found.order[: max(LEAST, min(TYPICAL, TYPICAL_PIXELS // (height * width)))]
    return seeds_of(task, found, eligible=eligible, aims=aims, typical=typical)


def right_under_source(task: Task) -> Seeds:
    """`chosen`: positions of images that the first network gets right, in the order of the draw: fewer images are the
    first of more. With `wrong` also those that it gets wrong; without labels every image that it answers will do.
    `drawn`: positions of these and of those that were passed over until there were enough, in the same order."""
    labelled, wrong, wanted = not task.config.unlabelled, task.config.wrong, task.config.images

    def good(_: Judged, said: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        fine = (said[0] >= 0) & (said[0] == labels) if labelled else said[0] >= 0
        return torch.ones_like(fine) if labelled and wrong else fine, labels

    found = look(task, "distort.images", wanted, good, "Choosing images")
    tell_looked(task, found, _canvas_note(task.matched, "changes act"))
    if not task.quiet and 0 < found.have < wanted:
        print(f"{found.have} images are all that there are to distort ({wanted} were asked for)", file=sys.stderr)
    if not found.have:
        data, how = task.matched.data, "classified right" if labelled else "answered"
        raise UserError(
            f"none of the {found.seen} images of {data.name!r} ({data.split}) is {how} by {task.basket.names[0]!r}: "
            "check the class order and the preprocessing"
        )
    drawn, chosen = torch.cat(found.looked), torch.cat(found.positions)[:wanted]
    if len(chosen) == wanted:
        drawn = drawn[: int((drawn == chosen[-1]).nonzero()[0, 0]) + 1]
    if "unit" in task.settings:  # a run of an earlier version, whose images are in the order of the data
        chosen = chosen.sort().values
    return seeds_of(task, found, chosen=chosen, drawn=drawn)


def _canvas_note(matched: Matched, act: str = "moves act") -> list[str]:
    if matched.canvas is None:
        return []
    height, width = matched.canvas.size
    return [f"{act} on a canvas of {width}×{height}; each network sees all of it, at its own input size"]


def _tell_few(peers: int) -> None:
    """Say what few peers are worth."""
    if peers < 3:
        print(
            f"{peers} peer{'' if peers == 1 else 's'}: findings may be images that nobody could get right. In the "
            "paper of the method (Baluja et al. 2015, Table 2, pixel swaps) searches that ended in an unrealistic "
            "image fell from 299 of 300 without peers to 145, 96, 72 and 57 with one to four. `foible train "
            "probe:NETWORK` makes more from one network.",
            file=sys.stderr,
        )
