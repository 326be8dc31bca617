"""The result of a search: its trials, the best parameters, and the file that holds them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import __version__, bagged, check, moved
from rankwise.base import tables
from rankwise.base.arrays import Json, Keywords
from rankwise.base.files import replacing
from rankwise.language import settings_files
from rankwise.rankers.table import build_ranker, ranker_class
from rankwise.statistics import Result, canvas

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from rankwise.rankers import IterativeRanker
    from rankwise.wings.tuning.spaces import Dimension

ENDINGS = (".toml", ".json")
_LARGEST = 2**26  # bytes of JSON
COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One set of parameters of a search."""

    number: int
    state: str
    """``complete``, ``pruned`` (ended because it fell behind, or time was up) or ``failed`` (with a reason)."""
    value: float | None
    """The best validation metric that it reached."""
    values: Keywords
    """The chosen values, by the names of the space."""
    parameters: Keywords
    """All parameters of the ranker, the objective among them."""
    best_round: int | None
    seconds: float
    reason: str = ""


@moved.renamed("rw.results.Tuning")
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tuning(Result):
    """A search: made by :func:`rankwise.tune`."""

    ranker_name: str
    metric: str
    space: "dict[str, Dimension]"
    """The ranges that were searched."""
    trials: tuple[Trial, ...]
    """Trials that ended, without those that an interruption cut off."""
    seed: int
    stopped: str
    """Why the search ended: ``trials``, ``minutes`` or ``interrupted``."""
    checkpoint: Path | None
    """The file that holds the search, from which it is resumed."""
    folds: int | None = None
    """The number of folds of the bags that were searched; None for single rankers."""

    @property
    def best(self) -> Trial:
        """The complete trial with the highest value; of equals the first."""
        complete = [trial for trial in self.trials if trial.state == COMPLETE]
        if not complete:
            reasons = next((trial.reason for trial in self.trials if trial.reason), "no trial ended")
            raise check.error(
                "no trial was complete", got=f"{len(self.trials)} trials, the first: {reasons.rstrip('.')}"
            )
        return max(complete, key=lambda trial: (trial.value, -trial.number))

    @property
    def value(self) -> float:
        """The best validation metric."""
        return float(self.best.value or 0.0)

    @property
    def parameters(self) -> Keywords:
        """The best parameters: the ranker's arguments, the objective among them."""
        return dict(self.best.parameters)

    @property
    def seconds(self) -> float:
        """The time of all trials together."""
        return sum(trial.seconds for trial in self.trials)

    def ranker(self, **changes: Any) -> "IterativeRanker":
        """Return a ranker, or bag, with the best parameters, to be trained: ``tuning.ranker().fit(train, valid)``."""
        return build(self.ranker_name, self.folds, {**self.parameters, **changes})

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the best parameters to a ``.toml`` or ``.json`` file, which ``rankwise train --params`` takes.

        Other endings are those of every result: .csv and .parquet have all trials, .md the table, .png the plot.
        """
        path = Path(path)
        if path.suffix.lower() not in ENDINGS:
            return super().save(path, force=force)
        usual = ranker_class(self.ranker_name).own_parameters()
        written = {name: v for name, v in self.parameters.items() if v is not None or usual.get(name, "") is not None}
        flat = {"ranker": self.ranker_name, **written}
        if not isinstance(flat.get("objective", ""), str):
            raise check.error(
                "an objective without an expression cannot be written to a file",
                got=repr(flat["objective"]),
                hint="take tuning.ranker(), set the objective as an expression, or register it with rw.register",
            )
        if functions := [str(one) for one in flat.get("metrics", ()) if not isinstance(one, str)]:
            hint = "take tuning.ranker(), or register the metric with rw.register"
            raise check.error("a metric of one's own cannot be written to a file", got=functions[0], hint=hint)
        origin: Json = {"metric": self.metric, "value": self.best.value, "trial": self.best.number}
        origin |= {"trials": len(self.trials), "rankwise": __version__}
        origin |= {} if self.folds is None else {"bag": self.folds}
        as_json = json.dumps({**flat, "tuning": origin}, indent=2, ensure_ascii=False) + "\n"
        with replacing(path, force=force) as new:
            new.write_text(_toml(flat, origin) if path.suffix.lower() == ".toml" else as_json, encoding="utf-8")
        return path

    def figure(self) -> "Figure":
        """Draw the search: the value of every trial with the best so far, and against each parameter."""
        with canvas(*self.size) as drawing:
            self.draw(drawing)
        return drawing

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the figure, in inches."""
        from rankwise.wings.tuning.plot import search_size

        return search_size(self)

    def draw(self, drawing: "Figure") -> None:
        """Draw the search in a figure that exists."""
        from rankwise.wings.tuning.plot import draw_search

        draw_search(drawing, self)

    def to_frame(self) -> "pl.DataFrame":
        """One row per trial: number, state, value, best round, seconds, and a column for each searched parameter."""
        import polars as pl

        rows = [
            {"trial": one.number, "state": one.state, self.metric: one.value, "best_round": one.best_round}
            | {"seconds": one.seconds, **{name: one.values.get(name) for name in self.space}}
            for one in self.trials
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_dict(self) -> Json:
        """Return plain data that JSON can hold."""
        best = self.best
        return {
            "ranker": self.ranker_name,
            **({} if self.folds is None else {"bag": self.folds}),
            "metric": self.metric,
            "value": best.value,
            "trial": best.number,
            "best_round": best.best_round,
            "parameters": {name: one if isinstance(one, _PLAIN) else str(one) for name, one in best.parameters.items()},
            "space": {name: str(one) for name, one in self.space.items()},
            "stopped": self.stopped,
            "seconds": self.seconds,
            "study": None if self.checkpoint is None else str(self.checkpoint),
            "trials": [
                {"number": t.number, "state": t.state, "value": t.value, "seconds": t.seconds, "values": t.values}
                | ({"reason": t.reason} if t.reason else {})
                for t in self.trials
            ],
        }

    @classmethod
    def read(cls, path: str | Path) -> "Tuning":
        """Read a file of JSON that has the result of :meth:`to_dict`, such as of ``rankwise tune --json``."""
        file = settings_files.load(check.readable(path), "a file of JSON", as_json=True, most=_LARGEST)
        with check.naming(path):
            return cls.from_dict(file.keys)

    @classmethod
    def from_dict(cls, document: Json) -> "Tuning":
        """Read the result of :meth:`to_dict`: enough for tables and figures; only the best trial has its parameters."""
        from rankwise.wings.tuning.spaces import dimension

        try:
            trials = tuple(
                Trial(
                    number=check.integer("the number of a trial", one["number"], least=0),
                    state=check.choice("state of a trial", one["state"], (COMPLETE, PRUNED, FAILED)),
                    value=None if one["value"] is None else check.number("the value of a trial", one["value"]),
                    values={**one["values"]},
                    parameters=document["parameters"] if one["number"] == document["trial"] else {},
                    best_round=document["best_round"] if one["number"] == document["trial"] else None,
                    seconds=check.number("the seconds of a trial", one["seconds"], least=0.0),
                    reason=str(one.get("reason", "")),
                )
                for one in document["trials"]
            )
            return cls(
                ranker_name=document["ranker"],
                metric=document["metric"],
                space={name: dimension(text) for name, text in document["space"].items()},
                trials=trials,
                seed=document.get("seed", 0),
                stopped=document["stopped"],
                checkpoint=None,
                folds=None if document.get("bag") is None else check.integer("bag", document["bag"], least=2),
            )
        except (KeyError, TypeError, AttributeError) as missing:
            hint = "give the output of 'rankwise tune --json', or Tuning.to_dict()"
            raise check.error("not the description of a search", got=f"no {missing}", hint=hint) from None

    @property
    def sentence(self) -> str:
        """The best value, and where it was reached."""
        where = "on the validation data" if self.folds is None else f"out of fold, in a bag of {self.folds}"
        place = f"after round {self.best.best_round} of trial {self.best.number}"
        return f"{self.metric} {tables.number(self.value)} {where}, {place}."

    def table(self) -> tables.Table:
        """Return the best value of each searched parameter beside its range."""
        best = self.best
        rows = tuple((name, _short(best.values.get(name)), one.expression()) for name, one in self.space.items())
        counts = {state: sum(trial.state == state for trial in self.trials) for state in (COMPLETE, PRUNED, FAILED)}
        tally = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        notes = (
            self.sentence,
            f"{tables.count(len(self.trials), 'trial')} ({tally}) in {tables.duration(self.seconds)}.",
        )
        return tables.Table(header=("parameter", "best", "searched"), rows=rows, align="lrl", notes=notes)


def build(ranker: str, folds: int | None, parameters: Keywords) -> "IterativeRanker":
    """Return a ranker, or a bag of ``folds`` such rankers."""
    single: IterativeRanker = build_ranker(ranker, parameters)
    return single if folds is None else bagged(single, folds)


_PLAIN = (str, int, float, bool, list, tuple, dict, type(None))


def _toml(flat: Mapping[str, object], origin: Mapping[str, object]) -> str:
    bag = f' --ranker "bagged({flat["ranker"]}, folds={origin["bag"]})"' if "bag" in origin else ""
    lines = [f"# Found by rankwise tune. Use it with: rankwise train TRAIN --valid VALID --params THIS{bag} -o MODEL"]
    lines += [f"{name} = {_value(value)}" for name, value in flat.items()]
    lines += ["", "[tuning]", *(f"{name} = {_value(value)}" for name, value in origin.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """Write a value in TOML, which has no None; text, integers and truths are written as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(str(name))} = {_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    plain = "none" if value is None else value
    return repr(plain) if isinstance(plain, float) else json.dumps(plain, ensure_ascii=False)


def _short(value: object) -> str:
    if value is None:  # a layer that the best net does not have
        return tables.NOTHING
    return f"{value:.4g}" if isinstance(value, float) else str(value)
