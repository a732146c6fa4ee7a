"""Recipes: each verb of Foible, short, from a space, a basket, an objective and a search."""
