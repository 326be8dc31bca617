"""The study: the file that keeps every trial of a search, and lets it go on after an interruption."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.rankers.table import ranker_class
from rankwise.tuning.plan import Plan
from rankwise.tuning.result import COMPLETE, FAILED, PRUNED, Trial

_NAME = "rankwise"
_LEFT_OUT = ("checkpoint", "every", "progress", "threads")  # say how a ranker trains, and not what it becomes


@contextlib.contextmanager
def opened(optuna: Any, path: Path | None, plan: Plan, *, resume: bool) -> Iterator[Any]:
    """Open the study, in its file or in memory, quietly; an error of the file is one sentence."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = None
    try:
        if path is not None:
            storage = _storage(optuna, path, resume=resume)
        study = optuna.create_study(storage=storage, study_name=_NAME, direction="maximize", load_if_exists=True)
        was, now = study.user_attrs.get("identity"), plan.identity()
        if was is None:
            study.set_user_attr("identity", now)
        elif was != now:
            raise _changed(path, was, now)
        yield study
    except optuna.exceptions.StorageInternalError as failed:
        raise OSError(f"the study {path} could not be written: {failed}; what it held before is kept") from failed
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()
        optuna.logging.set_verbosity(before)


def _storage(optuna: Any, path: Path, *, resume: bool) -> Any:
    import sqlalchemy.exc

    if path.exists() and not resume:
        raise FileExistsError(
            f"{path} exists already and is kept. Cure: go on with the search in it with resume=True, or name another."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into. Cure: create it first.")
    try:
        return optuna.storages.RDBStorage(f"sqlite:///{path}")
    except (sqlalchemy.exc.SQLAlchemyError, RuntimeError) as broken:
        reason = str(getattr(broken, "orig", broken)).splitlines()[0]
        raise check.error("cannot open the file of a search", got=reason, where=str(path)) from None


def _changed(path: Path | None, was: Mapping[str, Any], now: Mapping[str, Any]) -> ValueError:
    what = next(name for name in now if was.get(name) != now[name])
    old, new = was.get(what), now[what]
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(key for key in (old | new) if old.get(key) != new.get(key))
        what, old, new = f"{what}: {key}", old.get(key), new.get(key)
    return check.error(
        f"the file holds another search ({what} differs)",
        got=f"{new!r}, and {old!r} in the file",
        where=str(path),
        cure="search with the same settings and data, or name another file",
    )


def ended_trials(optuna: Any, study: Any, plan: Plan) -> tuple[Trial, ...]:
    """The trials that ended by themselves, as plain data; a failure without a reason is an interruption."""
    states = optuna.trial.TrialState
    names = {states.COMPLETE: COMPLETE, states.PRUNED: PRUNED, states.FAIL: FAILED}
    found: list[Trial] = []
    for trial in study.get_trials(deepcopy=False, states=tuple(names)):
        reason = trial.user_attrs.get("reason", "")
        if trial.state == states.FAIL and not reason:
            continue
        ranker = ranker_class(plan.ranker)(**plan.parameters(trial.params))
        found.append(
            Trial(
                number=len(found),
                state=names[trial.state],
                value=trial.value,
                values=dict(trial.params),
                parameters={name: v for name, v in ranker.get_params().items() if name not in _LEFT_OUT},
                best_round=trial.user_attrs.get("best_round"),
                seconds=trial.duration.total_seconds() if trial.duration else 0.0,
                reason=reason,
            )
        )
    return tuple(found)


def process() -> list[Any]:
    """Name this process, for others to see whether it lives."""
    return [socket.gethostname(), os.getpid()]


def mend(optuna: Any, study: Any) -> None:
    """Give up trials whose process was killed in the middle; refuse to meddle with one that lives."""
    states = optuna.trial.TrialState
    for running in study.get_trials(deepcopy=False, states=(states.RUNNING,)):
        where = running.user_attrs.get("process")
        if _alive(where):
            raise check.error(
                "another process is at work on this search", got=f"process {where[1]}", cure="wait for it"
            )
        study.tell(running.number, state=states.FAIL)


def _alive(process: Any) -> bool:
    """Whether the process that runs a trial still lives, on this machine."""
    if not process or process[0] != socket.gethostname():
        return False
    try:
        os.kill(int(process[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return int(process[1]) != os.getpid()
