"""Where the training of one fleet (or generator) stands, as one file that is replaced in one piece."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from foible.disk import ordinary, write_atomically
from foible.errors import UserError
from foible.records import COUNT, NUMBER, One, check, parse_json, word


def _by_seed(value: Any) -> bool:
    pairs = value.items() if isinstance(value, dict) else [("", None)]
    return all(
        re.fullmatch(r"-?[0-9]{1,20}(@[0-9.e-]{1,30})?", seed) and isinstance(record, dict) for seed, record in pairs
    )


CLIMB = {"wanted": [NUMBER], "last": NUMBER, "jump": NUMBER, "best": NUMBER, "above": {str: COUNT},
         "overshot": [NUMBER]}  # `foible.networks.bands.Climb`  # fmt: skip
STANDING = {
    "waiting": [int], "seeds": [int], "phase": word("classify", "autoencode"), "step": COUNT,
    "losses": {str: [float]}, "last_test": {str: NUMBER}, "finished": One(_by_seed, "records by seed"),
    "climbs?": {str: CLIMB},
}  # `foible.networks.lesson.Standing`  # fmt: skip


class Checkpoint:
    """A safetensors file whose header also holds a JSON record. Without a path nothing is kept.

    Written at most every `seconds`, and so seldom that writing takes less than a twentieth of the time.
    """

    def __init__(self, path: Path | None, seconds: float = 10.0, form: dict[str, Any] = STANDING) -> None:
        self.path = path
        self.seconds = seconds
        self.form = form  # of the record
        self._due = time.monotonic() + seconds

    @property
    def due(self) -> bool:
        return self.path is not None and time.monotonic() >= self._due

    @property
    def _advice(self) -> str:
        return f"delete {None if self.path is None else self.path.parent} and train again"

    def damaged(self, why: str) -> UserError:
        """What to raise where the file cannot be gone on from."""
        return UserError(f"the checkpoint {self.path} is damaged ({why}): {self._advice}")

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
        where, advice = f"the checkpoint {self.path}", self._advice
        data = ordinary(self.path).read_bytes()
        try:
            tensors = load(data)
        except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise self.damaged(str(error)) from error
        header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")], where)
        held = check(header, {"__metadata__": {"record": str}}, where, advice)["__metadata__"]["record"]
        record = check(parse_json(held, where), self.form, where, advice)
        names = (name.removesuffix("?") for name in self.form)
        return tensors, {name: record[name] for name in names if name in record}
