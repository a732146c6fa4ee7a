"""What opening a network's files gives, before the user's options have their say."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks.preprocess import Preprocess
from foible.text import shown


@dataclass(frozen=True, eq=False)
class Opened:
    """A network and what its files say of it.

    preprocess: as it was trained, or None where the files do not say. Where only `size` is known, that is in `size`.
    classes: its own list, or None. outputs: how many it has, where known. channels: of its images.
    why: why the preprocessing is not known, for the message that asks for it.
    """

    name: str
    module: nn.Module
    preprocess: Preprocess | None = None
    classes: tuple[str, ...] | None = None
    outputs: int | None = None
    channels: int = 3
    size: tuple[int, int] | None = None
    why: str = ""


def optional(module: str, package: str, what: str) -> Any:
    """Import a package that is not always there, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{what} needs {package}, which is not here ({error}): pip install {package}") from error
    except Exception as error:  # torchvision raises RuntimeError where it was built for another torch
        raise UserError(
            f"{what} needs {package}, which is here and cannot be loaded ({first_line(error)}): install a {package} "
            "and a torch that were built for each other, both from one index"
        ) from error


def in_batches(call: Callable[[Tensor], Tensor], images: Tensor, fixed: int | None) -> Tensor:
    """`call` on all images; `fixed` at a time where a network takes no other number, the last of them repeated."""
    if fixed is None or len(images) == fixed:
        return call(images)
    parts = []
    for part in torch.split(images, fixed):
        rows = len(part)
        if rows < fixed:
            part = torch.cat([part, part[-1:].expand(fixed - rows, *part.shape[1:])])
        parts.append(call(part)[:rows])
    return torch.cat(parts)


def first_line(error: BaseException) -> str:
    """An error in one line, for a message of ours."""
    text = str(error).strip()
    return shown(f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__)
