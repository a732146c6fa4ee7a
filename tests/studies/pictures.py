"""What a figure must be: there in both forms, and not blank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def check_figure(out: Path, stem: str) -> None:
    with Image.open(out / f"{stem}.png") as image:
        assert min(image.size) > 200, f"{stem}.png is {image.size}"
        pixels = np.asarray(image.convert("RGB"))[::3, ::3]
    colours = np.unique(pixels.astype(np.int32) @ [1, 256, 65536])
    inked = (pixels.min(2) < 250).mean()
    assert len(colours) > 10, f"{stem}.png has {len(colours)} colours"
    assert inked > 0.01, f"{stem}.png is blank"
    text = (out / f"{stem}.svg").read_text(encoding="utf-8")
    assert text.lstrip().startswith("<?xml")
    assert "<path" in text
