"""Synthetic results of an experiment, for tests of what is written about them."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.schema import CURVES, DOCUMENTS, FEATURES, QUERIES, stack_frames

METRICS = ("ndcg@5", "ap")
METHODS = {"LambdaMART": "lightgbm(lambdarank)", "XE-NDCG": "lightgbm(xendcg)"}


def results(
    *,
    data: tuple[str, ...] = ("mslr-web30k",),
    levels: tuple[float, ...] = (0.0,),
    trials: int = 4,
    queries: int = 30,
    methods: dict[str, str] = METHODS,
    curves: bool = True,
    features: int = 3,
    ids: dict[int, str] | None = None,
    most: int = 12,
    **spec: Any,
) -> Results:
    """Every number is drawn; later methods are a little better, and noise (the level) makes all of them worse."""
    random = np.random.default_rng(7)
    rows: dict[str, list[pl.DataFrame]] = {name: [] for name in ("queries", "curves", "documents", "features")}
    for name in data:
        for level in levels:
            for trial in range(trials):
                sizes = random.integers(2, most, queries)
                offsets = np.concatenate(([0], np.cumsum(sizes)))
                labels = np.minimum(random.geometric(0.5, offsets[-1]) - 1, 4).astype(float)
                names = [(ids or {}).get(i, f"q{trial * queries // 2 + i}") for i in range(queries)]
                rare = random.normal(size=offsets[-1])
                for place, method in enumerate(methods):
                    scores = labels * (0.5 + 0.4 * place - 0.3 * level) + rare + random.normal(size=offsets[-1]) / 2
                    key = {"data": name, "level": level, "trial": trial, "method": method}
                    values = {text: rw.metric(text)(scores, labels, offsets) for text in METRICS}
                    rows["queries"].append(
                        _keyed(
                            key,
                            query=names,
                            documents=sizes,
                            relevant=np.add.reduceat(labels > 0, offsets[:-1], dtype=np.int64),
                            weight=1.0 + (np.arange(queries) % 2),
                            **values,
                        ).with_columns(pl.col(METRICS).fill_nan(None))
                    )
                    if curves and level == levels[0]:
                        rounds = int(random.integers(4, 9))
                        path = 0.4 + 0.1 * random.random(rounds).cumsum()
                        for series, column in {"valid ndcg@5": path, "test ndcg": path, "bound ndcg": path / 2}.items():
                            rows["curves"].append(
                                _keyed(key, round=np.arange(1, rounds + 1), series=[series] * rounds, value=column)
                            )
                    if trial == 0 and level == levels[0]:
                        where = {"query": np.repeat(np.array(names, object), sizes).tolist()}
                        where["document"] = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)).tolist()
                        own = {"data": name, "method": method}
                        rows["documents"].append(
                            _keyed(
                                own, **where, id=[f"doc-{i}" for i in range(offsets[-1])], label=labels, score=scores
                            )
                        )
                        if features and place == 0:
                            matrix = random.normal(size=(offsets[-1], features)).astype(np.float32)
                            rows["features"].append(
                                _keyed(
                                    {"data": name},
                                    **where,
                                    features=pl.Series(matrix.tolist(), dtype=pl.List(pl.Float32)),
                                )
                            )
    described = {"name": "synthetic", "methods": methods, "metrics": list(METRICS), "decide": METRICS[0], "test": "t"}
    return Results(
        spec=described | {"protocol": "runs", "treatment": "none", "levels": list(levels)} | spec,
        queries=stack_frames(rows["queries"], QUERIES),
        curves=stack_frames(rows["curves"], CURVES),
        documents=stack_frames(rows["documents"], DOCUMENTS),
        features=stack_frames(rows["features"], FEATURES),
        feature_names=[f"feature {i}" for i in range(features)],
        about={"command": "rankwise reproduce synthetic", "versions": {"rankwise": rw.__version__}},
    )


def explained(found: Results, queries: int) -> Results:
    """With contributions of the first queries: the first feature adds a tenth, the second all the rest."""
    known = found.documents["query"].unique(maintain_order=True)[:queries]
    rows = found.documents.filter(pl.col("query").is_in(known.implode()))
    parts = pl.concat_list(pl.col("score") * 0 + 0.1, pl.col("score") - 0.1, pl.col("score") * 0)
    contributions = rows.select("data", "method", "query", "document", contributions=parts.cast(pl.List(pl.Float32)))
    return replace(found, contributions=contributions)


def _keyed(key: dict[str, Any], **columns: Any) -> pl.DataFrame:
    frame = pl.DataFrame(columns)
    return frame.select(*(pl.lit(value).alias(name) for name, value in key.items()), pl.all()).cast(
        {name: pl.Int64 for name in ("trial", "round", "document", "documents", "relevant") if name in [*key, *columns]}
    )
