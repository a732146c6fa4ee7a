"""What the networks said of the images that were looked at for seeds, kept in the run's folder.

A run that goes on, or is made longer, judges no image twice, and Ctrl-C while seeds are judged loses nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from foible.disk import write_atomically
from foible.runs.record import extents

FILE = "seeds.safetensors"
NO_MATTER = ("unit", "judge_all")  # of a config, besides how far a run goes: what is said of an image is the same


@dataclass(frozen=True, eq=False)
class Answers:
    """index: (n,) positions of images, in the order in which they were looked at. said: (networks, n) classes, -1 where
    an answer is no number. good: (n,) bool, whether a search may begin there, and aims: (n,) the class it is about.
    unreadable: a line for each of the others that were looked at among them."""

    index: Tensor
    said: Tensor
    good: Tensor
    aims: Tensor
    unreadable: list[str] = field(default_factory=list)

    @property
    def looked(self) -> int:
        """How many images that makes, with those that could not be read."""
        return len(self.index) + len(self.unreadable)


@dataclass(eq=False)
class Kept:
    """The answers of one run: those of before, and what there is to keep. key: all that they depend on."""

    folder: Path
    key: str
    answers: Answers | None = None  # what there is to keep

    def read(self, order: Tensor, networks: int, classes: int) -> Answers | None:
        """Those that were kept for just this order of images; None where there are none, or the file is damaged or not
        ours."""
        try:
            with safe_open(str(self.folder / FILE), framework="pt") as file:
                about = file.metadata() or {}
                if about.get("key") != self.key:
                    return None
                index, said, good, aims = (file.get_tensor(name) for name in ("index", "said", "good", "aims"))
            known = Answers(index, said.long(), good, aims, [str(line) for line in json.loads(about["unreadable"])])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
            return None
        begin, count = order[: known.looked], len(index)
        fits = [
            index.shape == good.shape == aims.shape == (count,), said.shape == (networks, count),
            (index.dtype, aims.dtype, good.dtype) == (torch.int64, torch.int64, torch.bool),
            0 < count <= len(begin) == known.looked,
        ]  # fmt: skip
        if not all(fits) or not torch.equal(begin[torch.isin(begin, index)], index):
            return None
        return known if all(bool(((one >= -1) & (one < classes)).all()) for one in (known.said, aims)) else None

    def write(self) -> None:
        """Keep the answers, where there are any that are not kept already."""
        new = self.answers
        if new is None or not len(new.index):
            return
        tensors = {"index": new.index, "said": new.said.to(torch.int32), "good": new.good, "aims": new.aims}
        about = {"key": self.key, "unreadable": json.dumps(new.unreadable)}
        write_atomically(self.folder / FILE, save({name: one.contiguous() for name, one in tensors.items()}, about))
        self.answers = None


def key_of(config: Any, settings: dict[str, Any]) -> str:
    """What answers depend on: data, networks, and what was asked for, but for how far the run goes."""
    aside = (*extents(settings), *NO_MATTER)
    parts = [{name: value for name, value in one.items() if name not in aside} for one in (settings, asdict(config))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
