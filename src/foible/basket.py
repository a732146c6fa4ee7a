"""A basket: named networks that judge the same images. One is the suspect, the others are its peers.

Normalisation lives here, with each network; spaces and searches see pixels in [0, 1].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from foible import specs
from foible.errors import UserError
from foible.images import LEAST_ROWS, to_floats
from foible.networks.load import Network, fingerprint, open_networks
from foible.networks.preprocess import Preprocess

Precision = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Budget:
    """The most that one lane may spend; None is no limit. A gradient costs a forward and a backward."""

    forwards: int | None = None
    backwards: int | None = None

    def spent(self, forwards: Tensor, backwards: Tensor) -> Tensor:
        """(n,) bool: lanes that have nothing left."""
        over = torch.zeros_like(forwards, dtype=torch.bool)
        if self.forwards is not None:
            over |= forwards >= self.forwards
        if self.backwards is not None:
            over |= backwards >= self.backwards
        return over


def pick_device(device: str) -> torch.device:
    """`auto`, `cpu` or `cuda` as a device that is really there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise UserError(f"device is {device!r}: expected auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but torch sees no CUDA device here: use --device cpu (see `foible doctor`)")
    return torch.device(device)


class Basket:
    """Networks of one task.

    networks: name -> module or callable, from (n, channels, height, width) to logits (n, classes).
    classes: class names, in the order of the logits.
    preprocess: "inside" (each network takes pixels in [0, 1] and normalises itself), a `Preprocess`, or a dictionary
        of these by name. It has no default: normalising twice, or never, is the field's commonest silent mistake.
    shape: (channels, height, width) of the images, where it is known.
    """

    def __init__(
        self,
        networks: Mapping[str, Network],
        *,
        classes: Sequence[str],
        preprocess: str | Preprocess | Mapping[str, str | Preprocess],
        shape: tuple[int, int, int] | None = None,
        device: str = "cpu",
    ) -> None:
        if not networks:
            raise UserError("a basket needs at least one network")
        self.device = pick_device(device)
        self.classes = tuple(classes)
        self.shape = shape
        self.source: list[str] | None = None  # the specs that open this basket again, where there are any
        self._preprocess = {
            name: _as_preprocess(preprocess[name] if isinstance(preprocess, Mapping) else preprocess, name)
            for name in networks
        }
        self.fingerprints = {name: fingerprint(network) for name, network in networks.items()}
        self._networks: dict[str, Network] = {}
        for name, network in networks.items():
            if isinstance(network, nn.Module):  # a copy: the caller's own network stays in the mode it was in
                network = copy.deepcopy(network).eval().requires_grad_(False).to(self.device)
            self._networks[name] = network

    @classmethod
    def open(
        cls,
        source: str | Path | Sequence[str],
        *,
        device: str = "cpu",
        classes: Sequence[str] | None = None,
        shape: tuple[int, int, int] | None = None,
    ) -> Basket:
        """A basket from a folder that `foible train` wrote, or from a list of `[NAME=]SPEC`, one per network.

        SPEC is a basket folder, a zoo spec with its weights (`mlp:10?weights=FILE.safetensors`), or `FILE.py:factory`
        with its preprocessing (`?preprocess=inside`, or `?mean=…&std=…&size=…`), which runs that file.
        `classes` and `shape` are for networks whose files do not say (usually the data's own).
        """
        listed = [str(source)] if isinstance(source, str | Path) else list(source)
        entries = [entry for spec in listed for entry in open_networks(spec, classes, shape)]
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"two networks are called {name!r}: name one, as in --network other={name}")
        first = next((entry for entry in entries if entry.classes), None)
        task = first.classes if first is not None else tuple(classes or ())
        if not task:
            raise UserError(f"the classes of {', '.join(names)} are not known: give the data they are for")
        for entry in entries:
            if entry.classes and len(entry.classes) != len(task):
                raise UserError(
                    f"network {entry.name!r} has {len(entry.classes)} classes, the basket has {len(task)}: "
                    "give networks of one task"
                )
            if entry.classes and tuple(entry.classes) != tuple(task):
                raise UserError(
                    f"network {entry.name!r} has classes {list(entry.classes)[:5]}…, the basket has {list(task)[:5]}…: "
                    "give networks of one task, with their classes in one order"
                )
        basket = cls(
            {entry.name: entry.module for entry in entries},
            classes=task,
            preprocess={entry.name: entry.preprocess for entry in entries},
            shape=next((entry.shape for entry in entries if entry.shape), shape),
            device=device,
        )
        basket.source = listed
        return basket

    @property
    def preprocess(self) -> dict[str, Preprocess]:
        """How each network's images are prepared."""
        return dict(self._preprocess)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._networks)

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
            raise UserError(
                f"no network {suspect!r} in the basket{specs.did_you_mean(suspect, self.names)}; it has {known}"
            )
        return [name for name in self.names if name != suspect]

    def judge(self, images: Tensor, names: Sequence[str] | None = None, precision: Precision = "float32") -> Tensor:
        """Logits (networks, n, classes) of images (n, channels, height, width) in [0, 1], in the order of `names`."""
        chosen = self.names if names is None else names
        rows = len(images)
        if not chosen:
            return images.new_empty(0, rows, len(self.classes))
        if rows < LEAST_ROWS:
            images = torch.cat([images, images[-1:].expand(LEAST_ROWS - rows, *images.shape[1:])])
        seen: dict[Preprocess, Tensor] = {}
        answers = []
        with torch.autocast(self.device.type, torch.bfloat16) if precision == "bf16" else nullcontext():
            for name in chosen:
                how = self._preprocess[name]
                if how not in seen:
                    seen[how] = how(images)
                answers.append(self._checked(name, self._networks[name](seen[how]), len(images)))
        return torch.stack(answers)[:, :rows].float()

    def _checked(self, name: str, logits: Any, rows: int) -> Tensor:
        if isinstance(logits, Tensor) and logits.shape == (rows, len(self.classes)):
            return logits
        if not isinstance(logits, Tensor):
            given = f"returned {type(logits).__name__}: expected a tensor of logits (n, classes)"
        elif logits.ndim != 2 or len(logits) != rows:
            expected = (rows, len(self.classes))
            given = f"returned shape {tuple(logits.shape)} for {rows} images: expected {expected}"
        else:
            given = f"has {logits.shape[1]} classes, the basket has {len(self.classes)}: give networks of one task"
        raise UserError(f"network {name!r} {given}")

    @torch.no_grad()
    def predict(self, images: Tensor, names: Sequence[str] | None = None, *, batch: int = 1000) -> Tensor:
        """Logits (networks, n, classes) on the CPU, of any number of images, uint8 or floats, a batch at a time."""
        parts = [self.judge(to_floats(part.to(self.device)), names).cpu() for part in torch.split(images, batch)]
        return torch.cat(parts, 1)

    def check(self, images: Tensor) -> None:
        """Push a few images through every network, so that what does not fit is said before any work is done."""
        for name in self.names:
            try:
                self.predict(images[:2], [name])
            except UserError:
                raise
            except Exception as error:
                line = str(error).strip().splitlines()[0] if str(error).strip() else ""
                raise UserError(
                    f"network {name!r} cannot take images of shape {tuple(images.shape[1:])}: "
                    f"{type(error).__name__}: {line}"
                ) from error


def _as_preprocess(given: str | Preprocess, name: str) -> Preprocess:
    if isinstance(given, Preprocess):
        return given
    if given == "inside":
        return Preprocess()
    raise UserError(f"preprocess of {name!r} is {given!r}: expected 'inside' or Preprocess(mean, std, size)")
