"""Explaining many images at once, against one at a time by the same code; the first shift against the smallest; and the
whole command against the passes that it needed.

    python -m benchmarks.explain --generator FOLDER --networks FOLDER [--data mnist] [--only batch] [--json FILE]

FOLDER: what `foible generator train vae:10 --data mnist` and `foible train` wrote. One thread. Times are of the
processor: the best of a few, taken in turn.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.command import foible, ran
from benchmarks.common import Row, arguments, report
from benchmarks.hunt import _RecordingBasket
from foible.basket import Basket, padded
from foible.data import load
from foible.objectives import Restore
from foible.recipes.explain.recipe import explain
from foible.search import Trials, descend
from foible.search.nearest.in_box import nearest_in_box
from foible.search.task import FOUND
from foible.search.walking import Paths
from foible.spaces import Latent

SIZES = (256, 1024)  # images at once
FEW = 10  # steps, which most lanes end within: what batching gains apart from the few that take long
IMPORTS = "import foible; foible.explain; foible.write_report"  # what `foible explain` needs before it can begin


def mistakes(basket: Basket, spec: str, most: int) -> Trials:
    """Images that the first network gets wrong: those of the test split, and as many of the others as it takes."""
    images, labels, have = [], [], 0
    for split in ("test", "train"):
        data = load(spec, split=split, quiet=True)
        wrong = (basket.predict(data.images, basket.names[:1])[0].argmax(1) != data.labels).nonzero()[: most - have, 0]
        images.append(data.images[wrong])
        labels.append(data.labels[wrong])
        have += len(wrong)
    return Trials(torch.arange(have), torch.cat(images), torch.cat(labels))


def driven(basket: Basket, spec: str, most: int) -> Trials:
    """Images that the first network gets right, to be driven to another class each: to all others in turn."""
    data = load(spec, split="test", quiet=True)
    right = (basket.predict(data.images, basket.names[:1])[0].argmax(1) == data.labels).nonzero()[:most, 0]
    lanes, classes = torch.arange(len(right)), len(basket.classes)
    return Trials(lanes, data.images[right], (data.labels[right] + 1 + lanes % (classes - 1)) % classes)


def batched(
    space: Latent, basket: Basket, trials: Trials, what: str, repeats: int, steps: int = 1000
) -> list[Row]:  # fmt: skip
    """All of them at once against each of them alone."""
    suspect, count = basket.names[0], len(trials.lanes)
    what += f", at most {steps} steps" if steps < 1000 else ""

    def seconds(some: list[Trials]) -> float:
        began = time.process_time()
        for part in some:
            descend(space, Restore(), basket, part, suspect=suspect, steps=steps)
        return time.process_time() - began

    alone = [trials.rows(torch.tensor([row])) for row in range(count)]
    found = descend(space, Restore(), basket, trials, suspect=suspect, steps=steps)
    seconds(alone[:2])
    ones, many = zip(*((seconds(alone), seconds([trials])) for _ in range(repeats)), strict=True)
    one, all_ = min(ones), min(many)
    longest = alone[int(found.candidates.argmax())]
    lone, most = min(seconds([longest]) for _ in range(repeats)), int(found.candidates.max())
    print(
        f"{count} {what}: {int(found.candidates.sum()):,} steps in all, {most:,} of them of the longest lane; that one "
        f"alone takes {1e3 * lone:.0f} ms, all at once {1e3 * all_:.0f} ms"
    )
    return [Row(f"{count} {what}, a second", count / all_, count / one, "one at a time", one / all_, 20.0, "images/s")]


def smallest(space: Latent, basket: Basket, trials: Trials) -> list[Row]:
    """How many are mended, and by how much."""
    suspect, count = basket.names[0], len(trials.lanes)
    found = descend(space, Restore(), basket, trials, suspect=suspect)
    rows = (found.outcome == FOUND).nonzero()[:, 0]
    paths = Paths(found.accepted.draws, torch.bincount(found.accepted.row, minlength=count))[rows]
    first = torch.stack([(2 * path - 1).sum(0).norm() for path in paths]).mean()
    shrunk = nearest_in_box(space, Restore(), basket, trials.seeds[rows], trials.aims[rows], paths, suspect=suspect)
    least = shrunk.points.shift.norm(dim=1).mean()
    return [
        Row("mended", len(rows), count, "mistakes", len(rows) / count, 0.99),
        Row("mean shift, smallest", float(least), float(first), "first", float(least / first), 0.5, at_most=True),
    ]


# The passes that the command needed, recorded once and done again with nothing around them.


class Pass(NamedTuple):
    """What was asked, of how many rows; networks where it was an answer; whether its slope might be asked for."""

    kind: str
    rows: int
    names: tuple[str, ...] = ()
    sloped: bool = False


class _Judged(_RecordingBasket):
    passes: list[Pass]

    def judge(self, images: Tensor, names: Sequence[str] | None = None, precision: Any = "float32") -> Tensor:
        asked = tuple(self.names if names is None else names)
        self.passes.append(Pass("judge", max(16, len(images)), asked, images.requires_grad))
        return Basket.judge(self, images, names, precision)


class _Drawn:
    """A generator that notes what it is asked, and how often its slope is."""

    def __init__(self, generator: Any, passes: list[Pass]) -> None:
        self.generator, self.passes = generator, passes
        self.shape, self.latent, self.spec = generator.shape, generator.latent, generator.spec
        self.fingerprint = generator.fingerprint

    def encode(self, images: Tensor) -> Tensor:
        self.passes.append(Pass("encode", len(images)))
        codes: Tensor = self.generator.encode(images)
        return codes

    def decode(self, codes: Tensor) -> Tensor:
        self.passes.append(Pass("decode", len(codes), (), codes.requires_grad))
        if codes.requires_grad:
            codes.register_hook(lambda _: self.passes.append(Pass("slope", len(codes))))
        drawn: Tensor = self.generator.decode(codes)
        return drawn

    def to(self, _device: Any) -> _Drawn:
        return self


def recorded(folder: Path, generator: Path, spec: str, images: int, out: Path) -> list[Pass]:
    """Every pass of generator and networks that these explanations need, in order."""
    passes: list[Pass] = []
    basket = _Judged.of(Basket.open(folder))
    assert isinstance(basket, _Judged)
    basket.passes = passes
    drawn = _Drawn(Latent(str(generator)).opened, passes)
    explain(
        basket, spec, generator=drawn, out=out, workers=1, quiet=True, split="train", suspect=basket.names[0],
        images=images,
    )  # fmt: skip
    return passes


def needed(basket: Basket, generator: Any, passes: list[Pass]) -> float:
    """Seconds of the processor that the passes alone take."""
    largest = max(one.rows for one in passes)
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(largest, *generator.shape, generator=draw)
    codes = torch.randn(largest, generator.latent, generator=draw)
    place, said, shown = codes, codes, images
    began = time.process_time()
    for kind, rows, names, sloped in passes:
        with torch.set_grad_enabled(sloped or kind == "slope"):
            if kind == "encode":
                generator.encode(images[:rows])
            elif kind == "decode" and sloped:
                place = codes[:rows].clone().requires_grad_()
                shown = generator.decode(place)
            elif kind == "decode":
                generator.decode(codes[:rows])
            elif kind == "slope":
                torch.autograd.grad(said.sum(), place, retain_graph=True)  # there may be several of one answer
            elif sloped:
                said = basket.network(names[0])(padded(shown, rows))
            else:
                for name in names:
                    basket.network(name)(images[:rows])
    return time.process_time() - began


def command(folder: Path, generator: Path, spec: str, images: int, repeats: int, scratch: Path) -> list[Row]:
    """What was needed ÷ the whole command, imports and all."""
    passes = recorded(folder, generator, spec, images, scratch / "recorded")
    basket, opened = Basket.open(folder), Latent(str(generator)).opened
    asked = ("--data", spec, "--split", "train", "--suspect", basket.names[0], "--images", images, "--workers", 1)
    wholes, floors = [], []
    for repeat in range(repeats):
        out = scratch / f"command {repeat}"
        took = foible("explain", "--basket", folder, "--generator", generator, *asked, "--out", out)
        wholes.append(took.processor)
        floors.append(needed(basket, opened, passes))
    whole, floor, before = min(wholes), min(floors), min(ran(IMPORTS).processor for _ in range(3))
    name = f"explain {images:,} mistakes, {len(basket)} networks, the whole command"
    what = "its passes alone"
    pairs = ", ".join(f"{one / other:.3f}" for one, other in zip(floors, wholes, strict=True))
    print(f"imports, measured apart: {before:.2f} s of the processor; passes ÷ command, repeat by repeat: {pairs}")
    return [
        Row(name, whole, floor, what, floor / whole, 0.65, "s"),
        Row(f"{name}, imports apart", whole - before, floor, what, floor / (whole - before), 0.65, "s"),
    ]


def main() -> None:
    parser = arguments("Explaining mistakes: batched against one at a time, and the command against its passes.")
    parser.add_argument("--generator", type=Path, required=True)
    parser.add_argument("--networks", type=Path, required=True)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--images", type=int, default=2000, help="of the command")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="batch,command")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder, generator = options.networks.resolve(), options.generator.resolve()
    basket, space = Basket.open(folder), Latent(str(generator), step=1.0, reach=8.0)
    rows = []
    if "batch" in options.only:
        trials = mistakes(basket, options.data, max(SIZES))
        for size in SIZES:
            rows += batched(space, basket, trials.rows(torch.arange(size)), "mistakes", options.repeats)
        others = driven(basket, options.data, SIZES[0])
        rows += batched(space, basket, others, "right images driven", options.repeats)
        for some, what in ((trials.rows(torch.arange(SIZES[0])), "mistakes"), (others, "right images driven")):
            rows += batched(space, basket, some, what, options.repeats, FEW)
        rows += smallest(space, basket, trials.rows(torch.arange(SIZES[0])))
    if "command" in options.only:
        with tempfile.TemporaryDirectory() as scratch:
            rows += command(folder, generator, options.data, options.images, options.repeats, Path(scratch))
    report(rows, options.json)


if __name__ == "__main__":
    main()
