"""The settings of each recipe: a frozen dataclass that is the Python keywords, the command's flags and config.json.

Nothing heavy is imported here, so that `foible --help` answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from foible.errors import UserError


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class HuntConfig:
    """The settings of a hunt: the keywords of `foible.hunt`, the flags of `foible hunt`, and `config.json`."""

    suspect: tuple[str, ...] = _help((), "Network under test; repeat for several. Default: each network in turn.")
    trials: int = _help(1000, "Trials (seed images tried) for each suspect.")
    seed: int = _help(0, "Seed of every random draw; the same seed gives the same findings.")
    split: str = _help("train", "Which part of the data seed images come from.")
    space: str = _help("affine", "Where to search: a name with options (affine?degrees=5), or FILE.py:NAME.")
    objective: str = _help("dissent", "What counts as found: a name with options, or FILE.py:NAME.")
    search: str = _help("hill-climb", "How to search: a name with options (hill-climb?patience=250), or FILE.py:NAME.")
    peer_confidence: float | None = _help(None, "Least probability that every peer must give the class (default: 0).")
    suspect_confidence: float | None = _help(None, "Least probability of the suspect's wrong answer (default: 0).")
    patience: int | None = _help(None, "Candidates in a row without improvement before a trial ends (default: 250).")
    budget: int | None = _help(None, "Most inferences for one trial, over all networks (default: no limit).")
    precision: str = _help(
        "float32", "float32, or bf16 to search faster on a GPU; findings are always judged in float32."
    )
    unit: int | None = _help(None, "Trials in one unit of work, which is one shard on disk (default: by image size).")

    def __post_init__(self) -> None:
        if isinstance(self.suspect, str):
            object.__setattr__(self, "suspect", (self.suspect,))
        if len(set(self.suspect)) != len(self.suspect):
            raise UserError(f"a suspect is given twice: {', '.join(self.suspect)}")
        for name in ("trials", "patience", "budget", "unit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}: expected at least 1")
        if self.precision not in ("float32", "bf16"):
            raise UserError(f"precision is {self.precision!r}: expected float32 or bf16")
