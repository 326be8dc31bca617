"""``rankwise.cluster.ray``: training on actors of a Ray cluster."""

from rankwise.cluster.partitions import Partitions as Partitions
from rankwise.cluster.ray.fit import fit as fit

__all__ = ["Partitions", "fit"]
