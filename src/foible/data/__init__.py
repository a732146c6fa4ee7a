"""Data sets: named by a short spec, as 8-bit images with labels and class names.

`load("mnist", "test")` reads everything into memory; `open_data("folder:photos")` lists photographs, and `read` and
`stream` decode those that are asked for. `available()` lists what is at hand and `get("mnist")` downloads.
"""

from foible.data.catalogue import Available, available
from foible.data.dataset import Dataset
from foible.data.download import get
from foible.data.photographs import Photographs
from foible.data.sources import load, open_data
from foible.data.stream import Batch, read, stream

__all__ = [
    "Available", "Batch", "Dataset", "Photographs", "available", "get", "load", "open_data", "read", "stream",
]  # fmt: skip
