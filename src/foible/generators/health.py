"""Is a trained generator of use? What is measured on held-out images, and the ways to collapse, by name."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from foible.generators.base import Coder, Drawer
from foible.images import to_floats
from foible.randomness import normals

ACTIVE = 0.01  # nats of divergence from which on a dimension tells something of the image
NEARLY_ALL = 0.98  # of the dimensions
NO_BETTER = 0.95  # of the mean image's error
ALIKE, FEW = 0.1, 0.3  # of the spread of images: samples that differ less are all one; of a GAN, of a few kinds
MOST_IMAGES = 2000
ROWS = 500  # at once


@dataclass(frozen=True)
class Measures:
    """Of a generator, on held-out images. Errors are mean squares of a pixel in [0, 1]."""

    images: int
    error: float | None  # of decode(encode(image)); None where nothing encodes
    mean_image_error: float  # of the mean of these images, in place of each: what a decoder reaches without a code
    divergence: tuple[float, ...]  # of each latent dimension, in nats; none where nothing encodes
    active: int  # dimensions of more than `ACTIVE` nats
    spread: float  # mean standard deviation of a pixel over samples, as a share of that over images


@torch.no_grad()
def measure(model: Drawer, images: Tensor) -> Measures:
    """images: uint8 (n, *shape); at most `MOST_IMAGES` of them are looked at. The model is left in eval mode."""
    model.eval()
    images = images[:MOST_IMAGES]
    error, by_dimension = _coded(model, images) if isinstance(model, Coder) else (None, ())
    pixels = to_floats(images)
    drawn = samples(model, min(len(images), ROWS))
    spread, usual = drawn.std(0, correction=0).mean(), pixels.std(0, correction=0).mean()
    return Measures(
        images=len(images),
        error=error,
        mean_image_error=float(pixels.var(0, correction=0).mean()),
        divergence=by_dimension,
        active=sum(one > ACTIVE for one in by_dimension),
        spread=float(spread / usual.clamp(min=1e-12)),
    )


def _coded(model: Coder, images: Tensor) -> tuple[float, tuple[float, ...]]:
    """The error of reconstructions, and the divergence of each dimension."""
    wrong, divergence = images.new_zeros((), dtype=torch.float64), torch.zeros(model.latent, device=images.device)
    for batch in images.split(ROWS):
        pixels = to_floats(batch)
        posterior = model.posterior(pixels)
        wrong += (model.decode(posterior.mean) - pixels).square().sum().double()
        divergence += posterior.divergence().sum(0)
    return float(wrong) / images.numel(), tuple((divergence / len(images)).tolist())


@torch.no_grad()
def samples(model: Drawer, count: int, seed: int = 0) -> Tensor:
    """Images (count, *shape) decoded from codes that are standard normal."""
    device = next(model.parameters()).device
    lanes = torch.arange(count, device=device)
    return model.decode(normals(seed, lanes, stream="generator.samples", count=model.latent))


def collapse(found: Measures, adversarial: bool) -> str | None:
    """What is wrong with a generator, in words and with the figure that shows it; None where nothing is."""
    latent = len(found.divergence)
    if latent and latent - found.active >= max(1, NEARLY_ALL * latent):
        return (
            f"posterior collapse: {latent - found.active} of {latent} latent dimensions say nothing of the image "
            f"(the largest divergence is {max(found.divergence):.2g} nats; up to {ACTIVE:g} counts as nothing). Give a "
            "smaller beta, as vae:10?beta=0.5, or train longer"
        )
    if found.spread < (FEW if adversarial else ALIKE):
        kind = "mode collapse" if adversarial else "posterior collapse: the decoder ignores the code"
        return (
            f"{kind}: samples hardly differ, their pixels vary {100 * found.spread:.2g} % as much as those of images. "
            "Give another --seed, a lower --rate or " + ("train longer" if adversarial else "a smaller beta")
        )
    if found.error is not None and found.error >= NO_BETTER * found.mean_image_error:
        return (
            f"nothing learnt: reconstructions (error {found.error:.4f}) are no better than the mean image, one for "
            f"all (error {found.mean_image_error:.4f}). Train longer, or give another --rate"
        )
    return None
