"""The exact minimal distortion of a linear softmax: a convex quadratic programme. The known answer for the others."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.search.nearest import Nearest
from foible.search.nearest.projection import project


def exact(
    weight: Tensor,
    bias: Tensor,
    images: Tensor,
    targets: Tensor,
    *,
    low: float = 0.0,
    high: float = 1.0,
    overshoot: float = 0.0,
) -> Nearest:
    """The nearest images (n, *shape), in float64, to which logits = weight @ pixels + bias give the target's logit at
    least `overshoot` more than every other.

    weight: (classes, pixels). At `overshoot` 0 the target ties with its nearest rival: a lower bound of what any method
    can find, which need not be classified as wanted itself; `found` says whether such a point exists in the box.
    """
    weight, bias = weight.double(), bias.double()
    x = images.double().flatten(1)
    classes = len(weight)
    others = torch.arange(classes, device=x.device).expand(len(x), -1)
    others = others[others != targets[:, None]].view(len(x), classes - 1)
    normals = weight[targets][:, None, :] - weight[others]
    offsets = overshoot - (bias[targets][:, None] - bias[others])
    z, _ = project(x, normals, offsets, low, high, steps=200)
    short = (offsets - torch.einsum("nmd,nd->nm", normals, z)).amax(1)
    none = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    found = short <= 1e-9 * normals.norm(dim=2).amax(1)
    return Nearest(z.view(images.shape), found, ~z.isfinite().all(1), none, none.clone())
