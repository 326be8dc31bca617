"""Model cards: data, training and quality of a model as Markdown, each metric with its interval."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.arrays import Json
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import in_memory
from rankwise.models import storage
from rankwise.statistics import tables
from rankwise.statistics.evaluation import Evaluation

if TYPE_CHECKING:
    from rankwise.rankers.base import Ranker

Evaluations = Evaluation | Mapping[str, Evaluation] | None
"""What :func:`rankwise.evaluate` returned, or several by the names of their data."""
_SKIPPED = "A query without relevant documents is skipped."
_OUT_OF_FOLD = "training queries, each scored by members that have not seen it"
_NAMES = 50
"""Feature names that are listed."""
_LOAD = """import rankwise as rw

ranker = rw.load("folder")
"""
_RANK = "ranker.rank(data)  # a RankingDataset, or a table with a column qid"
_RECOMMEND = "ranker.recommend(users)"


def training_data(data: RankingDataset, *, digest: str = "", documents: int | None = None) -> Json:
    """Return the facts about training data that a model keeps.

    Where ``data`` are a sample, ``documents`` and ``digest`` are those of the data that it was drawn from. Data on
    disk are not read again for their digest.
    """
    from rankwise.rankers.training.resume import fingerprint

    sizes = {"queries": data.n_queries, "documents": data.n_docs} if documents is None else {"documents": documents}
    facts: Json = {**sizes, "features": data.n_features}
    if digest or in_memory(data.features) or not isinstance(data.features, np.ndarray):
        facts["digest"] = digest or fingerprint(data)
    return facts | command()


def trained_on(description: Json) -> Json:
    """Return the facts about training that a description has; those of older versions have fewer."""
    facts = {"versions": _versions(description), **description.get("data", {})}
    return facts | {"versions": dict(facts["versions"])}


def command() -> dict[str, str]:
    """Return the command of rankwise that is running, without secrets of its URLs; nothing in other programs."""
    program = Path(sys.argv[0])
    ours = program.name == "rankwise" or program.parts[-2:] == ("rankwise", "__main__.py")
    words = [_public(word) for word in sys.argv[1:]]
    return {"command": shlex.join(["rankwise", *words])} if ours else {}


def _public(word: str) -> str:
    """Return a word of a command, a URL or one after NAME=, without secrets.

    >>> _public("--valid=https://me:word@host/a.parquet?signature=x")
    '--valid=https://host/a.parquet'
    """
    name, sign, value = word.partition("=")
    named = sign and "/" not in name
    return f"{name}={check.shown(check.address(value))}" if named else check.shown(check.address(word))


def model_card(ranker: "Ranker", evaluations: Evaluations = None) -> str:
    """Return the card of a trained ranker; facts that it does not know are left out."""
    description, data = ranker._description(), dict(ranker.trained_on_)
    typed, versions = data.pop("command", ""), data.pop("versions", {}) or storage.versions() | _versions(description)
    title, objective = ranker._title(), description.get("objective", "")
    if description["ranker"] == "blended":  # members have objectives of their own
        title, objective = objective, ""
    trained = f", trained with the objective `{line(objective)}`{_paper(ranker)}" if objective else ""
    within, use = "documents of one query", _RANK
    if hasattr(ranker, "recommend"):
        within, use = "items of one user", _RECOMMEND
    named = by_name(evaluations)
    if (out_of_fold := _out_of_fold(ranker)) is not None:
        named[_OUT_OF_FOLD] = out_of_fold
    meaning = f"A higher score is better; scores are compared among the {within}."
    if predicts := getattr(ranker, "predicts_", None):
        meaning = f"Scores are probabilities: {predicts}."
    parts = [
        f"# {line(title)}",
        f"A ranker of rankwise{trained}. {meaning}",
        "## Evaluation" if named else "",
    ]
    for name, evaluation in named.items():
        further = [table.markdown() for table in evaluation.tables()[1:]]  # of groups, where documents have them
        parts.append("\n\n".join([evaluated(name, evaluation.to_dict()), *further]))
    if (leaderboard := getattr(ranker, "leaderboard_", None)) is not None:
        parts.append(f"## Leaderboard\n\n{leaderboard.table().markdown()}")
    training = {"ranker": repr(ranker)} | _settings(description)
    training |= {"command": typed} if out_of_fold is not None else {**_validation(ranker), "command": typed}
    parts += [section("Data", data | _features(ranker)), section("Training", training), section("Versions", versions)]
    return joined(*parts, code(_LOAD + use))


def joined(*parts: str) -> str:
    """Return a card of its parts, without those that are empty."""
    card = "\n\n".join(filter(None, parts)) + "\n"
    return "\n".join(map(check.printable, card.split("\n")))  # names come from files that others wrote


def code(*blocks: str) -> str:
    """Return the section that shows how the model is used, in Python."""
    return "\n\n".join(["## Use", *(f"```python\n{block}\n```" for block in blocks)])


def section(title: str, rows: Mapping[str, object]) -> str:
    """Return a section with a table of names and values, without those that are empty; nothing if none is left."""
    cells = tuple((key.replace("_", " "), _shown(value)) for key, value in rows.items() if _shown(value))
    return f"## {title}\n\n{tables.Table(header=('', ''), rows=cells, align='ll').markdown()}" if cells else ""


def evaluated(data: str, evaluation: Json, note: str = "") -> str:
    """Return the section of an evaluation, as ``to_dict`` describes it: a table, and how its numbers came about."""
    rows = tuple(
        (name, tables.number(mean["mean"]), tables.interval(mean["low"], mean["high"]), f"{mean['scored']:,}")
        for name, mean in evaluation["metrics"].items()
    )
    header = ("metric", "mean", f"{100 * evaluation['confidence']:g}% interval", "queries")
    notes = [note, "Intervals are those of a bootstrap over queries, and Student's of fewer than ten."]
    if any(mean["skipped"] for mean in evaluation["metrics"].values()):
        notes.append(_SKIPPED)
    if evaluation.get("candidates"):  # folders of older versions do not hold it
        notes.insert(0, f"Ranked were {_text(evaluation['candidates'])}.")
    table = tables.Table(header=header, rows=rows, align="lrlr").markdown()
    return f"### {_text(data)}\n\n{table}\n\n{' '.join(filter(None, notes))}"


def line(text: str) -> str:
    """Return a name on one line."""
    return " ".join(text.replace("`", "'").split())


def _text(words: str) -> str:
    return tables.escape_markdown(line(words))


def by_name(evaluations: Evaluations) -> dict[str, Evaluation]:
    """Return evaluations by the names of their data; one without a name is called by its number of queries."""
    if isinstance(evaluations, Evaluation):
        return {tables.count(evaluations.query_ids.size, "query", "queries"): evaluations}
    named: object = evaluations or {}
    if not isinstance(named, Mapping):
        hint = "pass rw.evaluate(model, data), or {'test': rw.evaluate(model, data)}"
        raise check.error("a card shows evaluations", got=type(evaluations).__name__, hint=hint)
    return dict(named)


def _out_of_fold(ranker: Any) -> Evaluation | None:
    try:
        evaluation: Evaluation | None = getattr(ranker, "out_of_fold_", None)
    except ValueError:  # a checkpoint has none
        return None
    return evaluation


def _paper(ranker: "Ranker") -> str:
    try:
        paper = ranker._objective().paper
    except (AttributeError, ValueError):  # one of the library's own, or of a user's that is not known here
        return ""
    return f" ({paper})" if paper else ""


def _settings(description: Json) -> Json:
    """Return the values that training used, also those that the data decided, and what came of it."""
    settings = description["parameters"] | description.get("settings", {})
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict | list)}
    sizes = {f"{name} in the model": description.get(name) for name in ("trees", "epochs")}
    return plain | sizes | {"stopped": description.get("stopped")}


def _validation(ranker: "Ranker") -> Json:
    """Return the metrics of the validation queries after the best round."""
    try:
        columns = {str(one): ranker.history_.get(str(one)) for one in ranker._metrics()}
    except (AttributeError, ValueError):  # a recommender has none; a metric of the user's is not known here
        return {}
    return {
        f"{name} of the queries that chose the round": tables.number(column[min(ranker.best_round_, len(column)) - 1])
        for name, column in columns.items()
        if column
    }


def _features(ranker: "Ranker") -> Json:
    names = ranker._schema.names or ()
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return {"feature names": ", ".join(names[:_NAMES]) + more}


def _versions(description: Json) -> dict[str, str]:
    """Return the versions of the libraries that a model, or its members, was trained with."""
    versions = dict(description.get("versions", {}))
    for member in description.get("members", ()):
        versions |= _versions(member)
    return versions


def _shown(value: object) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
