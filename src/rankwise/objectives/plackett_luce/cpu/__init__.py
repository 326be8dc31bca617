"""Numba kernels of the family."""
