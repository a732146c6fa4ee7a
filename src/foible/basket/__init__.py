"""A basket: named networks that judge the same images. One is the suspect, the others are its peers."""

from foible.basket.basket import Basket, Budget, Precision, padded
from foible.processes import pick_device

__all__ = [
    "Basket",
    "Budget",
    "Precision",
    "padded",
    "pick_device",
]
