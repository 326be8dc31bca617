"""Rerankers: cross-encoders and language models that score a query and a document, trained with any objective."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from rankwise import check
from rankwise.arrays import Array
from rankwise.evaluation.evaluate import evaluate
from rankwise.evaluation.evaluation import Evaluation
from rankwise.metrics import MetricLike
from rankwise.plain import Json, Keywords
from rankwise.rankers import storage
from rankwise.rankers.base import objective_expression
from rankwise.rerank import encoders, folder, training
from rankwise.rerank.card import Card
from rankwise.rerank.data.lists import Lists
from rankwise.rerank.settings import Settings

if TYPE_CHECKING:
    import polars as pl
    from sentence_transformers import CrossEncoder

Texts = Lists | Iterable[tuple[str, str]]
"""Lists, or pairs of a query and a document."""
_HOW = ("objective", "threads", "checkpoint", "checkpoint_every", "progress", "device")
"""Settings that are not kept among the others: those of the machine and the run, and what stands elsewhere."""


class Reranker(Settings):
    """A cross-encoder that scores texts, trained with any objective on ragged lists of documents.

    It is sentence-transformers' ``CrossEncoder`` with a training of its own: two exact passes, so that memory is that
    of one mini-batch however long the lists are. :meth:`save` writes a Hugging Face folder, which ``CrossEncoder``
    opens too.
    """

    encoder_: "CrossEncoder"
    history_: dict[str, list[float]]
    """``loss``: of the training lists during each part. A metric: of the validation lists after it."""
    best_round_: int
    """How many parts the model has learned from: until the first metric was best."""
    epochs_: float
    """The same in epochs."""
    stopped_: str
    """Why training ended: ``parts`` (all of them), ``patience``, ``converged`` or ``interrupted``."""
    evaluation_: Evaluation | None
    """Of the validation lists, by the model that is kept."""
    evaluations_: dict[str, Json]
    """What the model card says of it, by the name of the data."""
    trained_on_: dict[str, str]
    base_model_: str

    def fit(
        self,
        train: Lists,
        valid: Lists | None = None,
        *,
        resume: bool = False,
        watch: Callable[[int, dict[str, list[float]]], None] | None = None,
    ) -> Self:
        """Train on lists; with validation lists the best part of the training is kept.

        ``resume`` starts from the checkpoint if there is one, and ends in the same model as a run that was never
        interrupted. Ctrl-C ends training and keeps the best model so far; before the first part is complete it raises
        KeyboardInterrupt. ``watch`` is called after every part with its number and the history so far. Under
        ``torchrun`` the processes share the lists of each batch.
        """
        training.fit(self, train, valid, resume=resume, watch=watch)
        return self

    def predict(self, texts: Texts) -> Array:
        """Give one score per document, the higher the better; scores compare within a query.

        ``texts`` are lists, or pairs of a query and a document. A score is the logit that the model gives. Scores have
        the order of the pairs, or of ``lists.documents``, which ``lists.data.unsorted`` puts into that of the file.
        """
        if isinstance(texts, Lists):
            texts.data.warn_of_order()
        return training.scores(self, texts)

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None) -> "pl.DataFrame":
        """Give documents in order, best first, as a table: ``rank``, ``document`` (its number), ``score`` and ``text``.

        Equal scores keep the order of the documents.
        """
        import polars as pl

        if isinstance(documents, str):
            raise check.error("documents must be a list of texts", got=f"the text {documents[:40]!r}")
        scores = self.predict([(query, document) for document in documents])
        order = np.argsort(-scores, kind="stable")[: None if top_k is None else check.integer("top_k", top_k, least=1)]
        texts = [documents[number] for number in order.tolist()]
        ranks = np.arange(1, order.size + 1)
        return pl.DataFrame({"rank": ranks, "document": order, "score": scores[order], "text": texts})

    def evaluate(self, lists: Lists, metrics: MetricLike | Iterable[MetricLike] | None = None) -> Evaluation:
        """Measure the ranking of lists: :func:`rankwise.evaluate` of it, by default with its own metrics."""
        return evaluate(self, lists, self.metrics if metrics is None else metrics)

    @property
    def encoder(self) -> "CrossEncoder":
        """The ``CrossEncoder`` that scores: the one that was trained, else the model that training begins from."""
        if "encoder_" not in vars(self):
            self.encoder_ = training.opened(self)
        return self.encoder_

    # On disk.

    def save(
        self, path: str | Path, *, evaluations: Mapping[str, Evaluation] | None = None, force: bool = False
    ) -> Path:
        """Write a Hugging Face folder: weights as safetensors, the tokenizer, a model card, and ``rankwise.json``.

        The card, ``README.md``, says how it was trained and how good it is on the validation lists and in the
        ``evaluations``, by the names of their data, each number with its interval.

        The folder appears only once it is complete. One that exists is replaced only with ``force``.
        """
        self._check_trained()
        found = self.evaluations_ | {name: one.to_dict() for name, one in (evaluations or {}).items()}
        description = self._description() | {"evaluations": found}
        card = self._card(Path(path).resolve().name, found)

        def fill(new: Path) -> None:
            with encoders.quiet():
                self.encoder.save_pretrained(str(new), create_model_card=False)
            (new / "README.md").write_text(card.text(), encoding="utf-8")

        return folder.write(path, description, fill, force=force)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """Read and verify what :meth:`save` wrote; no code from the folder is run, and no pickle read.

        Its settings are those that it was trained with, and ``fit`` would train it further.
        """
        description = folder.read(path)
        with storage.making_sense(path):
            settings: Keywords = description["parameters"]
            if isinstance(settings["metrics"], list):
                settings["metrics"] = tuple(settings["metrics"])
            reranker = cls(path, description["objective"], **settings, device=device)
            reranker.history_ = {name: list(map(float, column)) for name, column in description["history"].items()}
            reranker.best_round_, reranker.stopped_ = int(description["best_round"]), str(description["stopped"])
            reranker.epochs_ = float(description["epochs"])
            reranker.evaluation_, reranker.evaluations_ = None, dict(description["evaluations"])
            reranker.trained_on_, reranker.base_model_ = dict(description["data"]), str(description["base_model"])
        reranker.encoder_ = training.opened(reranker)
        return reranker

    def _check_trained(self) -> None:
        if "history_" not in vars(self):
            raise check.error(
                "this Reranker is not trained yet", hint="call fit, or open a saved one with Reranker.load"
            )

    def _description(self) -> Json:
        return {
            "objective": objective_expression(self.objective),
            "parameters": {name: value for name, value in self.settings().items() if name not in _HOW},
            "base_model": self.base_model_,
            "data": self.trained_on_,
            "best_round": self.best_round_,
            "epochs": self.epochs_,
            "stopped": self.stopped_,
            "history": self.history_,
            "versions": training.versions(),
        }

    def _card(self, name: str, evaluations: Mapping[str, Json]) -> Card:
        about = self._description()
        settings = about["parameters"] | {"max_length": self.encoder.max_seq_length}
        data = {f"{part} data": size for part, size in self.trained_on_.items()}
        return Card(
            name=name,
            base_model=self.base_model_,
            objective=about["objective"],
            paper=training.paper(self.objective),
            data=data | {"epochs in the model": f"{self.epochs_:g}"},
            settings={key: value for key, value in settings.items() if value is not None and value is not False},
            evaluations=evaluations,
            versions=storage.versions() | about["versions"],
        )
