"""Look inside networks: what units answer to, and how much each layer can enlarge a small change (paper 3)."""
