"""Rerankers: cross-encoders and language models that score a query and a document, trained with any objective."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np

from rankwise import Evaluation, RankingDataset, check, evaluate, moved
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, AtLeast, OneOf, Option, Unset, Within, check_declared
from rankwise.metrics import MetricLike
from rankwise.models import storage
from rankwise.rankers import objective_expression
from rankwise.rankers.training import parameters as common
from rankwise.wings.rerank import encoders, training
from rankwise.wings.rerank.encoders import CrossEncoder, Pair
from rankwise.wings.rerank.learner import BF16
from rankwise.wings.rerank.model_card import model_card

if TYPE_CHECKING:
    import polars as pl

TextsOrPairs = RankingDataset | Iterable[Pair]
"""Lists, or another data set with texts; or pairs of a query and a document."""
_NOT_SAVED = ("objective", "threads", "checkpoint", "checkpoint_every", "progress", "device")
"""Settings of the machine and the run, and the objective, which has an entry of its own."""


@documented
@dataclass(eq=False, repr=False)
class RerankerSettings:
    """Arguments of :class:`rankwise.rerank.Reranker`."""

    model: Annotated[
        str | Path | CrossEncoder,
        """Model that training begins from: a folder, the name of a model on the Hugging Face Hub, or a
        ``CrossEncoder``, which is then trained itself, and whose scores become logits. Weights must be safetensors, and
        code of the model's own is not run. A model without a head for scores gets a new one from the seed; a model with
        one can score before it is trained.""",
    ]
    objective: common.Objective = "softmax_ce"
    _: KW_ONLY
    epochs: common.Epochs = 1
    learning_rate: Annotated[
        float,
        AtLeast(0),
        "Highest learning rate of AdamW: it rises over the first steps and then falls to 0.",
        Option(metavar="RATE", group="Training"),
    ] = 2e-5
    warmup: Annotated[float, Within(0, 1), "Share of all steps in which the learning rate rises."] = 0.1
    weight_decay: Annotated[float, AtLeast(0), "Weight decay of AdamW; biases and normalizations have none."] = 0.01
    max_grad_norm: Annotated[float, Above(0), "Norm that the gradient of a step is clipped to."] = 1.0
    batch_queries: Annotated[
        int,
        AtLeast(1),
        "Number of lists of a step, each of them whole.",
        Option(metavar="N", group="Training"),
    ] = 16
    token_budget: Annotated[
        int,
        AtLeast(1),
        """Tokens of a mini-batch, padding included. It decides memory and speed, and changes no loss: a batch is scored
        in as many mini-batches as it needs.""",
        Option(metavar="N", group="Running"),
    ] = 16_384
    max_length: Annotated[
        int | None,
        AtLeast(1),
        Unset("the length that the model was made for"),
        """Tokens of a pair at most, longer pairs are truncated; by default the length that the model was made for.""",
        Option(metavar="N", group="Training"),
    ] = None
    parts: Annotated[
        int,
        AtLeast(1),
        """Number of parts of an epoch, each of which is a round. After each the validation data are measured, a
        checkpoint may be written, and training may stop.""",
        Option(metavar="N", group="Training"),
    ] = 4
    patience: common.Patience = None
    min_rounds: common.MinRounds = 0
    metrics: common.Metrics = ("ndcg@10",)
    debias: common.Debias = False
    seed: Annotated[common.Seed, "A new head, the order of lists, dropout and the objective are drawn by it."] = 0
    threads: common.Threads = None
    checkpoint: common.Checkpoint = None
    checkpoint_every: common.CheckpointEvery = 1
    progress: common.Progress = None
    device: common.Device = "auto"
    precision: Annotated[
        str,
        OneOf(BF16),
        """Precision of products: ``"float32"``; ``"bf16"``, mixed precision; or ``"auto"``: bf16 where a GPU trains,
        else float32.""",
        Option(group="Running"),
    ] = "auto"

    def settings(self) -> Keywords:
        """Return every setting but the model, in the form of files."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "model"}
        return {name: storage.plain(value) for name, value in values.items()} | {
            "objective": objective_expression(self.objective)
        }

    def __repr__(self) -> str:
        defaults = {field.name: field.default for field in fields(self)}
        changed = {name: getattr(self, name) for name in defaults if getattr(self, name) != defaults[name]}
        model = changed.pop("model")
        first = repr(str(model)) if isinstance(model, str | Path) else type(model).__name__
        inside = ", ".join([first, *(f"{name}={value!r}" for name, value in changed.items())])
        return f"{type(self).__name__}({inside})"


@documented
class Reranker(RerankerSettings):
    """A cross-encoder that scores texts, trained with any objective on ragged lists of documents.

    It is sentence-transformers' ``CrossEncoder`` with a training of its own: two exact passes, so that memory is that
    of one mini-batch however long the lists are. :meth:`save` writes a Hugging Face folder, which ``CrossEncoder``
    opens too.
    """

    encoder_: CrossEncoder
    history_: dict[str, list[float]]
    """``loss``: of the training lists during each part. A metric: of the validation lists after it."""
    best_round_: int
    """Number of parts that the model was trained for: until the first metric was best."""
    epochs_: float
    """The same in epochs."""
    stopped_: str
    """Why training ended: ``parts`` (all of them), ``patience``, ``converged`` or ``interrupted``."""
    evaluation_: Evaluation | None
    """Evaluation of the model on the validation lists."""
    evaluations_: dict[str, Json]
    """Evaluations in the model card, by the name of the data."""
    trained_on_: dict[str, str]
    base_model_: str

    @moved.renamed("rw.rerank.Reranker.fit")
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        *,
        resume: bool = False,
        callback: Callable[[int, dict[str, list[float]]], None] | None = None,
    ) -> Self:
        """Train on lists, or other data sets with texts; with validation lists the best part of the training is kept.

        ``resume`` starts from the checkpoint if there is one, and ends in the same model as a run that was never
        interrupted. Ctrl-C ends training and keeps the best model so far; before the first part is complete it raises
        KeyboardInterrupt. ``callback`` is called after every part with its number and the history so far. Under
        ``torchrun`` the processes share the lists of each batch.
        """
        check_declared(self)
        self.stopped_ = training.fit(self, train, valid, self._keep, resume=resume, callback=callback)
        return self

    def _keep(self, trained: training.TrainedReranker) -> None:
        vars(self).update({f"{name}_": value for name, value in vars(trained).items()})

    def predict(self, texts: TextsOrPairs) -> Array:
        """Return one score per document, the higher the better; scores compare within a query.

        ``texts`` are lists, or pairs of a query and a document. A score is the logit of the model. Scores have the
        order of the pairs, or of ``lists.documents``; ``lists.unsorted`` restores that of the file.
        """
        check_declared(self)
        if isinstance(texts, RankingDataset):
            texts.warn_of_order()
        return training.scores(self, texts)

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None) -> "pl.DataFrame":
        """Return documents, best first, as a table: ``rank``, ``document`` (its number), ``score`` and ``text``.

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

    def evaluate(self, lists: RankingDataset, metrics: MetricLike | Iterable[MetricLike] | None = None) -> Evaluation:
        """Measure the ranking of lists: :func:`rankwise.evaluate` of it, by default with its own metrics."""
        return evaluate(self, lists, self.metrics if metrics is None else metrics)

    @property
    def encoder(self) -> CrossEncoder:
        """The ``CrossEncoder`` that scores: the one that was trained, else the model that training begins from."""
        if "encoder_" not in vars(self):
            self.encoder_ = encoders.open_model(self)
        return self.encoder_

    def save(
        self, path: str | Path, *, evaluations: Mapping[str, Evaluation] | None = None, force: bool = False
    ) -> Path:
        """Write a Hugging Face folder: weights as safetensors, the tokenizer, a model card, and ``rankwise.json``.

        The card, ``README.md``, describes the training, and the quality on the validation lists and in the
        ``evaluations``, by the names of their data, each number with its interval.

        The folder appears only once it is complete. An existing one is replaced only with ``force``; files in it that
        are not the model's are kept.
        """
        if "history_" not in vars(self):
            hint = "call fit, or open a saved one with Reranker.load"
            raise check.error("this Reranker is not trained yet", hint=hint)
        measured = self.evaluations_ | {name: entry.to_dict() for name, entry in (evaluations or {}).items()}
        description = self._description() | {"evaluations": measured}
        shown = description | {"parameters": description["parameters"] | {"max_length": self.encoder.max_seq_length}}
        card = model_card(Path(path).resolve().name, shown, self.objective)

        def fill(new: Path) -> None:
            with encoders.quiet():
                self.encoder.save_pretrained(str(new), create_model_card=False)
            (new / storage.CARD).write_text(card, encoding="utf-8")

        return storage.write(path, description, {}, fill=fill, force=force)

    @classmethod
    def opened(cls, model: str | Path, *, device: str = "auto") -> Self:
        """Open a folder of :meth:`save`, or any cross-encoder."""
        saved = (Path(model) / storage.DESCRIPTION).is_file()
        return cls.load(model, device=device) if saved else cls(str(model), device=device)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """Read and verify a folder of :meth:`save`; no code from the folder is run, and no pickle read.

        The settings are those of its training; ``fit`` trains it further.
        """
        description, _ = storage.read(path)
        if (kind := description.get("ranker")) != training.NAME:
            hint = "open it with rw.load"
            raise check.error("the folder holds a model of another kind", got=repr(kind), where=str(path), hint=hint)
        if "checkpoint" in description:
            hint = "resume it: fit(…, resume=True)"
            raise check.error("a checkpoint holds a training that has not ended", where=str(path), hint=hint)
        storage.verify(path, description)
        with storage.malformed_as_error(path):
            settings: Keywords = description["parameters"]
            if isinstance(settings["metrics"], list):
                settings["metrics"] = tuple(settings["metrics"])
            reranker = cls(path, description["objective"], **settings, device=device)
            reranker.history_ = {name: list(map(float, column)) for name, column in description["history"].items()}
            reranker.best_round_, reranker.stopped_ = int(description["best_round"]), str(description["stopped"])
            reranker.epochs_ = float(description["epochs"])
            reranker.evaluation_, reranker.evaluations_ = None, dict(description["evaluations"])
            reranker.trained_on_, reranker.base_model_ = dict(description["data"]), str(description["base_model"])
        reranker.encoder_ = encoders.open_model(reranker)
        return reranker

    def _description(self) -> Json:
        return {
            "ranker": training.NAME,
            "objective": objective_expression(self.objective),
            "parameters": {name: value for name, value in self.settings().items() if name not in _NOT_SAVED},
            "base_model": self.base_model_,
            "data": self.trained_on_,
            "best_round": self.best_round_,
            "epochs": self.epochs_,
            "stopped": self.stopped_,
            "history": self.history_,
            "versions": training.versions(),
        }
