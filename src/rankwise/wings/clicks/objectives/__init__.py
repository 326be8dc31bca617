"""Wrappers that learn from clicks: click by click, with a bias for positions, and safely."""
