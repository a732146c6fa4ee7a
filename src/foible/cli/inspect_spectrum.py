"""`foible inspect spectrum`."""

from __future__ import annotations


def spectrum() -> None:
    """(being written)"""
