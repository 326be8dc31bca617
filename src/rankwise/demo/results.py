"""The demonstration as the results of an experiment, from which its report is written."""

from typing import TYPE_CHECKING

from rankwise.arrays import Json
from rankwise.demo.rankers import OBJECTIVES, SETTINGS
from rankwise.demo.result import HEADLINE, METRICS, Demonstration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rankwise.demo.baselines import Scores
    from rankwise.experiments.results import Results
    from rankwise.rankers.base import Ranker

DATA = "synthetic web search"


def as_results(result: Demonstration, scores: "dict[str, Scores]", rankers: "Mapping[str, Ranker]") -> "Results":
    """Give one trial of every ranker, with its values per query, its learning curve and the scores of documents."""
    import polars as pl

    from rankwise.experiments.results import Results
    from rankwise.experiments.running import frames, provenance
    from rankwise.experiments.schema import CONTRIBUTIONS, CURVES, DOCUMENTS, QUERIES, together

    test = result.parts["test"]
    evaluations = result.comparison.paired.evaluations
    keys = {name: {"data": DATA, "level": 0.0, "trial": 0, "method": name} for name in result.ranked}
    curves = [
        pl.DataFrame({"round": range(1, len(values) + 1), "value": values}, schema_overrides={"value": pl.Float64})
        .with_columns(series=pl.lit(f"valid {HEADLINE}"), **{key: pl.lit(one) for key, one in keys[name].items()})
        .select(list(CURVES))
        .cast(CURVES)
        for name, values in result.curves.items()
    ]
    return Results(
        spec=_spec(result),
        queries=together([frames.queries(keys[n], test, evaluations[n].values, 1.0) for n in keys], QUERIES),
        curves=together(curves, CURVES),
        documents=together([frames.documents(keys[name], test, scores[name]) for name in keys], DOCUMENTS),
        features=frames.features(keys[result.ranked[0]], test),
        contributions=together(
            [
                part
                for name, one in rankers.items()
                if (part := frames.contributions(keys[name], one, test)) is not None
            ],
            CONTRIBUTIONS,
        ),
        feature_names=None if test.feature_names is None else list(test.feature_names),
        about={
            "command": "rankwise demo",
            "date": provenance.date(),
            "machine": provenance.machine(),
            "versions": provenance.versions("lightgbm"),
        },
    )


def _spec(result: Demonstration) -> Json:
    trained = ", ".join(f"{name}={value!r}" for name, value in SETTINGS.items() if name not in ("metrics", "progress"))
    texts = {name: f"lightgbm({_quoted(text)}, {trained})" for name, text in OBJECTIVES.items()}
    own = {"linear regression": "ridge regression of the labels on standardised features"}
    return {
        "name": "demo",
        "title": "rankwise demo",
        "introduction": result.introduction(),
        "methods": {name: texts.get(name) or own.get(name) or "one feature" for name in result.ranked},
        "metrics": list(METRICS),
        "decide": HEADLINE,
        "baseline": dict.fromkeys([name for name in result.ranked if name in OBJECTIVES][:3], "linear regression"),
        "split": [0.6, 0.2, 0.2],
        "trials": 1,
        "alpha": result.comparison.alpha,
    }


def _quoted(objective: str) -> str:
    return repr(objective) if ":" in objective else objective
