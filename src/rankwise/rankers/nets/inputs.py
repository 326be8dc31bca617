"""What a net in training sees of a data set: transformed once where that fits into memory, else batch by batch."""

import functools
from collections.abc import Iterator

import torch

from rankwise.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import in_memory
from rankwise.device import to_device
from rankwise.objectives.prepared import has_kernels
from rankwise.rankers.nets.batches import Part
from rankwise.rankers.nets.measures import NetScores
from rankwise.rankers.nets.mlp import Perceptron
from rankwise.rankers.nets.streaming import Coming, Rows, Streaming
from rankwise.rankers.training.validation import DeviceScores

KEPT = 2**26
"""How many transformed numbers are kept at most of features that are in memory: 256 MiB."""
KEPT_OF_FILES = 2**22
"""How many of features that lie on disk, or are sparse, and would take much less memory as they are: 16 MiB."""
STREAMING_DEVICES = {"cuda"}
"""Devices with memory of their own: features stay there, or are copied ahead of what is computed."""


def room(device: torch.device) -> int:
    """How many transformed numbers are kept at most on a device with memory of its own: half of what is free.

    The other half is for the layers of a batch, for the optimizer, and for data sets that are looked at later.
    """
    return int(torch.cuda.mem_get_info(device)[0] // 8)


class Inputs:
    """Transformed features of a data set; a quantile costs as much as all layers of a small net."""

    def __init__(self, net: Perceptron, data: RankingDataset) -> None:
        self.net, self.data = net, data
        self._kept: torch.Tensor | None = None
        self._next: tuple[Part, Coming] | None = None

    @functools.cached_property
    def keeps(self) -> bool:
        """Whether they are transformed once and kept; decided when they are first asked for, by what is free then."""
        most = KEPT if in_memory(self.data.features) else KEPT_OF_FILES
        if self.net.device.type in STREAMING_DEVICES:
            most = room(self.net.device)
        return self.data.n_docs * self.net.transform.width <= most

    def of(self, part: Part) -> tuple[torch.Tensor, ...]:
        """Give what :meth:`Perceptron.members_of` takes, of some queries."""
        offsets = torch.from_numpy(part.offsets) if self.net.needs_lists else None
        if self.keeps:
            rows = part.rows if isinstance(part.rows, slice) else to_device(part.rows, self.net.device)
            inputs = self.kept()[rows]
        elif self._next is not None and self._next[0] is part and self._streaming is not None:
            inputs = self._transformed(self._streaming.arrived(self._next[1]), offsets)
        else:
            inputs = self._read(part.rows, offsets)
        return (inputs,) if offsets is None else (inputs, offsets)

    def ahead(self, part: Part) -> None:
        """Start to bring the features of the part that is asked for next, where they are not kept on the device."""
        if not self.keeps and self._streaming is not None:
            self._next = part, self._streaming.begin(part.rows)

    def scores(self) -> Array | DeviceScores:
        """Score all documents by the net as it is now; scores stay on a device that can measure them."""
        found = torch.empty(self.data.n_docs, device=self.net.device)
        with torch.inference_mode():
            for rows, inputs, own in self._blocks():
                found[rows] = self.net.members_of(inputs, own).mean(-1)
        if has_kernels(self.net.device.type):
            return NetScores(found)
        return found.double().cpu().numpy()

    def kept(self) -> torch.Tensor:
        """Transform all documents when they are first asked for: by then the transform is what it will be."""
        if self._kept is None:
            kept = torch.empty((self.data.n_docs, self.net.transform.width), device=self.net.device)
            for rows, inputs, _ in self._anew():
                kept[rows] = inputs
            self._kept = kept
        return self._kept

    def _blocks(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
        """Rows of the data set with their transformed features, and the offsets of their queries if needed."""
        if not self.keeps:
            yield from self._anew()
            return
        for rows, own in self.net.blocks(self.data.features.shape, self.data.offsets):
            yield rows, self.kept()[rows], own

    def _anew(self) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor | None]]:
        """The same, transformed now; while a device computes with them, the rows after them are copied there."""
        blocks = list(self.net.blocks(self.data.features.shape, self.data.offsets))
        if self._streaming is None:
            yield from ((rows, self._read(rows, own), own) for rows, own in blocks)
            return
        coming = [self._streaming.begin(rows) for rows, _ in blocks[:1]]
        for number, (rows, own) in enumerate(blocks, start=1):
            yield rows, self._transformed(self._streaming.arrived(coming.pop()), own), own
            coming += [self._streaming.begin(following) for following, _ in blocks[number : number + 1]]

    @functools.cached_property
    def _streaming(self) -> Streaming | None:
        device = self.net.device
        return Streaming(self.data.features, device) if device.type in STREAMING_DEVICES else None

    def _read(self, rows: Rows, offsets: torch.Tensor | None) -> torch.Tensor:
        if self._streaming is not None:
            return self._transformed(self._streaming.arrived(self._streaming.begin(rows)), offsets)
        return self._transformed(self.net.read(self.data.features[rows]), offsets)

    def _transformed(self, features: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
        with torch.no_grad():
            return self.net.transform(features, offsets)  # type: ignore[no-any-return]
