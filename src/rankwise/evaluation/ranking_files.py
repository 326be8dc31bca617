"""Evaluation of rankings in files: scores, TREC runs, and models that score the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.file_formats import shown
from rankwise.evaluation import ranking_names
from rankwise.evaluation.evaluate import evaluate
from rankwise.evaluation.score_files import read_ranking
from rankwise.metrics.base import Metric
from rankwise.statistics.evaluation import Evaluation


def evaluate_files(
    rankings: Sequence[tuple[str, Path]],
    by: RankingDataset | pl.DataFrame,
    metrics: Sequence[Metric],
    models: Mapping[Path, Any],
    *,
    all_topics: bool = False,
    step: Callable[[str], object] = lambda _: None,
    note: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> dict[str, Evaluation]:
    """Evaluate rankings, each a name, which may be empty, and a file; ``models`` are those that are no files of scores.

    ``by`` are data or qrels, ``options`` those of :func:`rankwise.evaluate`. ``step`` is called before each ranking,
    ``note`` with a sentence where a model was trained on queries of the data.
    """
    evaluations, tags = [], []
    for _, path in rankings:
        step(f"Evaluating {shown(path)}")
        model = models.get(path)
        scores, judged, tag = read_ranking(path, by, all_topics=all_topics, model=model)
        seen = None if model is None else model.seen_in_training(judged)
        if seen is not None and seen.any():
            what = f"{seen.sum():,} of these {seen.size:,} queries have the features of queries that {shown(path)} "
            note(f"{what}was trained on: what is measured on them says little about new queries")
        with check.naming(shown(path)):
            one = evaluate(scores, judged, list(metrics), **options)
        if one.ranked is not None and (predicts := getattr(model, "predicts_", None)):
            one = replace(one, ranked=one.ranked._replace(predicts=predicts))
        evaluations.append(one)
        tags.append("" if isinstance(by, RankingDataset) else tag)
    names = ranking_names.names([(name, path, tag) for (name, path), tag in zip(rankings, tags, strict=True)])
    return dict(zip(names, evaluations, strict=True))
