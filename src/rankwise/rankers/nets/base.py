"""What rankers trained by torch share: rounds are epochs, on a device."""

from typing import TYPE_CHECKING

from rankwise import check
from rankwise.plain import Json
from rankwise.rankers.training.ranker import Trained

if TYPE_CHECKING:
    import torch

MODEL = "model.safetensors"


class TorchRanker(Trained):
    """A ranker whose rounds are epochs of torch. A subclass has the parameters ``epochs`` and ``device``."""

    unit = "epochs"
    device: str
    epochs_: int
    """How many epochs are in the model, those of an older model that it continues included."""

    def _device(self) -> "torch.device":
        import torch

        from rankwise.rankers.nets.processes import local_device

        try:
            return torch.empty(0, device=local_device(self.device)).device
        except (AssertionError, RuntimeError, TypeError) as missing:
            got = f"{self.device!r} ({(str(missing).splitlines() or [''])[0]})"
            raise check.error(
                "torch cannot use the device", got=got, hint="set device='cpu' or device='auto'"
            ) from None

    def _description(self) -> Json:
        return super()._description() | self._made_of(self.epochs_)

    def _rounds(self) -> int:
        return self.epochs_
