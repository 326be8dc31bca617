"""``rankwise.wings.cluster.ray``: training on actors of a Ray cluster."""

from rankwise.wings.cluster.partitions import Partitions as Partitions
from rankwise.wings.cluster.ray.fit import fit as fit

__all__ = ["Partitions", "fit"]
