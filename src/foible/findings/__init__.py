"""Findings: the one currency. An Arrow table of trials, in memory or as the Parquet shards of a run."""

from foible.findings.schema import OUTCOMES, SCHEMA, SCHEMA_VERSION, with_metadata
from foible.findings.shards import read_shard, shard_files
from foible.findings.table import Findings

__all__ = [
    "OUTCOMES",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Findings",
    "read_shard",
    "shard_files",
    "with_metadata",
]
