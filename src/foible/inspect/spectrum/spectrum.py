"""Spectrum: how much can each layer of a network enlarge a small change, and how much does it (paper 3, Sec. 4.3)?

network → frame bounds of every layer → their product
images → a run of `foible distort`, made now or before → growth layer by layer, beside noise as long
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, padded
from foible.basket.matching import shape_of
from foible.data import Dataset, Photographs, open_data
from foible.errors import UserError
from foible.findings import Findings
from foible.inspect.spectrum.bounds import Bounds, Effort, network_bounds
from foible.inspect.spectrum.calls import trace
from foible.inspect.spectrum.growth import Growth, growths, layered, stages
from foible.inspect.spectrum.record import Spectrum, product_of, write
from foible.networks.load.specs import same_network
from foible.networks.preprocess import Preprocess
from foible.progress import progress
from foible.recipes.distort.recipe import distort
from foible.search.nearest import length
from foible.transfer.sources import from_findings

IMAGES = 64
ASKED: dict[str, Any] = {"target": "any", "lattice": False, "floats": True}  # how images are distorted for growth


@dataclass(frozen=True, eq=False)
class Distorted:
    """Images that a network gets right, and the nearest ones that it gets wrong: (n, channels, height, width) in
    [0, 1] each; places: (n,) in the data. tried: how many were distorted, the failures included. data, split: where
    they are from. how: what was asked for."""

    images: Tensor
    moved: Tensor
    places: Tensor
    tried: int
    data: str
    split: str
    how: str


def spectrum(
    networks: Basket | str | Path | Sequence[str],
    *,
    network: str | None = None,
    data: str | Dataset | Photographs | None = None,
    run: str | Path | Findings | None = None,
    out: str | Path | None = None,
    images: int = IMAGES,
    split: str = "test",
    effort: Effort | None = None,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
) -> Spectrum:
    """Frame bounds of every layer of one network and, with `data` or `run`, its growth along minimal distortions.

    networks: a `Basket`, a basket folder, or a list of `[NAME=]SPEC`. network: which one; may be left out where there
        is only one, or where `run` is of one.
    run: of `foible distort`; its distortions are taken, in floats as they were found, and nothing is distorted anew.
    images: how many images of `split`, among those that the network gets right, are distorted.
    out: a folder for spectrum.json, spectrum.parquet and the figure.
    """
    effort = effort or Effort()
    if images < 1:
        raise UserError(f"images is {images}: expected at least 1")
    if run is not None and data is not None:
        raise UserError("both data to distort and a run that has done so are given: give one of them")
    opened = None if data is None else open_data(data, split, whole=True, quiet=quiet)
    taken = None if run is None else run if isinstance(run, Findings) else Findings.open(run)
    if not isinstance(networks, Basket):
        classes, shape_known = _seen_by(opened, taken)
        networks = Basket.open(networks, device=device, classes=classes, shape=shape_known, trust=trust)
    name = chosen(networks, network if taken is None else network or distorted_for(taken))
    module = layered(networks, name)
    if opened is not None:
        taken = distort(
            networks.only([name]), opened, images=images, split=split, seed=effort.seed, quiet=quiet, **ASKED
        )
    found = None if taken is None else from_run(networks, name, taken)
    shape = input_shape(networks, name) if found is None else tuple(found.images.shape[1:])
    how = networks.hows[name]
    sample = torch.full((1, *shape), 0.5, device=networks.device) if found is None else found.images[:1]
    networks.only([name]).check(sample)  # what does not fit is said with the network's name
    traced = trace(module, how(padded(sample)))
    with progress(f"Spectrum of {name}", len(traced.calls), quiet=quiet) as bar:
        bounds = [*pixel_bounds(how, shape), *network_bounds(traced, effort, bar.advance)]
    chain = traced.broken is None
    gathered = stages(bounds, chain)
    grown: list[Growth] = []
    if found is not None:
        grown = growths(
            networks, name, found.images, found.moved, gathered, chain=chain, places=found.places, seed=effort.seed
        )
    record = Spectrum(
        name, shape, tuple(bounds), tuple(gathered), tuple(grown), chain, *product_of(bounds, traced.broken),
        settings=_settings(effort, found),
    )  # fmt: skip
    if out is not None:
        from foible.inspect.spectrum.figures import draw

        write(record, Path(out))
        draw(record, Path(out))
    return record


def _seen_by(
    data: Dataset | Photographs | None, findings: Findings | None
) -> tuple[tuple[str, ...] | None, tuple[int, int, int] | None]:
    """Classes and shape of the images that there are, for networks that are told neither."""
    if data is not None:
        return data.classes or None, shape_of(data)
    if findings is None or not len(findings):
        return None, None
    first = findings.head(1).images("origin")
    return findings.classes, (first[0].shape[0], first[0].shape[1], first[0].shape[2]) if first else None


def chosen(basket: Basket, network: str | None) -> str:
    """The network that is meant."""
    if network is None and len(basket) > 1:
        raise UserError(f"the basket has {len(basket)} networks: say which, --network {' | '.join(basket.names)}")
    name = network or basket.names[0]
    basket.peers(name)  # or an error that names it
    return name


def input_shape(basket: Basket, name: str) -> tuple[int, ...]:
    """What the network takes, as far as its files say."""
    how = basket.hows[name]
    if basket.shape:
        return basket.shape
    if how.size is None:
        raise UserError(f"the size of the images that {name!r} takes is not known: give --data, or size= in its spec")
    return (len(how.mean) or 3, *how.size)


def pixel_bounds(how: Preprocess, shape: Sequence[int]) -> list[Bounds]:
    """What the basket itself does to pixels in [0, 1] before the network: division by `std`."""
    if how.size is not None and tuple(shape[1:]) != how.size:
        return [Bounds("pixels", "Preprocess", "", -1, -1, False, note="images are resized on their way in")]
    if not how.std:
        return []
    copies = len(how.std) ** 0.5 if shape[0] == 1 and len(how.std) == 3 else 1.0  # grey images become three channels
    high = copies / min(how.std)
    return [Bounds("pixels", "Preprocess", "÷ std", -1, -1, False, copies / max(how.std), high, note="division by std")]


def distorted_for(findings: Findings) -> str | None:
    """The one network whose distortions these are; None where they are of several."""
    sources = {*findings.column("suspect")}
    return str(sources.pop()) if len(sources) == 1 else None


def from_run(basket: Basket, name: str, findings: Findings) -> Distorted:
    """The distortions for this network that a run of `foible distort` found: of each image that to the nearest label,
    where several were tried."""
    if name not in (known := {*findings.column("suspect")}):
        others = ", ".join(sorted(known))
        raise UserError(f"the run has no distortions for {name!r}; it has some for {others or 'nobody'}")
    mine = findings.filter(suspect=name)
    settings = findings.configs[mine[0]["config"]]
    part = from_findings(mine)[name][0]
    if not same_network(settings.get("networks", {}).get(name, ""), basket.fingerprints.get(name)):
        raise UserError(f"network {name!r} is not the one that the run distorted for: its weights or its code differ")
    assert part.found is not None
    assert part.places is not None
    found = part.found & (length(part.images - part.origins) > 0)
    if not bool(found.any()):
        raise UserError(f"no distortion of {len(found)} images changes what {name!r} says: nothing to measure")
    images, moved = (rows[found].to(basket.device) for rows in (part.origins, part.images))
    how = f"target {part.target}, method {part.method}, {part.norm}, within [0, 1]"
    return Distorted(images, moved, part.places[found], len(found), settings["data"], settings["split"], how)


def _settings(effort: Effort, found: Distorted | None) -> dict[str, Any]:
    said: dict[str, Any] = {
        **asdict(effort),
        "boundaries": "circular, on the smallest torus that encloses each zero-padded layer; real_* as it is",
        "data": None if found is None else found.data,
    }
    if found is not None:
        sizes = length(found.moved - found.images)
        said |= {
            "split": found.split, "images": len(found.images), "images tried": found.tried,
            "mean distortion, l2": float(sizes.mean()),
            "mean distortion, RMS over pixels": float(sizes.mean()) / found.images[0].numel() ** 0.5,
            "distortion": found.how,
            "noise": "Gaussian, as long as the distortion, not clipped",
        }  # fmt: skip
    return said
