"""The ways in which a network hides its gradient, in words: what is seen before a run, and what is done about it.

A search that follows a gradient finds little where it leads nowhere, and then a network only looks robust (Athalye,
Carlini and Wagner, "Obfuscated gradients give a false sense of security", 2018). `gradients.py` looks, and `units.py`
does what is said here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NONE, FLAT, SATURATED, STOCHASTIC, SHATTERED = "no gradient", "flat", "saturated", "stochastic", "shattered"
ASKINGS = 5  # of a network that answers differently each time
DEFAULT = " (decision), unless a method was asked for"
WORDS = {
    NONE: f"it has no gradient: only its answers are followed{DEFAULT}",
    FLAT: f"its gradient is lost on some images: its answers alone are followed too{DEFAULT}",
    SATURATED: "its softmax is saturated, or bends the slope: what is followed is what the softmax is given",
    STOCHASTIC: f"it answers an image differently each time: found is what holds in every one of {ASKINGS} askings",
    SHATTERED: f"its gradient does not say what happens: its answers alone are followed too{DEFAULT}",
}


@dataclass(frozen=True)
class Masking:
    """One way in which a network hides its gradient. kind: one of `WORDS`. words: what was seen, and where."""

    kind: str
    words: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The words, with the figures, and what is done about it."""
        figures = "; ".join(f"{name} {value:.2g}" for name, value in self.figures.items())
        return f"{self.words}{f' ({figures})' if figures else ''}; {WORDS[self.kind]}"


def in_words(kinds: Sequence[str]) -> list[dict[str, str]]:
    """Each kind and what is done about it, for a summary."""
    return [{"kind": kind, "words": WORDS.get(kind, kind)} for kind in kinds]
