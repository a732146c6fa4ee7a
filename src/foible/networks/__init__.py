"""Networks: the papers' small networks as a zoo, trained in fleets, kept on disk as safetensors plus JSON."""
