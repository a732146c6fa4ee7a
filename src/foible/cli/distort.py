"""`foible distort`: the smallest change of an image that changes a network's answer."""

from __future__ import annotations


def distort() -> None:
    """(being written)"""
