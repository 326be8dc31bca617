"""Recommenders without a training loop: closed forms, neighbours, alternating least squares, and counts."""
