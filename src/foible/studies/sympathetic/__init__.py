"""Paper 2, "Explaining the mistakes of neural networks using latent sympathetic examples", run again."""
