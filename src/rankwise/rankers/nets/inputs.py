"""What a net in training sees of a data set: transformed once where that fits into memory, else batch by batch."""

import numpy as np
import torch

from rankwise.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import in_memory
from rankwise.rankers.nets.batches import Part
from rankwise.rankers.nets.mlp import Perceptron

KEPT = 2**26
"""How many transformed numbers are kept at most of features that are in memory: 256 MiB."""
KEPT_OF_FILES = 2**22
"""How many of features that lie on disk, or are sparse, and would take much less memory as they are: 16 MiB."""


class Inputs:
    """Transformed features of a data set; a quantile costs as much as all layers of a small net."""

    def __init__(self, net: Perceptron, data: RankingDataset) -> None:
        self.net, self.data = net, data
        most = KEPT if in_memory(data.features) else KEPT_OF_FILES
        self.keeps = data.n_docs * net.transform.width <= most
        self._kept: torch.Tensor | None = None

    def of(self, part: Part) -> tuple[torch.Tensor, ...]:
        """Give what :meth:`Perceptron.members_of` takes, of some queries."""
        offsets = torch.from_numpy(part.offsets) if self.net.needs_lists else None
        inputs = self.kept()[part.rows] if self.keeps else self._read(part.rows, offsets)
        return (inputs,) if offsets is None else (inputs, offsets)

    def scores(self) -> Array:
        """Score all documents by the net as it is now."""
        if not self.keeps:
            return self.net.score(self.data.features, self.data.offsets)
        found, inputs = np.empty(self.data.n_docs), self.kept()
        with torch.inference_mode():
            for rows, own in self.net.blocks(self.data.features.shape, self.data.offsets):
                found[rows] = self.net.members_of(inputs[rows], own).mean(-1).cpu().numpy()
        return found

    def kept(self) -> torch.Tensor:
        """Transform all documents when they are first asked for: by then the transform is what it will be."""
        if self._kept is None:
            shape = self.data.n_docs, self.net.transform.width
            self._kept = torch.empty(shape, device=self.net.device)
            for rows, own in self.net.blocks(self.data.features.shape, self.data.offsets):
                self._kept[rows] = self._read(rows, own)
        return self._kept

    def _read(self, rows: "slice | np.ndarray", offsets: torch.Tensor | None) -> torch.Tensor:
        with torch.no_grad():
            return self.net.transform(self.net.read(self.data.features[rows]), offsets)  # type: ignore[no-any-return]
