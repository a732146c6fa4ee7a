"""Suites: findings frozen, to be asked of later networks."""
