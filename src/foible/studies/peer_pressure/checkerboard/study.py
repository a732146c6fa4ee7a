"""`foible study checkerboard`: paper 1, Figs. 2–4. Five small networks, and a full scan of the plane for dissent.

Figure 2 is the task and its 200 points, Figure 3 what each network made of it, Figure 4 where each network disagrees
with all of its peers. Beside the figures we measure what the paper says of them: that such points lie near the
boundaries, and that the peers are right there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from foible.basket import Basket
from foible.errors import UserError
from foible.studies.common import Result, Row, mean_row
from foible.studies.peer_pressure.checkerboard import board
from foible.studies.peer_pressure.checkerboard import figures as checkerboard_figures

EACH = 100  # training points of a class
SCAN = {"quick": 200, "paper": 500}  # points along a side of the board
REPLICATES = {"quick": 5, "paper": 20}  # sets of training points, and of five networks


@dataclass(frozen=True)
class Scan:
    """The plane as one basket sees it. Points are row by row, side² of them, each in the middle of its cell."""

    side: int
    points: Tensor  # (n, 2)
    said: Tensor  # (networks, n): classes
    dissents: Tensor  # (networks, n) bool: this network against all its peers


def grid(side: int) -> Tensor:
    """(side², 2): x and y of the middles of the cells, x running fastest."""
    middle = (torch.arange(side) + 0.5) / side
    y, x = torch.meshgrid(middle, middle, indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], 1)


def scan(basket: Basket, side: int) -> Scan:
    """Ask every network about every point of the plane."""
    points = grid(side)
    said = basket.predict(board.as_images(points), batch=50_000).argmax(2)
    return Scan(side, points, said, dissenting(said))


def dissenting(said: Tensor) -> Tensor:
    """(networks, n) bool, of answers (networks, n): the network differs from all its peers, who agree."""
    rows = []
    for network in range(len(said)):
        peers = torch.cat([said[:network], said[network + 1 :]])
        rows.append((peers == peers[0]).all(0) & (said[network] != peers[0]))
    return torch.stack(rows)


def own_boundary(said: Tensor, side: int, squares: int) -> Tensor:
    """(n,): each cell's distance from the nearest cell whose neighbour is judged otherwise, in sides of a square.

    said: (n,) one network's answers. Infinite where it gives one answer everywhere.
    """
    from scipy.ndimage import distance_transform_edt

    plane = said.view(side, side)
    edge = torch.zeros_like(plane, dtype=torch.bool)
    down, across = plane[1:] != plane[:-1], plane[:, 1:] != plane[:, :-1]
    edge[1:] |= down
    edge[:-1] |= down
    edge[:, 1:] |= across
    edge[:, :-1] |= across
    if not edge.any():
        return torch.full((side * side,), math.inf)
    cells = torch.from_numpy(distance_transform_edt((~edge).numpy()))
    return cells.flatten() * squares / side


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    squares: int = 4,
    steps: int = 3000,
    rate: float = 0.01,
    replicates: int | None = None,
    side: int | None = None,
) -> Result:
    """squares: along a side of the board. steps, rate: of training. replicates: sets of points and networks.
    side: points of the scan along a side of the board."""
    del device  # networks of a few hundred weights: a GPU would only wait
    if data is not None or basket is not None:
        raise UserError("checkerboard draws its own points and trains its own networks: leave out --data and --basket")
    replicates, side = replicates or REPLICATES[scale], side or SCAN[scale]
    if squares < 2 or side < 2 * squares or replicates < 1 or steps < 1:
        raise UserError(
            f"squares is {squares}, side {side}, replicates {replicates}, steps {steps}: expected at least 2 squares, "
            "2 points of the scan a square, 1 replicate and 1 step"
        )
    points = [board.samples(squares, EACH, seed, number) for number in range(replicates)]
    baskets = board.train(points, squares, seed=seed, steps=steps, rate=rate, quiet=quiet)
    scans = [scan(one, side) for one in baskets]
    result = Result(
        "checkerboard",
        scale,
        {
            "board": f"{squares} × {squares} squares (the paper does not say)",
            "training points": f"{2 * EACH} ({EACH} of each class), drawn evenly",
            "networks": f"2 inputs, two hidden layers of {', '.join(map(str, board.SIZES))} units, 1 output node",
            "activation": "tanh (the paper does not say)",
            "training": f"{steps} full-batch steps of Adam at {rate:g}, cross-entropy (the paper does not say)",
            "scan": f"{side} × {side} points",
            "replicates": f"{replicates}, each with its own points and first weights; figures show the first",
        },
        seed,
    )
    learnt = [_accuracies(one, seen, shown, squares) for one, seen, shown in zip(baskets, scans, points, strict=True)]
    result.rows, result.notes = measure(learnt, scans, squares)
    result.figures = [
        checkerboard_figures.task(squares, points[0], out),
        checkerboard_figures.boundaries(scans[0].said, side, squares, learnt[0][1], out),
        checkerboard_figures.dissent(scans[0].said, scans[0].dissents, side, squares, out),
    ]
    return result


def _accuracies(basket: Basket, seen: Scan, shown: Tensor, squares: int) -> tuple[list[float], list[float]]:
    """The share of the training points, and of the plane, that each network gets right, in percent."""
    trained = basket.predict(board.as_images(shown)).argmax(2) == board.squares_of(shown, squares)
    plane = seen.said == board.squares_of(seen.points, squares)
    return (100 * trained.double().mean(1)).tolist(), (100 * plane.double().mean(1)).tolist()


@dataclass(frozen=True)
class Dissent:
    """What one network's dissent points come to in one replicate. All but the share are NaN where there are none."""

    share: float  # of the plane, percent
    true: float  # mean distance to the true boundary, in sides of a square
    own: float  # mean distance to the network's own boundary
    right: float  # of these points, percent at which the peers are right


def measured(seen: Scan, network: int, squares: int) -> Dissent:
    """`network` is its place in the basket."""
    mask, said = seen.dissents[network], seen.said[network]
    far = board.to_boundary(seen.points, squares)
    own = own_boundary(said, seen.side, squares)
    wrong = said != board.squares_of(seen.points, squares)  # two classes: the peers are right where it is wrong
    share = 100 * mask.double().mean().item()
    return Dissent(share, *(part[mask].double().mean().item() for part in (far, own, 100.0 * wrong)))


def measure(
    learnt: Sequence[tuple[Sequence[float], Sequence[float]]], scans: Sequence[Scan], squares: int
) -> tuple[list[Row], list[str]]:
    """Rows and notes. A row's values are one a replicate, and its interval is over replicates."""
    found = [[measured(seen, place, squares) for place in range(len(board.SIZES))] for seen in scans]
    rows = []
    for part, what in enumerate(("training points", "plane")):
        for place, units in enumerate(board.SIZES):
            values = [one[part][place] for one in learnt]
            rows.append(mean_row(f"Figure 3: {what} right, %", f"{units} units", None, values, least=0, most=100))
    tables = {
        "share": ("Figure 4: points where a network disagrees with all its peers, % of the plane", 100),
        "true": ("Figure 4: their distance to the true boundary, in sides of a square", math.inf),
        "own": ("Figure 4: their distance to the network's own boundary, in sides of a square", math.inf),
        "right": ("Figure 4: the peers are right there, %", 100),
    }
    means: dict[str, float | None] = {}
    for key, (table, most) in tables.items():
        lines = [[getattr(one[place], key) for one in found] for place in range(len(board.SIZES))]
        together = [_mean(one) for one in zip(*lines, strict=True)]
        for name, values in [*zip([f"{units} units" for units in board.SIZES], lines, strict=True), ("all", together)]:
            rows.append(mean_row(table, name, None, filter(math.isfinite, values), least=0, most=most))
        means[key] = rows[-1].measured
        if key == "true":
            far = board.to_boundary(scans[0].points, squares)
            rows.append(Row(table, "every point of the plane", None, far.mean().item(), n=len(far)))
            means["plane"] = rows[-1].measured
    return rows, notes(means)


def _mean(values: Sequence[float]) -> float:
    """Over those that are numbers."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def notes(means: Mapping[str, float | None]) -> list[str]:
    """The paper's two claims about Figure 4 beside what was measured, in words."""
    true, own, right, plane = (means[key] for key in ("true", "own", "right", "plane"))
    if true is None or right is None or plane is None:
        return ["No network disagrees with all its peers anywhere: nothing to compare with the paper's Figure 4."]
    near = "lie nearer to the true boundary than other points" if true < plane else "lie no nearer to it than others"
    beside = "" if own is None else f"; from the network's own boundary they are {own:.2f} away"
    all_right = "as the paper says" if right > 99.5 else "not at all of them; where they are wrong, it alone is right"
    return [
        "The paper draws these figures and gives no numbers: the column `paper` is empty.",
        f"“Each falls near the decision boundaries”: points where a network disagrees with all its peers {near} "
        f"({true:.2f} sides of a square on average, the whole plane {plane:.2f}){beside}.",
        "“All of the other similarly trained networks were able to classify them correctly”: the peers are right at "
        f"{right:.0f} % of such points, {all_right}.",
    ]
