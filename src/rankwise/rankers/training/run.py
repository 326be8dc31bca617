"""One training from settings to a model: interrupts, threads, checkpoint, resume, progress around the loop."""

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankwise.base import caches
from rankwise.base.arrays import Array, Json
from rankwise.base.progress import Update, bar, is_shown
from rankwise.base.stream import Stream
from rankwise.base.threads import thread_count, use_threads
from rankwise.data.io.disk.mapped import in_memory
from rankwise.language import user_code
from rankwise.models import attributes, model_card, storage
from rankwise.models.attributes import AttributeModel
from rankwise.models.schema import Schema
from rankwise.objectives.base import scales_in
from rankwise.quality import leakage
from rankwise.rankers import table
from rankwise.rankers.trained import TrainedRanker
from rankwise.rankers.training.constraints import UnmetConstraintWarning
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.loop import Learner, Loop, State
from rankwise.rankers.training.resume import Checkpoint, fingerprint
from rankwise.rankers.training.settings import FREE, TrainingData, TrainingSettings, code_of, metrics_of
from rankwise.rankers.training.stopping import NothingLearnedError, NothingLeftToLearn, Stopping
from rankwise.rankers.training.validation import EvalMetrics, EvalSet, Validation


class InterruptedWarning(RuntimeWarning):
    """Training was interrupted, and the best model so far is kept."""


@contextlib.contextmanager
def interruption_unannounced(*others: type[Warning]) -> Iterator[None]:
    """Train without a warning about an interruption, or these, for callers that look at the outcome themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedWarning)
        for category in others:
            warnings.simplefilter("ignore", category)
        yield


@dataclass
class ProgressBar:
    """A bar that counts rounds; or steps, where the learner reports them: a round of a large model takes hours."""

    stopping: Stopping
    loss: Callable[[], bool] | None = None
    """Returns whether the losses of different rounds compare."""
    steps: Callable[[int], int] | None = None
    """Maps a number of rounds to the number of their steps."""
    _metric: str = field(default="", init=False)
    _update: Update | None = field(default=None, init=False)

    @contextlib.contextmanager
    def showing(self, done: int) -> Iterator[None]:
        """Show the bar within the context, from ``done`` rounds on."""
        count = self.steps or int
        total, width = count(self.stopping.rounds), 40 if self.steps is None else 20
        columns = ("bar", "count", "text", "elapsed", "left")
        with bar(True, total, self.stopping.unit, completed=count(done), columns=columns, width=width) as update:
            self._update = update
            try:
                yield
            finally:
                self._update = None

    def report(self, state: State) -> None:
        """Update the bar after a round."""
        if self.steps is None and self._update is not None:
            self._update(state.done, progress_text(self.stopping, state, loss=self.loss is None or self.loss()))
        elif self.steps is not None and self.stopping.metrics:
            self._metric = f", {progress_text(self.stopping, state)}"

    def step(self, number: int, loss: float) -> None:
        """Update the bar after a step: how many there were, and the loss of the last."""
        if self._update is not None:
            self._update(number, f"loss {loss:.4f}{self._metric}")


def progress_text(stopping: Stopping, state: State, *, loss: bool = True) -> str:
    """Return where training stands: the first metric, now and in the round that would be kept, or the loss.

    A ``loss`` that does not compare between rounds may rise while the ranker learns, and is not shown.

    >>> stopping = Stopping(rounds=9, metrics=("ndcg",))
    >>> progress_text(stopping, State(done=2, best=1, history={"ndcg": [0.75, 0.5]}))
    'ndcg 0.5000 (best 0.7500 in round 1)'
    >>> progress_text(Stopping(rounds=9), State(done=1, history={"loss": [2.5]}))
    'loss 2.5000'
    >>> progress_text(Stopping(rounds=9), State(done=1, history={"loss": [2.5]}), loss=False)
    'rounds'
    """
    if stopping.metrics:
        name, column = stopping.metrics[0], state.history[stopping.metrics[0]]
        return f"{name} {column[-1]:.4f} (best {column[state.best - 1]:.4f} in {stopping.unit[:-1]} {state.best})"
    return f"loss {state.history['loss'][-1]:.4f}" if loss and "loss" in state.history else stopping.unit


@dataclass(frozen=True, kw_only=True)
class Session:
    """One training run, ready to start: its loop, its progress bar, and where it starts without a checkpoint."""

    loop: Loop
    progress: ProgressBar
    start: State = field(default_factory=State)

    def resumed(self, *, resume: bool) -> tuple[State, object]:
        """Return the state and the best model to start from: those of the checkpoint, if there is one to resume."""
        checkpoint: Any = self.loop.checkpoint
        if (content := checkpoint.read(resume=resume)) is None:
            return self.start, None
        state, files = content
        with storage.malformed_as_error(checkpoint.work.path):
            return state, self.loop.learner.resume(files, state)


def train(ranker: Any, data: TrainingData, settings: TrainingSettings, make: Callable[..., Any] | None = None) -> None:
    """Train a ranker: its ``model_`` is what was learned, and what training saw is beside it.

    ``make`` returns the learner for data and settings where it is not the ranker's own.
    """
    settings = settings.for_data(ranker, data)

    def prepare() -> Session:
        learner = type(ranker).learner(ranker, data, settings) if make is None else make(data, settings)
        validation = None if data.valid is None else learner.validation or settings.validation(data.valid)
        stopping = settings.stopping(() if validation is None else validation.names)
        measured = [EvalMetrics(one, prefix=f"{name} ") for name, one in data.eval_sets.items()]
        if data.valid is not None and validation is not None:
            measured.insert(0, EvalMetrics(EvalSet(data.valid, validation)))
        saves = settings.resume or settings.checkpoint is not None
        loop = Loop(
            learner=learner,
            stream=data.train.stream(settings.seed),
            stopping=stopping,
            measured=measured,
            checkpoint=_checkpoint(ranker, data, settings, learner) if saves else None,
        )
        return Session(
            loop=loop,
            progress=ProgressBar(stopping, loss=lambda: settings.loss_compares),
            start=State(before=0 if data.older is None else data.older.model_.rounds),
        )

    def keep(learner: Any, state: State, model: Any) -> None:
        ranker.model_ = model
        ranker.settings_ = settings.parameters
        ranker.scales_ = {} if settings.objective is None else scales_in(settings.objective)
        ranker.history_, ranker.best_round_, ranker.stopped_ = state.history, state.best, state.stopped
        remember(ranker, data)
        learner.keep(ranker, state)
        if settings.constraints.goals:
            unmet.extend(filter(None, [settings.constraints.unmet(state.history, state.best, settings.unit)]))

    unmet: list[str] = []
    ranker.stopped_ = run(prepare, keep, settings)
    if unmet:  # nothing is called any more where a Ctrl-C would end fit
        warnings.warn(unmet[0], UnmetConstraintWarning, stacklevel=4)


def run(prepare: Callable[[], Session], keep: Callable[[Any, State, Any], None], settings: TrainingSettings) -> str:
    """Run the training that ``prepare`` builds, and return why it ended.

    Ctrl-C ends a round at once, and training with the best model so far. ``keep`` takes the model over from the
    learner: an interruption waits until it has returned.
    """
    with (
        contextlib.ExitStack() as ended,  # after the others: a second Ctrl-C ends waiting for processes
        Interrupts() as interrupts,
        use_threads(thread_count() if settings.threads is None else settings.threads),
        caches.announce_compiling(settings.progress),
    ):
        with interrupts.allowed():
            session = prepare()
            if (close := session.loop.learner.close) is not None:  # else the learner would live until then
                ended.callback(close)
            fresh = session.loop.checkpoint is None
            state, best = (session.start, None) if fresh else session.resumed(resume=settings.resume)
        learner, unit = session.loop.learner, session.loop.stopping.unit
        reports = [session.progress.report]
        if (callback := settings.callback) is not None:
            reports.append(lambda state: callback(state.done, state.history))
        shown = learner.processes.first and is_shown(settings.progress)
        with session.progress.showing(state.done) if shown else contextlib.nullcontext():
            model = replace(session.loop, reports=reports).run(state, best, interrupts)
        keep(learner, state, model)
        del session, learner, best  # Python loses a Ctrl-C that comes while a library's data are freed; here it waits
    if interrupts.asked:  # after the last round
        state.stopped = "interrupted"
    if state.stopped == "interrupted":
        text = f"interrupted after {unit[:-1]} {state.done}: the best model so far, of {state.best} {unit}, is kept"
        warnings.warn(text, InterruptedWarning, stacklevel=5)
    return state.stopped


def measure_after(ranker: Any, data: TrainingData) -> None:
    """Add metrics of validation and other data to the history of a ranker that was trained without rounds."""
    measures = dict(data.eval_sets)
    if (valid := data.valid) is not None:
        measures = {"": EvalSet(valid, Validation(valid, metrics_of(ranker, valid), debias=False))} | measures
    for name, one in measures.items():
        values = one.function(ranker.predict(one.data))
        ranker.history_ |= {f"{name} {key}".lstrip(): [float(value)] for key, value in values.items()}


def remember(ranker: Any, data: TrainingData) -> None:
    """Keep the facts about training data that a model has, and the hashes of its queries."""
    train, digest = data.train, data.digest
    sizes = {"queries": train.n_queries, "documents": train.n_docs}
    facts: Json = {**(sizes if data.documents is None else {"documents": data.documents}), "features": train.n_features}
    # Data on disk are not read again for their digest.
    if digest or in_memory(train.features) or not isinstance(train.features, np.ndarray):
        facts["digest"] = digest or fingerprint(train)
    origin = {} if train.feature_origin is None else {"feature_origin": train.feature_origin}
    ranker.trained_on_ = facts | origin | model_card.command()
    # The other queries are on a cluster, where there is only a sample here.
    hashes = None if data.documents is not None else leakage.trained_hashes(data.train)
    ranker.trained_queries_ = leakage.union(hashes, *([] if data.older is None else [data.older.trained_queries_]))


def _checkpoint(ranker: Any, data: TrainingData, settings: TrainingSettings, learner: Any) -> Checkpoint | None:
    def identity() -> Json:
        files = None if data.older is None else b"".join(data.older.model_.files().values())
        facts: Json = ranker.recipe(FREE) | {
            "data": {
                "train": data.digest or fingerprint(data.train),
                "valid": None if data.valid is None else fingerprint(data.valid),
                "init_model": None if files is None else hashlib.blake2b(files, digest_size=16).hexdigest(),
                **{f"measure {name}": fingerprint(one.data) for name, one in data.eval_sets.items()},
            },
        }
        if settings.parameters:
            facts["settings"] = settings.parameters
        if code := code_of(ranker) | user_code.digests([one.function for one in data.eval_sets.values()]):
            facts["code"] = code
        return facts

    return Checkpoint.of_settings(
        settings.checkpoint,
        settings.checkpoint_every,
        resume=settings.resume,
        identity=identity,
        describe=lambda state: {
            "features": Schema.of(data.train).to_dict(),
            **learner.description(state.before + state.best),
        },
        unit=settings.unit,
    )


class OneRound(Learner[bool]):
    """One round, in which ``_fit`` learns."""

    def __init__(self, ranker: Any, data: TrainingData) -> None:
        self.ranker, self.data = ranker, data

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> None:
        """Train the ranker; there is no second round."""
        if stream.round:
            raise NothingLeftToLearn("complete", lambda: NothingLearnedError("a ranker without rounds has one"))
        self.ranker._fit(self.data.train, None if self.data.hidden else self.data.valid)
        self.ranker.model_ = self.model()

    def scores(self, number: int) -> Array:
        """Score a data set that is measured, by its number."""
        scores: Array = self.ranker.predict(self.data.held_out[number])
        return scores

    def snapshot(self) -> bool:
        """Keep the model as it is."""
        return True

    def model(self, best: bool = True, rounds: int = 1) -> AttributeModel:
        """Return the attributes of the ranker."""
        return attribute_model(self.ranker, Schema.of(self.data.train))

    def keep(self, ranker: Any, state: State) -> None:
        """Mark the training as complete: there is no other round."""
        state.stopped = "complete" if state.stopped == ranker.unit else state.stopped
        ranker.stopped_ = state.stopped

    def files(self, best: object) -> dict[str, bytes]:
        """Return what a checkpoint holds."""
        return self.model().files()

    def resume(self, files: Mapping[str, bytes], state: State) -> bool:
        """Resume from a checkpoint."""
        attributes.restore(self.ranker, files, table.from_description)
        self.ranker.model_ = self.model()
        return True


def attribute_model(ranker: Any, schema: Schema) -> AttributeModel:
    """Return what a ranker of the user's has learned; an attribute ``model_`` of its own is kept inside."""
    attributes = vars(ranker)
    fitted = (attributes["model_"],) if "model_" in attributes else ()
    if fitted and isinstance(fitted[0], AttributeModel):  # of an earlier fit, or of the ranker that this is a copy of
        fitted = fitted[0].own
    explains = type(ranker).contributions is not TrainedRanker.contributions  # by a method of the user's
    return AttributeModel(schema, ranker, fitted, explains=explains)
