"""Ragged arrays on a GPU, and what all Triton kernels share: launches, tiles, order, random numbers."""
