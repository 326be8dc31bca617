"""The model card of a reranker: data, settings and quality, each number with its interval."""

import json
from collections.abc import Mapping
from typing import Any

from rankwise import check
from rankwise._version import __version__
from rankwise.arrays import Json
from rankwise.objectives.base import Objective
from rankwise.statistics import tables

TAGS = ("sentence-transformers", "cross-encoder", "reranker", "rankwise")
VALIDATION = "validation"
"""Name of the evaluation on the queries that chose the model."""
_CHOSEN = "Which part of the training is kept was chosen on these queries, so that the model looks a little too good."
_SKIPPED = "A query without relevant documents is skipped."
_CARD = """---
{metadata}---

# {title}

A cross-encoder that scores how well a document answers a query, trained{base} with rankwise and the objective \
`{objective}`{paper}. A higher score is better; scores are compared among the documents of one query.

{evaluation}## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder({name})
scores = model.predict([("a query", "a document"), ("a query", "another document")])
```

```python
import rankwise as rw

reranker = rw.rerank.Reranker.load({name})
reranker.rank("a query", ["a document", "another document"])
```
"""


def model_card(
    *,
    name: str,
    objective: str,
    paper: str = "",
    base_model: str = "",
    training: Mapping[str, object] | None = None,
    evaluations: Mapping[str, Json] | None = None,
    versions: Mapping[str, str] | None = None,
) -> str:
    """Return the content of ``README.md``: metadata for the Hub, and text for people.

    ``paper`` is that of the objective, ``base_model`` the name on the Hub of the model that training began from;
    ``training`` has sizes of data and settings, ``evaluations`` the :meth:`rankwise.Evaluation.to_dict` of data sets.
    """
    evaluations = evaluations or {}
    metadata: Json = {"library_name": "sentence-transformers", "pipeline_tag": "text-ranking", "tags": list(TAGS)}
    if base_model:
        metadata["base_model"] = base_model
    if evaluations:
        results = [_result(data, evaluation) for data, evaluation in evaluations.items()]
        metadata["model-index"] = [{"name": name, "results": results}]
    yaml: Any = check.optional("yaml", "rerank")
    evaluated = [_evaluated(data, evaluation) for data, evaluation in evaluations.items()]
    text = _CARD.format(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120),
        title=_line(name),
        name=json.dumps(name, ensure_ascii=False),
        base=f" from `{_line(base_model)}`" if base_model else "",
        objective=_line(objective),
        paper=f" ({paper})" if paper else "",
        evaluation="\n\n".join(["## Evaluation", *evaluated, ""]) if evaluated else "",
    )
    for title, rows in {"Training": training, "Versions": versions}.items():
        if cells := tuple((key.replace("_", " "), _shown(value)) for key, value in (rows or {}).items()):
            table = tables.Table(header=("", ""), rows=cells, align="ll").markdown()
            text += f"\n## {title}\n\n{table}\n"
    return text


def _evaluated(data: str, evaluation: Json) -> str:
    """Return the section of an evaluation: a table, and how its numbers came about."""
    rows = tuple(
        (name, tables.number(mean["mean"]), tables.interval(mean["low"], mean["high"]), f"{mean['scored']:,}")
        for name, mean in evaluation["metrics"].items()
    )
    header = ("metric", "mean", f"{100 * evaluation['confidence']:g}% interval", "queries")
    note = "Intervals are those of a bootstrap over queries, and Student's of fewer than ten."
    if any(mean["skipped"] for mean in evaluation["metrics"].values()):
        note += f" {_SKIPPED}"
    if data == VALIDATION:
        note = f"{_CHOSEN} {note}"
    if evaluation.get("candidates"):  # folders of older versions do not hold it
        note = f"Ranked were {_line(evaluation['candidates'])}. {note}"
    return f"### {_line(data)}\n\n{tables.Table(header=header, rows=rows, align='lrlr').markdown()}\n\n{note}"


def _result(data: str, evaluation: Json) -> Json:
    """Return one evaluation in the form of the Hub, which has no intervals: they are part of a metric's name."""
    percent = f"{100 * evaluation['confidence']:g}%"
    metrics = []
    for name, mean in evaluation["metrics"].items():
        interval = tables.interval(mean["low"], mean["high"])
        text = f"{name}, {percent} interval {interval}, {mean['scored']:,} queries"
        metrics.append({"type": name, "value": mean["mean"], "name": text})
    candidates = f" of {_line(evaluation['candidates'])}" if evaluation.get("candidates") else ""
    task = {"type": "text-ranking", "name": f"Reranking{candidates}"}
    return {"task": task, "dataset": {"type": "custom", "name": data}, "metrics": metrics}


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _line(text: str) -> str:
    """Return a name on one line."""
    return " ".join(text.replace("`", "'").split())


def citation(objective: Objective) -> str:
    """Return BibTeX for rankwise and the paper of an objective."""
    paper = f",\n    note={{Objective: {objective.name}, {objective.paper}}}" if objective.paper else ""
    title = "rankwise: learning to rank with one definition of an objective for every trainer"
    return f"""
@software{{rankwise,
    title={{{title}}},
    author={{{{The rankwise developers}}}},
    version={{{__version__}}}{paper}
}}
"""
