"""Who else falls for a distortion: counted for each network that it was not made for."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.findings import Findings
from foible.findings.tally import Opened
from foible.records import COUNT, NUMBER, TEXT, check, read_json
from foible.statistics import wilson

AMPLIFIED = "amplified.json"  # what came of larger distortions, beside the shards
_JUDGE = {"judge": TEXT, "right_before": COUNT, "wrong_after": COUNT, "share": (None, NUMBER), "low": NUMBER,
          "high": NUMBER, "as_the_source": COUNT}  # fmt: skip
_FORM = [{"factor": NUMBER, "images": COUNT, "fooled": COUNT, "rms": NUMBER, "transfer": [_JUDGE]}]


@dataclass
class Bystander:
    """One network that the images were not made for."""

    right: int = 0  # of the images found, those that it had right before
    fooled: int = 0  # of these, those that it gets wrong now
    same: int = 0  # of these, those where it says what the source says

    def as_row(self, name: str) -> dict[str, Any]:
        low, high = wilson(self.fooled, self.right)
        share = self.fooled / self.right if self.right else None
        return {
            "judge": name, "right_before": self.right, "wrong_after": self.fooled, "share": share, "low": low,
            "high": high, "as_the_source": self.same,
        }  # fmt: skip


def amplified(run: str | PathLike[str] | Findings | Opened) -> list[dict[str, Any]]:
    """What `amplify` kept with a run; nothing where there is none."""
    try:
        kept = [] if isinstance(run, Findings) else read_json(Path(run) / AMPLIFIED, "")  # type: ignore[arg-type]
        return list(check(kept, _FORM, AMPLIFIED))
    except (OSError, TypeError, UserError):  # findings without their run, or a file that is not ours
        return []


def check_factor(factor: float) -> None:
    """Refuse what is no multiple of a distortion."""
    if not 0 < factor <= 1000:
        raise UserError(f"amplify is {factor:g}: expected a number above 0, such as 2 for twice the distortion")
