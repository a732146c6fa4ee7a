"""Paper 1's Figures 2 to 4: five small networks, and a full scan of the plane for dissent."""
