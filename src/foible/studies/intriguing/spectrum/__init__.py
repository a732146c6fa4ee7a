"""Paper 3's Table 5: bounds of every layer."""
