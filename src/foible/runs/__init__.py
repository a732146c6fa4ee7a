"""Runs: a plan of units, each of which writes one Parquet shard. A run is the set of its shards."""

from foible.runs.folder import RunFolder
from foible.runs.local import run_units
from foible.runs.record import settings_hash

__all__ = ["RunFolder", "run_units", "settings_hash"]
