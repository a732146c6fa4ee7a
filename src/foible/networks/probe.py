"""A probe: a small classifier on the frozen features of another network, its backbone (Alain and Bengio 2016).

`probe:BACKBONE` is linear, `probe:BACKBONE,hidden=128` has one hidden layer. Features are the input of the backbone's
last layer with weights; where no layer can be seen (ONNX, TorchScript, a plain function) or with `,features=logits`
they are its answers. On disk a probe is its head alone: the backbone is opened again and checked by its fingerprint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from foible import specs
from foible.errors import UserError
from foible.networks.features import Backbone
from foible.networks.heads import Head
from foible.permission import NOTHING, Permission
from foible.records import SHAPE, TEXT, check, is_plain, whole
from foible.text import did_you_mean

if TYPE_CHECKING:
    from foible.networks.files import Entry

PREFIX = "probe:"
OPTIONS = ("hidden", "features")
MOST_UNITS = 100_000
MOST_FEATURES = 2**24
SOURCE = {
    "spec": TEXT, "sha256": TEXT, "layer": (None, TEXT), "features": whole(1, MOST_FEATURES), "shape": (None, SHAPE),
}  # a backbone as JSON  # fmt: skip


@dataclass(frozen=True)
class ProbeSpec:
    """`probe:BACKBONE[,hidden=N][,features=logits]`, taken apart."""

    backbone: str
    hidden: int = 0
    logits: bool = False

    @property
    def tail(self) -> str:
        return (f",hidden={self.hidden}" if self.hidden else "") + (",features=logits" if self.logits else "")


def is_probe(spec: str) -> bool:
    return spec.startswith(PREFIX)


def parse(text: str) -> ProbeSpec:
    """Options stand last, because a backbone's own spec may hold commas and equals signs."""
    rest, said = text.removeprefix(PREFIX), dict[str, str]()
    while (found := re.fullmatch(r"(.*),([a-z]+)=([^,=&/]*)", rest)) and found[2] in OPTIONS:
        if found[2] in said:
            raise UserError(f"{text!r} says {found[2]} twice")
        rest, said[found[2]] = found[1], found[3]
    if found and "?" not in rest and (hint := did_you_mean(found[2], OPTIONS)):
        raise UserError(f"{text!r} has no option {found[2]!r}{hint}")
    hidden, features = said.get("hidden", "0"), said.get("features", "layer")
    if "hidden" in said and not (re.fullmatch(r"[1-9][0-9]{0,5}", hidden) and int(hidden) <= MOST_UNITS):
        raise UserError(f"hidden={hidden} in {text!r}: expected a number of units, 1 to {MOST_UNITS}")
    if features not in ("layer", "logits"):
        raise UserError(f"features={features} in {text!r}: expected layer (the default) or logits")
    if not rest:
        raise UserError(f"{text!r} names no backbone: write {PREFIX}SPEC with a network that foible can open")
    return ProbeSpec(rest, int(hidden), features == "logits")


@dataclass(frozen=True)
class ProbeSource:
    """Where a probe's backbone is, as its basket records it.

    spec: opens it from anywhere. sha256: of its weights. layer: the one whose input is the features, by its dotted
    name; None takes the answers. features: how many. shape: of the images that it was opened for.
    """

    spec: str
    sha256: str
    layer: str | None
    features: int
    shape: tuple[int, int, int] | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"shape": self.shape and list(self.shape)}

    @staticmethod
    def from_json(record: Any, where: str) -> ProbeSource:
        check(record, SOURCE, f"{where}: backbone", "train the probe again")
        if set(record) != set(SOURCE):
            raise UserError(f"{where}: backbone has {', '.join(record)}, expected {', '.join(SOURCE)}")
        shape = record["shape"]
        return ProbeSource(**record | {"shape": None if shape is None else (shape[0], shape[1], shape[2])})


class Probe(nn.Module):
    """Backbone and head, from preprocessed images to logits."""

    def __init__(self, backbone: Backbone, head: Head, source: ProbeSource) -> None:
        super().__init__()
        self.backbone, self.head, self.source = backbone, head, source

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the head's weights and of the backbone's, which was checked when it was opened."""
        from foible.networks.load.specs import fingerprint

        return hashlib.sha256(f"{fingerprint(self.head)} {self.source.sha256}".encode()).hexdigest()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(images))
        return logits


def own_module(module: nn.Module) -> nn.Module:
    """What of a network is its own and belongs into its file: of a probe the head, of others all."""
    return module.head if isinstance(module, Probe) else module


def open_backbone(
    text: str, classes: tuple[str, ...], shape: tuple[int, int, int] | None, may: Permission = NOTHING
) -> tuple[Entry, str]:
    """The one network that `[NAME=]SPEC` names, and the spec without the name. A network in a basket folder of several
    is FOLDER/NETWORK. classes, shape: of the data, for networks that do not say their own."""
    from foible.networks import files  # they load probes, and so import this file
    from foible.networks.load.specs import open_networks

    name, spec = specs.split_name(text)
    place = Path(spec)
    if (place / files.FILE).is_file():
        record = files.read_record(place)
        names = [one["name"] for one in record["networks"]]
        if len(names) != 1:
            raise UserError(
                f"{spec!r} holds {len(names)} networks: say which is the backbone, as {place / str(names[0])}"
                if names
                else f"{place / files.FILE} lists no networks"
            )
        [entry] = files.load_folder(place, only=names[0])
        if not is_plain(entry.name):  # a spec is made of it, which somebody will open
            raise UserError(f"the network in {spec!r} is called {entry.name!r}: expected a plain name, without folders")
        spec = str(place / entry.name)
    elif not place.exists() and (place.parent / files.FILE).is_file():
        [entry] = files.load_folder(place.parent, only=place.name)  # refuses probes: no chain, and no circle
    else:
        entries = list(open_networks(spec, classes, shape, may))
        if len(entries) != 1:
            raise UserError(f"{spec!r} is {len(entries)} networks: a probe has one backbone")
        [entry] = entries
    return (entry if name is None else replace(entry, name=name)), spec


def load_probe(
    spec: str, record: Mapping[str, Any], where: str, classes: tuple[str, ...], may: Permission,
    opened: dict[ProbeSource, Backbone],
) -> Probe:  # fmt: skip
    """The probe that a basket records, its head still without weights. `opened`: backbones that are open already."""
    from foible.networks.load.specs import fingerprint, same_network

    said, source = parse(spec), ProbeSource.from_json(record.get("backbone"), where)
    if source not in opened:
        try:
            entry, _ = open_backbone(source.spec, classes, source.shape, may)
        except UserError as error:
            raise UserError(f"{where}: cannot open the backbone: {error}") from error
        if not same_network(source.sha256, entry.sha256 or fingerprint(entry.module)):
            raise UserError(
                f"{where}: the backbone {source.spec!r} is not the one that the probe was trained on: its weights have "
                "changed; bring the old ones back, or train the probe again into another folder"
            )
        try:
            opened[source] = Backbone(entry.module, source.layer)
        except AttributeError as error:
            raise UserError(f"{where}: the backbone has no layer {source.layer!r}: train the probe again") from error
    with torch.device("meta"):  # allocates nothing and draws nothing
        head = Head(source.features, len(classes), said.hidden)
    return Probe(opened[source], head, source)
