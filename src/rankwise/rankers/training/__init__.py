"""Training in rounds: one loop for trees, nets, factors and the workers of a cluster, and what goes with it."""
