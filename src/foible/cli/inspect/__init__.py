"""`foible inspect units` and `foible inspect spectrum`."""
