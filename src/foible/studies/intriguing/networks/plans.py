"""Which networks paper 3 has, and for how long they learn here: Tables 1 and 3, at two scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from foible.studies.intriguing.networks.autoencoder import Sparse
from foible.studies.intriguing.networks.training import DIVISORS, Course


@dataclass(frozen=True)
class Plan:
    """One network: its name in the paper, what it is, λ of each layer that is trained, and which images it learns."""

    name: str
    spec: str
    decay: tuple[float, ...]
    part: str = "train"
    twin: int = 0  # added to the seed, where two networks of one kind must not begin with the same weights

    @property
    def divisor(self) -> float:
        """k of λ Σw²/k."""
        return DIVISORS[self.spec.partition(":")[0]]


SIGMOID = (1e-5, 1e-5, 1e-6)
TABLE1 = (
    Plan("softmax1", "softmax", (1e-4,)),
    Plan("softmax2", "softmax", (1e-2,)),
    Plan("softmax3", "softmax", (1.0,)),
    Plan("N100-100-10", "mlp:100-100,sigmoid", SIGMOID),
    Plan("N200-200-10", "mlp:200-200,sigmoid", SIGMOID),
    Plan("AE400-10", "ae:400", (1e-6,)),
)
TABLE3 = (
    Plan("M1", "mlp:100-100,sigmoid", SIGMOID, "P1"),
    Plan("M1'", "mlp:123-456,sigmoid", SIGMOID, "P1"),
    Plan("M2", "mlp:100-100,sigmoid", SIGMOID, "P2", twin=1),
)


@dataclass(frozen=True)
class Effort:
    """How long networks learn. images: of the training split, from its beginning; None is all."""

    images: int | None
    linear: Course
    dense: Course
    features: Course  # of the autoencoder
    top: Course  # the softmax on its features

    def course(self, spec: str) -> Course:
        family = spec.partition(":")[0]
        return {"softmax": self.linear, "ae": self.top}.get(family, self.dense)


EFFORTS = {
    "quick": Effort(
        images=10_000,
        linear=Course(0, 30),
        dense=Course(10, 0, rate=2e-2, batch=200, least_steps=500),
        features=Course(4, 0, rate=1e-2, batch=200, least_steps=300),
        top=Course(0, 60),
    ),
    "paper": Effort(
        images=None,
        linear=Course(0, 100),
        dense=Course(60, 0, rate=2e-2, batch=500, least_steps=3000),
        features=Course(26, 0, rate=1e-2, batch=250, least_steps=1500),
        top=Course(0, 400),
    ),
}


def parts(plans: Sequence[Plan], rows: int) -> dict[str, range]:
    """Rows of the training split that networks learn, by name: all, or the halves P1 and P2."""
    if any(plan.part != "train" for plan in plans):
        return {"P1": range(rows // 2), "P2": range(rows // 2, rows)}
    return {"train": range(rows)}


def settings(scale: str) -> dict[str, Any]:
    """For a study to print: the divisor of the weight decay, and how long networks learnt."""
    effort = EFFORTS[scale]
    return {
        "weight decay": "λ Σw²/k on the weights of each layer, added to the mean cross-entropy",
        "its divisor k": DIVISORS
        | {"why": "fitted to the printed training and test errors; numbers of units do not give them"},
        "training images": "all" if effort.images is None else f"the first {effort.images:,}",
        "optimiser": "full-batch L-BFGS where one layer is trained; Adam, its rate falling to nothing, below",
        "sparse autoencoder": asdict(Sparse()),
        "courses": {key: value for key, value in asdict(effort).items() if key != "images"},
    }
