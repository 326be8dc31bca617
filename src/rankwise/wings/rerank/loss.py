"""Objectives as losses of rerankers: in the trainer of sentence-transformers, in other trainers, in one's own loop."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rankwise import Objective, Stream, check
from rankwise.base.arrays import offsets_of
from rankwise.objectives.autograd import TensorLike, as_array
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.torch import TorchLoss
from rankwise.wings.rerank.batches import MiniBatches, MiniBatchSize, PairInputs, device_of, mini_batches
from rankwise.wings.rerank.data.lists import check_lengths
from rankwise.wings.rerank.model_card import citation
from rankwise.wings.rerank.passes import global_mean, two_passes
from rankwise.wings.rerank.scoring import batches_of

PER_LIST = ("weight", "query_id")
"""Columns with one value for each list; all others have one for each document."""


class LossSettings(TypedDict, total=False):
    """Keyword arguments of :class:`Loss`."""

    columns: Sequence[str] | None
    token_budget: int | None
    mini_batch_size: int | None
    seed: int


class Loss:
    """Any objective as a loss of rerankers, exact and in the memory of one mini-batch, however long the lists are.

    ``Loss(model, objective)``, a :class:`BoundLoss`, is a loss for sentence-transformers' ``CrossEncoderTrainer``,
    beside its evaluators and model cards. Its data have the columns query, documents (a list), and labels (a list, as
    long): lists of any lengths. ``Loss(objective)``, an :class:`UnboundLoss`, has no model: the trainer binds it to its
    own; and :meth:`of` is for every other model and for one's own loop.

    Scores are computed twice, first without a graph, then in the backward pass mini-batch by mini-batch with one (see
    :func:`rankwise.rerank.two_passes`). Pairs are padded to the longest of their mini-batch and no further, so that the
    loss of a list is the same in any batch and in any mini-batches.

    - ``model``: a ``CrossEncoder`` with one output.
    - ``objective``: an object, an expression (``"lambdarank"``) or a function.
    - ``columns``: the names of the columns of the data behind query, documents and labels, in their order; a trainer
      passes them without names. Per document: ``teacher_scores``, ``document_weights``, ``propensities``, whatever the
      objective reads; per list: ``weight``, and ``query_id``, which decides the objective's random numbers (by default
      the query's text does). By default the columns that the objective reads.
    - ``token_budget``: tokens of a mini-batch, padding included; 16,384 by default. It decides memory and speed.
    - ``mini_batch_size``: pairs of a mini-batch, instead of a budget of tokens.
    - ``seed``: of the objective's random numbers, new ones at each step. A trainer of Hugging Face's that resumes draws
      the same; a loop of one's own saves the loss's ``state_dict``.
    """

    @overload
    def __new__(cls, objective: ObjectiveLike, /, **settings: Unpack[LossSettings]) -> "UnboundLoss": ...
    @overload
    def __new__(
        cls, model: torch.nn.Module, objective: ObjectiveLike, **settings: Unpack[LossSettings]
    ) -> "BoundLoss": ...
    def __new__(cls, *arguments: Any, **settings: Any) -> "Loss":  # noqa: PYI034 (a subclass)
        """Choose the subclass, as ``pathlib.Path`` does: trainers bind a loss to their model unless it is a module."""
        kind: type[Loss] = cls
        if cls is Loss:
            kind = UnboundLoss if len(arguments) == 1 and "objective" not in settings else BoundLoss
        return super().__new__(kind)

    _torch_loss: TorchLoss

    def _configure(
        self,
        objective: ObjectiveLike,
        columns: Sequence[str] | None = None,
        token_budget: int | None = None,
        mini_batch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        # Not by the way of nn.Module, which would list the loss of scores as a submodule of a bound loss.
        vars(self)["_torch_loss"] = TorchLoss(objective, "sum", seed)
        self.size = MiniBatchSize(token_budget, mini_batch_size)
        names = self.objective.reads if columns is None else columns
        self.columns = (names,) if isinstance(names, str) else tuple(names)

    @property
    def objective(self) -> Objective:
        """The objective that is minimised."""
        return self._torch_loss.objective

    @property
    def seed(self) -> int:
        """Seed of the objective's random numbers."""
        return self._torch_loss.seed

    def of(
        self,
        score: Callable[..., object],
        inputs: PairInputs | MiniBatches,
        labels: TensorLike,
        offsets: TensorLike,
        *,
        lengths: ArrayLike | None = None,
        weights: TensorLike | None = None,
        query_ids: ArrayLike | None = None,
        model: object = None,
        **documents: TensorLike,
    ) -> Tensor:
        """Return the mean loss of ragged lists; its ``backward()`` runs the second pass (see :func:`two_passes`).

        ``inputs`` are those of all documents: the padded output of a tokenizer for all pairs, or a sequence of
        anything. ``score`` maps those of a mini-batch, rows without needless padding or a list, to one score for each
        pair. ``model`` is the module that it calls: inputs are sent to its device. ``lengths`` are the tokens of each
        input where the inputs do not show them.

        ``labels``, ``offsets``, ``weights`` (of lists) and ``documents`` (``teacher_scores``, ``document_weights`` …)
        are those of :func:`rankwise.torch_loss`; ``propensities`` divide the weights of documents. ``query_ids`` decide
        the random numbers of a list, whatever batch it is in.

        - an encoder with a classifier: ``loss.of(lambda batch: model(**batch), encodings, labels, offsets,
          model=model)``;
        - a language model that scores by a token: ``lambda batch: model(**batch).logits[:, -1, yes]``, padded on the
          left;
        - late interaction: ``lambda pairs: …``, with a list of whatever the model computes its vectors from.
        """
        module = model if model is not None else score
        bounds = as_array(offsets)
        columns = {name: as_array(column) for name, column in documents.items()}
        if "propensities" in columns:
            propensities = check.propensities(columns.pop("propensities"), bounds)
            columns["document_weights"] = columns.get("document_weights", np.ones(propensities.size)) / propensities
        prepared = self._torch_loss.prepare(as_array(labels), bounds, **columns)
        batches = inputs
        if not isinstance(batches, MiniBatches):
            batches = mini_batches(batches, int(bounds[-1]), self.size, lengths=lengths, device=device_of(module))
        shares = torch.ones(bounds.size - 1) if weights is None else torch.tensor(as_array(weights))
        # New random numbers at each step of training, and the same ones where gradients are off.
        stream = self._torch_loss.next_stream() if torch.is_grad_enabled() else Stream(self.seed)
        if query_ids is not None:
            stream = replace(stream, query_ids=query_ids)

        def loss(scores: Tensor) -> Tensor:
            # A few thousand scores: the CPU is done with them before a device would have launched a kernel.
            total = prepared(batches.unsorted(scores.cpu()), shares, stream).to(scores.device)
            return global_mean(total, shares.sum().to(total), module)

        return two_passes(score, batches, loss, model=module)


class UnboundLoss(Loss):
    """``rw.rerank.Loss(objective)``: a loss without a model.

    Called with a ``CrossEncoder`` it returns the :class:`BoundLoss` of that model; :meth:`of` is for every other one.
    """

    def __init__(self, objective: ObjectiveLike, /, **settings: Unpack[LossSettings]) -> None:
        if isinstance(objective, torch.nn.Module):
            hint = 'pass an objective behind it: rw.rerank.Loss(model, "lambdarank")'
            raise check.error("a loss needs an objective", got=type(objective).__name__, hint=hint)
        self._configure(objective, **settings)

    def __call__(self, model: torch.nn.Module) -> "BoundLoss":
        """Bind the loss to a model."""
        return BoundLoss(model, self.objective, columns=self.columns, seed=self.seed, **vars(self.size))

    def state_dict(self) -> dict[str, Any]:
        """Return seed and step, for a loop of one's own that is to resume with the same random numbers."""
        return self._torch_loss.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore seed and step."""
        self._torch_loss.load_state_dict(state)

    def __repr__(self) -> str:
        return f"Loss({self.objective!r})"


class BoundLoss(torch.nn.Module, Loss):
    """``rw.rerank.Loss(model, objective)``: a loss of sentence-transformers' ``CrossEncoder``, for its trainer."""

    uses_gradient_cache = True  # tells sentence-transformers that the backward pass runs the model again

    def __init__(self, model: torch.nn.Module, objective: ObjectiveLike, **settings: Unpack[LossSettings]) -> None:
        super().__init__()
        n_labels = getattr(model, "num_labels", None)
        if not hasattr(model, "preprocess") or n_labels not in (1, None):
            raise check.error(
                "a loss is bound to a CrossEncoder that gives one score",
                got=f"{type(model).__name__} with {'no' if n_labels is None else n_labels} labels",
                hint="make it with num_labels=1; for other models use rw.rerank.Loss(objective).of(score, inputs, …)",
            )
        self.model = model
        self._configure(objective, **settings)

    def get_extra_state(self) -> dict[str, Any]:
        """Return seed and step, for ``state_dict``: a loop that resumes draws the same random numbers."""
        return self._torch_loss.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore seed and step from ``load_state_dict``."""
        self._torch_loss.load_state_dict(state)

    @torch.compiler.disable
    def forward(
        self,
        inputs: Sequence[Sequence[Any]],
        labels: Tensor | Sequence[Any] | None = None,
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """Return the mean loss of lists: ``inputs`` are queries, lists of documents, and the ``columns``."""
        if len(inputs) != 2 + len(self.columns):
            names = ", ".join(("query", "documents", *self.columns))
            raise check.error(
                f"the data must have the columns {names}, in this order, and labels",
                got=f"{len(inputs)} columns beside labels",
                hint="set columns= to what the columns behind query and documents are, or take columns off the data",
            )
        queries, lists, *columns = inputs
        for number, documents in enumerate(lists):
            if isinstance(documents, str) or not len(documents):
                raise check.error(
                    "each query must have a list of documents, at least one",
                    got=repr(documents[:40]),
                    where=f"list number {number} of a batch",
                    hint="let the second column of the data hold lists of texts",
                )
        if labels is None and not _needs_no_labels(self.objective):
            raise check.error(
                f"{self.objective!r} learns from labels",
                got="data without a column of labels",
                hint="name the column label or labels; distil and margin_mse do without",
            )
        if isinstance(labels, Tensor) and labels.ndim == 1:
            hint = "let a row of the data be a query, the list of its documents, and the list of their labels"
            raise check.error("each list must have a list of labels", got="one label for each list", hint=hint)
        sizes = [len(documents) for documents in lists]
        pairs = [(query, document) for query, documents in zip(queries, lists, strict=True) for document in documents]
        arrays: dict[str, Any] = {
            name: _per_list(name, values, len(queries)) if name in PER_LIST else _flat(name, values, sizes)
            for name, values in zip(self.columns, columns, strict=True)
        }
        # Queries that are not texts, such as images, have no name but their place in the batch.
        texts = queries if all(isinstance(query, str) for query in queries) else None
        weights, query_ids = arrays.pop("weight", None), arrays.pop("query_id", texts)
        encoder: Any = self.model
        score, batches = batches_of(encoder, pairs, self.size, prompt=prompt, task=task)
        return self.of(
            score,
            batches,
            np.zeros(len(pairs)) if labels is None else _flat("labels", labels, sizes),
            offsets_of(np.array(sizes, np.int64)),
            weights=weights,
            query_ids=query_ids,
            model=self.model,
            **arrays,
        )

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings, for the model card."""
        sizes = {name: size for name, size in vars(self.size).items() if size is not None}
        return {"objective": repr(self.objective), "columns": list(self.columns), **sizes, "seed": self.seed}

    @property
    def citation(self) -> str:
        """BibTeX for the model card."""
        return citation(self.objective)

    def _get_name(self) -> str:
        return Loss.__name__

    def extra_repr(self) -> str:
        """Return the settings that ``repr`` shows."""
        return ", ".join(f"{name}={value!r}" for name, value in self.get_config_dict().items())


def _flat(name: str, lists: Tensor | Sequence[Any], sizes: list[int]) -> NDArray[Any]:
    """Concatenate the lists of a column; each must be as long as the list of documents."""
    check_lengths(name, [len(values) for values in lists], sizes, "list number {} of a batch")
    if all(isinstance(values, Tensor) for values in lists):
        return as_array(torch.cat(list(lists)))  # trainers send labels to the device: one copy back for all of them
    return np.concatenate([np.asarray(values) for values in lists])


def _per_list(name: str, values: Sequence[object], n_lists: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (n_lists,):
        raise check.error(f"{name} must be one value for each query", got=f"shape {array.shape} for {n_lists} queries")
    return array


def _needs_no_labels(objective: Objective) -> bool:
    """Whether the objective learns from a teacher's scores alone."""
    inside = objective.children
    return all(map(_needs_no_labels, inside)) if inside else "teacher_scores" in objective.reads
