"""The units of a distortion: some images each, distorted, settled on 8 bits and judged by every network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget
from foible.basket.accuracy import answers
from foible.basket.matching import Matched, match
from foible.data import Dataset, Photographs, read
from foible.errors import UserError
from foible.findings import with_metadata
from foible.images import to_floats
from foible.networks.load.opened import first_line
from foible.progress import Stages
from foible.recipes.config import DistortConfig
from foible.recipes.distort.fallback import NAME, begun, nowhere, pool_of, unsearched
from foible.recipes.distort.layer import Layer
from foible.recipes.distort.masking import ASKINGS, FLAT, NONE, SATURATED, SHATTERED, STOCHASTIC
from foible.recipes.distort.methods import kind_of, names_of, solvers
from foible.recipes.distort.rows import Asked, make_rows
from foible.recipes.distort.settle import firmer, settled
from foible.recipes.distort.softmax import without_softmax
from foible.recipes.distort.targets import Fallback, Reached, once_more, over_targets, read_target, targets_of
from foible.recipes.seeds import right_under_source
from foible.runs.local import Tick
from foible.runs.spans import Span
from foible.runs.task import Seeds, Task
from foible.search.nearest import Model, Nearest, length
from foible.search.nearest.decision import Pool, decision

SMALL = 512  # rows that are searched together, of images of at most 7,800 values


class Distorting:
    """The units of a distortion. The source is the first network of the basket."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings, self.stages = task, task.settings, Stages()
        self.basket, self.matched = task.basket, task.matched
        self.layer = layer_of(task, self.settings["layer"])
        self.masked = set(self.settings.get("masking", ()))
        softmax = SATURATED in self.masked and self.layer is None
        self.model: Model = without_softmax(self.basket, self.basket.names[0]) if softmax else self.source
        self.askings = ASKINGS if STOCHASTIC in self.masked else 1

    @property
    def lanes(self) -> list[int]:
        return [len(self.task.seeds["chosen"])]

    @property
    def most(self) -> int:
        rows: int = self.settings["rows"]
        return max(self.least, rows // self.tries)

    @property
    def least(self) -> int:
        return 1

    @property
    def first(self) -> int:
        """A GPU, and a CPU with small images, takes as long for a few."""
        if self.basket.device.type != "cpu":
            return 256
        return 8 if self.settings["rows"] > SMALL else 1

    @property
    def tries(self) -> int:
        """Labels tried for each image."""
        count = len(self.basket.classes)
        return min(count - 1, self.settings["likeliest"] or count) if self.kind in ("best", "worst", "each") else 1

    @property
    def kind(self) -> str | int:
        """What is asked for: one of `KINDS`, or a class."""
        settings = self.settings
        target = read_target(settings["target"], self.basket.classes)
        return kind_of(target, settings["method"], settings["likeliest"])

    def source(self, images: Tensor) -> Tensor:
        """The source's logits (n, classes)."""
        return self.basket.judge(images, self.basket.names[:1])[0]

    def pool(self, targets: Tensor | None) -> Pool:
        """Images that a search may begin with."""
        return pool_of(self.matched, self.model, self.basket.device, targets)

    def asked(self, span: Span) -> Asked:
        """The images of a unit, what they are, and what every network says of them."""
        positions = self.task.seeds["chosen"][span.first : span.end]
        seen = read(self.matched.data, positions, [self.matched.canvas])
        if seen.problems:
            position, why = seen.problems[0]
            raise UserError(f"image {position} of {self.matched.data.name!r} could be read and cannot now: {why}")
        pixels = seen.images[0].to(self.basket.device)
        with torch.no_grad():
            logits = self.basket.judge(to_floats(pixels))
        own = answers(logits)[0].clamp_min(0)
        labels = own if self.settings["unlabelled"] else self.matched.labels[positions].to(own.device)
        return Asked(positions, pixels, labels, logits)

    def unit(self, span: Span, tick: Tick) -> Any:
        """The rows of one unit."""
        settings, key, going = self.settings, self.task.key, self.stages
        kind, norm = self.kind, settings["norm"]
        asked = self.asked(span)
        going.begin(span.size, tick)
        searched = going.tick("search", self.tries)
        targets = targets_of(
            kind, asked.labels, asked.positions, asked.logits[0],
            seed=settings["seed"], likeliest=settings["likeliest"],
        )  # fmt: skip
        several = kind == "each"
        if several and targets is not None:
            asked, targets = asked.repeated(targets.shape[1]), targets.reshape(-1, 1)
        spend = Budget(forwards=settings["budget"], backwards=settings["budget"])
        origins, layer = to_floats(asked.pixels), self.layer
        start = origins if layer is None else layer.points(origins)
        try:
            exact = self.searched(asked, start, kind, targets, spend, searched)
        except RuntimeError as error:  # of a method of the user's own
            if NONE not in self.masked:
                raise
            what = f"{self.basket.names[0]!r} has no gradient, and the method {settings['method']!r} fails with it"
            raise UserError(f"{what} ({first_line(error)}): take --method {NAME}") from error
        if layer is None:
            by_answers = torch.zeros_like(exact.found) if exact.method is None else exact.method == self.count
            sloped = ~by_answers & (not self.masked & {NONE, STOCHASTIC})
            how = {"norm": norm, "lattice": settings["lattice"], "budget": spend, "askings": self.askings}
            saved, after = settled(self.model, origins, exact, asked.labels, sloped=sloped, **how), None
        else:
            exact, saved, after = _in_the_layer(asked, start, exact, layer, norm)
        going.done("settle")
        names = names_of(settings["method"])
        table = make_rows(
            self.basket, self.matched, asked, start, exact, saved, norm=norm, after=after,
            tried=1 if several else self.tries, labelled=not settings["unlabelled"], several=several, config=key,
            large=settings.get("floats", False), methods=[*(names if len(names) > 1 else [None]), NAME],
            askings=self.askings, best=settings["target"] == "best",
        )  # fmt: skip
        going.end()
        return with_metadata(table, self.basket.classes, {key: settings})

    @property
    def count(self) -> int:
        """Of methods; the fallback's number."""
        return len(names_of(self.settings["method"]))

    def searched(
        self, asked: Asked, start: Tensor, kind: str | int, targets: Tensor | None, spend: Budget, tick: Tick
    ) -> Reached:
        """What the methods find from `start` (n, …), and the fallback where they lead nowhere."""
        settings, layer, last = self.settings, self.layer, self.fallback(spend)
        labels, logits, norm = asked.labels, asked.logits[0], settings["norm"]
        model, (low, high) = (self.model, (0.0, 1.0)) if layer is None else (layer.model, layer.range)
        blind, trusted = last is not None and NONE in self.masked, self.askings > 1
        if blind and kind == "best":
            exact = unsearched(start, labels, logits)
            tick(self.tries * len(start))
        else:
            methods = tuple(begun(method, self.pool) for method in self.task.parts["method"])
            how = {"model": model, "norm": norm, "low": low, "high": high, "budget": spend}
            exact = over_targets(
                [nowhere] if blind else solvers(methods, settings["method"], **how),
                model, start, labels, targets, logits, norm=norm, worst=kind == "worst", rows=settings["rows"],
                last=None if kind == "best" else last, trusted=trusted, tick=tick,
            )  # fmt: skip
        if last is None or kind != "best":
            return exact
        # The nearest of all labels needs no search for each of them: the fallback may end at any.
        return once_more(last, exact, model, start, labels, None, logits, norm=norm, trusted=trusted)

    def fallback(self, spend: Budget) -> Fallback | None:
        """Answers alone are followed where the method leads nowhere, if it was left at its default."""
        if self.layer is not None or self.settings["method"] != DistortConfig.method:
            return None
        method, how = begun(decision, self.pool), {"norm": self.settings["norm"], "seed": self.settings["seed"]}

        def solve(images: Tensor, labels: Tensor, targets: Tensor | None, spent: Tensor) -> Nearest:
            return method(self.model, images, labels, targets=targets, spent=spent, budget=spend, **how)

        return Fallback(solve, self.count, everywhere=bool(self.masked & {FLAT, SHATTERED}))


@torch.no_grad()
def _in_the_layer(
    asked: Asked, start: Tensor, exact: Reached, layer: Layer, norm: str
) -> tuple[Reached, Nearest, Tensor]:
    """What was found, held firmly; the images, which are as they were; and what is said: by the source, of the layer's
    distorted output; by the others, of the image."""
    none, after, ends = torch.zeros_like(exact.forwards), asked.logits.clone(), exact.images.clone()
    rows = (exact.found & (exact.distance > 0)).nonzero()[:, 0]
    if len(rows):
        targets = None if exact.targets is None else exact.targets[rows]
        ends[rows], none[rows] = firmer(
            layer.model, start[rows], ends[rows], ends[rows], asked.labels[rows], targets,
            lambda points: points.clamp(*layer.range),
        )  # fmt: skip
    after[0] = layer.model(ends)
    images = Nearest(to_floats(asked.pixels), exact.found, exact.invalid, none, torch.zeros_like(none))
    return replace(exact, images=ends, distance=length(ends - start, norm)), images, after


def layer_of(task: Task, name: str | None) -> Layer | None:
    """The layer whose output is distorted; None for the image itself."""
    if name is None:
        return None
    some = read(task.matched.data, task.matched.index[:16], [task.matched.canvas])
    images = to_floats(some.images[0].to(task.basket.device))
    layer = Layer(task.basket, name, images[:1])
    layer.check(images)
    return layer


def source_first(basket: Basket, config: DistortConfig) -> Basket:
    """The basket with the source as its first network; only the sole one needs no naming."""
    source = config.source
    if source is None:
        if len(basket) > 1:
            raise UserError(f"which network is to be distorted for? Give --source, one of {', '.join(basket.names)}")
        source = basket.names[0]
    return basket.only([source, *basket.peers(source)])


def match_source(data: Dataset | Photographs, basket: Basket, canvas: str | None, labelled: bool) -> Matched:
    """Images are distorted at the source's own input size, where it has one."""
    alone = basket.only(basket.names[:1])
    return match(data, basket if alone.canvas is None else alone, canvas=canvas, labelled=labelled)


def check_places(task: Task) -> None:
    """Refuse images that are not there."""
    matched, asked = task.matched, torch.tensor(task.config.places, dtype=torch.int64)
    unknown = asked[~torch.isin(asked, matched.index)].tolist()
    if unknown:
        data = f"{matched.data.name!r} ({matched.data.split}), which has {len(matched.data)}"
        raise UserError(f"places: {unknown[0]} is no image of {data}, or has no label that the networks know")


def images_of(task: Task) -> Seeds:
    """`chosen`: positions of the images, drawn by the seed; or those that were asked for, in their order."""
    if not task.config.places:
        return right_under_source(task)
    matched, asked = task.matched, torch.tensor(task.config.places)
    seeds = right_under_source(replace(task, matched=replace(matched, index=asked)))
    return replace(seeds, tensors={**seeds.tensors, "chosen": asked[torch.isin(asked, seeds.tensors["chosen"])]})


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have; and, where the images are chosen, how many."""
    config, matched = task.config, task.matched
    data = matched.data
    channels = data.channels if isinstance(data, Photographs) else data.images.shape[1]
    values = channels * matched.size[0] * matched.size[1]
    gpu = task.basket.device.type != "cpu"  # it likes more rows at once, and does one unit after another
    rows = max(16, min(32_768, 20_000_000 // values) if gpu else min(4096, 4_000_000 // values))
    same = ("target", "norm", "layer", "images", "seed", "likeliest", "wrong", "lattice", "budget", "unlabelled")
    # Left out of most settings, and of their hash.
    rare = {"places": list(config.places), "floats": config.floats, "masking": list(task.basket.remarks)}
    counted = [name for name in ("drawn", "chosen") if name in task.seeds]  # with those passed over as wrong, without
    return {
        "source": task.basket.names[0],
        **{name: getattr(config, name) for name in same},
        **{name: value for name, value in rare.items() if value},
        **{name: len(task.seeds[name]) for name in counted},
        "rows": rows,
    }
