"""Many small pictures, decoded once: later commands, and the workers of this one, find the pixels in the cache.

Only for data sets known by name: there are few of them, and they stay what they are.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import PIL
import torch

from foible.data.dataset import Dataset
from foible.data.decode import Pixels
from foible.data.photographs import Photographs
from foible.data.pictures import gather
from foible.disk import cache_folder, ordinary, write_atomically
from foible.errors import UserError

MANY = 10_000  # pictures that are worth a file in the cache
FOLDER = "decoded"  # in the user's cache folder


def gather_once(photographs: Photographs, files: Sequence[Path], quiet: bool) -> Dataset:
    """As `gather`; where these very files were decoded before, their pixels are taken from the cache."""
    if len(photographs) < MANY:
        return gather(photographs, quiet)
    stats = [(str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    key = hashlib.sha256(json.dumps([stats, PIL.__version__]).encode()).hexdigest()[:16]
    stem = f"{photographs.name}-{photographs.split}-"
    place = cache_folder() / FOLDER / f"{stem}{key}.npy"
    pixels = _mapped(place, len(photographs))
    if pixels is not None:
        return Dataset(
            photographs.name, photographs.split, torch.from_numpy(pixels), photographs.labels, photographs.classes,
            photographs.problems,
        )  # fmt: skip
    data = gather(photographs, quiet)
    if len(data) == len(photographs):  # else something could not be read, which is said every time
        _keep(place, stem, data.images.numpy())
    return data


def _mapped(place: Path, count: int) -> Pixels | None:
    """The pixels, in memory as far as they are looked at; what is written to them stays in this process."""
    try:
        pixels = np.load(ordinary(place), mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError, UserError):
        return None
    return pixels if pixels.dtype == np.uint8 and pixels.ndim == 4 and len(pixels) == count else None


def _keep(place: Path, stem: str, pixels: Pixels) -> None:
    """Write them in place of those of earlier files; a cache that cannot be written is no harm."""
    body = io.BytesIO()
    np.save(body, pixels)
    with suppress(OSError, UserError):
        place.parent.mkdir(parents=True, exist_ok=True)
        for old in place.parent.glob(f"{stem}*.npy"):
            old.unlink()
        write_atomically(place, body.getvalue())
