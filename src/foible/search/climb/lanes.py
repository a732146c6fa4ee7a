"""The lanes of hill climbing: which trial each works on, where it is, and what it has spent.

A batch has a row for each of at most `width` lanes. Where one has finished, the next trial takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget
from foible.images import to_floats
from foible.randomness import uniforms
from foible.search.asking import Asker
from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials, some_rows

ROUND = 16  # steps between two looks at which lanes are done
BOOKED = ("outcome", "candidates", "forwards")  # what is kept of a trial
ROWS = ("trial", "lane", "aim", "best", "stale", "alive", *BOOKED)  # what each row of a batch has, besides its point


class Lanes:
    """The live rows of a batch, and the book of all trials."""

    trial: Tensor  # (rows,) which of the trials
    lane: Tensor  # its number, which its draws depend on
    aim: Tensor  # the class it must keep
    best: Tensor  # the score of its point
    stale: Tensor  # candidates since the last gain
    alive: Tensor  # still climbing
    outcome: Tensor  # as it stands
    candidates: Tensor  # tried so far
    forwards: Tensor  # inferences so far
    points: Any  # a NamedTuple of tensors

    def __init__(
        self, space: Any, asker: Asker, trials: Trials, width: int | None, tick: Callable[[int], None] | None
    ) -> None:
        device, count = asker.basket.device, len(trials.lanes)
        if device.type == "cuda" and trials.seeds.nbytes < torch.cuda.mem_get_info(device)[0] // 8:
            trials = trials.to(device)
        self.space, self.asker, self.trials, self.device, self.tick = space, asker, trials, device, tick
        self.width = width or lanes_of(asker.basket, trials.seeds)
        self.next = 0  # the next trial that nobody works on
        self.told = 0  # trials that `tick` has heard of
        self.events: list[tuple[Tensor, ...]] = []
        self.waiting: list[tuple[Tensor, Tensor]] = []  # rows with a find, and its images, until their round ends
        self.book = {name: torch.zeros(count, dtype=torch.int64, device=device) for name in BOOKED}
        for name, values in self._fresh(self.width).items():
            setattr(self, name, values)

    def _fresh(self, count: int) -> dict[str, Any]:
        """The rows of the next so many trials, at their seed images. Seeds are judged in float32."""
        trial = torch.arange(self.next, min(self.next + count, len(self.trials.lanes)), device=self.device)
        self.next += len(trial)
        taken = self.trials.rows(trial.to(self.trials.lanes.device)).to(self.device)
        seeds, nothing = to_floats(taken.seeds), torch.zeros_like(trial)
        return {
            "trial": trial,
            "lane": taken.lanes,
            "aim": taken.aims,
            "best": self.asker.ask(seeds, taken.aims, "float32")[1],
            "stale": nothing,
            "alive": torch.ones_like(trial, dtype=torch.bool),
            "outcome": nothing + EXHAUSTED,
            "candidates": nothing.clone(),
            "forwards": nothing + len(self.asker.first),
            "points": self.space.start(seeds),
        }

    def __len__(self) -> int:
        return len(self.trial)

    def draws(self, seed: int, count: int) -> Tensor:
        """(count, rows, draws): the uniforms of every lane's next candidates."""
        steps = self.candidates + torch.arange(count, device=self.device)[:, None]
        return uniforms(seed, self.lane, steps, stream="hill_climb.moves", count=self.space.draws)

    def tried(self) -> None:
        """The suspect was shown one more candidate of each lane."""
        self.candidates += self.alive
        self.forwards += self.alive
        self.stale += self.alive

    def better(self, score: Tensor) -> Tensor:
        """The rows in which a candidate with this score is better than where the lane is."""
        return ((score > self.best) & self.alive).nonzero()[:, 0]

    def accept(
        self, rows: Tensor, candidate: Any, score: Tensor, drawn: Tensor, trace: Tensor, places: Tensor | None = None
    ) -> None:
        """Go on from the candidate in these rows, the last one tried; `places`: where candidate, score and draws of
        each row stand, if not in the row itself. trace: (rows, networks)."""
        places = rows if places is None else places
        _put(self.points, rows, candidate, places)
        self.best.index_copy_(0, rows, score.index_select(0, places))
        self.stale.index_fill_(0, rows, 0)
        trial, tried = (values.index_select(0, rows) for values in (self.trial, self.candidates))
        self.events.append((trial, tried - 1, drawn.index_select(0, places), trace))

    def wait(self, rows: Tensor, images: Tensor) -> None:
        """These rows came to something, at these images: they stay there until the round ends, and are judged then
        together with the other rows of the round."""
        self.waiting.append((rows, images))
        self.alive[rows] = False

    def end_round(self, patience: int, budget: Budget) -> None:
        """Judge the rows that wait; those that are not found go on."""
        if self.waiting:
            rows, images = (torch.cat(parts) for parts in zip(*self.waiting, strict=True))
            self.waiting.clear()
            self.alive[rows] = True
            self.finish(rows, images)
            self.give_up(torch.zeros_like(self.alive), patience, budget)

    def finish(self, rows: Tensor, images: Tensor) -> None:
        """End those of these rows, at these images, that are found on what a PNG will hold too."""
        self.forwards[rows] += len(self.asker.everyone)
        sure, _ = self.asker.settled(images, self.aim[rows])
        self._end(rows[sure], FOUND)

    def _end(self, rows: Tensor, outcome: int) -> None:
        self.outcome[rows] = outcome
        self.alive[rows] = False

    def give_up(self, broken: Tensor, patience: int, budget: Budget) -> None:
        """Where the suspect answers NaN, where nothing was gained for too long, and where the budget is spent."""
        if broken.any():
            self._end(broken & self.alive, INVALID)
        self.alive &= self.stale < patience
        if budget.forwards is not None:
            self.alive &= ~budget.spent(self.forwards, torch.zeros_like(self.forwards))

    def refill(self, gaps: float = 0.2) -> None:
        """Write the book, and put waiting trials where lanes have finished; with none waiting, close the gaps once
        they are more than a share of the rows."""
        for name, values in self.book.items():
            values[self.trial] = getattr(self, name)
        self._tell()
        done = (~self.alive).nonzero()[:, 0]
        slots = done[: len(self.trials.lanes) - self.next]
        if len(slots):
            for name, new in self._fresh(len(slots)).items():
                if name == "points":
                    _put(self.points, slots, new)
                else:
                    getattr(self, name)[slots] = new
        if len(done) - len(slots) > gaps * len(self):
            keep = self.alive.nonzero()[:, 0]
            for name in ROWS:
                setattr(self, name, getattr(self, name)[keep])
            self.points = some_rows(self.points, keep)

    def _tell(self) -> None:
        if self.tick is not None:
            finished = self.next - int(self.alive.sum())
            if finished > self.told:
                self.tick(finished - self.told)
                self.told = finished

    def close(self) -> Found:
        """What all trials came to."""
        outcome, candidates, forwards = (self.book[name].cpu() for name in BOOKED)
        accepted = Accepted.gather(self.events, self.space.draws, len(self.asker.everyone))
        return Found(outcome, candidates, forwards, torch.zeros_like(forwards), accepted)


def _put(points: Any, index: Tensor, new: Any, rows: Tensor | None = None) -> None:
    """points[index] = new[rows], field by field; a field that is the same tensor on both sides is left alone."""
    for ours, theirs in zip(points, new, strict=True):
        if ours is not theirs:
            ours.index_copy_(0, index, theirs if rows is None else theirs.index_select(0, rows))


def lanes_of(basket: Basket, seeds: Tensor) -> int:
    """How many lanes share a batch: 2,000, and on a GPU a share of its free memory, activations allowed for."""
    if basket.device.type != "cuda":
        return 2000
    free, _ = torch.cuda.mem_get_info(basket.device)
    bytes_each = 4 * seeds[:1].numel()
    return int(max(64, min(131_072, free // 4 // (64 * max(1, bytes_each)))))
