"""What is said of a trained reranker: a model card with metadata for the Hugging Face Hub, and a summary."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import Objective, __version__, check
from rankwise import objective as find_objective
from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.base.tables import Table
from rankwise.models import code, evaluated, join_sections, line, section, storage
from rankwise.objectives.table import ObjectiveLike

if TYPE_CHECKING:
    from rankwise.wings.rerank.reranker import Reranker

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


def described(reranker: "Reranker", output: Path, evaluations: Json) -> Json:
    """Return the summary as a document; ``output`` is the folder of the model."""
    return {
        "model": output,
        "objective": str(reranker.objective),
        "parts": len(reranker.history_["loss"]),
        "best_part": reranker.best_round_,
        "epochs": reranker.epochs_,
        "stopped": reranker.stopped_,
        "evaluations": evaluations,
        "history": reranker.history_,
        "parameters": {name: value for name, value in reranker.settings().items() if name != "objective"},
    }


def table(reranker: "Reranker", evaluations: Json) -> Table:
    """Return what was trained and how good it is."""
    why = {
        "parts": "all epochs done",
        "patience": f"no better part for {reranker.patience} parts",
        "converged": "the gradient is zero",
    }
    losses = reranker.history_["loss"]
    rows = [
        ("objective", str(reranker.objective)),
        *((f"{part} data", size) for part, size in reranker.trained_on_.items()),
        (
            "parts",
            f"{reranker.best_round_} kept of {len(losses)} trained ({why.get(reranker.stopped_, reranker.stopped_)})",
        ),
        ("epochs in the model", f"{reranker.epochs_:g}"),
        ("loss", f"{tables.number(losses[0])} to {tables.number(losses[-1])}"),
    ]
    for name, lists in evaluations.items():
        rows.append((f"candidates, {name}", lists["candidates"]))
        for metric, one in lists["metrics"].items():
            rows.append(
                (f"{metric}, {name}", f"{tables.number(one['mean'])} {tables.interval(one['low'], one['high'])}")
            )
    return tables.Table(header=("", "reranker"), rows=tuple(rows), align="ll")
