"""What the methods for minimal distortions share: what is asked of them, and what they give back."""

from foible.search.nearest.task import Model, Nearest, join, length, margin, reached

__all__ = [
    "Model",
    "Nearest",
    "join",
    "length",
    "margin",
    "reached",
]
