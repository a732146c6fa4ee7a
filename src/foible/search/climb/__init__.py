"""Searches that move points towards a mistake: hill climbing, gradients, populations."""
