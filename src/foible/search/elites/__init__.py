"""Searches that keep the best of every kind (MAP-Elites), the archive and its cells."""
