"""Train: baskets of networks, and probes on the features of others."""
