"""Evaluation of rankings in files: scores by document, TREC runs, and models that score the data."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.data.categories import Values, join
from rankwise.data.columns import flat, nested
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.file_formats import read_bytes, shown
from rankwise.evaluation import trec
from rankwise.evaluation.evaluate import evaluate
from rankwise.evaluation.ranking_names import names
from rankwise.evaluation.systems import FeaturePredictor
from rankwise.metrics.base import Metric
from rankwise.models import formats
from rankwise.statistics.evaluation import Evaluation

_PICKLE = b"\x80"


class Ranking(NamedTuple):
    """Scores, and the data that they belong to."""

    scores: NDArray[np.float64]
    data: RankingDataset
    tag: str = ""
    """What a TREC run calls itself."""


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
    named = names([(name, path, tag) for (name, path), tag in zip(rankings, tags, strict=True)])
    return dict(zip(named, evaluations, strict=True))


def read_scores(path: Path) -> NDArray[np.float64]:
    """Read one score per document: a .npy array, or text with one number per line, compressed or not."""
    return _scores(read_bytes(path), path)


def in_order_of(data: RankingDataset, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores that have the order of the file of data in that of the data set, which may have been sorted."""
    return scores if data.rows is None or scores.size != data.n_docs else scores[data.rows]


def _scores(content: bytes, path: Path) -> NDArray[np.float64]:
    if _is_array(content, path):
        return _array(content, path)
    numbers = []
    for number, line in enumerate(content.decode("utf-8", "replace").rstrip().split("\n"), 1):
        try:
            numbers.append(float("" if "_" in line else line))  # no other program than Python reads 1_000
        except ValueError:
            got, where = repr(line.rstrip("\r")[:60]), f"line {number} of {shown(path)}"
            hint = "write one number per document, in the order of the data, or a TREC run"
            if content.startswith((_PICKLE, *formats.BEGINNINGS)):
                hint = "a model of another library becomes one that is read here: rw.wrap(model).save('folder')"
            raise check.error("a file of scores holds one number per line", got=got, where=where, hint=hint) from None
    return np.array(numbers)


def _is_array(content: bytes, path: Path) -> bool:
    return path.suffix == ".npy" or content.startswith(b"\x93NUMPY")


def _array(content: bytes, path: Path) -> NDArray[np.float64]:
    """Read a .npy file, whose header must fit what follows."""
    with check.library("a .npy file", path):
        file = io.BytesIO(content)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
    if len(shape) != 1 or dtype.kind not in "fiu":
        got = f"shape {shape} of {dtype}"
        raise check.error("a file of scores holds one number per document", got=got, where=str(path))
    values = content[file.tell() :]
    if len(values) != shape[0] * dtype.itemsize:
        got = f"{len(values):,} bytes for {shape[0]:,} numbers of {dtype}"
        raise check.error("a .npy file is truncated, or longer than it says", got=got, where=str(path))
    return np.frombuffer(values, dtype).astype(np.float64)


def columns_to_rank(models: Iterable[FeaturePredictor]) -> Keywords:
    """Arguments of ``rw.read_csv`` and ``rw.read_parquet`` for a table by which rankings are judged.

    They name the features of all models, with their categories, and none where there is no model; nothing, which reads
    every column, where a model knows its features by their numbers alone.
    """
    features: dict[str, None] = {}
    categorical: dict[str, None] = {}
    categories: dict[str, Values] = {}
    for model in models:
        columns = model.columns_to_score()
        if "features" not in columns:
            return {}
        features |= dict.fromkeys(columns["features"])
        categorical |= dict.fromkeys(columns["categorical"])
        for name, values in columns["categories"].items():
            categories[name] = join((categories.get(name, ()), values), f"column {name!r}")
    return {"features": [*features], "categorical": [*categorical], "categories": categories}


def read_ranking(
    path: Path, by: RankingDataset | pl.DataFrame, *, all_topics: bool, model: FeaturePredictor | None = None
) -> Ranking:
    """Read the scores of a file or a model, with the data that they belong to: DATA, or a run joined with qrels.

    ``model`` is what ``path`` holds, if that is a model.
    """
    if model is not None:
        if not isinstance(by, RankingDataset):
            hint = "evaluate it on DATA instead of qrels, or write a run with 'rankwise predict'"
            raise check.error("a model needs data with features", got=str(path), hint=hint)
        with check.naming(path):
            return Ranking(model.predict(by.without_rows()), by)
    if not isinstance(by, RankingDataset):
        with check.naming(shown(path)):
            run = trec.read_run(path)
            return Ranking(*trec.join(run, by, all_topics=all_topics), tag=run["tag"][0])
    if path.suffix.lower() == ".parquet":
        hint = "write one number per document with 'rankwise predict … -o scores.txt' (or .npy), or a TREC run (.run)"
        raise check.error("scores are read from text, .npy arrays and TREC runs", got=str(path), hint=hint)
    content = read_bytes(path)  # once: it may be a pipe
    words = content[:4096].lstrip().split(b"\n", 1)[0].split()
    if len(words) >= 6 and not _is_array(content, path):  # query Q0 document rank score tag
        return _join(trec.parse_run(content, path), by, path)
    return Ranking(in_order_of(by, _scores(content, path)), by)


def _join(run: pl.DataFrame, data: RankingDataset, path: Path) -> Ranking:
    """Join a run with data as qrels; every query counts, also those that the run does not have."""
    if data.document_ids is None:
        hint = "give one score per line instead, in the order of the data, or take relevance from qrels"
        raise check.error("a TREC run needs data with document ids", got=f"{shown(path)} and data without", hint=hint)
    judged = np.ones(data.n_docs) if data.judged is None else data.judged
    grades = np.where(judged < 0, -1.0, data.labels)  # as qrels have it: a negative grade, or no line
    columns: Keywords = {"query": data.qids(), "document": data.document_ids, "grade": grades}
    samples = {"stratum": data.strata, "probability": data.inclusion_probabilities}
    columns |= {name: column for name, column in samples.items() if column is not None}
    frame = pl.DataFrame(columns).filter(judged != 0)
    with check.naming(shown(path)):
        scores, joined = trec.join(run, frame, all_topics=True)
    return Ranking(scores, joined.with_(weights=data.weights, **_named_labels(data, joined)), run["tag"][0])


def _named_labels(data: RankingDataset, joined: RankingDataset) -> Keywords:
    """Return the labels by name of joined documents, 0 for those that the data do not have."""
    if data.more_labels is None:
        return {}
    named = flat({"more_labels": data.more_labels}).items()
    ours = trec.ids_of(data).with_columns(pl.Series(name, values) for name, values in named)
    keys = ["query", "document"]
    labels = trec.ids_of(joined).join(ours, on=keys, how="left", maintain_order="left").drop(keys)
    return nested(labels.fill_null(0.0).to_dict())
