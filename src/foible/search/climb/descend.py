"""Plain gradient descent in a box (paper 2): e ← e − λ ∂loss/∂e, until the objective is reached.

The loss is the objective's score turned round: for `Restore` the cross entropy of the true class. Each lane stops by
itself, at the first step whose image is found as a PNG will hold it; one that a last rounding undoes goes on. With
`restarts`, a lane that came to nothing begins again around its image. Where lanes have ended, waiting ones take their
places in the batch: a few that take long do not hold up the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.images import to_floats
from foible.objectives import Objective
from foible.randomness import normals
from foible.search.asking import Asker, trace_of
from foible.search.climb.ways import moves_along
from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials, some_rows
from foible.spaces import is_box

FULL, KEPT = 64, 16_384  # steps that are all noted, later ones ever more seldom; numbers of a path that are kept
GOING = -1  # in place of an outcome
LIVE = ("rows", "aim", "place", "speed", "began", "tried")  # what each lane of a batch has, besides its point


@dataclass(frozen=True)
class _Manner:
    """How to descend: as `descend` takes it."""

    seed: int
    rate: float
    steps: int
    momentum: float
    restarts: int
    spread: float
    settled: bool


def descend(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    rate: float = 0.1,
    steps: int = 1000,
    momentum: float = 0.0,
    restarts: int = 0,
    spread: float = 1.0,
    settled: bool = True,
    width: int | None = None,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Descend from every trial's seed image.

    rate: λ, in largest moves of the box. steps: most of them, from each start. momentum: share of the last step that
    the next one keeps. restarts: further starts, `spread` times a normal draw away from the image. settled: found is
    what a PNG holds; else what the space draws, as in paper 2, whose pixels may leave [0, 1].
    width: lanes in a batch. Lanes never touch. `tick(k)` hears of every k further trials that are done.
    """
    if not is_box(space):
        raise UserError(f"{type(space).__name__} has no slope to follow: use the search hill-climb")
    if rate <= 0 or steps < 1 or restarts < 0 or not 0 <= momentum < 1 or spread < 0:
        raise UserError(
            f"rate is {rate}, steps {steps}, restarts {restarts}, momentum {momentum}, spread {spread}: expected above "
            "0, at least 1, at least 0, from 0 to below 1, and at least 0"
        )
    asker = Asker(objective, basket, suspect, precision)
    manner = _Manner(seed, rate, steps, momentum, restarts, spread, settled)
    lanes = _Lanes(space, asker, trials, manner, budget or Budget(), width or _width(basket, trials), tick)
    while lanes.fill():
        lanes.step()
    return lanes.close()


def _width(basket: Basket, trials: Trials) -> int:
    """Lanes in a batch: what memory holds of a network's and a generator's activations."""
    each = 4 * trials.seeds[0].numel() * 200 if len(trials.seeds) else 1
    room = torch.cuda.mem_get_info(basket.device)[0] // 4 if basket.device.type == "cuda" else 1_000_000_000
    return int(max(16, min(16_384 if basket.device.type == "cuda" else 1000, room // each)))


class _Lanes:
    """The lanes that are under way, and the book of all trials. Every lane of the batch takes one step a round; so what
    it has taken is told by the round's number, and nothing is counted on the way."""

    rows: Tensor  # (lanes,) which of the trials
    aim: Tensor  # (lanes,)
    place: Tensor  # (lanes, draws) where it is, in largest moves
    speed: Tensor  # (lanes, draws) its last step
    began: Tensor  # (lanes,) the round of this start
    tried: Tensor  # (lanes,) steps taken before this start
    first: Any  # where the image is: a NamedTuple of tensors

    def __init__(
        self, space: Any, asker: Asker, trials: Trials, how: _Manner, budget: Budget, width: int,
        tick: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        self.space, self.asker, self.trials, self.how, self.budget = space, asker, trials, how, budget
        self.width, self.tick = width, tick
        self.device, count = asker.basket.device, len(trials.lanes)
        whole = torch.zeros(count, dtype=torch.int64, device=self.device)
        self.outcome, self.places = whole + EXHAUSTED, torch.zeros(count, space.draws, device=self.device)
        self.steps, self.forwards, self.starts, self.since = (whole.clone() for _ in range(4))
        self.round, self.oldest, self.latest = 0, 0, 0  # of now, and of the first and last start that may be under way
        self.waiting = [(torch.arange(count, device=self.device), 0)]  # trials, and which start of theirs
        self.noted: list[tuple[Tensor, Tensor, Tensor]] = []  # trials, their steps, their places
        self.ended: list[tuple[Tensor, Any]] = []  # trials that are done, and where their images are
        self.events: list[tuple[Tensor, ...]] = []
        self.rows = self.waiting[0][0][:0]

    def fill(self) -> bool:
        """Put waiting trials where lanes have ended, some at a time; False once all is done."""
        while self.waiting and 4 * len(self.rows) <= 3 * self.width:
            rows, start = self.waiting.pop(0)
            room = self.width - len(self.rows)
            if len(rows) > room:
                self.waiting.insert(0, (rows[room:], start))
            self._enter(rows[:room], start)
        return len(self.rows) > 0

    def _enter(self, rows: Tensor, start: int) -> None:
        """These trials begin: at their images, and later around them. What was noted of earlier starts is void."""
        given = self.trials.rows(rows.to(self.trials.lanes.device)).to(self.device)
        place = torch.zeros(len(rows), self.space.draws, device=self.device)
        if start:
            drawn = normals(self.how.seed, given.lanes, stream=f"descend.start {start}", count=self.space.draws)
            place = self.how.spread * drawn.to(place)
            self.noted.append((rows, self.steps[rows], place))
        self.since[rows], self.starts[rows] = self.steps[rows], start
        new = {
            "rows": rows, "aim": given.aims, "place": place, "speed": torch.zeros_like(place),
            "began": torch.full_like(rows, self.round), "tried": self.steps[rows],
        }  # fmt: skip
        points, fresh = self.space.start(to_floats(given.seeds)), not len(self.rows)
        self.oldest, self.latest = self.round if fresh else self.oldest, self.round
        self.first = points if fresh else _joined([self.first, points])
        for name in LIVE:
            setattr(self, name, new[name] if fresh else torch.cat([getattr(self, name), new[name]]))

    def _ask(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The draws that lead to where the lanes are, what is drawn there, what is said of it, and the score."""
        draws = (0.5 + 0.5 * self.place).requires_grad_()
        with torch.enable_grad():
            images = self.space.render(self.space.move(self.first, draws))
            return draws, images, *self.asker.ask(images, self.aim)

    def step(self) -> None:
        """Ask about where every lane is; those that are found, broken or have spent all leave; a step for the rest."""
        draws, images, said, score = self._ask()
        outcome = self._judge(images.detach(), said.detach(), score.detach())
        going = None if outcome is None else (outcome == GOING).nonzero()[:, 0]
        if outcome is not None and going is not None:
            self._leave(outcome)
            if not len(going):
                return
            if 2 * len(going) < len(outcome):  # to ask those again is cheaper than the slopes of all
                (draws, _, _, score), going = self._ask(), None
        slope = _slope(score, draws, going)
        if not math.isfinite(float(slope.sum())):
            fine = slope.isfinite().all(1)
            self._leave(torch.where(fine, GOING, INVALID))
            slope = slope[fine]
        taken = 0.5 * self.how.rate * slope  # the slope by places is half of that by draws
        if self.how.momentum:
            taken = self.speed = self.how.momentum * self.speed + taken
        self.place = self.place + taken
        self.round += 1
        self._note()

    def _judge(self, images: Tensor, said: Tensor, score: Tensor) -> Tensor | None:
        """(lanes,) what each comes to here, or GOING; None if all go on."""
        outcome = None
        hit = self.asker.objective.found(said, self.aim)
        if bool(hit.any()):
            at = hit.nonzero()[:, 0]
            if self.how.settled:
                self.forwards[self.rows[at]] += len(self.asker.everyone)
                with torch.no_grad():
                    at = at[self.asker.settled(images[at], self.aim[at])[0]]
            outcome = torch.full_like(self.rows, GOING).index_fill(0, at, FOUND)
        over = self._over()
        if over is not None:
            outcome = torch.full_like(self.rows, GOING) if outcome is None else outcome
            outcome = torch.where(over & (outcome == GOING), EXHAUSTED, outcome)
        if not math.isfinite(float(score.sum())):
            outcome = torch.full_like(self.rows, GOING) if outcome is None else outcome
            outcome = torch.where(score.isfinite(), outcome, INVALID)
        return outcome

    def _over(self) -> Tensor | None:
        """(lanes,) bool: those that have taken all steps of this start, or spent their budget; None if nobody has."""
        over = None
        if self.round - self.oldest >= self.how.steps:
            over = self.round - self.began >= self.how.steps
            self.oldest = int(torch.where(over, self.round, self.began).min())
        if self.budget.forwards is not None or self.budget.backwards is not None:
            spent = self.budget.spent(self._asked(), self.tried + self.round - self.began)
            over = spent if over is None else over | spent
        return over

    def _asked(self) -> Tensor:
        """(lanes,): inferences so far."""
        return self.forwards[self.rows] + (self.round - self.began + 1) * len(self.asker.first)

    def _leave(self, outcome: Tensor) -> None:
        """Write down what has come to an end, and let it go; where a start came to nothing, the next one waits."""
        gone, stay = (outcome != GOING).nonzero()[:, 0], (outcome == GOING).nonzero()[:, 0]
        rows = self.rows[gone]
        forwards, steps = self._asked()[gone], (self.tried + self.round - self.began)[gone]
        self.outcome[rows], self.places[rows] = outcome[gone], self.place[gone]
        self.forwards[rows], self.steps[rows] = forwards, steps
        done, points = rows, some_rows(self.first, gone)
        if self.how.restarts:
            again = (outcome[gone] == EXHAUSTED) & (self.starts[rows] < self.how.restarts)
            again &= ~self.budget.spent(forwards, steps)
            for start in self.starts[rows[again]].unique().tolist():
                self.waiting.append((rows[again & (self.starts[rows] == start)], start + 1))
            done, points = rows[~again], some_rows(points, (~again).nonzero()[:, 0])
        self.ended.append((done, points))
        if self.tick is not None and len(done):
            self.tick(len(done))
        for name in LIVE:
            setattr(self, name, getattr(self, name).index_select(0, stay))
        self.first = some_rows(self.first, stay)
        if sum(len(rows) for rows, _ in self.ended) >= self.width:
            self._write_up()

    def _note(self) -> None:
        """Where the lanes are now: all of the first steps of a start, ever fewer of the later ones."""
        longest = self.round - self.oldest
        if longest > FULL and self.oldest != self.latest:
            number = self.round - self.began
            apart = 1 << (torch.frexp(number.double()).exponent - FULL.bit_length() + 1).clamp_min(0).long()
            kept = (number % apart == 0).nonzero()[:, 0]
            self.noted.append((self.rows[kept], (self.tried + number)[kept], self.place[kept]))
        elif longest <= FULL or longest % (1 << (longest.bit_length() - FULL.bit_length() + 1)) == 0:
            self.noted.append((self.rows, self.tried + self.round - self.began, self.place))

    def close(self) -> Found:
        """What all trials came to."""
        self._write_up()
        accepted = Accepted.gather(self.events, self.space.draws, len(self.asker.everyone))
        return Found(self.outcome.cpu(), self.steps.cpu(), self.forwards.cpu(), self.steps.cpu(), accepted)

    @torch.no_grad()
    def _write_up(self) -> None:
        """(trial, step, draws, trace) of the moves that lead to where each lane ended that is done: the steps of one
        that was found, of others one move."""
        if not self.ended:
            return
        trial, points = torch.cat([rows for rows, _ in self.ended]), _joined([one for _, one in self.ended])
        local = torch.full_like(self.outcome, -1).index_copy(0, trial, torch.arange(len(trial), device=trial.device))
        notes = [*self.noted, (trial, self.steps[trial], self.places[trial])]  # and where each ended
        rows, step, place = (torch.cat(parts) for parts in zip(*notes, strict=True))
        theirs = local[rows] >= 0
        self.noted, self.ended = [(rows[~theirs], step[~theirs], place[~theirs])], []
        theirs &= step >= self.since[rows]
        rows, step, place = local[rows[theirs]], step[theirs], place[theirs]
        most = max(1, min(FULL, KEPT // self.space.draws))
        rows, step, place, draws = moves_along(rows, step, place, self.outcome[trial] == FOUND, most)
        aims = self.trials.aims.to(self.device)[trial]
        for some, when, drawn, there in zip(*(part.split(1000) for part in (rows, step, draws, place)), strict=True):
            if not len(some):
                continue
            images = self.space.render(self.space.move(some_rows(points, some), 0.5 + 0.5 * there))
            trace = trace_of(self.asker.basket.judge(images, self.asker.everyone), aims[some])
            self.events.append((trial[some], when, drawn, trace))


def _slope(score: Tensor, draws: Tensor, rows: Tensor | None) -> Tensor:
    """(rows, draws): the slope of a score (lanes,) by the draws, of all lanes or of some."""
    with torch.enable_grad():
        some = score if rows is None else score.index_select(0, rows)
        [slope] = torch.autograd.grad(some.sum(), draws)
    return slope if rows is None else slope.index_select(0, rows)


def _joined(points: list[Any]) -> Any:
    """NamedTuples of tensors as one, row after row."""
    return type(points[0])(*(torch.cat(fields) for fields in zip(*points, strict=True)))
