"""``rankwise.wings.cluster.dask``: training on the workers of a Dask cluster."""

from rankwise.wings.cluster.dask.fit import fit as fit
from rankwise.wings.cluster.partitions import Partitions as Partitions

__all__ = ["Partitions", "fit"]
