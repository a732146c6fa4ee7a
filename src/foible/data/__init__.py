"""Data sets: named by a short spec, read into memory as 8-bit images with labels and class names.

`load("mnist", "test")` is the one way in; `available()` lists what is at hand and `get("mnist")` downloads.
"""

from foible.data.catalogue import Available, available
from foible.data.dataset import Dataset
from foible.data.download import get
from foible.data.sources import load

__all__ = ["Available", "Dataset", "available", "get", "load"]
