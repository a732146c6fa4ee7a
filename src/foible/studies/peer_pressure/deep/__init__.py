"""Paper 1's Figure 8: deep networks, hunted in turn."""
