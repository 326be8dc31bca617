"""Objectives as losses of torch: one autograd function for all of them, and where device kernels plug in."""
