"""Where the training of one fleet stands, as one file that is replaced in one piece."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from foible.disk import write_atomically
from foible.errors import UserError


class Checkpoint:
    """A safetensors file whose header also holds a JSON record. Without a path nothing is kept.

    Written at most every `seconds`, and so seldom that writing takes less than a twentieth of the time.
    """

    def __init__(self, path: Path | None, seconds: float = 10.0) -> None:
        self.path = path
        self.seconds = seconds
        self._due = time.monotonic() + seconds

    @property
    def due(self) -> bool:
        return self.path is not None and time.monotonic() >= self._due

    def write(self, tensors: Callable[[], dict[str, Tensor]], record: dict[str, Any]) -> None:
        if self.path is None:
            return
        began = time.monotonic()
        held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors().items()}
        write_atomically(self.path, save(held, metadata={"record": json.dumps(record)}))
        now = time.monotonic()
        self._due = now + max(self.seconds, 20 * (now - began) if self.seconds else 0)

    def read(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """What was written last, or None."""
        if self.path is None or not self.path.exists():
            return None
        data = self.path.read_bytes()
        try:
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            return load(data), json.loads(header["__metadata__"]["record"])
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"the checkpoint {self.path} is damaged ({error}): delete {self.path.parent} and train again"
            ) from error
