"""A basket: named networks that judge the same images. One is the suspect, the others are its peers.

Normalisation lives here, with each network; spaces and searches see pixels in [0, 1].
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foible.basket.answering import Answering, Precision
from foible.basket.graphs import Beside
from foible.basket.padding import FEW, LARGE, padded, rounded
from foible.basket.precision import real_float32
from foible.errors import UserError
from foible.images import LEAST_ROWS, to_floats
from foible.networks.classes import shared_classes
from foible.networks.files import Entry
from foible.networks.load.specs import Network, fingerprint, open_networks
from foible.networks.preprocess import Preprocess
from foible.permission import NOTHING, Permission
from foible.processes import pick_device
from foible.specs import split_name
from foible.text import did_you_mean, shown
from foible.views import View

DUST = 1e-20  # of the largest weight beside it, in the same row


def _told(spec: str, entry: Entry) -> str:
    """What a user calls a network that came from this spec: of a folder of several, FOLDER/NETWORK."""
    name, text = split_name(spec)
    return f"{text.rstrip('/')}/{entry.name}" if name is None and Path(text).is_dir() else text


class Basket:
    """Networks of one task.

    networks: name -> module or callable, from (n, channels, height, width) to logits (n, classes); for two classes
        one logit (n, 1) will do, the log-odds of the second.
    classes: class names in the order of the logits; or a dictionary of these by name, where networks have lists of
        their own. Lists meet by name: the basket speaks of the classes that all know, in the first one's order.
    preprocess: "inside" (each network takes pixels in [0, 1] and normalises itself), a `Preprocess`, or a dictionary
        of these by name. It has no default: normalising twice, or never, is the field's commonest silent mistake.
    shape: (channels, height, width) of the images, where it is known.
    """

    def __init__(
        self,
        networks: Mapping[str, Network],
        *,
        classes: Sequence[str] | Mapping[str, Sequence[str]],
        preprocess: str | Preprocess | Mapping[str, str | Preprocess],
        shape: tuple[int, int, int] | None = None,
        device: str = "cpu",
        copies: bool = True,
    ) -> None:
        if not networks:
            raise UserError("a basket needs at least one network")
        self.device = pick_device(device)
        if self.device.type == "cuda":
            real_float32()
        self.shape = shape
        self.remarks: dict[str, str] = {}  # what was noticed of these networks before a run, by kind
        self._answering, self._beside = Answering(self.device), Beside()
        self.source: list[str] | None = None  # the specs that open this basket again, where there are any
        self.may = NOTHING  # what may be run for that
        self.specs: dict[str, str] = {}  # what opens each network, as its user wrote it, where anything does
        self.training: dict[str, Mapping[str, Any]] = {}  # what is recorded of each one's training, where anything is
        self._preprocess = {
            name: _as_preprocess(preprocess[name] if isinstance(preprocess, Mapping) else preprocess, name)
            for name in networks
        }
        # The same, with the size of what a network was trained on where that is known from elsewhere.
        self._hows = dict(self._preprocess)
        own = classes if isinstance(classes, Mapping) else dict.fromkeys(networks, classes)
        self.lists = {name: tuple(own[name]) for name in networks}
        self.classes, columns, self._notes = shared_classes(self.lists)
        self._columns = {
            name: None if where is None else torch.tensor(where, device=self.device) for name, where in columns.items()
        }
        self.fingerprints = {name: fingerprint(network) for name, network in networks.items()}
        self._networks: dict[str, Network] = {}
        memo: dict[int, Any] = {}  # what two networks share (a backbone) they still share as copies
        for name, network in networks.items():
            if isinstance(network, nn.Module):  # a copy: the caller's own network stays in the mode it was in
                network = copy.deepcopy(network, memo) if copies else network
                network = network.eval().requires_grad_(False).to(self.device)
                if self.device.type == "cpu":
                    _drop_dust(network)
            self._networks[name] = network

    @classmethod
    def open(
        cls,
        source: str | Path | Sequence[str],
        *,
        device: str = "cpu",
        classes: Sequence[str] | None = None,
        shape: tuple[int, int, int] | None = None,
        trust: bool = False,
        may: Permission | None = None,
    ) -> Basket:
        """A basket from a folder that `foible train` wrote, or from a list of `[NAME=]SPEC`, one per network.

        SPEC is a basket folder, `timm:NAME`, `torchvision:NAME`, `hf:FOLDER`, `onnx:FILE`, a zoo spec with its weights
        (`mlp:10?weights=FILE`), or `FILE.py:factory`, which runs that file; docs/networks.md has all of them.
        `classes` and `shape` are the data's own, for networks told to take them from there (`?classes=data`).
        `trust` lets files be loaded that can run code: whole pickled modules, TorchScript, `.pt2`.
        `may` says which code may be run; without it what `source` names was typed by the caller.
        """
        listed = [str(source)] if isinstance(source, str | Path) else list(source)
        may = Permission.typed(listed, trust=trust) if may is None else may
        opened = {spec: open_networks(spec, classes, shape, may) for spec in listed}
        entries = [entry for spec in listed for entry in opened[spec]]
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"two networks are called {name!r}: name one, as in --network other={name}")
        for entry in entries:
            if not entry.classes:
                raise UserError(f"the classes of {entry.name!r} are not known: give the data it is for")
        basket = cls(
            {entry.name: entry.module for entry in entries},
            classes={entry.name: entry.classes or () for entry in entries},
            preprocess={entry.name: entry.preprocess for entry in entries},
            shape=next((entry.shape for entry in entries if entry.shape), shape),
            device=device,
            copies=False,
        )
        basket.source, basket.may = listed, may
        basket.specs = {entry.name: _told(spec, entry) for spec in listed for entry in opened[spec]}
        basket.training = {entry.name: entry.training for entry in entries}
        for entry in entries:  # a network whose file says what it was trained on sees images of that size
            if entry.preprocess.size is None and entry.shape:
                basket._hows[entry.name] = dataclasses.replace(entry.preprocess, size=entry.shape[1:])
        return basket

    def only(self, names: Sequence[str]) -> Basket:
        """The same networks, these alone and in this order; nothing is copied."""
        for name in names:
            self.peers(name)  # or an error that names it
        part = copy.copy(self)
        part.fingerprints = {name: self.fingerprints[name] for name in names}
        part._networks = {name: self._networks[name] for name in names}
        part.remarks = {}
        return part

    @property
    def views(self) -> dict[str, View | None]:
        """How a photograph becomes each network's pixels; None where a network takes images as they come."""
        return {name: self._hows[name].view for name in self.names}

    @property
    def hows(self) -> dict[str, Preprocess]:
        """How each network's images are prepared, the size that it was trained on included."""
        return {name: self._hows[name] for name in self.names}

    @property
    def canvas(self) -> View | None:
        """The view with the most pixels: what moves act on, unless said otherwise."""
        known = [view for view in self.views.values() if view is not None]
        return max(known, key=lambda view: view.size[0] * view.size[1], default=None)

    @property
    def preprocess(self) -> dict[str, Preprocess]:
        """How each network's images are prepared."""
        return {name: self._preprocess[name] for name in self.names}

    @property
    def specs_of_all(self) -> dict[str, str]:
        """What opens each network, as its user wrote it; those in memory are left out."""
        return {name: self.specs[name] for name in self.names if name in self.specs}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._networks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of these networks; some of it is known once they have been asked."""
        habits = self._answering.habits
        writing = [name for name in self.names if name in habits and habits[name].writes]
        return (
            *self._notes,
            *(f"{shown(name)} changes the images that it is given (in place): it gets a copy" for name in writing),
            *self.remarks.values(),
        )

    def network(self, name: str) -> Network:
        """The network itself, as this basket holds it: a copy in eval mode on the basket's device."""
        return self._networks[name]

    def __len__(self) -> int:
        return len(self._networks)

    def __repr__(self) -> str:
        return f"Basket({', '.join(self.names)}; {len(self.classes)} classes)"

    def peers(self, suspect: str) -> list[str]:
        """Every network but the suspect."""
        if suspect not in self._networks:
            known = ", ".join(self.names)
            raise UserError(f"no network {suspect!r} in the basket{did_you_mean(suspect, self.names)}; it has {known}")
        return [name for name in self.names if name != suspect]

    def judge(self, images: Tensor, names: Sequence[str] | None = None, precision: Precision = "float32") -> Tensor:
        """Logits (networks, n, classes) of images (n, channels, height, width) in [0, 1], in the order of `names`."""
        chosen = self.names if names is None else names
        rows = len(images)
        if not chosen:
            return images.new_empty(0, rows, len(self.classes))
        few = rows > 0 and self.device.type == "cpu" and images.numel() >= rows * LARGE
        images = padded(images, -(-rows // FEW) * FEW if few else max(LEAST_ROWS, rounded(rows, self.device)))
        seen = {how: how(images) for how in dict.fromkeys(self._hows[name] for name in chosen)}

        def asked(name: str) -> Tensor:
            prepared = seen[self._hows[name]]
            parts = prepared.split(FEW) if few else self._answering.parts(name, self._networks[name], prepared)
            said = [self.answer(name, part, precision) for part in parts]
            return said[0] if len(said) == 1 else torch.cat(said)

        is_deep = self._answering.graphs.is_deep
        deep = self.device.type == "cuda" and all(is_deep(self._networks[name]) for name in chosen)
        answers = self._beside([partial(asked, name) for name in chosen], images) if deep else map(asked, chosen)
        return torch.stack(list(answers))[:, :rows].float()  # a copy: a network may answer in the same memory again

    def judge_views(self, images: Mapping[str, Tensor]) -> Tensor:
        """Logits (networks, n, classes), each network shown its own images: name -> (n, channels, height, width) uint8
        or in [0, 1], as its view made them."""
        seen: dict[tuple[int, Preprocess], Tensor] = {}
        answers = []
        for name, view in images.items():
            how = self._hows[name]
            key = id(view), how
            if key not in seen:
                seen[key] = how(padded(to_floats(view.to(self.device, non_blocking=True))))
            answers.append(self.answer(name, seen[key])[: len(view)])
        return torch.stack(answers).float()

    def answer(self, name: str, prepared: Tensor, precision: Precision = "float32") -> Tensor:
        """Logits of the basket's classes from images that are preprocessed already."""
        logits = self._answering(name, self._networks[name], prepared, len(self.lists[name]), precision)
        columns = self._columns[name]
        return logits if columns is None else logits.index_select(1, columns)

    @torch.no_grad()
    def predict(self, images: Tensor, names: Sequence[str] | None = None, *, batch: int = 1000) -> Tensor:
        """Logits (networks, n, classes) on the CPU, of any number of images, uint8 or floats, a batch at a time."""
        parts = [self.judge(to_floats(part.to(self.device)), names).cpu() for part in torch.split(images, batch)]
        return torch.cat(parts, 1)

    def check(self, images: Tensor) -> None:
        """Push a few images through every network, so that what does not fit is said before any work is done."""
        for name in self.names:
            self.predict(images[:2], [name])


@torch.no_grad()
def _drop_dust(network: nn.Module) -> None:
    """Weights that next to others add nothing become 0, as weight decay leaves them where all images are black:
    products with them are subnormal, forwards or backwards, and each takes a CPU up to sixty times as long."""
    for weights in network.parameters():
        plain = type(weights) is nn.Parameter and weights.layout == torch.strided and not weights.is_meta
        wide = weights.dtype in (torch.float32, torch.float64)  # of float16, what is subnormal counts
        if plain and wide and weights.ndim and weights.numel() and not weights.is_inference():
            sizes = weights.abs().reshape(len(weights), -1)
            least = (DUST * sizes.amax(1, keepdim=True)).clamp_min(torch.finfo(weights.dtype).tiny)
            dust = (sizes < least) & (sizes > 0)
            if bool(dust.any()):
                weights.masked_fill_(dust.view(weights.shape), 0.0)


def _as_preprocess(given: str | Preprocess, name: str) -> Preprocess:
    if isinstance(given, Preprocess):
        return given
    if given == "inside":
        return Preprocess()
    raise UserError(f"preprocess of {name!r} is {given!r}: expected 'inside' or Preprocess(mean, std, size)")
