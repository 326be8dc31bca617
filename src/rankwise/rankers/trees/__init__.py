"""Boosted trees of three libraries."""
