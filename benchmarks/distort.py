"""Minimal distortions against the exact answer, scipy, Foolbox and adv-lib; what they cost; and how long on a GPU.

    python -m benchmarks.distort --json FILE [--basket FOLDER] [--images 64] [--only linear,sigmoid,cost,gpu,cifar]

The same images and networks for everybody: MNIST test images that every network gets right. "Best target" is the
nearest of all other labels (toolkits run untargeted), "fixed target" is (label + 1) mod 10. RMS is ‖r‖₂ over the root
of the pixels, times 1000. Every peer keeps its smallest successful query; all are judged again here. `gpu` and `cifar`
need CUDA; the default leaves them out where there is none.
"""

from __future__ import annotations

import copy
import math
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.common import Row, arguments, report
from benchmarks.distort_gpu import cifar, mnist_on_gpu, resnet50
from benchmarks.distort_peers import best_of, scipy_lbfgs
from benchmarks.distort_toolkits import adv_lib_methods, foolbox_methods, nearest_of
from benchmarks.hunt import data_spec
from foible.basket import Basket
from foible.data import Dataset, load
from foible.images import to_floats
from foible.processes import one_thread
from foible.search.nearest import Model, Nearest, length
from foible.search.nearest.closest import closest
from foible.search.nearest.exact import exact
from foible.search.nearest.lbfgs import lbfgs
from foible.search.nearest.one_judge import Line, as_text, under_one_judge
from foible.search.nearest.wrap import Method

MOST_LINEAR, MOST_LBFGS, MOST_GRADIENTS = 1.002, 1.015, 150


def next_label(labels: Tensor, classes: int = 10) -> Tensor:
    return (labels + 1) % classes


def networks_of(basket: Basket, linear: bool) -> list[str]:
    """The linear networks of a basket, or all others."""

    def is_linear(name: str) -> bool:
        layers = [m for m in basket.network(name).modules() if not list(m.children())]  # type: ignore[union-attr]
        return all(isinstance(layer, nn.Linear | nn.Flatten) for layer in layers)

    return [name for name in basket.names if is_linear(name) == linear]


def some_images(basket: Basket, data: Dataset, count: int) -> tuple[Tensor, Tensor]:
    """The first images that every network gets right: floats (n, ...) and labels (n,)."""
    right = (basket.predict(data.images).argmax(2) == data.labels).all(0).nonzero()[:count, 0]
    return to_floats(data.images[right]), data.labels[right]


def model_of(basket: Basket, name: str) -> Model:
    return lambda images: basket.judge(images, [name])[0]


def plain(basket: Basket, name: str) -> Model:
    """The network alone in float64, for scipy: no padding and no checks to pay for."""
    network: Model = copy.deepcopy(basket.network(name)).double()  # type: ignore[union-attr]
    how = basket.preprocess[name]
    return lambda images: network(how(images))


def scaled(result: Nearest, images: Tensor) -> Tensor:
    """RMS × 1000, (n,)."""
    return 1000 * length(result.images - images.to(result.images.dtype)) / math.sqrt(images[0].numel())


def linear_rows(basket: Basket, images: Tensor, labels: Tensor) -> list[Row]:
    """closest against the exact optimum, best and fixed target; lbfgs against scipy's, fixed target: one image at a
    time is slow."""
    rows = []
    for name in networks_of(basket, linear=True):
        model, fixed = model_of(basket, name), next_label(labels)
        truth, found = exact_method(model, images), {}
        for kind, targets in (("fixed target", fixed), ("best target", None)):
            every = best_of if targets is None else as_it_is
            best = scaled(every(truth)(model, images, labels, targets=targets), images)
            for method, method_name in ((closest, "closest"), (lbfgs, "lbfgs")):
                result = every(method)(model, images, labels, targets=targets)
                ours = found[kind, method_name] = scaled(result, images).masked_fill(~result.found, torch.inf)
                each = float((ours / best).mean())
                if method is closest:
                    rows.append(Row(f"{name}, {kind}: closest", float(ours.mean()), float(best.mean()),
                                    "the exact optimum", each, MOST_LINEAR, "RMS×10³", at_most=True))  # fmt: skip
                else:
                    print(f"{name}, {kind}: lbfgs / exact {each:.4f}")
        ours = found["fixed target", "lbfgs"]
        theirs = scaled(scipy_lbfgs(plain(basket, name))(model, images, labels, targets=fixed), images)
        rows.append(Row(f"{name}, fixed target: lbfgs", float(ours.mean()), float(theirs.mean()),
                        "scipy's L-BFGS-B, bisection", float((ours / theirs).mean()), MOST_LBFGS, "RMS×10³",
                        at_most=True))  # fmt: skip
        spread(basket, name, images, labels)
    return rows


def as_it_is(method: Method) -> Method:
    return method


def exact_method(model: Model, images: Tensor) -> Method:
    """The exact solver as a method, from what the model says of no pixel and of each alone."""
    with torch.no_grad():
        bias = model(images.new_zeros(1, *images.shape[1:]))[0]
        weight = (model(torch.eye(images[0].numel()).view(-1, *images.shape[1:])) - bias).T

    def method(_: Model, images: Tensor, __: Tensor, *, targets: Tensor | None = None, **___: Any) -> Nearest:
        assert targets is not None
        return exact(weight, bias, images, targets)

    return cast(Method, method)


def spread(basket: Basket, name: str, images: Tensor, labels: Tensor) -> None:
    """Print the best, a random (the mean of all) and the worst target: which one the paper's averages mean is open."""
    n, classes = len(images), len(basket.classes)
    others = torch.arange(classes).expand(n, -1)
    targets = others[others != labels[:, None]]
    many = images.repeat_interleave(classes - 1, 0)
    result = closest(model_of(basket, name), many, labels.repeat_interleave(classes - 1), targets=targets)
    size = (scaled(result, many) / 1000).view(n, -1)
    best, worst = float(size.amin(1).mean()), float(size.amax(1).mean())
    print(f"{name}: RMS to the best target {best:.4f}, a random one {float(size.mean()):.4f}, the worst {worst:.4f}")


def sigmoid_rows(basket: Basket, images: Tensor, labels: Tensor, pool: Tensor, only: set[str]) -> list[Row]:
    """closest against every peer, best and fixed target. only: parts of peers' names, none for all."""
    rows = []

    def wanted(peer: str) -> bool:
        return not only or any(part in peer for part in only)

    for name in networks_of(basket, linear=False):
        with torch.no_grad():
            starts = nearest_of(pool, model_of(basket, name)(pool).argmax(1))
        for kind, targets in (("best target", None), ("fixed target", next_label(labels))):
            every = best_of if targets is None else as_it_is
            peers = {"scipy L-BFGS-B, bisection": every(scipy_lbfgs(plain(basket, name)))} | adv_lib_methods()
            peers = {peer: method for peer, method in peers.items() if wanted(peer)}
            peers |= foolbox_methods(starts, targets is not None, wanted)
            methods = {"closest": every(closest), "lbfgs": every(lbfgs)} | peers
            if targets is None:
                methods["closest, untargeted"] = closest
            lines = under_one_judge(methods, basket, name, images, labels, targets)
            print(f"\n{name}, {kind}, {len(images)} images\n{as_text(lines)}", flush=True)
            rows += beside(f"{name}, {kind}", lines, set(peers))
        spread(basket, name, images, labels)
    return rows


def beside(what: str, lines: list[Line], peers: set[str]) -> list[Row]:
    """closest's mean RMS beside each peer's, over the images that the peer managed."""
    ours = next(line for line in lines if line.name == "closest")
    rows = [Row(f"{what}: success of closest", ours.success, 1, "all", ours.success, 1)]
    scale = 1000 * ours.mean["rms"] / ours.mean["l2"]
    for line in lines:
        both = line.distances.isfinite() & ours.distances.isfinite()
        if line.name in peers and bool(both.any()):
            a, b = (scale * float(one.distances[both].mean()) for one in (ours, line))
            peer = line.name if line.success == 1 else f"{line.name} (found {100 * line.success:.0f} %)"
            rows.append(Row(f"{what}: RMS", a, b, peer, a / b, 1, "×10³", at_most=True))
    others = [line for line in lines if line.name in peers]
    if others:
        best = max(others, key=lambda line: line.optimality)
        rows.append(Row(f"{what}: local optimality", ours.optimality, best.optimality, best.name,
                        ours.optimality / best.optimality, 0.99))  # fmt: skip
    return rows


def cost_rows(basket: Basket, images: Tensor, labels: Tensor, few: int) -> list[Row]:
    """Gradients per image and target, and images per CPU second against scipy on the first `few`; one thread."""
    rows = []
    for name in networks_of(basket, linear=False):
        model, targets = model_of(basket, name), next_label(labels)
        started = time.process_time()
        quick = scipy_lbfgs(plain(basket, name), rounds=8)  # as near within 0.1 %, for a fifth less
        theirs = quick(model, images[:few], labels[:few], targets=targets[:few])
        slow = few / (time.process_time() - started)
        print(f"{name}: scipy took {float(theirs.backwards.double().mean()):.0f} gradients an image")
        for method, method_name, least in ((closest, "closest", 10), (lbfgs, "lbfgs", 4)):
            method(model, images[:16], labels[:16], targets=targets[:16])  # the first call pays for more
            started = time.process_time()
            result = method(model, images, labels, targets=targets)
            fast = len(images) / (time.process_time() - started)
            most, mean = int(result.backwards.max()), float(result.backwards.double().mean())
            print(f"{name}: {method_name} took {mean:.0f} gradients an image and target, at most {most}")
            rows.append(Row(f"{name}: {method_name}, batch {len(images)}", fast, slow, "scipy's L-BFGS-B, bisection",
                            fast / slow, least, "images/CPU s"))  # fmt: skip
            if method is closest:
                rows.append(Row(f"{name}: gradients per image and target, at most", most, MOST_GRADIENTS, "the bar",
                                most / MOST_GRADIENTS, 1, at_most=True))  # fmt: skip
    return rows


def papers_basket(folder: Path) -> Basket:
    from foible.studies.intriguing.networks.baskets import paper_networks

    return paper_networks(data_spec(), folder, scale="paper", seed=0, device="auto", quiet=False)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--basket", type=Path, help="the paper's networks, trained already")
    parser.add_argument("--resnet", type=Path, help="a basket with a ResNet-20 for CIFAR-10, trained already")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1000, help="images of the cost rows")
    parser.add_argument("--scipy-images", type=int, default=32, help="images that scipy is timed on")
    parser.add_argument("--peers", default="", help="only peers whose names have one of these parts")
    parser.add_argument("--only", default="linear,sigmoid,cost" + ",gpu,cifar" * torch.cuda.is_available())
    options = parser.parse_args()
    wanted, rows = set(options.only.split(",")), []
    with tempfile.TemporaryDirectory() as scratch:
        if wanted & {"linear", "sigmoid", "cost", "gpu"}:
            basket = Basket.open(options.basket) if options.basket else papers_basket(Path(scratch) / "networks")
            data = load(data_spec(), split="test", quiet=True)
        with one_thread():
            if "linear" in wanted:
                rows += linear_rows(basket, *some_images(basket, data, options.images))
            if "sigmoid" in wanted:
                peers = set(filter(None, options.peers.split(",")))
                pool = to_floats(data.images[-2000:])
                rows += sigmoid_rows(basket, *some_images(basket, data, options.images), pool, peers)
            if "cost" in wanted:
                rows += cost_rows(basket, *some_images(basket, data, options.batch), options.scipy_images)
        if "gpu" in wanted:
            rows += mnist_on_gpu(basket, data) + resnet50()
        if "cifar" in wanted:
            rows += cifar(options.resnet, Path(scratch))
    report(rows, options.json)


if __name__ == "__main__":
    main()
