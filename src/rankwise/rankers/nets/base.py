"""What rankers trained by torch share: rounds are epochs, on a device."""

from typing import TYPE_CHECKING

from rankwise.arrays import Json
from rankwise.rankers.training.ranker import Trained

if TYPE_CHECKING:
    import torch

MODEL = "model.safetensors"


class TorchRanker(Trained):
    """A ranker whose rounds are epochs of torch. A subclass has the parameters ``epochs`` and ``device``."""

    unit = "epochs"
    extra, modules, packages = "torch", ("torch", "safetensors"), ("torch",)
    device: str
    epochs_: int
    """How many epochs are in the model, those of an older model that it continues included."""

    def _device(self) -> "torch.device":
        from rankwise.rankers.nets.processes import usable_device

        return usable_device(self.device)

    def _description(self) -> Json:
        return super()._description() | self._made_of(self.epochs_)

    def _rounds(self) -> int:
        return self.epochs_
