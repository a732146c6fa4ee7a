"""Hunt: high-value mistakes of each network, by search under the eye of its peers (paper 1)."""
