"""Rankers that torch trains."""

from rankwise.rankers.base import IterativeRanker


class TorchRanker(IterativeRanker):
    """A ranker whose rounds are epochs of torch; a subclass has the parameters ``epochs`` and ``device``."""

    unit = "epochs"
    extra, modules, packages = "torch", ("torch", "safetensors"), ("torch",)
    first_round_pace = 10.0
    device: str

    @property
    def epochs_(self) -> int:
        """The number of epochs in the model, those of ``init_model`` included."""
        return int(self.model_.rounds)
