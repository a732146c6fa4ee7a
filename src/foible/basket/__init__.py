"""A basket: named networks that judge the same images. One is the suspect, the others are its peers."""

from foible.basket.answering import Precision
from foible.basket.basket import Basket
from foible.basket.budget import Budget
from foible.basket.padding import padded
from foible.processes import pick_device

__all__ = [
    "Basket",
    "Budget",
    "Precision",
    "padded",
    "pick_device",
]
