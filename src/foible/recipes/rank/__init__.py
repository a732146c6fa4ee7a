"""Rank: existing images without labels, by how clearly a suspect dissents from its peers (paper 1, Sec. 2)."""
