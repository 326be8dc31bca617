"""The model card of a reranker: data, settings and quality, each number with its interval."""

import json
from collections.abc import Mapping
from typing import Any

from rankwise import check
from rankwise._version import __version__
from rankwise.arrays import Json
from rankwise.models.model_card import evaluated, line, section
from rankwise.objectives.base import Objective
from rankwise.statistics import tables

TAGS = ("sentence-transformers", "cross-encoder", "reranker", "rankwise")
VALIDATION = "validation"
"""Name of the evaluation on the queries that chose the model."""
_CHOSEN = "Which part of the training is kept was chosen on these queries, so that the model looks a little too good."
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
    tested = [evaluated(data, one, _CHOSEN if data == VALIDATION else "") for data, one in evaluations.items()]
    text = _CARD.format(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120),
        title=line(name),
        name=json.dumps(name, ensure_ascii=False),
        base=f" from `{line(base_model)}`" if base_model else "",
        objective=line(objective),
        paper=f" ({paper})" if paper else "",
        evaluation="\n\n".join(["## Evaluation", *tested, ""]) if tested else "",
    )
    for title, rows in {"Training": training, "Versions": versions}.items():
        if part := section(title, rows or {}):
            text += f"\n{part}\n"
    return text


def _result(data: str, evaluation: Json) -> Json:
    """Return one evaluation in the form of the Hub, which has no intervals: they are part of a metric's name."""
    percent = f"{100 * evaluation['confidence']:g}%"
    metrics = []
    for name, mean in evaluation["metrics"].items():
        interval = tables.interval(mean["low"], mean["high"])
        text = f"{name}, {percent} interval {interval}, {mean['scored']:,} queries"
        metrics.append({"type": name, "value": mean["mean"], "name": text})
    candidates = f" of {line(evaluation['candidates'])}" if evaluation.get("candidates") else ""
    task = {"type": "text-ranking", "name": f"Reranking{candidates}"}
    return {"task": task, "dataset": {"type": "custom", "name": data}, "metrics": metrics}


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
