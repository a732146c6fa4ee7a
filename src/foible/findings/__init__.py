"""Findings: the one currency. An Arrow table of trials, in memory or as the Parquet shards of a run."""

from foible.findings.table import OUTCOMES, SCHEMA, SCHEMA_VERSION, Findings, read_shard, shard_files, with_metadata

__all__ = [
    "OUTCOMES",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Findings",
    "read_shard",
    "shard_files",
    "with_metadata",
]
