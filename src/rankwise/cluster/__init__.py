"""Training on the workers of a cluster, whichever: Dask's, Ray's or others with the same verbs."""
