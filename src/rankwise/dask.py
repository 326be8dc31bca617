"""``rankwise.dask``: training on the workers of a Dask cluster."""

from rankwise.rankers.trees.cluster.fit import fit as fit
from rankwise.rankers.trees.cluster.partitions import Partitions as Partitions

__all__ = ["Partitions", "fit"]
