"""LETOR and SVMLight text."""
