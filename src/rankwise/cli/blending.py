"""Training a blend of rankers: ``train --blend``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import check
from rankwise.arrays import Json, Keywords

if TYPE_CHECKING:
    from rankwise.rankers.ensembles.blended import blended
    from rankwise.statistics.tables import Table

_COLUMN = "column:"


def blend(
    words: Sequence[str],
    given: Keywords,
    without: Mapping[str, object],
    *,
    folds: int | None,
    processes: int | None,
    dask: str | None,
) -> "blended":
    """Make a blend of what the command line names: rankers as experiments write them, and columns.

    Of ``given`` every ranker takes what it has; its expression goes before that.
    """
    from rankwise.experiments.methods import method
    from rankwise.rankers.ensembles.blended import blended

    for option, value in without.items():
        if value:
            raise check.error(
                f"--blend and {option} do not go together",
                got=f"{option} {' '.join(map(str, value)) if isinstance(value, list) else value}",
                hint=f"leave {option} out; write parameters of a ranker as --blend 'lightgbm(xendcg, leaves=15)'",
            )
    said = {name: value for name, value in given.items() if value is not None}
    if said.get("patience") == 0:
        said["patience"] = None
    checkpoint = said.pop("checkpoint", None)
    members: list[Any] = []
    for word in words:
        if word.startswith(_COLUMN):
            column = word.removeprefix(_COLUMN)
            members.append(int(column) - 1 if column.isdecimal() and int(column) else column)
        else:
            found = method(word)
            members.append(found.build(found.settings, said))
    own = {"seed": said.get("seed", 0), "metrics": said.get("metrics"), "checkpoint": checkpoint}
    return blended(members, 5 if folds is None else folds, processes=processes or 1, dask=dask, **own)


def described(model: "blended", output: Path) -> Json:
    """What ``--json`` prints."""
    weights = model.weights_
    columns = zip(weights.names, weights.values, weights.alone, strict=True)
    return {
        "model": output,
        "ranker": model.name,
        "objective": model.objective,
        "metrics": {name: column[0] for name, column in model.history_.items()},
        "members": [{"member": name, "weight": weight, weights.metric: alone} for name, weight, alone in columns],
        "parameters": {"folds": model.folds, "repeats": model.repeats, "seed": model.seed},
    }


def summary(model: "blended", size: str, measured: str) -> "Table":
    """Say what was blended, how much each member counts, and how good it is."""
    from rankwise.statistics import tables

    weights = model.weights_
    rows = [("training data", size)]
    for name, weight, alone in zip(weights.names, weights.values, weights.alone, strict=True):
        rows.append((name, f"weight {weight:.3f} ({weights.metric} alone {tables.number(alone)})"))
    for name, column in model.history_.items():
        rows.append((f"{name}, {measured}", tables.number(column[0])))
    return tables.Table(header=("", model.name), rows=tuple(rows), align="ll")
