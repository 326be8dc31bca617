"""LightGBM: the adapter of boosted trees, and the ranker."""
