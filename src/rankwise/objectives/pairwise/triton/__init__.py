"""Triton kernels of the family, for devices."""
