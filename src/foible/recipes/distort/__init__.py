"""Distort: the smallest change of an image that changes what a network says (paper 3)."""
