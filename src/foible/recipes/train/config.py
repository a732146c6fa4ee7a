"""What a training is asked to do: the settings of `foible train`, and what each kind of network learns by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.augment import augmentation
from foible.networks.bands import APART
from foible.networks.loop import check_schedule
from foible.networks.probe import is_probe
from foible.recipes.train.soft import check_soft

WIDEST = 0.1  # half of a band: what is farther from its target has another accuracy


@dataclass(frozen=True)
class TrainConfig:
    """What `train` does. None takes the default of the network's family (`RECIPES`)."""

    specs: tuple[str, ...]
    data: str = "digits"
    seeds: tuple[int, ...] = (0,)
    epochs: int | None = None  # of each phase, where a network has two
    batch: int | None = None
    rate: float | None = None  # of Adam
    weight_decay: float = 0.0  # above 0: AdamW
    target: float | tuple[float, ...] | None = None  # stop once the test accuracy, 0 to 1, is at least this; or, with
    within: float | None = None  # this, keep a network where it is so near to each of these, lowest first
    augment: str | None = None  # "crops" or "paper", with options or without; see foible.networks.augment
    soft: str | None = None  # a file of label distributions that are learnt in place of labels
    smooth: float | None = None  # so much of each label is spread evenly over all classes
    teacher: str | None = None  # a basket whose mean softmax is learnt in place of labels
    temperature: float | None = None  # of the teacher

    def __post_init__(self) -> None:
        if not self.specs:
            raise UserError("no network to train: give at least one, such as mlp:30")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds) or not all(0 <= s < 2**32 for s in self.seeds):
            raise UserError(f"seeds are {list(self.seeds)}: expected at least one, all different, 0 to 2**32 - 1")
        check_schedule(self.epochs, self.batch, self.rate)
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise UserError(f"weight_decay is {self.weight_decay}: expected 0 or more")
        self._check_targets()
        check_soft(self.soft, self.smooth, self.teacher, self.temperature)
        object.__setattr__(self, "augment", None if self.augment == "none" else self.augment)
        augmentation(self.augment)  # or an error that says what is wrong with it
        probes = [is_probe(spec) for spec in self.specs]
        if any(probes) and self.augment:
            raise UserError("probes see each image once, as it is: --augment is for networks of the zoo")
        if any(probes) and any((self.soft, self.smooth, self.teacher)):
            raise UserError("probes learn labels: --soft, --smooth and --teacher are for networks of the zoo")
        if any(probes) and not all(probes):
            raise UserError("probes and networks of the zoo are trained apart: give two commands, with an --out each")
        names = [spec if is_probe(spec) else zoo.name_of(spec) for spec in self.specs]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"network {name!r} is given twice: give it once, and seeds for more of its kind")

    def _check_targets(self) -> None:
        targets = self.targets
        for target in targets:
            if not 0 < target <= 1:
                raise UserError(f"target is {target}: expected an accuracy above 0 and up to 1, such as 0.98")
        if self.within is None:
            if isinstance(self.target, tuple):
                raise UserError(f"{len(targets)} targets: with several give --within too, such as 0.0005")
            return
        if not targets:
            raise UserError("--within is the half width of a band around a target: give --target too, such as 0.98")
        if not 0 < self.within <= WIDEST:
            raise UserError(f"within is {self.within}: expected above 0 and up to {WIDEST}, such as 0.0005 for ±0.05 %")
        for lower, upper in pairwise(targets):
            if upper - lower <= 2 * self.within:
                raise UserError(
                    f"the bands of ±{self.within:g} around {lower:g} and {upper:g} overlap: give a smaller --within "
                    "(0.0005 is ±0.05 %) or targets farther apart"
                )
        if max(self.seeds) >= APART:
            raise UserError(f"seeds go up to {max(self.seeds)}: with --within they must be below {APART:,}")

    @property
    def targets(self) -> tuple[float, ...]:
        """The targets, lowest first."""
        given = self.target if isinstance(self.target, tuple) else () if self.target is None else (self.target,)
        return tuple(sorted(set(given)))

    @property
    def bands(self) -> tuple[float, ...]:
        """The targets around which networks are kept."""
        return () if self.within is None else self.targets


@dataclass(frozen=True)
class Recipe:
    """Defaults of a family. A small data set is seen more often, until there are `least_steps` steps."""

    epochs: int
    rate: float = 1e-3
    batch: int = 128
    least_steps: int = 400
    pretraining_epochs: int = 0
    decay: bool = False  # the rate falls to nothing, by half a cosine


RECIPES = {
    "softmax": Recipe(10, least_steps=1500),
    "mlp": Recipe(10, least_steps=1500),
    "ae": Recipe(20, least_steps=1500, pretraining_epochs=20),
    "conv": Recipe(5),
    "lenet": Recipe(5, least_steps=600),
    "lenet-caffe": Recipe(5, least_steps=600),
    "mlp4": Recipe(10, rate=5e-4),  # paper 4, Appendix A, as are the next two
    "cnn4": Recipe(5, rate=5e-4, least_steps=100),
    "vit4": Recipe(15, rate=5e-4),
    "resnet": Recipe(20, decay=True),
    "inception": Recipe(20, decay=True),
    "alexnet": Recipe(20, rate=3e-4, decay=True),
}
