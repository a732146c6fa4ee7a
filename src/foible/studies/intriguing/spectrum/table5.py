"""Paper 3, Table 5: what it prints, which networks it can stand beside, and its picture."""

from __future__ import annotations

from pathlib import Path

from foible.figures import INK, MEASURED, PAPER, new, save, style
from foible.inspect.spectrum.record import Spectrum

TABLE5 = (  # layer, size, lower bound, upper bound
    ("Conv. 1", "3×11×11×96", 0.1, 20.0),
    ("Conv. 2", "96×5×5×256", 0.06, 10.0),
    ("Conv. 3", "256×3×3×384", 0.01, 7.0),
    ("Conv. 4", "384×3×3×384", 5e-5, 7.3),
    ("Conv. 5", "384×3×3×256", 0.03, 11.0),
    ("FC. 1", "9216×4096", 0.09, 3.12),
    ("FC. 2", "4096×4096", 1e-4, 4.0),
    ("FC. 3", "4096×1000", 0.25, 4.0),
)


def matches(found: Spectrum) -> bool:
    """Whether a network is the one of Table 5: the same layers; half the inputs where it has the two GPUs' groups."""
    layers = [one for one in found.bounds if one.weighted]
    if len(layers) != len(TABLE5):
        return False
    for one, (_, size, _, _) in zip(layers, TABLE5, strict=True):
        ours = one.size.partition(",")[0]
        first, _, rest = size.partition("×")
        halved = f"{int(first) // 2}×{rest}" if "groups" in one.size else size
        if ours != halved:
            return False
    return True


def draw_table5(found: Spectrum, out: Path) -> str:
    """Lower and upper bound of every layer, the paper's beside the measured ones."""
    layers = [one for one in found.bounds if one.weighted]
    with style():
        figure, axes = new(1, 1, size=(7.2, 4.0))
        axis = axes[0, 0]
        for shift, colour, word, pairs in (
            (-0.13, PAPER, "the paper's network, trained", [row[2:] for row in TABLE5]),
            (0.13, MEASURED, found.network, [(one.lower, one.upper) for one in layers]),
        ):
            for place, (low, high) in enumerate(pairs):
                if low is not None and high is not None:
                    axis.plot([place + shift] * 2, [low, high], color=colour, linewidth=5, solid_capstyle="butt",
                              label=word if place == 0 else None)  # fmt: skip
                elif high is not None:
                    axis.plot(place + shift, high, marker="_", markersize=11, markeredgewidth=2.5, color=colour)
        axis.set_yscale("log")
        axis.set_ylabel("from lower to upper frame bound")
        axis.set_xticks(range(len(TABLE5)), [row[0] for row in TABLE5])
        axis.axhline(1, color=INK, linewidth=0.6)
        axis.grid(axis="y")
        figure.legend(loc="outside lower center", ncol=2)
        return save(figure, out, "table5")
