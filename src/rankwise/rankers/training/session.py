"""The frame around the training loop, of rankers and rerankers: interrupts, threads, checkpoint, resume, progress."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankwise import caches
from rankwise.models import storage
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.loop import History, Loop, State
from rankwise.rankers.training.progress import ProgressBar
from rankwise.threads import use_threads

Watch = Callable[[int, History], None]
"""Called after every round with its number and the history so far; :class:`StopTraining` from it ends training."""


class InterruptedWarning(RuntimeWarning):
    """Training was interrupted, and the best model so far is kept."""


@contextlib.contextmanager
def interruption_unannounced() -> Iterator[None]:
    """Train without a warning about an interruption, for callers that look at ``stopped_`` themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedWarning)
        yield


@dataclass(frozen=True, kw_only=True)
class Session:
    """One training run, ready to start: its loop, its progress bar, and where it starts without a checkpoint."""

    loop: Loop
    progress: ProgressBar
    start: State = field(default_factory=State)
    verify: Callable[[Mapping[str, bytes]], None] = lambda files: None  # noqa: ARG005
    """Check of the files of a checkpoint, before the learner reads them."""
    close: Callable[[], None] = lambda: None
    """Ends what the learner has started, such as processes."""

    def resumed(self, *, resume: bool) -> tuple[State, object]:
        """Return the state and the best model to start from: those of the checkpoint, if there is one to resume."""
        checkpoint = self.loop.checkpoint
        if checkpoint is None or (content := checkpoint.read(resume=resume)) is None:
            return self.start, None
        state, files = content
        with storage.making_sense(checkpoint.work.path):
            self.verify(files)
            return state, self.loop.learner.resume(files, state)


def train(
    prepare: Callable[[], Session],
    keep: Callable[[Any, State], None],
    *,
    threads: int,
    progress: bool | None,
    resume: bool,
    watch: Watch | None,
) -> str:
    """Run the training that ``prepare`` builds, and return why it ended.

    Ctrl-C ends a round at once, and training with the best model so far. ``keep`` takes the model over from the
    learner: an interruption waits until it has returned.
    """
    with (
        contextlib.ExitStack() as ended,  # after the others: a second Ctrl-C ends waiting for processes
        Interrupts() as interrupts,
        use_threads(threads),
        caches.announce_compiling(progress),
    ):
        with interrupts.allowed():
            session = prepare()
            ended.callback(session.close)
            state, best = session.resumed(resume=resume)
        learner, unit = session.loop.learner, session.loop.stopping.unit
        reports = [session.progress.report]
        if watch is not None:
            reports.append(lambda state: watch(state.done, state.history))
        with session.progress.showing(progress if learner.processes.first else False, state.done):
            state = replace(session.loop, reports=reports).run(state, best, interrupts)
        keep(learner, state)
        del session, learner, best  # Python loses a Ctrl-C that comes while a library's data are freed; here it waits
    if interrupts.asked:  # after the last round
        state.stopped = "interrupted"
    if state.stopped == "interrupted":
        text = f"interrupted after {unit[:-1]} {state.done}: the best model so far, of {state.best} {unit}, is kept"
        warnings.warn(text, InterruptedWarning, stacklevel=4)
    return state.stopped
