"""Losses of pairs: which pairs count, by how much, and what a pair in the wrong order costs."""
