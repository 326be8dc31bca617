"""``rankwise.dask``: training on the workers of a Dask cluster."""

from rankwise.cluster.partitions import Partitions as Partitions
from rankwise.dask.fit import fit as fit

__all__ = ["Partitions", "fit"]
