"""An objective as the loss of any model that scores pairs of a query and a document."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rankwise import check
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.torch import TorchLoss
from rankwise.rerank.batching import Batching
from rankwise.rerank.inputs import Inputs, MiniBatches, device_of, mini_batches
from rankwise.rerank.parallel import global_mean
from rankwise.rerank.passes import two_passes
from rankwise.stream import Stream

Numbers = Tensor | ArrayLike


class PairLoss:
    """An objective, the size of its mini-batches, and the seed of what it draws."""

    def __init__(
        self,
        objective: ObjectiveLike,
        *,
        token_budget: int | None = None,
        mini_batch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        self._torch_loss = TorchLoss(objective, "sum", seed)
        self.objective = self._torch_loss.objective
        self.batching = Batching(token_budget, mini_batch_size)

    @property
    def seed(self) -> int:
        """Of what the objective draws."""
        return self._torch_loss.seed

    def state_dict(self) -> dict[str, Any]:
        """Return seed and step, for a loop of one's own that is to resume and draw what it would have drawn."""
        return self._torch_loss.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from what :meth:`state_dict` returned."""
        self._torch_loss.load_state_dict(state)

    def of(
        self,
        score: Callable[[Any], Any],
        inputs: Inputs | MiniBatches,
        labels: Numbers,
        offsets: Numbers,
        *,
        lengths: ArrayLike | None = None,
        weights: Numbers | None = None,
        query_ids: ArrayLike | None = None,
        model: torch.nn.Module | None = None,
        **documents: Numbers,
    ) -> Tensor:
        """Give the mean loss of ragged lists; ``backward()`` of it runs the second pass (see :func:`two_passes`).

        ``inputs`` are those of all documents: what a tokenizer gives for all pairs, padded, or a sequence of anything.
        ``score`` takes the same of a mini-batch, rows without needless padding or a list, and gives one score for each
        pair. ``model`` is what it calls: inputs are sent where that is. ``lengths`` are the tokens of each input where
        they cannot be seen.

        ``labels``, ``offsets``, ``weights`` (of lists) and ``documents`` (``teacher_scores``, ``document_weights`` …)
        are those of :func:`rankwise.torch_loss`; ``propensities`` divide the weights of documents. ``query_ids`` decide
        what an objective draws for a list, whatever batch it is in.
        """
        module = model if model is not None else score
        bounds = _array(offsets)
        # The lists of a step are the next of the data: what was prepared for others is of no use here.
        prepared = self._torch_loss.prepare(_array(labels), bounds, **_debiased(documents, bounds))
        batches = inputs
        if not isinstance(batches, MiniBatches):
            batches = mini_batches(batches, int(bounds[-1]), self.batching, lengths=lengths, device=device_of(module))
        shares = torch.ones(bounds.size - 1) if weights is None else torch.from_numpy(_array(weights))
        stream = self._stream(query_ids)

        def loss(scores: Tensor) -> Tensor:
            # A few thousand scores: the CPU is done with them before a device would have launched a kernel.
            total = prepared(batches.unsorted(scores.cpu()), shares, stream).to(scores.device)
            return global_mean(total, shares.sum().to(total), module)

        return two_passes(score, batches, loss, model=module)

    def _stream(self, query_ids: ArrayLike | None) -> Stream:
        """New random numbers at each step of training; the same whenever there is nothing to be trained."""
        stream = self._torch_loss.next_stream() if torch.is_grad_enabled() else Stream(self.seed)
        return stream if query_ids is None else replace(stream, query_ids=query_ids)


def _debiased(documents: dict[str, Numbers], offsets: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Clicks count inversely to the propensity that they were seen with, as weights of documents."""
    columns = {name: _array(column) for name, column in documents.items()}
    if "propensities" in columns:
        chances = check.propensities(columns.pop("propensities"), offsets)
        columns["document_weights"] = columns.get("document_weights", np.ones(chances.size)) / chances
    return columns


def _array(values: Numbers) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
