"""Which pixels speak for an answer: gradient × input, and where a network has no gradient, occlusion."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from foible.basket import Basket
from foible.spaces.corrupt import blurred

AT_ONCE = 16  # images differentiated at a time
CELLS = 8  # an occluded image has at most this many patches a side
SMOOTH = 0.02  # of the shorter side: the deviation of the blur that makes a map of single pixels legible
GRADIENT, OCCLUSION = "gradient × input", "occlusion"


def saliency(basket: Basket, name: str, images: Tensor, says: Tensor, instead: Tensor) -> tuple[Tensor, str]:
    """(n, height, width), at most 1 by size, and how it was made: what each pixel adds to the lead of the class `says`
    (n,) over `instead` (n,), in the logits of one network. images: (n, channels, height, width) in [0, 1].

    gradient × input: each value times the slope of the lead by it, added up over colours (Shrikumar and others, 2016).
    occlusion: how much of the lead is lost where a patch is the image's mean colour (Zeiler and Fergus, 2014).
    """
    made = [_by_gradient(basket, name, *part) for part in _parts(images, says, instead)]
    if any(one is None for one in made):
        return _scaled(_by_occlusion(basket, name, images, says, instead)), OCCLUSION
    raw = torch.cat([one for one in made if one is not None])
    wide = torch.full((len(raw), 1, 1, 1), SMOOTH * min(images.shape[2:]), device=raw.device)
    return _scaled(blurred(raw[:, None], wide)[:, 0]), GRADIENT


def _parts(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    return list(zip(*(tensor.split(AT_ONCE) for tensor in tensors), strict=True))


def _lead(logits: Tensor, says: Tensor, instead: Tensor) -> Tensor:
    return logits.gather(1, torch.stack([says, instead], 1)) @ logits.new_tensor([1.0, -1.0])


def _by_gradient(basket: Basket, name: str, images: Tensor, says: Tensor, instead: Tensor) -> Tensor | None:
    """(n, height, width); None where the answer has no slope that torch can see."""
    pixels = images.clone().requires_grad_()
    try:
        with torch.enable_grad():
            lead = _lead(basket.judge(pixels, [name])[0], says, instead)
            slope = torch.autograd.grad(lead.sum(), pixels, allow_unused=True)[0] if lead.requires_grad else None
    except RuntimeError:  # a layer that torch cannot differentiate
        return None
    return (slope * images).sum(1).nan_to_num() if slope is not None and bool(slope.any()) else None


@torch.no_grad()
def _by_occlusion(basket: Basket, name: str, images: Tensor, says: Tensor, instead: Tensor) -> Tensor:
    """(n, height, width): a patch at a time, of all images at once."""
    mean = images.mean((2, 3), keepdim=True)
    whole = _lead(basket.judge(images, [name])[0], says, instead)
    lost = torch.zeros_like(images[:, 0])
    rows, columns = (torch.linspace(0, side, min(CELLS, side) + 1).int().tolist() for side in images.shape[2:])
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            patch = (..., slice(top, bottom), slice(left, right))
            covered = images.clone()
            covered[patch] = mean
            gone = whole - _lead(basket.judge(covered, [name])[0], says, instead)
            lost[patch] = gone[:, None, None]
    return lost.nan_to_num()


def _scaled(maps: Tensor) -> Tensor:
    """Each map by its own largest size; one that is nothing everywhere stays so."""
    return maps / maps.abs().amax((1, 2), keepdim=True).clamp_min(1e-30)
