"""`foible inspect units`."""

from __future__ import annotations


def units() -> None:
    """(being written)"""
