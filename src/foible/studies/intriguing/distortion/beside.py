"""What stands beside `closest`: the paper's L-BFGS on the same images, exact answers where a network is linear, and
distances that survive 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.data.stream import Threads, in_order
from foible.images import settle
from foible.processes import cores, one_thread
from foible.search.nearest import Nearest, join
from foible.search.nearest.exact import exact
from foible.search.nearest.lattice import on_lattice
from foible.studies.common import Row, mean_row, share_row
from foible.studies.intriguing.distortion.targets import TARGETS, Asked, Distorted, every_target
from foible.transfer import rms


def methods_rows(
    found: Mapping[str, Distorted], basket: Basket, asked: Asked, count: int, out: Path, quiet: bool
) -> list[Row]:
    """`closest` and `lbfgs` on the first `count` images, at every target; then what each spends."""
    table, rows, spent = f"Two methods on the same {count} images (RMS)", [], []
    for name, all_of_it in found.items():
        theirs = every_target(basket, name, asked.head(count), out, method="lbfgs", quiet=quiet)
        for target in TARGETS:
            ours = all_of_it.taken(target)[2][:count]
            both = ours.isfinite() & theirs.taken(target)[2].isfinite()
            for method, sizes in (("closest", ours), ("lbfgs", theirs.taken(target)[2])):
                rows.append(mean_row(table, f"{name}: {target} target, {method}", None, sizes[both].tolist(), least=0))
        for method, cost in (("closest", all_of_it.gradients), ("lbfgs", theirs.gradients)):
            spent.append(Row("Gradients an image and target", f"{name}: {method}", None, cost))
    return rows + spent


def linear_layer(basket: Basket, name: str) -> tuple[Tensor, Tensor] | None:
    """Weights (classes, pixels) and bias of a network that is one linear layer on pixels as they are, else None."""
    network = basket.network(name)
    how = basket.preprocess[name]
    if not isinstance(network, nn.Module) or how.mean or basket.lists[name] != basket.classes:
        return None
    layers = [layer for layer in network.modules() if not list(layer.children())]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    if len(linear) != 1 or not all(isinstance(layer, nn.Linear | nn.Flatten | nn.Identity) for layer in layers):
        return None
    weight, bias = linear[0].weight.detach(), linear[0].bias
    return weight, (torch.zeros(len(weight), device=weight.device) if bias is None else bias.detach())


def exact_rows(found: Mapping[str, Distorted], basket: Basket, papers: Mapping[str, float]) -> list[Row]:
    """For the linear networks: the exact average at every target, and by how much `closest` exceeds it."""
    table, rows = "Exact answers, linear networks (RMS)", []
    for name, one in found.items():
        layer = linear_layer(basket, name)
        if layer is None:
            continue
        n, k = one.sizes.shape
        origins = one.asked.origins.repeat_interleave(k, 0)
        sizes = _exact_sizes(layer, origins, one.asked.targets.flatten()).view(n, k)
        worst = sizes.masked_fill(sizes.isinf(), -1).amax(1)
        drawn = sizes.gather(1, one.asked.drawn[:, None])[:, 0]
        for target, these in zip(TARGETS, (sizes.amin(1), drawn, worst), strict=True):
            values = these[these.isfinite() & (these >= 0)].tolist()
            rows.append(mean_row(table, f"{name}: {target} target", papers.get(name), values, least=0))
        both = sizes.isfinite() & one.sizes.isfinite() & (sizes > 0)
        ratio = (one.sizes[both] / sizes[both]).tolist()
        rows.append(mean_row(table, f"{name}: closest / exact, mean over images and targets", None, ratio))
    return rows


def _exact_sizes(layer: tuple[Tensor, Tensor], origins: Tensor, targets: Tensor) -> Tensor:
    """(rows,): the exact RMS of each, infinite where the box holds no such image."""
    weight, bias = (part.cpu() for part in layer)
    parts = torch.arange(len(targets)).split(900)
    answer = _shared_out(lambda rows: exact(weight, bias, origins[rows], targets[rows]), parts, "cpu")
    return rms(answer.images - origins).masked_fill(~answer.found, torch.inf)


def lattice_rows(found: Mapping[str, Distorted], basket: Basket) -> list[Row]:
    """Best target: the distance before rounding, how many survive plain rounding, and the least on the lattice."""
    table, rows = "Best target on the 8-bit lattice", []
    for name, one in found.items():
        images, hit, sizes = one.taken("best")
        origins, labels = one.asked.origins, one.asked.labels
        said = basket.predict(settle(images), [name])[0].argmax(1)
        answer = _on_lattice(basket, name, images, hit, origins, labels)
        kept, all_ = answer.found & hit, int(hit.sum())
        survive = int((said != labels)[hit].sum())
        rows += [
            mean_row(table, f"{name}: RMS of `closest`, any pixel value", None, sizes[hit].tolist(), least=0),
            mean_row(table, f"{name}: RMS on the lattice", None, rms(answer.images - origins)[kept].tolist(), least=0),
            share_row(table, f"{name}: still errs after plain rounding, %", None, survive, all_),
            share_row(table, f"{name}: errs on the lattice, %", None, int(kept.sum()), all_),
        ]
    return rows


def _on_lattice(basket: Basket, name: str, images: Tensor, hit: Tensor, origins: Tensor, labels: Tensor) -> Nearest:
    device = basket.device

    def work(rows: Tensor) -> Nearest:
        zero = torch.zeros(len(rows), dtype=torch.int64, device=device)
        before = Nearest(images[rows].to(device), hit[rows].to(device), zero.bool(), zero, zero.clone())
        settled = on_lattice(
            lambda shown: basket.judge(shown, [name])[0], origins[rows].to(device), before, labels[rows].to(device)
        )
        return Nearest(*(part.cpu() for part in vars(settled).values()))

    return _shared_out(work, torch.arange(len(labels)).split(250), device.type)


def _shared_out(work: Callable[[Tensor], Nearest], parts: Sequence[Tensor], device: str) -> Nearest:
    """What `work` makes of each part, together. On a CPU every core takes whole parts, with one torch thread each."""
    if device != "cpu":
        return join([work(part) for part in parts])

    def alone(part: Tensor) -> Nearest:
        torch.set_num_threads(1)  # of this thread
        return work(part)

    count = min(cores(), len(parts))
    with one_thread():
        return join(list(in_order(alone, parts, Threads(count, "foible-distort"), count + 1)))
