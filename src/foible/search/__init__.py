"""Searches: plain functions that move many lanes through a space at once, and say what each lane came to."""

from foible.search.found import Accepted, Found, Trials
from foible.search.hill_climb import hill_climb

SEARCHES = {"hill-climb": hill_climb}

__all__ = ["SEARCHES", "Accepted", "Found", "Trials", "hill_climb"]
