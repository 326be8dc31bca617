"""The model card of a reranker: what it was trained on and with, and how good it is, each number with its interval."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwise import check
from rankwise.evaluation import tables
from rankwise.plain import Json

TAGS = ("sentence-transformers", "cross-encoder", "reranker", "rankwise")
VALIDATION = "validation"
"""What the evaluation on the queries that chose the model is called."""
_CHOSEN = "Which part of the training is kept was chosen on these queries, so that the model looks a little too good."
_SKIPPED = "A query without relevant documents is skipped."


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a model card says."""

    name: str
    base_model: str = ""
    """The model that training began from, where it is known by a name on the Hub."""
    objective: str
    paper: str = ""
    """Where the objective comes from."""
    data: Mapping[str, str] = field(default_factory=dict)
    """How large the data were, by their part in the training."""
    settings: Mapping[str, object] = field(default_factory=dict)
    evaluations: Mapping[str, Json] = field(default_factory=dict)
    """Name of a data set -> what :meth:`rankwise.Evaluation.to_dict` says of it."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Give the content of ``README.md``: the metadata that the Hub reads, and what people read."""
        parts = [self._metadata(), f"# {_line(self.name)}", self._about(), *self._measured(), self._use()]
        return "\n\n".join([*parts, *self._training()]) + "\n"

    def _metadata(self) -> str:
        """What the Hub reads, as YAML."""
        about: Json = {"library_name": "sentence-transformers", "pipeline_tag": "text-ranking", "tags": list(TAGS)}
        if self.base_model:
            about["base_model"] = self.base_model
        if self.evaluations:
            results = [_result(name, found) for name, found in self.evaluations.items()]
            about["model-index"] = [{"name": self.name, "results": results}]
        yaml: Any = check.extra("yaml", "rerank")  # noqa: S610 (not a query of Django)
        return f"---\n{yaml.safe_dump(about, sort_keys=False, allow_unicode=True, width=120)}---"

    def _about(self) -> str:
        of = f" from `{_line(self.base_model)}`" if self.base_model else ""
        paper = f" ({self.paper})" if self.paper else ""
        return (
            f"A cross-encoder that scores how well a document answers a query, trained{of} with rankwise and the "
            f"objective `{_line(self.objective)}`{paper}. A higher score is better; scores are compared among the "
            "documents of one query."
        )

    def _measured(self) -> list[str]:
        if not self.evaluations:
            return []
        parts = ["## Evaluation"]
        for name, found in self.evaluations.items():
            chosen = f"{_CHOSEN} " if name == VALIDATION else ""
            parts += [f"### {_line(name)}", _table(found).markdown(), _candidates(found) + chosen + _intervals(found)]
        return parts

    def _use(self) -> str:
        return _USE.replace("NAME", json.dumps(self.name, ensure_ascii=False))

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


def _table(found: Json) -> tables.Table:
    rows = tuple(
        (name, tables.number(one["mean"]), tables.interval(one["low"], one["high"]), f"{one['scored']:,}")
        for name, one in found["metrics"].items()
    )
    header = ("metric", "mean", f"{100 * found['confidence']:g}% interval", "queries")
    return tables.Table(header=header, rows=rows, align="lrlr")


def _candidates(found: Json) -> str:
    """How many documents were ranked, and which; folders of older versions do not know."""
    return f"Ranked were {_line(found['candidates'])}. " if found.get("candidates") else ""


def _intervals(found: Json) -> str:
    skipped = any(one["skipped"] for one in found["metrics"].values())
    return "Intervals are those of a bootstrap over queries, and Student's of fewer than ten." + (
        f" {_SKIPPED}" if skipped else ""
    )


def _result(data: str, found: Json) -> Json:
    """What the Hub reads of one evaluation. It knows no intervals: they stand beside a metric's name."""
    percent = f"{100 * found['confidence']:g}%"
    metrics = [
        {
            "type": name,
            "value": one["mean"],
            "name": f"{name}, {percent} interval {tables.interval(one['low'], one['high'])}, {one['scored']:,} queries",
        }
        for name, one in found["metrics"].items()
    ]
    of = f" of {_line(found['candidates'])}" if found.get("candidates") else ""
    task = {"type": "text-ranking", "name": f"Reranking{of}"}
    return {"task": task, "dataset": {"type": "custom", "name": data}, "metrics": metrics}


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _line(text: str) -> str:
    """Keep a name to its line."""
    return " ".join(text.replace("`", "'").split())
