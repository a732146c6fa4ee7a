"""Evolving fooling images many at once, against one genome at a time (neat-python) and against pyribs.

    python -m benchmarks.fool [--whole] [--json FILE]

The network is a LeNet for 28×28 with fresh weights: what is measured does not depend on what it says. One thread; times
are of the processor. Rendering, judging and the archive are counted on both sides. pyribs mutates by its own Gaussian,
which is less work than paper 5's operators, and shows the network its images as they are; a second time it is lent our
way of showing them (`judging`: channels last), so that only the loops differ. With `--whole` the command of Fig.
S4, 50 runs of 200 generations of 200 children, is timed as a user meets it, on all cores. On a GPU: images a second.
Peers that are not installed are left out (`pip install neat-python ribs`).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.command import foible
from benchmarks.common import Row, arguments, report
from foible.basket import Basket
from foible.images import settle
from foible.networks.zoo import build
from foible.objectives import Confidence
from foible.randomness import uniforms
from foible.recipes.train.train import train
from foible.search.elites.by_class import evolve
from foible.search.elites.for_classes import judging
from foible.spaces.cppn import Cppn, Genomes
from foible.spaces.cppn.render import coordinates
from foible.spaces.direct import Direct

SHAPE = (1, 28, 28)
CLASSES = tuple("0123456789")
POPULATION, GENERATIONS, LANES = 200, 20, 25


def scores_of(device: str, plainly: bool = False) -> Callable[[Tensor], Tensor]:
    """plainly: as whoever has only the network would ask it."""
    torch.manual_seed(0)
    basket = Basket(
        {"lenet": build("lenet-caffe", SHAPE, 10)}, classes=CLASSES, shape=SHAPE, preprocess="inside", device=device
    )
    if plainly:
        network = basket.network("lenet")
        return torch.inference_mode()(lambda images: network(images).softmax(1))
    objective, judge = Confidence(), judging(basket, basket.names)
    return lambda images: objective.every(judge(images))


def ours(encoding: Any, every: Callable[[Tensor], Tensor], lanes: int = LANES) -> float:
    """Images a second of processor time."""
    began = 0.0
    for generations in (2, GENERATIONS):
        began = time.process_time()  # the first are to get warm
        evolve(encoding, every, SHAPE, torch.arange(lanes), population=POPULATION, generations=generations, rows=1000)
    return lanes * POPULATION * GENERATIONS / (time.process_time() - began)


def one_at_a_time(every: Callable[[Tensor], Tensor], count: int = 40) -> float:
    """The same genomes, each drawn pixel by pixel by neat-python's feed-forward network and judged alone."""
    from neat.nn import FeedForwardNetwork

    functions = (math.sin, lambda v: math.tanh(v / 2), lambda v: math.exp(-v * v), lambda v: max(-1.0, min(1.0, v)))
    cppn, lanes = Cppn(), torch.arange(count)

    def draw(step: int) -> Callable[[str, int], Tensor]:
        return lambda what, many: uniforms(0, lanes, step, stream=what, count=many)

    genomes = cppn.fresh(draw(0), SHAPE)
    for step in range(1, GENERATIONS // 2):
        genomes = cppn.children(genomes, genomes, draw(step), SHAPE)
    grid = coordinates(SHAPE, SHAPE[1:], torch.device("cpu")).t().tolist()
    best = torch.full((10,), -torch.inf)
    drawn = []
    began = time.process_time()
    for values in cppn.written(genomes, SHAPE):
        hidden, kinds = int(values[1]), [int(one) for one in values[3 : 4 + int(values[1])]]
        links: list[list[tuple[int, float]]] = [[] for _ in kinds]
        for source, target, weight in zip(*(values[4 + hidden + part :: 3] for part in range(3)), strict=True):
            links[int(target) - 4].append((int(source), weight))
        nodes = [(4 + place, functions[kind], sum, 0.0, 1.0, links[place]) for place, kind in enumerate(kinds)]
        network = FeedForwardNetwork([0, 1, 2, 3], [4 + hidden], nodes)
        image = torch.tensor([abs(network.activate(pixel)[0]) for pixel in grid]).view(1, *SHAPE)
        drawn.append(image)
        best = torch.maximum(best, every(settle(image.clamp(max=1)))[0])
    took = time.process_time() - began
    both = cppn.render(Genomes(*genomes), SHAPE)
    apart = (torch.cat(drawn).clamp(max=1) - both).abs().mean()
    if float(apart) > 1e-3:
        raise AssertionError(f"neat-python draws other images: {float(apart):.3g} apart")
    return count / took


def with_ribs(every: Callable[[Tensor], Tensor]) -> float:
    """Direct encoding in pyribs: a cell a class, every child challenges all of them."""
    import numpy as np
    from ribs.archives import GridArchive
    from ribs.emitters import GaussianEmitter

    values = math.prod(SHAPE)
    archive = GridArchive(solution_dim=values, dims=[10], ranges=[(0, 10)], seed=0, dtype=np.float32)
    emitter = GaussianEmitter(
        archive, sigma=0.1, x0=np.full(values, 0.5, np.float32), lower_bounds=np.zeros(values, np.float32),
        upper_bounds=np.ones(values, np.float32), batch_size=POPULATION, seed=0,
    )  # fmt: skip
    cells = np.tile(np.arange(10) + 0.5, POPULATION)[:, None]
    began = 0.0
    for generation in range(-1, GENERATIONS):
        if generation == 0:
            began = time.process_time()  # the first is to get warm
        children = np.asarray(emitter.ask(), np.float32)
        reached = every(settle(torch.from_numpy(children).view(-1, *SHAPE))).numpy()
        archive.add(np.repeat(children, 10, 0), reached.ravel(), cells)
    return POPULATION * GENERATIONS / (time.process_time() - began)


def on_a_gpu() -> Row:
    every, lanes = scores_of("cuda"), torch.arange(1280, device="cuda")
    seconds = math.inf
    for generations in (2, GENERATIONS, GENERATIONS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        evolve(Cppn(), every, SHAPE, lanes, population=POPULATION, generations=generations, rows=1 << 16)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    pace = len(lanes) * POPULATION * GENERATIONS / seconds
    return Row("CPPNs on a GPU: drawn, judged, archived", pace, 2.5e6, "asked for", pace / 2.5e6, 1.0, "images/s")


def whole() -> Row:
    """Fig. S4's 50 runs × 10 classes as a command."""
    with tempfile.TemporaryDirectory() as folder:
        train("lenet-caffe", "mnist", out=Path(folder) / "B", epochs=1, device="cpu", quiet=True)
        command = ["fool", "--basket", f"{folder}/B", "--data", "mnist", "--runs", "50", "--out", f"{folder}/R"]
        seconds = foible(*command).seconds
    return Row("Fig. S4: 50 runs × 200 × 200, whole command", seconds, 180, "asked for", seconds / 180, 1.0, "s", True)


def best(*ways: Callable[[], float], times: int = 3) -> list[float]:
    """Of each the fastest of a few, taken in turn."""
    paces = [[way() for way in ways] for _ in range(times)]
    return [max(column) for column in zip(*paces, strict=True)]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--whole", action="store_true", help="time the command of Fig. S4 too (minutes)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows, every = [], scores_of("cpu")
    try:
        alone, pace = best(lambda: one_at_a_time(every), lambda: ours(Cppn(), every))
        name = "CPPNs: drawn, judged, archived"
        rows.append(Row(name, pace, alone, "one at a time, neat-python", pace / alone, 10, "images/s"))
    except ImportError:
        print("neat-python is not installed: left out")
    try:
        plain = scores_of("cpu", plainly=True)
        peer, lent, pace, more = best(
            lambda: with_ribs(plain), lambda: with_ribs(every), lambda: ours(Direct(), every, lanes=1),
            lambda: ours(Direct(), every, lanes=5),
        )  # fmt: skip
        name = "direct encoding, one archive"
        rows += [
            Row(name, pace, peer, "pyribs", pace / peer, 1.1, "images/s"),
            Row(name, pace, lent, "pyribs, lent our judging", pace / lent, 1, "images/s"),
            Row("direct encoding, five archives at once", more, lent, "the same", more / lent, 1, "images/s"),
        ]
    except ImportError:
        print("ribs is not installed: left out")
    if torch.cuda.is_available():
        rows.append(on_a_gpu())
    if given.whole:
        rows.append(whole())
    report(rows, given.json)


if __name__ == "__main__":
    main()
