"""The model card of a reranker: data, settings and quality, each number with its interval."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Contents of a model card."""

    name: str
    base_model: str = ""
    """Name on the Hub of the model that training began from."""
    objective: str
    paper: str = ""
    """Paper of the objective."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Sizes of the data, by their part in the training."""
    settings: Mapping[str, object] = field(default_factory=dict)
    evaluations: Mapping[str, Json] = field(default_factory=dict)
    """:meth:`rankwise.Evaluation.to_dict` of each data set, by name."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return the content of ``README.md``: metadata for the Hub, and text for people."""
        parts = [self._metadata(), f"# {_line(self.name)}", self._about(), *self._evaluation()]
        parts.append(_USE.replace("NAME", json.dumps(self.name, ensure_ascii=False)))
        return "\n\n".join([*parts, *self._training()]) + "\n"

    def _metadata(self) -> str:
        """Return the metadata for the Hub, as YAML."""
        metadata: Json = {"library_name": "sentence-transformers", "pipeline_tag": "text-ranking", "tags": list(TAGS)}
        if self.base_model:
            metadata["base_model"] = self.base_model
        if self.evaluations:
            results = [_result(name, evaluation) for name, evaluation in self.evaluations.items()]
            metadata["model-index"] = [{"name": self.name, "results": results}]
        yaml: Any = check.optional("yaml", "rerank")
        return f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120)}---"

    def _about(self) -> str:
        base = f" from `{_line(self.base_model)}`" if self.base_model else ""
        paper = f" ({self.paper})" if self.paper else ""
        return (
            f"A cross-encoder that scores how well a document answers a query, trained{base} with rankwise and the "
            f"objective `{_line(self.objective)}`{paper}. A higher score is better; scores are compared among the "
            "documents of one query."
        )

    def _evaluation(self) -> list[str]:
        if not self.evaluations:
            return []
        parts = ["## Evaluation"]
        for name, evaluation in self.evaluations.items():
            note = "Intervals are those of a bootstrap over queries, and Student's of fewer than ten."
            if any(mean["skipped"] for mean in evaluation["metrics"].values()):
                note += f" {_SKIPPED}"
            if name == VALIDATION:
                note = f"{_CHOSEN} {note}"
            if evaluation.get("candidates"):  # folders of older versions do not hold it
                note = f"Ranked were {_line(evaluation['candidates'])}. {note}"
            parts += [f"### {_line(name)}", _table(evaluation).markdown(), note]
        return parts

    def _training(self) -> list[str]:
        parts = []
        for title, rows in {"Training": {**self.data, **self.settings}, "Versions": self.versions}.items():
            cells = tuple((name.replace("_", " "), _shown(value)) for name, value in rows.items())
            if cells:
                parts += [f"## {title}", tables.Table(header=("", ""), rows=cells, align="ll").markdown()]
        return parts


_USE = """## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder(NAME)
scores = model.predict([("a query", "a document"), ("a query", "another document")])
```

```python
import rankwise as rw

reranker = rw.rerank.Reranker.load(NAME)
reranker.rank("a query", ["a document", "another document"])
```"""


def _table(evaluation: Json) -> tables.Table:
    rows = tuple(
        (name, tables.number(mean["mean"]), tables.interval(mean["low"], mean["high"]), f"{mean['scored']:,}")
        for name, mean in evaluation["metrics"].items()
    )
    header = ("metric", "mean", f"{100 * evaluation['confidence']:g}% interval", "queries")
    return tables.Table(header=header, rows=rows, align="lrlr")


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
