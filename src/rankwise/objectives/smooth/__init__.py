"""Metrics made smooth, and bounded by what a list allows."""
