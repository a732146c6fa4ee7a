"""Everyone's attacks under one judge: the same images, the same budget, one table.

    lines = under_one_judge({"closest": closest, "DeepFool": wrap(deepfool)}, basket, "mlp-30", images, labels)
    print(as_text(lines))

`local_optimality` is that of AttackBench (Cinà, Rony, Pintor, Demetrio, Demontis, Biggio, Ben Ayed, Roli: AttackBench:
Evaluating Gradient-based Attacks for Adversarial Examples, arXiv 2404.19460), with its notation there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.basket import Basket, Budget
from foible.errors import UserError
from foible.search.nearest import length, reached
from foible.search.nearest.wrap import Method

NORMS = ("l2", "rms", "linf")


@dataclass(frozen=True)
class Line:
    """What one attack came to on n images. Distances are over the found ones (NaN where nothing was), costs over all;
    shares are of 1."""

    name: str
    n: int
    success: float
    invalid: float
    mean: dict[str, float]  # by norm: l2, rms (l2 over the root of the pixels), linf
    median: dict[str, float]
    forwards: float
    backwards: float
    fools: dict[str, float]  # by peer: the share of the found ones that it gets wrong too
    optimality: float  # AttackBench's, among the attacks of this table; 1 is nearest everywhere
    distances: Tensor  # (n,) in the table's norm; infinity where nothing was found


def under_one_judge(
    attacks: Mapping[str, Method],
    basket: Basket,
    source: str,
    images: Tensor,
    labels: Tensor,
    targets: Tensor | None = None,
    *,
    norm: str = "l2",
    budget: Budget | None = None,
) -> list[Line]:
    """Run every method on `source` and judge what it gives with the whole basket, one `Line` each.

    images: (n, channels, height, width) in [0, 1]; labels (n,); targets (n,) to reach, or none to leave the label.
    norm: l2 or linf, for the local optimality; methods that minimise a norm must have been told so themselves.
    A result counts only if it is in the box and the source says so when asked again.
    """
    if not attacks:
        raise UserError("there is no attack to judge: give at least one, as in {'closest': closest}")
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected l2 or linf")
    peers = basket.peers(source)
    images, labels = images.to(basket.device), labels.to(basket.device)
    targets = None if targets is None else targets.to(basket.device)
    seen = {}
    for name, method in attacks.items():
        result = method(lambda x: basket.judge(x, [source])[0], images, labels, targets=targets, budget=budget)
        with torch.no_grad():
            logits = basket.judge(result.images, [source, *peers])
        inside = ((result.images >= 0) & (result.images <= 1)).flatten(1).all(1)
        found = inside & reached(logits[0], labels, targets)
        changed = result.images - images
        sizes = {"l2": length(changed), "linf": length(changed, "linf")}
        sizes["rms"] = sizes["l2"] / math.sqrt(images[0].numel())
        seen[name] = (result, found, sizes, logits[1:].argmax(2) != labels)
    distances = {name: sizes[norm].masked_fill(~found, torch.inf) for name, (_, found, sizes, _) in seen.items()}
    optimality = local_optimality(distances)
    return [
        Line(
            name=name,
            n=len(images),
            success=_mean(found),
            invalid=_mean(result.invalid & ~found),
            mean={kind: _mean(sizes[kind][found]) for kind in NORMS},
            median={kind: _median(sizes[kind][found]) for kind in NORMS},
            forwards=_mean(result.forwards),
            backwards=_mean(result.backwards),
            fools={peer: _mean(wrong[k][found]) for k, peer in enumerate(peers)},
            optimality=optimality[name],
            distances=distances[name].cpu(),
        )
        for name, (result, found, sizes, wrong) in seen.items()
    ]


def local_optimality(distances: Mapping[str, Tensor]) -> dict[str, float]:
    """AttackBench's local optimality ξ of every attack, from the distances (n,) it needed for the same n images.

    A distance is infinity where nothing was found and 0 where the image was wrong to begin with. ρ(ε) is the share of
    images for which more than ε is needed; ρ* that of the best of all attacks, image by image; ε₀ where ρ* becomes 0:

        ξ = 1 − ∫ (ρ − ρ*) dε / ∫ (ρ(0) − ρ*) dε,   over 0 ≤ ε ≤ ε₀

    1 means as near as the best everywhere, 0 as bad as an attack that finds nothing. These are step functions, whose
    integral is the mean of min(distance, ε₀). Images that no attack solved leave ε₀ at the largest distance of the
    others. NaN where nothing tells attacks apart: no image solved at all, or all solved at distance 0.
    """
    rows = {name: values.double().cpu() for name, values in distances.items()}
    best = torch.stack(list(rows.values())).amin(0)
    solved = best[best.isfinite()]
    if not len(solved) or not float(solved.max()):
        return dict.fromkeys(rows, float("nan"))
    end = float(solved.max())
    least = _mean(best.clamp(max=end))
    most = end * _mean(best > 0)
    if most <= least:  # every distance is the same one
        return {name: 1.0 if torch.equal(values, best) else 0.0 for name, values in rows.items()}
    return {name: 1 - (_mean(values.clamp(max=end)) - least) / (most - least) for name, values in rows.items()}


def as_text(lines: list[Line]) -> str:
    """The table in Markdown, the most nearly optimal first. Distances are mean / median, in units of the pixels' range;
    costs are per image."""
    peers = list(lines[0].fools) if lines else []
    heads = ["attack", "found", *(f"{kind}" for kind in NORMS), "forwards", "backwards", "optimality"]
    heads += [f"fools {peer}" for peer in peers]
    rows = [heads, ["---"] + ["---:"] * (len(heads) - 1)]
    for line in sorted(lines, key=lambda line: -line.optimality if line.optimality == line.optimality else torch.inf):
        rows.append(
            [line.name, f"{100 * line.success:.1f} %"]
            + [f"{line.mean[kind]:.4f} / {line.median[kind]:.4f}" for kind in NORMS]
            + [f"{line.forwards:.0f}", f"{line.backwards:.0f}", f"{line.optimality:.4f}"]
            + [f"{100 * line.fools[peer]:.1f} %" for peer in peers]
        )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _mean(values: Tensor) -> float:
    return float(values.double().mean())


def _median(values: Tensor) -> float:
    return float(values.double().quantile(0.5)) if len(values) else float("nan")
