"""The model card of a reranker: metadata that the Hugging Face Hub reads, and the sections of every card."""

import json
from typing import Any

from rankwise import Objective, __version__, check
from rankwise import objective as find_objective
from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.models import code, evaluated, join_sections, line, section, storage
from rankwise.objectives.table import ObjectiveLike

TAGS = ("sentence-transformers", "cross-encoder", "reranker", "rankwise")
VALIDATION = "validation"
"""Name of the evaluation on the queries that chose the model."""
_CHOSEN = "Which part of the training is kept was chosen on these queries, so that the model looks a little too good."
_ENCODER = """from sentence_transformers import CrossEncoder

model = CrossEncoder({})
scores = model.predict([("a query", "a document"), ("a query", "another document")])"""
_RERANKER = """import rankwise as rw

reranker = rw.rerank.Reranker.load({})
reranker.rank("a query", ["a document", "another document"])"""


def model_card(name: str, description: Json, objective: ObjectiveLike) -> str:
    """Return the card of a model from its description, as in ``rankwise.json``, and its objective, which is cited."""
    evaluations, base = description["evaluations"], description["base_model"]
    metadata: Json = {"library_name": "sentence-transformers", "pipeline_tag": "text-ranking", "tags": list(TAGS)}
    if base:
        metadata["base_model"] = base
    if evaluations:
        results = [_result(data, evaluation) for data, evaluation in evaluations.items()]
        metadata["model-index"] = [{"name": name, "results": results}]
    yaml: Any = check.optional("yaml", "rerank")
    try:
        paper = find_objective(objective).paper
    except ValueError:  # the name of a user's function, in a model that was loaded
        paper = ""
    origin, cited = f" from `{line(base)}`" if base else "", f" ({paper})" if paper else ""
    training = {f"{part} data": size for part, size in description["data"].items()}
    training |= {"epochs in the model": f"{description['epochs']:g}"} | description["parameters"]
    quoted = json.dumps(name, ensure_ascii=False)
    return join_sections(
        f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120)}---",
        f"# {line(name)}",
        f"A cross-encoder that scores how well a document answers a query, trained{origin} with rankwise and the "
        f"objective `{line(description['objective'])}`{cited}. A higher score is better; scores are compared among the "
        "documents of one query.",
        "## Evaluation" if evaluations else "",
        *(evaluated(data, one, _CHOSEN if data == VALIDATION else "") for data, one in evaluations.items()),
        code(_ENCODER.format(quoted), _RERANKER.format(quoted)),
        section("Training", training),
        section("Versions", storage.versions() | description["versions"]),
    )


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
