"""What `foible inspect spectrum` found out, and the files that it is written to."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible.disk import write_with_folder
from foible.inspect.spectrum.bounds import Bounds
from foible.inspect.spectrum.growth import WHOLE, Growth, Stage


@dataclass(frozen=True)
class Spectrum:
    """One network. bounds: of every layer in the order of calls. stages: gathered around layers with weights.
    growth: one of each stage, then the whole network's; empty where no data was given.
    product: of all upper bounds, which no pair of images can exceed; None with `why` where they do not multiply.
    real_product: the same of the real layers (Lanczos: a hair too small)."""

    network: str
    shape: tuple[int, ...]
    bounds: tuple[Bounds, ...]
    stages: tuple[Stage, ...]
    growth: tuple[Growth, ...]
    chain: bool
    product: float | None
    real_product: float | None
    why: str | None
    settings: dict[str, Any]

    @property
    def whole(self) -> Growth | None:
        """What the whole network does to the distortions and to noise."""
        return self.growth[-1] if self.growth else None

    @property
    def worst(self) -> Growth | None:
        """The stage in which a distortion gains most over noise."""
        known = [one for one in self.growth if one.stage != WHOLE and one.gain is not None]
        return max(known, key=lambda one: one.gain or 0.0, default=None)

    def words(self) -> list[str]:
        """What it comes to, in sentences."""
        said = []
        if self.product is not None and not all(one.strict for one in self.bounds):
            said.append(f"The product of upper bounds is {self.product:.3g}; some were sampled, so it is not strict.")
        elif self.product is not None:
            said.append(f"No change of an image grows by more than {self.product:.3g} from pixels to logits.")
        else:
            said.append(f"No product bound: {self.why}. Bounds of single layers hold all the same.")
        whole, worst = self.whole, self.worst
        if whole is not None and whole.distortion is not None and whole.noise is not None:
            said.append(
                f"Along {whole.n} found distortions it grows by {whole.distortion:.3g}, along noise as long by "
                f"{whole.noise:.3g}."
            )
        if worst is not None and worst.gain is not None:
            share = "" if worst.share is None else f" ({100 * worst.share:.0f} % of the whole gain, in logarithms)"
            if len(self.stages) == 1:
                return said
            said.append(f"The most damage is done in {worst.stage}: a factor {worst.gain:.3g} over noise{share}.")
        return said


def product_of(bounds: Sequence[Bounds], broken: str | None) -> tuple[float | None, float | None, str | None]:
    """The product of upper bounds, that of real ones, and why there is none."""
    if broken is not None:
        return None, None, broken
    for one in bounds:
        if one.upper is None:
            return None, None, f"{one.name}: {one.note}"
    upper = math.prod(one.upper for one in bounds if one.upper is not None)
    if any(one.weighted and one.real_upper is None for one in bounds):
        return upper, None, None
    kept = [one.real_upper if one.weighted else one.upper for one in bounds]
    return upper, math.prod(value for value in kept if value is not None), None


def as_json(found: Spectrum) -> dict[str, Any]:
    """The content of `spectrum.json`."""
    return {
        "network": found.network,
        "shape": list(found.shape),
        "chain": found.chain,
        "product": found.product,
        "real_product": found.real_product,
        "why_no_product": found.why,
        "worst": None if found.worst is None else found.worst.stage,
        "words": found.words(),
        "layers": [asdict(one) for one in found.bounds],
        "stages": [asdict(one) for one in found.stages],
        "growth": [asdict(one) for one in found.growth],
        "settings": found.settings,
    }


def table(found: Spectrum) -> pa.Table:
    """One row a layer, in the order of calls; growth beside the layer that a stage is named after."""
    measured = {growth.stage: growth for growth in found.growth if growth.stage != WHOLE}
    rows = []
    for one in found.bounds:
        grown = _growth(measured.get(one.name))
        rows.append(asdict(one) | {f"growth_{key}": value for key, value in grown.items()})
    kinds = {
        "first": pa.int64(),
        "last": pa.int64(),
        "weighted": pa.bool_(),
        "at_most": pa.bool_(),
        "strict": pa.bool_(),
    }
    texts = ("name", "kind", "size", "note")
    names = list(rows[0]) if rows else [*asdict(Bounds("", "", "", 0, 0, False))]
    columns = [
        pa.field(name, pa.string() if name in texts else kinds.get(name, pa.int64() if name == "growth_n" else None)
                 or pa.float64())
        for name in names
    ]  # fmt: skip
    notes = {"foible.spectrum": json.dumps({"network": found.network, "settings": found.settings}, default=str)}
    return pa.Table.from_pylist(rows, pa.schema(columns, notes))


def _growth(grown: Growth | None) -> dict[str, Any]:
    keys = [field.name for field in fields(Growth) if field.name != "stage"]
    return {key: None if grown is None else getattr(grown, key) for key in keys}


def write(found: Spectrum, out: Path) -> None:
    """`spectrum.json` and `spectrum.parquet` in the folder `out`."""
    text = json.dumps(as_json(found), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    sink = pa.BufferOutputStream()
    pq.write_table(table(found), sink, compression="zstd")
    write_with_folder(out / "spectrum.parquet", sink.getvalue().to_pybytes())
    write_with_folder(out / "spectrum.json", text.encode())
