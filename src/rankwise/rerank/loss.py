"""Objectives as losses of sentence-transformers' ``CrossEncoder``, in its trainer as it is."""

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankwise import check
from rankwise._version import __version__
from rankwise.arrays import offsets_of
from rankwise.objectives.base import Objective
from rankwise.objectives.table import ObjectiveLike
from rankwise.rerank.pair_loss import PairLoss
from rankwise.rerank.scoring import batches_of

BY_LIST = ("weight", "query_id")
"""Columns that have one value for each list; all others have one for each document."""


class Loss(torch.nn.Module):
    """Any objective as a loss of rerankers, exact and in the memory of one mini-batch, however long the lists are.

    ``Loss(model, objective)`` is a loss for sentence-transformers' ``CrossEncoderTrainer``, beside its evaluators and
    model cards. Its data have the columns query, documents (a list), and labels (a list, as long): lists of any
    lengths. ``Loss(objective)`` is not bound to a model: the trainer takes it too, and binds it; and ``.of(score,
    inputs, labels, offsets)`` is for every other model and for one's own loop (see :class:`UnboundLoss`).

    Scores are computed twice, first without a graph, then in the backward pass mini-batch by mini-batch with one (see
    :func:`rankwise.rerank.two_passes`). Nothing is padded but pairs of a mini-batch to the longest of them, so that the
    loss of a list is the same in any batch and in any mini-batches.

    Args:
        model: a ``CrossEncoder`` with one output.
        objective: an object, an expression (``"lambdarank"``) or a function.
        columns: what the columns of the data are beside query, documents and labels, in their order; a trainer hands
            them over without their names. Of each document: ``teacher_scores``, ``document_weights``,
            ``propensities``, whatever the objective takes; of each list: ``weight``, and ``query_id``, which decides
            what an objective draws (else the query's text does). What the objective reads, if left out.
        token_budget: tokens of a mini-batch, padding included; 16,384 if nothing is set. It decides memory and speed.
        mini_batch_size: pairs of a mini-batch, instead of a budget of tokens.
        seed: of what the objective draws, at each step anew. A trainer of Hugging Face's that resumes draws what it
            would have drawn; a loop of one's own saves the loss's ``state_dict``.
    """

    uses_gradient_cache = True  # how sentence-transformers knows losses whose backward pass runs the model again

    def __new__(cls, *what: Any, **settings: Any) -> Any:
        """Give an :class:`UnboundLoss` where there is no model: trainers bind what is no module."""
        unbound = len(what) == 1 and "objective" not in settings
        return UnboundLoss(*what, **settings) if unbound else super().__new__(cls)

    @overload
    def __init__(
        self,
        objective: ObjectiveLike,
        /,
        *,
        columns: Sequence[str] | None = None,
        token_budget: int | None = None,
        mini_batch_size: int | None = None,
        seed: int = 0,
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: torch.nn.Module,
        objective: ObjectiveLike,
        *,
        columns: Sequence[str] | None = None,
        token_budget: int | None = None,
        mini_batch_size: int | None = None,
        seed: int = 0,
    ) -> None: ...
    def __init__(
        self, model: Any, objective: ObjectiveLike = "", *, columns: Sequence[str] | None = None, **settings: Any
    ) -> None:
        super().__init__()
        if not hasattr(model, "preprocess") or getattr(model, "num_labels", 1) != 1:
            raise check.error(
                "a loss is bound to a CrossEncoder that gives one score",
                got=f"{type(model).__name__} with {getattr(model, 'num_labels', 'no')} labels",
                hint="make it with num_labels=1; for other models use rw.rerank.Loss(objective).of(score, inputs, …)",
            )
        self.model = model
        self._loss = PairLoss(objective, **settings)
        names = self.objective.reads if columns is None else columns
        self.columns = (names,) if isinstance(names, str) else tuple(names)

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        return self._loss.objective

    @property
    def of(self) -> Callable[..., Tensor]:
        """The loss of whatever scores pairs (see :meth:`UnboundLoss.of`)."""
        return self._loss.of

    def get_extra_state(self) -> dict[str, Any]:
        """Seed and step, for ``state_dict``: a loop that resumes draws what it would have drawn."""
        return self._loss.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Resume from seed and step of ``load_state_dict``."""
        self._loss.load_state_dict(state)

    @torch.compiler.disable
    def forward(
        self,
        inputs: Sequence[Sequence[Any]],
        labels: Any = None,
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """Give the mean loss of lists: ``inputs`` are queries, lists of documents, and what ``columns`` names."""
        queries, lists, columns = self._read(inputs)
        sizes = [len(documents) for documents in lists]
        offsets = offsets_of(np.array(sizes, np.int64))
        pairs = [(query, document) for query, documents in zip(queries, lists, strict=True) for document in documents]
        given: dict[str, Any] = {
            name: _numbers(name, values, len(queries)) if name in BY_LIST else _joined(name, values, sizes)
            for name, values in columns.items()
        }
        known = self._labels(labels, sizes)
        # Queries that are no texts, such as images, have no name but their place in the batch.
        texts = queries if all(isinstance(query, str) for query in queries) else None
        weights, ids = given.pop("weight", None), given.pop("query_id", texts)
        score, batches = batches_of(self.model, pairs, self._loss.batching, prompt=prompt, task=task)
        return self._loss.of(score, batches, known, offsets, weights=weights, query_ids=ids, model=self.model, **given)

    def _read(self, inputs: Sequence[Sequence[Any]]) -> tuple[Sequence[str], Sequence[Any], dict[str, Any]]:
        if len(inputs) != 2 + len(self.columns):
            names = ", ".join(("query", "documents", *self.columns))
            raise check.error(
                f"the data must have the columns {names}, in this order, and labels",
                got=f"{len(inputs)} columns beside labels",
                hint="set columns= to what the columns behind query and documents are, or take columns off the data",
            )
        queries, lists, *others = inputs
        for number, documents in enumerate(lists):
            if isinstance(documents, str) or not len(documents):
                raise check.error(
                    "each query must have a list of documents, at least one",
                    got=repr(documents[:40]),
                    where=f"list number {number} of a batch",
                    hint="let the second column of the data hold lists of texts",
                )
        return queries, lists, dict(zip(self.columns, others, strict=True))

    def _labels(self, labels: Any, sizes: list[int]) -> NDArray[np.float64]:
        if labels is None:
            if not _taught(self.objective):
                raise check.error(
                    f"{self.objective!r} learns from labels",
                    got="data without a column of labels",
                    hint="name the column label or labels; distil and margin_mse do without",
                )
            return np.zeros(sum(sizes))
        if isinstance(labels, Tensor) and labels.ndim == 1:
            hint = "let a row of the data be a query, the list of its documents, and the list of their labels"
            raise check.error("each list must have a list of labels", got="one label for each list", hint=hint)
        return _joined("labels", labels, sizes)

    def get_config_dict(self) -> dict[str, Any]:
        """Settings, for the model card."""
        sizes = {name: size for name, size in vars(self._loss.batching).items() if size is not None}
        return {"objective": repr(self.objective), "columns": list(self.columns), **sizes, "seed": self._loss.seed}

    @property
    def citation(self) -> str:
        """What the model card cites."""
        paper = (
            f",\n    note={{Objective: {self.objective.name}, {self.objective.paper}}}" if self.objective.paper else ""
        )
        title = "rankwise: learning to rank with one definition of an objective for every trainer"
        return f"""
@software{{rankwise,
    title={{{title}}},
    author={{{{The rankwise developers}}}},
    version={{{__version__}}}{paper}
}}
"""

    def extra_repr(self) -> str:
        """What stands between the brackets of its expression."""
        return ", ".join(f"{name}={value!r}" for name, value in self.get_config_dict().items())


class UnboundLoss(PairLoss):
    """What ``rw.rerank.Loss(objective)`` is: the loss of whatever model it is given.

    Called with a ``CrossEncoder`` it gives the :class:`Loss` of that model; :meth:`of` is for every other model:

    - an encoder with a classifier: ``loss.of(lambda batch: model(**batch), encodings, labels, offsets, model=model)``;
    - a language model that scores by a token: ``lambda batch: model(**batch).logits[:, -1, yes]``, padded on the left;
    - late interaction: ``lambda pairs: …``, with a list of whatever the model makes its vectors from.
    """

    def __init__(self, objective: ObjectiveLike, *, columns: Sequence[str] | None = None, **settings: Any) -> None:
        if isinstance(objective, torch.nn.Module):
            hint = 'pass an objective behind it: rw.rerank.Loss(model, "lambdarank")'
            raise check.error("a loss needs an objective", got=type(objective).__name__, hint=hint)
        super().__init__(objective, **settings)
        self.columns = columns

    def __call__(self, model: torch.nn.Module) -> Loss:
        """Bind the loss to a model."""
        return Loss(model, self.objective, columns=self.columns, seed=self.seed, **vars(self.batching))

    def __repr__(self) -> str:
        return f"Loss({self.objective!r})"


def _joined(name: str, lists: Sequence[Any], sizes: list[int]) -> NDArray[Any]:
    """A column of lists in one row; each must be as long as the list of documents."""
    found = [len(values) for values in lists]
    if found != sizes:
        differ = (k for k, (some, size) in enumerate(zip(found, sizes, strict=False)) if some != size)
        number = next(differ, min(len(found), len(sizes)))
        raise check.error(
            f"{name} must be as many as the documents of a query",
            got=f"lengths {found[number : number + 1]} for {sizes[number : number + 1]} documents",
            where=f"list number {number} of a batch",
        )
    if all(isinstance(values, Tensor) for values in lists):
        joined = torch.cat(list(lists)).cpu()  # trainers send labels to the device: one way back for all of them
        return (joined.float() if joined.dtype == torch.bfloat16 else joined).numpy()
    return np.concatenate([np.asarray(values) for values in lists])


def _numbers(name: str, values: Sequence[Any], n_lists: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (n_lists,):
        raise check.error(f"{name} must be one value for each query", got=f"shape {array.shape} for {n_lists} queries")
    return array


def _taught(objective: Objective) -> bool:
    """Whether a teacher's scores are all that it learns from."""
    inside = objective.children
    return all(map(_taught, inside)) if inside else "teacher_scores" in objective.reads
