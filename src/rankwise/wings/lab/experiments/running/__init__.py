"""Trials: cut out of the data, trained, measured, and kept as they end."""
