"""A small run, a store, and pictures for the tests of Studio."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))  # its made-up findings serve here too
