"""What the study explains, and what with: generators, a classifier on each one's encoder, and networks on pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.generators import open_generator, train_generator
from foible.images import to_floats
from foible.networks.heads import Features, fit
from foible.permission import Permission
from foible.randomness import uniforms
from foible.spaces import Latent
from foible.studies.sympathetic.mending import Images

HEAD = "head"  # the name of a classifier on an encoder
BATCH = 2000


class OnEncoder(nn.Module):
    """A classifier on the last hidden layer of a generator's encoder, which is not trained any further."""

    def __init__(self, coder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.coder, self.head = coder, head

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) in [0, 1] to logits (n, classes)."""
        logits: Tensor = self.head(self.coder.features(images))  # type: ignore[operator]
        return logits


@dataclass(frozen=True, eq=False)
class Case:
    """One classifier, explained by one generator. wrong: test images that it gets wrong, with their classes; right:
    those that it gets right, each once for every other class, which is its aim. Both in an order drawn by the seed."""

    name: str
    latent: int
    space: Latent
    basket: Basket
    suspect: str
    test: Dataset
    said: Tensor  # (images of the test split,) what the classifier says
    wrong: Images
    right: Images

    @property
    def accuracy(self) -> tuple[int, int]:
        return int((self.said == self.test.labels).sum()), len(self.said)


def case(
    name: str, generator: Any, basket: Basket, test: Dataset, *, mistakes: int, others: int, seed: int
) -> Case:  # fmt: skip
    """The first network of the basket, explained by a generator: up to `mistakes` that it makes and `others` that it
    gets right."""
    suspect = basket.names[0]
    said = basket.predict(test.images, [suspect])[0].argmax(1)
    order = uniforms(seed, torch.arange(len(test)), stream="sympathetic.images", count=1)[:, 0].argsort(stable=True)
    right = said[order] == test.labels[order]
    wrong, others_of = order[~right][:mistakes], order[right][:others]
    if not len(wrong):
        raise UserError(f"{name}: the classifier gets all {len(test)} test images right: there is nothing to mend")
    aims = torch.arange(len(test.classes)).repeat(len(others_of), 1)
    away = aims != test.labels[others_of][:, None]
    index = others_of[:, None].expand_as(aims)[away]
    return Case(
        name, generator.latent, Latent(generator, step=1.0, reach=8.0), basket, suspect, test, said,
        Images(test.floats(wrong), test.labels[wrong], wrong), Images(test.floats(index), aims[away], index),
    )  # fmt: skip


def generator_for(
    latent: int, data: str, out: Path, *, seed: int, given: str = "", width: int = 0, device: str = "auto",
    quiet: bool = False, **how: Any,
) -> Any:  # fmt: skip
    """The generator of the folder `given`, or a VAE of so many dimensions, trained once into `out`.

    width: of its hidden layers (0: its own). how: epochs, batch and rate of its training."""
    if not given:
        name, spec = (
            f"vae-{latent}" + (f"-{seed}" if seed else ""),
            f"vae:{latent}" + (f"?width={width}" if width else ""),
        )
        return train_generator(spec, data, out=out / name, seed=seed, device=device, quiet=quiet, **how)
    generator = open_generator(given, may=Permission.typed(given))
    if generator.latent != latent:
        raise UserError(f"the generator {given!r} has {generator.latent} dimensions: expected {latent}")
    if not hasattr(generator, "features"):
        raise UserError(
            f"the generator {given!r} does not show its encoder's last hidden layer, which the paper's classifier "
            "stands on: give a folder that `foible generator train` wrote"
        )
    return generator


def head_on(generator: Any, training: Dataset, device: str, iterations: int) -> Basket:
    """A linear classifier on the encoder's last hidden layer, fitted to the training images, as a basket of one."""
    coder = generator.to("cpu")
    with torch.no_grad():
        seen = torch.cat([coder.features(to_floats(part)) for part in training.images.split(BATCH)])
    head, _ = fit(Features(seen, training.labels), len(training.classes), epochs=iterations)
    shape = training.images.shape
    return Basket(
        {HEAD: OnEncoder(coder, head)}, classes=training.classes, preprocess="inside",
        shape=(shape[1], shape[2], shape[3]), device=device,
    )  # fmt: skip
