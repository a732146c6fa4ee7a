"""Generators by short specs: `vae:10`, `vae:2?width=500`, `vaegan:1024?width=64`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from foible import specs
from foible.errors import UserError
from foible.generators.base import Drawer, Shape
from foible.generators.dcgan import Dcgan, DcganLearning
from foible.generators.learning import Learning
from foible.generators.vae import Vae, VaeLearning
from foible.generators.vaegan import VaeGan, VaeGanLearning
from foible.images import MOST_JUDGED
from foible.text import did_you_mean

MOST = 100_000  # numbers in a code; a spec may come from a file that somebody else wrote
MOST_WIDTH = 8192


@dataclass(frozen=True)
class Family:
    """One kind of generator, and how it learns where nothing else is said. A small data set is seen more often, until
    there are `least_steps` steps."""

    make: Callable[..., Drawer]  # (shape, latent, options)
    learn: Callable[[Drawer, float], Learning]  # (model, rate)
    example: str
    epochs: int
    batch: int
    rate: float
    least_steps: int
    adversarial: bool = False
    smallest: int = 1  # height and width must be at least this
    latent: int | None = None  # numbers in a code, where the spec does not say


FAMILIES = {
    "vae": Family(Vae, VaeLearning, "vae:10", epochs=9, batch=128, rate=2e-3, least_steps=2000),
    "vaegan": Family(
        VaeGan, VaeGanLearning, "vaegan:1024", epochs=20, batch=64, rate=2e-4, least_steps=22_000, adversarial=True,
        smallest=16,
    ),
    "dcgan": Family(
        Dcgan, DcganLearning, "dcgan:100", epochs=45, batch=128, rate=2e-4, least_steps=5000, adversarial=True,
        latent=100,
    ),
}  # fmt: skip


def family_of(spec: str) -> Family:
    """The kind of generator that a spec names, checked whole."""
    name = spec.partition(":")[0].partition("?")[0]
    if name not in FAMILIES:
        examples = ", ".join(family.example for family in FAMILIES.values())
        raise UserError(f"unknown generator {spec!r}{did_you_mean(name, FAMILIES)}; there are {examples}")
    return FAMILIES[name]


def build(spec: str, shape: Shape) -> Drawer:
    """A generator with fresh weights (from PyTorch's generator) for images of this shape."""
    family, parsed = family_of(spec), specs.parse(spec)
    argument = parsed.argument or str(family.latent or "")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", argument) or int(argument) > MOST:
        raise UserError(
            f"{parsed.argument!r} in generator {spec!r} is no number of latent dimensions: expected 1 to {MOST}, as in "
            f"{family.example!r}"
        )
    options = specs.bind(family.make, parsed.options, f"generator {spec!r}")
    width = options.get("width", 1)
    if not 1 <= width <= MOST_WIDTH:
        raise UserError(f"generator {spec!r}: width is {width}: expected 1 to {MOST_WIDTH}")
    for name, value in options.items():
        if isinstance(value, float) and not 0 <= value < 1e9:
            raise UserError(f"generator {spec!r}: {name} is {value}: expected a number, 0 or more")
    if shape[1] * shape[2] > MOST_JUDGED:
        raise UserError(
            f"images of {shape[1]}×{shape[2]} pixels for generator {spec!r}: expected at most {MOST_JUDGED:,} pixels"
        )
    if min(shape[1:]) < family.smallest:
        raise UserError(
            f"images of {shape[1]}×{shape[2]} pixels are too small for {spec!r}: it needs at least "
            f"{family.smallest}×{family.smallest}; take vae:N, or larger images"
        )
    return family.make(shape, int(argument), **options)


@contextmanager
def seeded(spec: str, seed: int, what: str = "") -> Iterator[None]:
    """First weights are those of `seed` inside; the caller's random numbers are left alone."""
    digest = hashlib.sha256(f"{spec}\n{what}\n{seed}".encode()).digest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        yield


def begin(spec: str, shape: Shape, seed: int, rate: float, device: torch.device) -> Learning:
    """The training of the generator of `spec`, with the first weights of `seed`, before its first step."""
    with seeded(spec, seed):  # on the CPU, so that they are the same everywhere
        model = build(spec, shape)
    with seeded(spec, seed, "learning"):
        return family_of(spec).learn(model.to(device), rate)
