"""Features of a query with a document: what training and service compute by the same code.

| name | what it is |
|---|---|
| ``bm25(field)`` | BM25; Lucene leaves its constant factor k₁ + 1 out |
| ``lm(field)`` | log likelihood of the query, Dirichlet smoothing: Σ ln(1 + tf/(μ·p)) + ln(μ/(length + μ)) |
| ``tfidf(field)`` | cosine of the weights (1 + ln tf)·idf |
| ``found(field)``, ``found_idf(field)`` | share of the query's words that occur there; weighted by idf |
| ``window(field)`` | words of the smallest window that holds all words that occur; missing if none does |
| ``phrase(field)`` | 1 where the field says word by word what the query says |
| ``first(field)`` | words before the first word of the query; missing if none occurs |
| ``length(field)`` | words of the field |
| ``query_words``, ``query_idf``, ``query_idf_max`` | distinct words of the query; sum and maximum of their idf, that of the field where it is lowest |
| ``score(run)``, ``reciprocal(run)``, ``scaled(run)`` | score in the run; 1/(60 + rank); score between 0 and 1 within the query. A document that the run lacks has the lowest score of the query there, 0 and 0 |
| a column's name | the column of the document |

Words of a query that no document has count nowhere, but break a phrase. N of BM25's idf are the documents that have the
field, as in Lucene.
"""  # noqa: E501

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Array, Json, Offsets
from rankwise.evaluation import ranked
from rankwise.wings.text import kernels
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.documents import Bm25, Documents, Words

if TYPE_CHECKING:
    import polars as pl

OF_QUERY = ("query_words", "query_idf", "query_idf_max")
OF_RUN = ("score", "reciprocal", "scaled")
_FORMULAS = 1
"""Counts versions of the formulas, of which each gives other numbers for the same texts."""
_MU = 2000.0
RANK = "rank"
_WORDS = {
    "bm25": "BM25 {}", "lm": "log likelihood of the query {}", "tfidf": "tf-idf cosine {}",
    "found": "{} of the query's words", "found_idf": "{} of the query's words, rare ones counting more",
    "window": "the query's words in a window of {}", "phrase": "the query word by word: {}",
    "first": "words before the query's first {}", "length": "length {}",
} | dict.fromkeys(OF_RUN, RANK)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents of each query that are to be ranked, and where the runs rank them."""

    queries: tuple[str, ...]
    offsets: Offsets
    places: NDArray[np.int64]
    """(n_pairs,) places of the documents."""
    runs: Mapping[str, Array]
    """Run -> (n_pairs, 4), :data:`OF_RUN` and the rank, 0 for documents that it lacks; no score where it lacks all."""


def origin(documents: Documents) -> str:
    """Return how texts become these features, as JSON: what training and service must have in common."""
    settings = {**asdict(documents.analyzer), **asdict(documents.bm25)}
    return json.dumps({"rw.text": _FORMULAS, "fields": documents.fields, **settings}, ensure_ascii=False)


def check_origin(documents: Documents, ranker: Any) -> None:
    """Raise if a ranker was trained on features of texts that were read otherwise; an older one does not say it."""
    try:
        trained = json.loads(ranker.trained_on_.get("feature_origin") or "{}")
        kept = trained if "rw.text" in trained else {}
    except (AttributeError, TypeError, ValueError):  # a ranker of the user's; an origin in other words
        return
    here = json.loads(origin(documents))
    differ = [name for name in here if name in kept and _unordered(here[name]) != _unordered(kept[name])]
    if differ:
        got = "; ".join(f"{name}={here[name]!r}, in training {kept[name]!r}" for name in differ)
        hint = f"`index them with {_in_python(differ, kept)}|use {' '.join(_option(one, kept[one]) for one in differ)}`"
        hint = "train the model anew with this version" if "rw.text" in differ else hint
        raise check.error("the documents are read otherwise than those of the training", got=got, hint=hint)


def _unordered(value: object) -> object:
    return sorted(value) if isinstance(value, list) else value


def _in_python(names: Sequence[str], kept: Json) -> str:
    ways = [f"fields={tuple(kept['fields'])}"] if "fields" in names else []
    for kind in (Analyzer, Bm25):
        chosen = ", ".join(f"{one.name}={kept[one.name]!r}" for one in fields(kind) if one.name in names)
        ways += [f"{kind.__name__.lower()}=rw.text.{kind.__name__}({chosen})"] * bool(chosen)
    return ", ".join(ways)


def _option(name: str, value: Any) -> str:
    if name == "fields":
        return " ".join(f"--field {one}" for one in value)
    if name in ("k1", "b"):
        return f"rw.text.Search in Python, with {name}={value}"
    if value is None or value == [] or isinstance(value, bool):
        return f"--{name}" if value is True else f"--no-{name}" if name == "split" else f"no --{name}"
    return f"--{name} {','.join(value) if isinstance(value, list) else value}"


def all_names(documents: Documents, runs: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all features."""
    of_fields = (f"{name}({field})" for field in documents.fields for name in kernels.PER_FIELD)
    return (*of_fields, *OF_QUERY, *(f"{name}({run})" for run in runs for name in OF_RUN), *documents.columns)


def checked_names(features: Sequence[str] | None, documents: Documents, runs: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the chosen features, all by default."""
    known = all_names(documents, runs)
    check.require_unique_names(known)
    chosen = known if features is None else tuple(features)
    check.require_unique_names(chosen)
    for name in chosen:
        check.choice("each of the features", name, known)
    if not chosen:
        raise check.error("there must be at least one feature", hint="leave `features=…` out for all")
    return chosen


def table(
    documents: Documents, queries: Mapping[str, str], runs: "Mapping[str, pl.DataFrame]", depth: int,
    names: Sequence[str],
) -> tuple[Candidates, NDArray[np.float32]]:  # fmt: skip
    """Return the candidates of queries, texts by id, and their features: of data sets and of searches alike."""
    chosen = candidates(list(queries), runs, documents, depth)
    return chosen, matrix(documents, documents.numbers_of(list(queries.values())), chosen, names)


def matrix(documents: Documents, words: Words, candidates: Candidates, names: Sequence[str]) -> NDArray[np.float32]:
    """Return the features of the given names, one row per candidate."""
    per_field, n_fields = len(kernels.PER_FIELD), len(documents.fields)
    n_pairs = candidates.places.size
    out = np.empty((n_pairs, n_fields * per_field))
    idf, share, norms, means = (documents.arrays[name] for name in ("idf", "share", "norms", "means"))
    tokens, bounds = documents.arrays["tokens"], documents.arrays["bounds"]
    sizes = np.diff(candidates.offsets)
    length = (bounds[n_fields * (candidates.places + 1)] - bounds[n_fields * candidates.places]).astype(np.float64)
    spans = np.concatenate([[0.0], np.cumsum(length)])[candidates.offsets]
    asked = np.diff(words.distinct_offsets).astype(np.float64)
    threads.over_queries(
        kernels.features, words.distinct_offsets, words.distinct, words.counts, candidates.offsets, candidates.places,
        words.offsets, words.numbers, tokens, bounds, idf, share, norms, means, documents.bm25.k1, documents.bm25.b,
        _MU, out, work=np.diff(spans) + 10.0 * n_fields * (asked + 1.0) * sizes,
    )  # fmt: skip
    known = {
        f"{name}({field})": out[:, number * per_field + place]
        for number, field in enumerate(documents.fields)
        for place, name in enumerate(kernels.PER_FIELD)
    }
    known |= {name: np.repeat(values, sizes) for name, values in _of_queries(documents, words).items()}
    for run, values in candidates.runs.items():
        known |= {f"{name}({run})": values[:, place] for place, name in enumerate(OF_RUN)}
    known |= {name: values[candidates.places] for name, values in documents.columns.items() if name in names}
    return np.stack([known[name] for name in names], axis=1).astype(np.float32)


def _of_queries(documents: Documents, words: Words) -> dict[str, Array]:
    lowest = documents.arrays["idf"].reshape(len(documents.fields), -1)[:, words.distinct].min(0)
    count = np.diff(words.distinct_offsets)
    total, largest = np.zeros(count.size), np.zeros(count.size)
    query = np.repeat(np.arange(count.size), count)
    np.add.at(total, query, lowest)
    np.maximum.at(largest, query, lowest)
    return dict(zip(OF_QUERY, (count.astype(np.float64), total, largest), strict=True))


def candidates(
    queries: Sequence[str], runs: "Mapping[str, pl.DataFrame]", documents: Documents, depth: int
) -> Candidates:
    """Return the union of the first ``depth`` documents of each run, by query and then as documents were indexed."""
    import polars as pl

    order = pl.DataFrame(
        {"query": list(queries), "number": np.arange(len(queries))}, schema_overrides={"query": pl.String}
    )
    placed = {}
    for name, run in runs.items():
        rank = pl.int_range(1, pl.len() + 1).over("query")
        first = ranked(run.join(order, on="query")).with_columns(rank=rank).filter(pl.col("rank") <= depth)
        low, high = pl.col("score").min().over("query"), pl.col("score").max().over("query")
        placed[name] = first.select(
            "number",
            place=pl.Series(documents.places(first["document"])),
            score="score",
            reciprocal=1.0 / (60.0 + pl.col("rank")),
            scaled=pl.when(high > low).then((pl.col("score") - low) / (high - low)).otherwise(1.0),
            rank="rank",
        )
    keys = ["number", "place"]
    pairs = pl.concat([one.select(keys) for one in placed.values()]).unique().sort(keys)
    positions = {}
    for name, one in placed.items():
        lowest = one.group_by("number").agg(lowest=pl.col("score").min())
        joined = pairs.join(one, on=keys, how="left", maintain_order="left")
        joined = joined.join(lowest, on="number", how="left", maintain_order="left")
        filled = joined.select(pl.coalesce("score", "lowest"), pl.col(*OF_RUN[1:], "rank").fill_null(0.0))
        positions[name] = filled.to_numpy()
    counts = np.bincount(pairs["number"].to_numpy(), minlength=len(queries))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Candidates(tuple(queries), offsets, pairs["place"].to_numpy(), positions)


def in_words(documents: Documents, runs: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what each feature is of, a field, a run, a column or the query, and what it is in plain words."""
    of = dict.fromkeys(kernels.PER_FIELD, documents.fields) | dict.fromkeys(OF_RUN, tuple(runs))
    named = {f"{name}({one})": (one, _WORDS[name]) for name, group in of.items() for one in group}
    return {name: (name, "") for name in documents.columns} | dict.fromkeys(OF_QUERY, ("query", "")) | named


def value(name: str, text: str | None) -> str:
    """Write the value of a feature for people.

    >>> value("found(text)", "0.71428571"), value("phrase(title)", "1"), value("bm25(title)", "7.123456")
    ('71%', 'yes', '7.12')
    """
    if text is None:
        return "none"
    number = round(float(text), 6) + 0.0  # no −0
    if name.startswith(("found(", "found_idf(")):
        return f"{number:.0%}"
    if name.startswith("phrase("):
        return "yes" if number else "no"
    return (f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}").replace("-", "−")
