"""Does a network hide its gradient? Looked at before a run, on a few images and with a handful of passes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.hooks import watching
from foible.networks.load.onnx import Graph
from foible.networks.load.opened import first_line
from foible.recipes.distort.masking import ASKINGS, FLAT, NONE, SATURATED, SHATTERED, STOCHASTIC, Masking
from foible.recipes.distort.softmax import ends_in_softmax, without_softmax
from foible.search.nearest import Model

NOISE = 1e-4  # of the largest logit, or of 1: what a device may differ by from itself
SLIGHT = 1e-3  # a slope that could take away no more than this share of the margin, in the whole box, is lost
SOME = 0.1  # share of the images from which on a lost slope is told
STEPS = (0.03, 0.1, 0.3)  # of the way to where the slope says that the answer changes
FAR_OFF = 4.0  # times as much, or as little, as the slope says

Call = tuple[str, nn.Module, Tensor, Tensor]  # a layer by name, what it took and what it gave
Slopes = tuple[Tensor, Tensor]  # of n images, by how much the answer leads (n,), and the slope of that (n, d)


def look(basket: Basket, source: str, images: Tensor) -> list[Masking]:
    """How a network hides its gradient at images (n, channels, height, width) in [0, 1]; nothing where it does not."""

    def ask(pixels: Tensor) -> Tensor:
        return basket.judge(pixels, [source])[0]

    model: Model = ask
    name, network = f"network {source!r}", basket.network(source)
    found = _changing(model, images, name)
    if isinstance(network, Graph):
        return [*found, Masking(NONE, f"{name} is an ONNX graph")]
    try:
        slopes = _slopes(model, images)
        if slopes is None:
            where = _where_it_ends(_calls(basket, source, images), network)
            return [*found, Masking(NONE, f"{name} cannot be differentiated: {where}")]
        lost, off = _lost(slopes), _off(model, images, slopes)
        if (lost > SOME or off) and ends_in_softmax(basket, source, images):
            found.append(Masking(SATURATED, f"{name} answers with a softmax", {"share of slopes lost": lost}))
            model = without_softmax(basket, source)
            slopes = _slopes(model, images) or slopes
            lost, off = _lost(slopes), _off(model, images, slopes)
        if not bool(slopes[1].any()):
            where = _where_it_vanishes(_calls(basket, source, images))
            return [*found, Masking(NONE, f"{name} has no slope on any of {len(images)} images: {where}")]
    except RuntimeError as error:
        return [*found, Masking(NONE, f"{name} cannot be differentiated by torch ({first_line(error)})")]
    if lost > SOME:
        found.append(Masking(FLAT, f"{name} has almost no slope on some images", {"share of slopes lost": lost}))
    elif off and not any(one.kind == STOCHASTIC for one in found):  # noise has its own word
        found.append(Masking(SHATTERED, f"{name} changes by another amount than its slope says, times", off))
    return found


@torch.no_grad()
def _changing(model: Model, images: Tensor, name: str) -> list[Masking]:
    """The same images, asked again: in batches of the same size and order."""
    first, second = model(images), model(images)
    apart = (first - second).abs().nan_to_num(nan=0.0).amax(1)
    if not bool((apart > NOISE * first.abs().amax(1).clamp_min(1)).any()):
        return []
    asked = torch.stack([first, second, *(model(images) for _ in range(ASKINGS - 2))])
    chances, said = asked.double().softmax(2), asked.argmax(2)
    figures = {
        "largest change of a probability": float((chances - chances[0]).abs().max()),
        f"images with different answers in {ASKINGS} askings, share": float((said != said[0]).any(0).double().mean()),
    }
    return [Masking(STOCHASTIC, f"{name} answers the same image differently each time", figures)]


def _slopes(model: Model, images: Tensor) -> Slopes | None:
    """None where the answers do not depend on the images as far as torch can see."""
    with torch.enable_grad():
        pixels = images.clone().requires_grad_()
        logits = model(pixels)
        if not logits.requires_grad:
            return None
        lead = _lead(logits, logits.detach())
        [slope] = torch.autograd.grad(lead.sum(), pixels, allow_unused=True)
    return lead.detach(), (torch.zeros_like(images) if slope is None else slope).flatten(1).nan_to_num()


def _lead(logits: Tensor, first: Tensor) -> Tensor:
    """(n,): by how much the largest of the logits `first` leads the second, in `logits`."""
    top = logits.gather(1, first.topk(2, 1).indices)
    return top[:, 0] - top[:, 1]


def _lost(slopes: Slopes) -> float:
    """The share of images whose slope says that nothing in the box would change the answer, by far."""
    lead, slope = slopes
    return float((slope.abs().sum(1) <= SLIGHT * lead).double().mean())


@torch.no_grad()
def _off(model: Model, images: Tensor, slopes: Slopes) -> dict[str, float]:
    """Steps down the slope: what comes of them, over what the slope says (the median). Nothing, unless that is far from
    1 at every step for most of the images."""
    lead, slope = slopes
    first, steep = model(images), slope.norm(dim=1).clamp_min(1e-30)
    loud, known, off = first.abs().amax(1).clamp_min(1), torch.zeros_like(lead), torch.zeros_like(lead)
    figures: dict[str, float] = {}
    for share in STEPS:
        way = (-share * (lead / steep.square())[:, None] * slope).view_as(images)
        moved = (images + way).clamp(0, 1)
        promised = -(slope * (moved - images).flatten(1)).sum(1)
        kept = lead - _lead(model(moved), first)
        fair = promised > NOISE * loud
        ratio = torch.where(fair, kept / promised, 1.0).nan_to_num(nan=torch.inf)
        known += fair
        off += fair & ((ratio > FAR_OFF) | (ratio < 1 / FAR_OFF))
        if bool(fair.any()):
            figures[f"at {share:g} of the way"] = float(ratio[fair].median())
    wrong = (known > 0) & (off == known)
    return figures if 2 * int(wrong.sum()) > len(images) else {}


def _calls(basket: Basket, source: str, images: Tensor) -> tuple[list[Call], Tensor]:
    """The calls of a network's layers in the order in which they end, and the answers (n, classes)."""
    network, calls = basket.network(source), list[Call]()

    def note(name: str, module: nn.Module, given: Any, made: Any) -> None:
        if isinstance(given, Tensor) and isinstance(made, Tensor):
            calls.append((name, module, given, made))

    layers = dict(network.named_modules()) if isinstance(network, nn.Module) else {}
    with torch.enable_grad(), watching(layers, note):
        return calls, basket.judge(images.clone().requires_grad_(), [source])[0]


def _where_it_ends(seen: tuple[list[Call], Tensor], network: Any) -> str:
    """The first layer (the innermost) whose input has a gradient and whose output has none."""
    for name, module, given, made in seen[0]:
        if given.requires_grad and not made.requires_grad:
            return _called(name, module)
    what = type(network).__name__ if isinstance(network, nn.Module) else getattr(network, "__name__", "it")
    return f"the function {what} gives back no gradient"


def _where_it_vanishes(seen: tuple[list[Call], Tensor]) -> str:
    """The innermost layer that passes on nothing of the gradient it is given."""
    calls, logits = seen
    lead = _lead(logits, logits.detach()).sum()
    for name, module, given, made in calls:
        if not (given.requires_grad and made.requires_grad):
            continue
        slopes = torch.autograd.grad(lead, [given, made], retain_graph=True, allow_unused=True)
        into, out = (slope is not None and bool((slope != 0).any()) for slope in slopes)
        if out and not into:
            return _called(name, module)
    return "its answer does not change with the pixels"


def _called(name: str, module: nn.Module) -> str:
    what = f"the layer {name!r}" if name else "its own forward"
    return f"{what} ({type(module).__name__}) passes no gradient on"
