"""Nets as models: layers, transforms of features, weights as files."""
