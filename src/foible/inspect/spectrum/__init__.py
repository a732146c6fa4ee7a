"""Spectrum: how much can each layer of a network enlarge a small change, and how much does it (paper 3, Sec. 4.3)?"""

from foible.inspect.spectrum.spectrum import pixel_bounds, spectrum

__all__ = [
    "pixel_bounds",
    "spectrum",
]
