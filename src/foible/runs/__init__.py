"""Runs: a plan of units, each of which writes one Parquet shard. A run is the set of its shards."""
