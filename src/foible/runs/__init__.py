"""Runs: a plan of units, each of which writes one Parquet shard. A run is the set of its shards."""

from foible.runs.folder import RunFolder, settings_hash
from foible.runs.local import run_units

__all__ = ["RunFolder", "run_units", "settings_hash"]
