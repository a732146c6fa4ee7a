"""Fig. 5's number at full size: the mean minimal distortion of photographs for a network that the user has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foible.basket import Basket
from foible.data import open_data
from foible.studies.intriguing.distortion.figures import Shown
from foible.studies.intriguing.distortion.paper import FIG5_IMAGES
from foible.studies.intriguing.distortion.targets import distorted
from foible.transfer import from_findings, rms


@dataclass(frozen=True, eq=False)
class Photographs:
    """sizes: RMS of each that was found, of `tried` images that the network gets right."""

    network: str
    sizes: list[float]
    tried: int
    shown: Shown


def distort_photographs(
    network: str, data: str, out: Path, *, seed: int, device: str, quiet: bool, count: int = FIG5_IMAGES
) -> Photographs:
    """`count` photographs that the network gets right, each until its label is lost. `data` is read as a test split
    where it has one."""
    classes = open_data(data, "test", quiet=quiet).classes
    basket = Basket.open([network], device=device, classes=classes)
    name = basket.names[0]
    run = distorted(basket, name, data, out, target="any", images=count, floats=True, seed=seed, quiet=quiet)
    (one,) = from_findings(run)[name]
    sizes = rms(one.images - one.origins)[one.found]
    shown = Shown(f"{name}, mean RMS {float(sizes.mean()):.4f}", one.images[one.found], one.origins[one.found])
    return Photographs(name, sizes.tolist(), len(one.images), shown)
