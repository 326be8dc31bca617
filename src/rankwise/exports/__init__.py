"""Trained models in the formats of engines and runtimes."""
