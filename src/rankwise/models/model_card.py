"""Model cards: data, training and quality of a model as Markdown, each metric with its interval."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.models import storage
from rankwise.models.schema import Schema
from rankwise.statistics.evaluation import Evaluation

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


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What a card shows of a trained ranker; what is empty is left out."""

    title: str
    objective: str = ""
    paper: str = ""
    """Where the objective comes from."""
    ranker: str
    """Its expression."""
    description: Json
    schema: Schema
    trained_on: Mapping[str, Any]
    predicts: object = None
    """What the scores are probabilities of."""
    of_users: bool = False
    """Whether it ranks items for users."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the validation queries after the best round."""
    out_of_fold: Evaluation | None = None
    leaderboard: tables.Table | None = None


def model_card(facts: CardFacts, evaluations: Evaluations = None) -> str:
    """Return the card of a trained ranker; facts that it does not know are left out."""
    description, data = facts.description, dict(facts.trained_on)
    typed, versions = data.pop("command", ""), data.pop("versions", {}) or storage.versions() | _versions(description)
    paper = f" ({facts.paper})" if facts.paper else ""
    trained = f", trained with the objective `{line(facts.objective)}`{paper}" if facts.objective else ""
    within, use = ("items of one user", _RECOMMEND) if facts.of_users else ("documents of one query", _RANK)
    named = by_name(evaluations)
    if facts.out_of_fold is not None:
        named[_OUT_OF_FOLD] = facts.out_of_fold
    meaning = f"A higher score is better; scores are compared among the {within}."
    if facts.predicts:
        meaning = f"Scores are probabilities: {facts.predicts}."
    parts = [f"# {line(facts.title)}", f"A ranker of rankwise{trained}. {meaning}", "## Evaluation" if named else ""]
    for name, evaluation in named.items():
        further = [table.markdown() for table in evaluation.tables()[1:]]  # of groups, where documents have them
        parts.append("\n\n".join([evaluated(name, evaluation.to_dict()), *further]))
    if facts.leaderboard is not None:
        parts.append(f"## Leaderboard\n\n{facts.leaderboard.markdown()}")
    chose = {
        f"{name} of the queries that chose the round": tables.number(one) for name, one in facts.validation.items()
    }
    training = {"ranker": facts.ranker} | _settings(description) | chose | {"command": typed}
    features = _features(facts.schema)
    parts += [section("Data", data | features), section("Training", training), section("Versions", versions)]
    return join_sections(*parts, code(_LOAD + use))


def join_sections(*parts: str) -> str:
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


def _settings(description: Json) -> Json:
    """Return the values that training used, also those that the data decided, and what came of it."""
    settings = description["parameters"] | description.get("settings", {})
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict | list)}
    sizes = {f"{name} in the model": description.get(name) for name in ("trees", "epochs")}
    return plain | sizes | {"stopped": description.get("stopped")}


def _features(schema: Schema) -> Json:
    names = schema.names or ()
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
