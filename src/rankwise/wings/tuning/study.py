"""The study: the file of all trials of a search, from which it is resumed after an interruption."""

import contextlib
import os
import socket
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base import files
from rankwise.language import Workspace, refuse_existing
from rankwise.rankers.table import build_ranker
from rankwise.wings.tuning.result import COMPLETE, FAILED, PRUNED, Trial
from rankwise.wings.tuning.search import SearchProblem

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import RDBStorage

_NAME = "rankwise"
_CIRCUMSTANCES = {
    getattr(sqlite3, f"SQLITE_{word}")
    for word in ("BUSY", "CANTOPEN", "FULL", "IOERR", "LOCKED", "NOMEM", "PERM", "READONLY")
}
# Parameters that do not change the trained ranker.
_LEFT_OUT = ("checkpoint", "checkpoint_every", "progress", "threads")


@contextlib.contextmanager
def open_study(optuna: ModuleType, path: Path | None, search: SearchProblem, *, resume: bool) -> "Iterator[Study]":
    """Open the study, in its file or in memory, quietly; an error of the file is one sentence."""
    import sqlalchemy.exc

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = None
    try:
        if path is not None:
            check_study_target(path, resume=resume)
        work = Workspace(path or Path(), search.identity(), what="search", kind="file")
        try:
            storage = None if path is None else _storage(optuna, path.absolute())
            study = optuna.create_study(storage=storage, study_name=_NAME, direction="maximize", load_if_exists=True)
            kept = study.user_attrs
            study.get_trials(deepcopy=False)  # what cannot be read is found now
        except (ValueError, KeyError, RuntimeError) as broken:
            raise _damaged(path, str(broken)) from None
        if kept:
            work.check(kept.get("work"))
        else:
            study.set_user_attr("work", work.record)
        yield study
    except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError) as failed:
        raise _failure(path, failed) from None
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()
        optuna.logging.set_verbosity(before)


def check_study_target(path: Path, *, resume: bool) -> None:
    """Raise, before the work begins, if a study cannot be written to the file ``path``."""
    refuse_existing(path, "file", resume=resume)
    files.check_writable(path, force=True)


def _storage(optuna: ModuleType, path: Path) -> "RDBStorage":
    """Return Optuna's storage in a file; its path is absolute, since the pool may connect again from another folder."""
    with contextlib.ExitStack() as left_open:  # a storage that could not be made does not close its connections

        def connect() -> sqlite3.Connection:
            one = sqlite3.connect(path, check_same_thread=False)  # the pool hands it to one thread at a time
            left_open.callback(one.close)
            return one

        # A URL would give %, ?, # and { in the path a meaning of their own; it says what kind of storage this is.
        storage: RDBStorage = optuna.storages.RDBStorage("sqlite:///study.db", {"creator": connect})
        left_open.pop_all()
    return storage


def _failure(path: Path | None, failed: BaseException) -> Exception:
    """Return the error of SQLite: of circumstances, such as a full disk, or of a damaged file."""
    reason: BaseException = failed
    while not isinstance(reason, sqlite3.Error) and (inner := getattr(reason, "orig", None) or reason.__cause__):
        reason = inner
    if getattr(reason, "sqlite_errorcode", 0) & 0xFF in _CIRCUMSTANCES:
        return OSError(f"the study {path} could not be read or written: {reason}; what it held before is kept")
    return _damaged(path, str(reason))


def _damaged(path: Path | None, reason: str) -> ValueError:
    return check.error(
        "cannot open the file of a search",
        got=(reason.splitlines() or [""])[0],
        where=str(path),
        hint="name another file; the trials in this one can no longer be read",
    )


def ended_trials(optuna: ModuleType, study: "Study", search: SearchProblem) -> tuple[Trial, ...]:
    """Return the trials that ended by themselves, as plain data; a failure without a reason is an interruption."""
    states = optuna.trial.TrialState
    names = {states.COMPLETE: COMPLETE, states.PRUNED: PRUNED, states.FAIL: FAILED}
    trials = study.get_trials(deepcopy=False, states=tuple(names))
    ended = [trial for trial in trials if trial.state != states.FAIL or trial.user_attrs.get("reason")]
    rankers = [build_ranker(search.ranker, search.parameters(trial.params)) for trial in ended]
    return tuple(
        Trial(
            number=number,
            state=names[trial.state],
            value=trial.value,
            values=dict(trial.params),
            parameters={name: v for name, v in ranker.get_params().items() if name not in _LEFT_OUT},
            best_round=trial.user_attrs.get("best_round"),
            seconds=trial.duration.total_seconds() if trial.duration else 0.0,
            reason=trial.user_attrs.get("reason", ""),
        )
        for number, (trial, ranker) in enumerate(zip(ended, rankers, strict=True))
    )


def process() -> list[str | int]:
    """Return the name of this process, by which others see whether it lives."""
    return [socket.gethostname(), os.getpid()]


def mend(optuna: ModuleType, study: "Study") -> None:
    """Mark trials whose process was killed as failed; raise if one of them still runs."""
    states = optuna.trial.TrialState
    for running in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        where = running.user_attrs.get("process")
        if where and _alive(where):
            raise check.error(
                "another process is at work on this search", got=f"process {where[1]}", hint="wait for it"
            )
        study.tell(running.number, state=states.FAIL)


def _alive(process: Sequence[str | int]) -> bool:
    """Whether the process that runs a trial still lives, on this machine."""
    if process[0] != socket.gethostname() or os.name == "nt":  # where signal 0 would interrupt it
        return False
    try:
        os.kill(int(process[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return int(process[1]) != os.getpid()
