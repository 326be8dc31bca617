"""Training and scoring of a reranker: its learner, schedule and checkpoint, run by the training frame of rankers."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rankwise import Evaluation, RankingDataset, check, evaluate, use_threads
from rankwise import objective as find_objective
from rankwise.base.arrays import Array, Json
from rankwise.base.threads import thread_count
from rankwise.language import user_code
from rankwise.metrics import metrics as find_metrics
from rankwise.metrics import metrics_for
from rankwise.models import torch_threads
from rankwise.rankers import objective_expression
from rankwise.rankers.training import (
    FREE,
    Callback,
    Checkpoint,
    EvalMetrics,
    EvalSet,
    History,
    Loop,
    ProgressBar,
    Session,
    State,
    TrainingSettings,
    fingerprint,
    run,
)
from rankwise.wings.rerank import encoders
from rankwise.wings.rerank.batches import MiniBatchSize
from rankwise.wings.rerank.data.lists import Lists, with_texts
from rankwise.wings.rerank.encoders import CrossEncoder, Pair
from rankwise.wings.rerank.learner import BF16, RerankLearner, Schedule
from rankwise.wings.rerank.model_card import VALIDATION
from rankwise.wings.rerank.scoring import score_pairs

if TYPE_CHECKING:
    from rankwise.wings.rerank.reranker import Reranker, TextsOrPairs

NAME, UNIT = "reranker", "parts"
"""Kind of the model in ``rankwise.json``, and what its rounds are called."""


def scores(reranker: "Reranker", texts: "TextsOrPairs") -> Array:
    """Score the pairs of lists, or pairs of texts."""
    lists = with_texts(texts)
    pairs = _checked_pairs(texts) if lists is None else list(lists.pairs())
    _, mixed = BF16[reranker.precision]
    encoder = reranker.encoder
    if not hasattr(reranker, "history_") and isinstance(reranker.model, str | Path):
        encoders.check_head(encoders.folder_of(reranker.model))
    with use_threads(thread_count() if reranker.threads is None else reranker.threads), torch_threads():
        return score_pairs(encoder, pairs, MiniBatchSize(reranker.token_budget), mixed=mixed)


@dataclass(frozen=True, kw_only=True)
class TrainedReranker:
    """Result of a training: the attributes of a :class:`rankwise.rerank.Reranker` that end in an underscore."""

    encoder: CrossEncoder
    history: History
    best_round: int
    epochs: float
    stopped: str
    trained_on: dict[str, str]
    base_model: str
    evaluation: Evaluation | None = None
    evaluations: dict[str, Json]


def fit(
    reranker: "Reranker",
    train_data: RankingDataset,
    valid_data: RankingDataset | None,
    keep: Callable[[TrainedReranker], None],
    *,
    resume: bool,
    callback: Callback | None,
) -> str:
    """Train a cross-encoder by the settings of a reranker, and return why it ended; ``keep`` takes the result."""
    train = _checked_lists("train", train_data)
    valid = None if valid_data is None else _checked_lists("valid", valid_data)
    if valid is not None:
        valid.compare_with(train, "validation")
    schedule = Schedule(reranker, train.n_queries)
    settings = TrainingSettings(
        **TrainingSettings.read(reranker),
        unit=UNIT,
        rounds=schedule.rounds,
        metrics=metrics_for(reranker.metrics, valid),  # a wrong name is an error without validation data, too
        objective=find_objective(reranker.objective),
        resume=resume,
        callback=callback,
    )
    return run.run(
        lambda: _session(reranker, train, valid, schedule, settings),
        lambda learner, state, _: keep(_trained(reranker, learner, state)),
        settings,
    )


def _trained(reranker: "Reranker", learner: RerankLearner, state: State) -> TrainedReranker:
    """Return what a learner has made of a reranker's model, evaluated on the validation lists."""
    valid = learner.valid
    parts = {"training": learner.train} | ({} if valid is None else {"validation": valid})
    # The name of a folder means nothing elsewhere.
    named = isinstance(reranker.model, str) and not Path(reranker.model).is_dir()
    best, evaluation = learner.best_scores, None  # no scores where the best part was one before training was resumed
    if valid is not None and (best is not None or learner.processes.first):
        best = learner.score(list(valid.pairs())) if best is None else best
        evaluation = evaluate(best, valid, reranker.metrics)
    return TrainedReranker(
        encoder=learner.encoder,
        history=state.history,
        best_round=state.best,
        epochs=state.best / learner.schedule.rounds_per_epoch,
        stopped=state.stopped,
        trained_on={part: f"{lists.n_queries:,} queries, {lists.n_docs:,} documents" for part, lists in parts.items()},
        base_model=str(reranker.model) if named else getattr(reranker, "base_model_", ""),
        evaluation=evaluation,
        evaluations={} if evaluation is None else {VALIDATION: evaluation.to_dict()},
    )


def _session(
    reranker: "Reranker", train: Lists, valid: Lists | None, schedule: Schedule, settings: TrainingSettings
) -> Session:
    """Check every setting and build the training run."""
    validation = None if valid is None else settings.validation(valid)
    stopping = settings.stopping(() if validation is None else validation.names)
    progress = ProgressBar(stopping, steps=schedule.steps_before)
    learner = RerankLearner(settings=reranker, train=train, valid=valid, schedule=schedule, on_step=progress.step)
    checkpoint = Checkpoint.of_settings(
        settings.checkpoint,
        settings.checkpoint_every,
        resume=settings.resume,
        identity=lambda: _identity(reranker, train, valid, learner.encoder),
        describe=lambda _: {"versions": versions()},
        unit=UNIT,
    )
    loop = Loop(
        learner=learner,
        stream=train.stream(settings.seed),
        stopping=stopping,
        measured=[] if valid is None or validation is None else [EvalMetrics(EvalSet(valid, validation))],
        checkpoint=checkpoint,
    )
    return Session(loop=loop, progress=progress)


def _identity(reranker: "Reranker", train: Lists, valid: Lists | None, encoder: CrossEncoder) -> Json:
    """Return the facts that tell this training from others: model, data, settings, and users' code."""
    free = {"model", "objective", *FREE} - {"epochs"}  # on which the learning rate of every step depends
    identity: Json = {
        "ranker": NAME,
        "objective": objective_expression(reranker.objective),
        "data": {
            "model": _digest_of_weights(encoder),
            "train": _digest(train),
            "valid": None if valid is None else _digest(valid),
        },
        "parameters": {name: value for name, value in reranker.settings().items() if name not in free},
    }
    if code := user_code.digests(find_objective(reranker.objective), find_metrics(reranker.metrics)):
        identity["code"] = code
    return identity


def versions() -> dict[str, str]:
    """Return the versions of the libraries of a reranker."""
    import sentence_transformers
    import transformers

    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sentence-transformers": sentence_transformers.__version__,
    }


def _digest(lists: Lists) -> str:
    """Return a digest of everything that training reads of lists."""
    digest = hashlib.blake2b(fingerprint(lists).encode(), digest_size=16)
    for text in (*lists.queries, *lists.documents):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _digest_of_weights(encoder: CrossEncoder) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in encoders.module_of(encoder).state_dict().items():
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(dtype=torch.uint8).numpy().data)
    return digest.hexdigest()


def _checked_lists(name: str, data: object) -> Lists:
    lists = with_texts(data)
    if lists is None:
        hint = "make them with rw.rerank.Lists.from_lists(queries, documents, labels), or read them from a file"
        raise check.error(f"{name} must be Lists", got=type(data).__name__, hint=hint)
    return lists


def _checked_pairs(texts: object) -> list[Pair]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        hint = "pass rw.rerank.Lists, which rw.evaluate and rw.compare take too, or [(query, document), …]"
        raise check.error("a reranker scores texts", got=type(texts).__name__, hint=hint)
    pairs: list[Pair] = []
    for number, pair in enumerate(texts):
        match pair:
            case [str(query), str(document)]:
                pairs.append((query, document))
            case _:
                hint = "pass Lists, or [(query, document), …]"
                raise check.error("texts must be pairs", got=repr(pair)[:80], where=f"number {number}", hint=hint)
    return pairs
