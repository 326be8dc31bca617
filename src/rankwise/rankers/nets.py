"""What rankers trained by torch share: the loop by epochs, its checkpoints, and the device."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from rankwise import check
from rankwise.rankers.training import Trained

if TYPE_CHECKING:
    import torch

    from rankwise.rankers import epochs
    from rankwise.rankers.weights import Weights

MODEL, TRAINING = "model.safetensors", "training.safetensors"


class TorchRanker(Trained):
    """A ranker whose rounds are epochs of torch. A subclass has the parameter ``device``, and plans for ``epochs``."""

    unit = "epochs"
    device: str
    epochs_: int
    """How many epochs are in the model, those of an older model that it continues included."""

    def _learn(self, plan: "epochs.Plan", state: "epochs.State") -> "epochs.State":
        from rankwise.rankers import epochs

        return epochs.learn(plan, state)

    def _written(self, plan: "epochs.Plan", state: "epochs.State") -> tuple[dict[str, Any], dict[str, bytes]]:
        from rankwise.rankers import weights

        last, kept = weights.snapshot(plan.module), state.optimizer or {}
        training = weights.with_prefix("weights", last) | weights.with_prefix("optimizer", kept)
        files = {MODEL: self._packed(plan, state.best or {}), TRAINING: weights.packed(training)}
        return self._made_of(state.before + plan.best(state)), files

    def _go_on(self, plan: "epochs.Plan", state: "epochs.State", files: dict[str, bytes]) -> None:
        from rankwise.rankers import weights

        training = weights.unpacked(files[TRAINING])
        plan.module.load_state_dict(weights.of_prefix("weights", training))
        state.optimizer = weights.of_prefix("optimizer", training)
        state.best = self._unpacked(files[MODEL])

    def _device(self) -> "torch.device":
        import torch

        from rankwise.rankers.processes import local_device

        try:
            return torch.empty(0, device=local_device(self.device)).device
        except (RuntimeError, AssertionError) as missing:
            got = f"{self.device!r} ({str(missing).splitlines()[0]})"
            raise check.error("torch cannot use the device", got=got, cure="say device='cpu' or 'auto'") from None

    def _description(self) -> dict[str, Any]:
        return super()._description() | self._made_of(self.epochs_)

    @abstractmethod
    def _made_of(self, epochs: int) -> dict[str, Any]:
        """What a file says about a model of so many epochs."""

    @abstractmethod
    def _packed(self, plan: "epochs.Plan", best: "Weights") -> bytes:
        """Give the content of the model's file for these weights."""

    @abstractmethod
    def _unpacked(self, content: bytes) -> "Weights":
        """Give the weights that the model's file holds."""
