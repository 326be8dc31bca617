"""Training on the workers of a cluster."""
