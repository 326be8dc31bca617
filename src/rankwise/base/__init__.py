"""Numbers, randomness, kernels, files: what knows nothing of ranking."""
