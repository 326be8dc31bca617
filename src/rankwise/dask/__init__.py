"""``rankwise.dask``: training on the workers of a Dask cluster."""

from rankwise.dask.fit import fit as fit
from rankwise.dask.partitions import Partitions as Partitions

__all__ = ["Partitions", "fit"]
