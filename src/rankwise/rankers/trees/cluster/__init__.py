"""Boosted trees on a Dask cluster."""
