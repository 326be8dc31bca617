"""``rankwise.dask``: training on the workers of a Dask cluster."""

from rankwise.rankers.dask import fit as fit
from rankwise.rankers.partitions import Partitions as Partitions

__all__ = ["Partitions", "fit"]
