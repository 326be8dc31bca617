"""What a reranker is made of and trained with."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.metrics import MetricLike
from rankwise.objectives.table import ObjectiveLike
from rankwise.plain import Keywords
from rankwise.rankers import storage
from rankwise.rankers.base import objective_expression

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


@dataclass(eq=False, repr=False)
class Settings:
    """The settings of a :class:`rankwise.rerank.Reranker`, which are its arguments."""

    model: "str | Path | CrossEncoder"
    """What training begins from: a folder, the name of a model on the Hugging Face Hub, or a ``CrossEncoder``, which is
    then trained itself, and whose scores become logits. Weights must be safetensors, and code of the model's own is not
    run. A model without a head for scores gets a new one from the seed; one that has it can score before it is trained.
    """
    objective: ObjectiveLike = "softmax_ce"
    """An objective, its expression (``"0.5*xendcg + 0.5*distil"``), or a function that is called like one."""
    _: KW_ONLY
    epochs: int = 1
    """How many times training goes through the lists."""
    learning_rate: float = 2e-5
    """Of AdamW, at its highest: it rises over the first steps and then falls to 0."""
    warmup: float = 0.1
    """The share of all steps in which the learning rate rises."""
    weight_decay: float = 0.01
    """Of AdamW; biases and normalizations have none."""
    max_grad_norm: float = 1.0
    """The norm that the gradient of a step is cut to."""
    batch_queries: int = 16
    """How many lists a step learns from, each of them whole."""
    token_budget: int = 16_384
    """How many tokens a mini-batch holds, padding included. It decides memory and speed, and changes no loss: a batch
    is scored in as many mini-batches as it needs."""
    max_length: int | None = None
    """Tokens of a pair at most, longer ones are cut; by default what the model was made for."""
    parts: int = 4
    """Into how many parts an epoch is cut. After each the validation data are measured, a checkpoint may be written,
    and training may stop."""
    patience: int | None = None
    """With validation data, training stops after so many parts without a better first metric; None trains all epochs.
    The best part is kept either way."""
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10",)
    """What is measured on the validation data after every part; larger is better."""
    debias: bool = False
    """For click data: weigh each clicked document by the inverse of its propensity."""
    seed: int = 0
    """Of every draw: a new head, the order of lists, dropout, the objective. Models repeat exactly on a CPU for the
    same number of threads."""
    threads: int | None = None
    """How many threads; by default ``RANKWISE_THREADS`` or every core."""
    checkpoint: str | Path | None = None
    """A folder, written every ``checkpoint_every`` parts, from which ``fit(…, resume=True)`` resumes."""
    checkpoint_every: int = 1
    """How many parts lie between checkpoints."""
    progress: bool | None = None
    """A bar with the loss, the metric and the time left: True, False, or None, on terminals only."""
    device: str = "auto"
    """``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda"``, or any name that torch knows."""
    precision: str = "auto"
    """``"float32"``; ``"bf16"``, mixed precision; or ``"auto"``: bf16 where a GPU trains, else float32."""

    def settings(self) -> Keywords:
        """Every setting but the model, as files hold it."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "model"}
        plain = {name: storage.plain(value) for name, value in given.items()}
        return plain | {"objective": objective_expression(self.objective)}

    def __repr__(self) -> str:
        defaults = {one.name: one.default for one in fields(self)}
        changed = {name: getattr(self, name) for name in defaults if getattr(self, name) != defaults[name]}
        model = changed.pop("model")
        first = repr(str(model)) if isinstance(model, str | Path) else type(model).__name__
        inside = ", ".join([first, *(f"{name}={value!r}" for name, value in changed.items())])
        return f"{type(self).__name__}({inside})"
