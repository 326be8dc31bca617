"""``rankwise.cluster.dask``: training on the workers of a Dask cluster."""

from rankwise.cluster.dask.fit import fit as fit
from rankwise.cluster.partitions import Partitions as Partitions

__all__ = ["Partitions", "fit"]
