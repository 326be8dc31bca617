"""Ranking data: read it, make it, split it, perturb it, click on it."""
