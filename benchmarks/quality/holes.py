"""Verdicts from thinned judgements on Cranfield and CISI: how many come from holes alone, and how many are kept.

    python -m benchmarks.quality.holes CRANFIELD CISI [--draws 200] [--shares 0.8] [--processes 1] [--out holes.md]

CRANFIELD and CISI are folders of abstracts, queries and judgements, which are taken to be complete: what is not listed
is not relevant. Fifteen systems rank the first 100 documents: four kinds of BM25 and the cosine, each of words, of
their first five letters, and of titles. A draw takes a collection and two systems, and thins the judgements:

- pool of the first: judged is what the first system ranks among its first k, where k leaves a share of the documents
  that the second one ranks among its first ten;
- pool of three: the same, where two other systems are pooled, too;
- at random: each document of a query is judged with one probability.

A verdict is from holes alone if complete judgements have none, or the opposite. Of 200 draws in which they have none,
at most 10 may have one by ``rw.compare``; and of 200 in which they have one, at least 160 must be kept where 80% are
judged.
"""

import functools
import gzip
import json
import re
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.statistics.verdict import verdict

METRICS = ("ndcg@10", "ap", "rr", "precision@10")
SHARES = (0.8, 0.5)
THINNINGS = ("pool of the first", "pool of three", "at random")
DEPTH = 100
ALONE, KEPT = 0.05, 0.8


@dataclass(frozen=True)
class Cell:
    thinning: str
    share: float
    """Of judged documents among the first ten: of the second system, or at random of both."""
    draws: int
    """With a verdict by complete judgements, and without one, of each metric."""
    folder: tuple[str, ...]
    """Of each collection."""


@functools.cache
def collection(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of all systems, (n_systems, n_queries, n_docs), and labels, (n_queries, n_docs)."""

    def read(file: str) -> list[dict[str, str]]:
        with gzip.open(Path(folder) / file, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    documents = read("documents.jsonl.gz")
    qrels: dict[str, dict[str, int]] = {}
    with gzip.open(Path(folder) / "qrels.txt.gz", "rt", encoding="utf-8") as lines:
        for query, _, document, grade in map(str.split, lines):
            if int(grade) > 0:
                qrels.setdefault(query, {})[document] = int(grade)
    queries = [query for query in read("queries.jsonl.gz") if query["id"] in qrels]
    rows = {one["id"]: row for row, one in enumerate(documents)}
    labels = np.zeros((len(queries), len(documents)))
    for number, asking in enumerate(queries):
        for document, value in qrels[asking["id"]].items():
            labels[number, rows[document]] = value
    texts = {"text": [one.get("text", "") for one in documents], "title": [one.get("title", "") for one in documents]}
    asked = [query["text"] for query in queries]
    systems = []
    for field, length in (("text", 20), ("text", 5), ("title", 20)):
        counts, wanted = matrices(texts[field], asked, length)
        systems += [bm25(counts, wanted, *each) for each in ((0.5, 0.75), (1.2, 0.75), (1.2, 0.3), (2.0, 1.0))]
        systems.append(cosine(counts, wanted))
    return np.array(systems), labels


def matrices(texts: list[str], queries: list[str], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Count the words of documents and of queries, cut after some letters."""
    words = [[Counter(word[:length] for word in re.findall(r"[a-z]+", text.lower())) for text in part]
             for part in (texts, queries)]  # fmt: skip
    number = {word: place for place, word in enumerate(sorted(set().union(*words[1])))}
    tables = []
    for part in words:
        table = np.zeros((len(part), len(number) + 1))
        for row, counter in enumerate(part):
            for word, count in counter.items():
                table[row, number.get(word, -1)] += count
        tables.append(table)
    return tables[0], tables[1][:, :-1]


def bm25(counts: np.ndarray, wanted: np.ndarray, k1: float, b: float) -> np.ndarray:
    lengths, tf = counts.sum(1, keepdims=True), counts[:, :-1]
    df = (tf > 0).sum(0)
    idf = np.log1p((len(tf) - df + 0.5) / (df + 0.5))
    return np.asarray(wanted @ (idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * lengths / lengths.mean()))).T)


def cosine(counts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    tf, idf = np.log1p(counts[:, :-1]), np.log(len(counts) / np.maximum((counts[:, :-1] > 0).sum(0), 1))
    norm = np.sqrt((np.log1p(counts) ** 2).sum(1, keepdims=True)) + 1e-9
    return np.asarray((wanted * idf) @ (tf * idf / norm).T)


@dataclass(frozen=True)
class Draw:
    """What two systems rank, and the ranks of those that are pooled with the first."""

    data: rw.RankingDataset
    ranks: np.ndarray
    """(n_systems, n_docs) from 1; the second system is compared with the first."""

    def scores(self) -> dict[str, np.ndarray]:
        return {name: np.where(rank <= DEPTH, -rank, -np.inf) for name, rank in zip("ab", self.ranks, strict=False)}

    def thinned(self, thinning: str, share: float, rng: np.random.Generator) -> rw.RankingDataset:
        """Return data of which few documents are judged."""
        if thinning == "at random":
            judged = rng.random(self.data.n_docs) < share
        else:
            pool = self.ranks[[0] if thinning == "pool of the first" else [0, 2, 3]].min(axis=0)
            depth = np.quantile(pool[self.ranks[1] <= 10], share, method="lower")
            judged = pool <= depth
        return self.data.with_(labels=self.data.labels * judged, judged=judged)


@functools.cache
def complete(folder: str, first: int, second: int) -> tuple[Draw, rw.Comparison]:
    """Return what two systems rank, with the ranks of all, and their comparison by complete judgements."""
    systems, labels = collection(folder)
    ranks = 1 + np.argsort(np.argsort(-systems, axis=2, kind="stable"), axis=2)
    ranks = np.concatenate([ranks[[first, second]], ranks])
    listed = (ranks[:2] <= DEPTH).any(axis=0) | (labels > 0)
    data = rw.RankingDataset.from_sizes(np.empty((listed.sum(), 0)), labels[listed], listed.sum(axis=1))
    draw = Draw(data, ranks[:, listed])
    return draw, rw.compare(draw.scores(), data, METRICS)


def measure(cell: Cell) -> dict[str, Any]:
    """Return, for each metric, what each draw says: of complete judgements, of thinned ones, and errors."""
    warnings.simplefilter("ignore")  # of shares of judged documents
    rng = np.random.default_rng([len(cell.thinning), round(100 * cell.share)])
    rows: dict[str, list[dict[str, Any]]] = {f"{metric} {kept}": [] for metric in METRICS for kept in (False, True)}
    while min(map(len, rows.values())) < cell.draws:
        folder = cell.folder[rng.integers(len(cell.folder))]
        numbers = rng.choice(len(collection(folder)[0]), 4, replace=False)
        draw, truths = complete(folder, *numbers[:2].tolist())
        draw = replace(draw, ranks=draw.ranks[[0, 1, *(2 + numbers[2:])]])
        found = rw.compare(draw.scores(), draw.thinned(cell.thinning, cell.share, rng), [*METRICS, "judged@10"])
        pair: Any
        for truth, pair in zip(truths.pairs, found.pairs, strict=False):
            row = {
                "truth": truth.verdict,
                "plain": verdict(pair.difference, pair.p_adjusted, 0.05),
                "filled": verdict(pair.filled_difference, pair.filled_p_adjusted, 0.05),
                "ours": pair.verdict,
                "plain error": pair.difference - truth.difference,
                "filled error": pair.filled_difference - truth.difference,
                "inside": pair.lowest <= truth.difference <= pair.highest,
                **found.mean["judged@10"],
            }
            rows[f"{truth.metric} {truth.significant}"].append(row)
    return {name: some[: cell.draws] for name, some in rows.items()}


def count(rows: list[dict[str, Any]], name: str) -> tuple[int, int]:
    """Count verdicts that are those of complete judgements, and that are others: from holes alone."""
    kept = sum(row[name] == row["truth"] != "unclear" for row in rows)
    return kept, sum(row[name] in ("better", "worse") and row[name] != row["truth"] for row in rows)


KINDS = {"unjudged is irrelevant": "plain", "filled": "filled", "`rw.compare`": "ours"}


def page(outcomes: dict[Cell, dict[str, Any]]) -> str:
    texts = []
    for kept in (False, True):
        rows = []
        for cell, found in outcomes.items():
            for metric in METRICS:
                some = found[f"{metric} {kept}"]
                shares = ", ".join(f"{np.mean([row[name] for row in some]):.0%}" for name in "ab")
                counts = [count(some, name) for name in KINDS.values()]
                cells = [f"{same}, {other}" if kept else str(other) for same, other in counts]
                errors = [np.sqrt(np.mean([row[f"{name} error"] ** 2 for row in some])) for name in ("plain", "filled")]
                rows.append([cell.thinning, shares, f"`{metric}`", *cells, *(f"{one:.4f}" for one in errors)])
        header = ["judged", "first ten of a, b", "metric", *KINDS, "error, irrelevant", "error, filled"]
        said = "a verdict, thinned the same, another" if kept else "no verdict, thinned there is one"
        texts += [f"{cell.draws} draws a row; by complete judgements {said}:", harness.markdown(header, rows)]
    return "\n\n".join(texts)


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/holes.md", processes=1)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--draws", type=int, default=200, help="draws of each row")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--thinnings", nargs="+", default=THINNINGS)
    args = parser.parse_args()

    cells = [
        Cell(thinning, share, args.draws, tuple(args.folders)) for thinning in args.thinnings for share in args.shares
    ]
    outcomes = harness.Cells[Cell](args.out).measure(cells, measure, args.processes)
    text = page({cell: outcomes[cell] for cell in cells})
    harness.write(args.out, text + "\n")
    print(text)
    missed = False
    for cell, found in outcomes.items():
        for metric in METRICS:
            alone, kept = count(found[f"{metric} False"], "ours")[1], count(found[f"{metric} True"], "ours")[0]
            for what, wrong in {
                f"{alone} verdicts from holes alone": alone > ALONE * cell.draws,
                f"{kept} verdicts kept": cell.share == 0.8 and kept < KEPT * cell.draws,
            }.items():
                if wrong:
                    missed = True
                    print(f"Missed: {cell.thinning}, {cell.share:.0%} judged, {metric}: {what} of {cell.draws}.")
    sys.exit(harness.MISSED if missed else 0)


if __name__ == "__main__":
    main()
