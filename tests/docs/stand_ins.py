"""Small files in place of those that the commands of the documentation name, made when a command asks for one."""

import json
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import rankwise as rw
from rankwise.data.frames import to_frame
from tests.docs.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

QUERY, DOCUMENTS = 15928, ("GX010-40", "GX016-32")
"""A query of the examples, and two of its documents."""

_ENDINGS = (".txt", ".txt.gz", ".txt.zst", ".parquet")
_WRITTEN_TO = ("-o", "--output", "--save", "--plot", "--checkpoint", "--per-query", "--checkpoint", "--tag")


@cache
def rows() -> rw.RankingDataset:
    """Ranking data with ids."""
    data = rw.synthetic(n_queries=40, n_docs=12, n_features=6, seed=2)
    documents = np.array([f"d{number}" for number in range(data.n_docs)], dtype="<U12")
    documents[: len(DOCUMENTS)] = DOCUMENTS
    return data.with_(query_ids=np.arange(QUERY, QUERY + 40), document_ids=documents, feature_names=None)


def provide(words: tuple[str, ...], home: Path) -> None:
    """Make what a command reads, unless it is there: in the current folder, or below ``home``, which is ~."""
    previous = ""
    for word in words:
        if previous not in _WRITTEN_TO:
            for piece in word.split("=")[-1:]:
                _provide(piece, home)
        previous = word


def sets(folder: Path) -> None:
    """Lay out a set of the catalog as its archive does."""
    for fold in range(1, 6):
        place = folder / "MQ2008" / f"Fold{fold}"
        place.mkdir(parents=True, exist_ok=True)
        for name, part in zip(("train", "vali", "test"), rw.split(rows(), (0.6, 0.2, 0.2), seed=fold), strict=True):
            rw.data.write_letor(part, place / f"{name}.txt", force=True)


def _provide(word: str, home: Path) -> None:
    path = Path(word.replace("~", str(home)))
    if path.exists():
        return
    makers: dict[str, Callable[[Path], object]] = {
        **dict.fromkeys(("qrels.txt", "qrels.txt.gz"), lambda to: rw.trec.write_qrels(rows(), to)),
        **dict.fromkeys(("run.txt", "bm25.gz", "bm25.run", "net.run", "vectors.run"), _run),
        **dict.fromkeys(
            ("new.run", "old.run"), lambda to: rw.trec.write_run(_scores_of(to.stem), rows(), to, tag=to.stem)
        ),
        "llm.qrels": lambda to: rw.trec.write_qrels(rows(), to),
        "graded.csv": _graded,
        "interleaved.csv": _interleaved,
        "ratings.csv": _ratings,
        "shop.csv": _ratings,
        "clicks.parquet": lambda to: (
            _rated(("customer", "sku", "price", "when")).drop("price", "when").write_parquet(to)
        ),
        "films.csv": lambda to: to.write_text("item,name\n" + "".join(f"{n},Film {n}\n" for n in range(40))),
        "features.txt": lambda to: to.write_text("".join(f"feature_{number}\n" for number in range(6))),
        "mine.py": lambda to: shutil.copy(ROOT / "examples" / "own_ranker.py", to),
        "mine.toml": lambda to: shutil.copy(ROOT / "examples" / "noise.toml", to),
        "noise.toml": lambda to: shutil.copy(ROOT / "examples" / "noise.toml", to),
        "log.parquet": _log,
        "features.parquet": lambda to: (
            to_frame(_named()).drop("label").rename({"qid": "query", "document": "sku"}).write_parquet(to)
        ),
        **dict.fromkeys(("model", "old", "lambdarank"), _model),
        "letor": sets,
        **dict.fromkeys(("a.txt", "b.txt", "scores.txt"), lambda to: np.savetxt(to, _scores())),
        **{f"{name}{ending}": _data for name in ("train", "valid", "test", "all", "served") for ending in _ENDINGS},
        "more.txt": lambda to: rw.data.write_letor(rows().with_(query_ids=np.arange(1, 41)), to),
        "judged.csv": lambda to: to_frame(rows().with_(query_ids=np.arange(40))).drop("document").write_csv(to),
        **dict.fromkeys(("rows.csv", "new.csv"), _table),
        **dict.fromkeys(("products.csv", "test.csv"), _products),
        **dict.fromkeys(("train.jsonl", "valid.jsonl", "test.jsonl"), _texts),
        **dict.fromkeys(("docs.jsonl", "queries.jsonl"), _of_rows),
        "base": _cross_encoder,
        **dict.fromkeys(("scifact:train", "scifact:test"), _collection),
    }
    if path.name in makers:
        path.parent.mkdir(parents=True, exist_ok=True)
        makers[path.name](path)


def _of_rows(to: Path) -> None:
    """Texts of the queries, or of the documents, of :func:`rows`."""
    data = rows()
    ids = np.asarray(data.document_ids if to.name == "docs.jsonl" else data.query_ids)
    lines = ({"id": str(name), "text": f"hat of kind {number % 7}"} for number, name in enumerate(ids.tolist()))
    to.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _scores() -> np.ndarray:
    return rows().features[:, 0].astype(float)


def _scores_of(name: str) -> np.ndarray:
    return rows().features[:, {"old": 0, "new": 1}[name]].astype(float)


def _runs() -> dict[str, Any]:
    ids = {"query": rows().qids(), "document": rows().document_ids}
    return {name: pl.DataFrame({**ids, "score": _scores_of(name)}) for name in ("old", "new")}


def _graded(path: Path) -> None:
    """A sample of documents that people judged."""
    ids = {"query": rows().qids().astype(str), "document": rows().document_ids}
    truth = pl.DataFrame({**ids, "grade": rows().labels})
    plan = rw.judging.plan(_runs(), judge=truth, judgements=60).to_frame()
    plan.drop("grade").join(truth, on=["query", "document"]).write_csv(path)


def _interleaved(path: Path) -> None:
    """A log of interleaved lists, of which the first document is clicked."""
    lists = {
        name: dict(run.sort("score", descending=True).group_by("query").agg("document").iter_rows())
        for name, run in _runs().items()
    }
    shown = [
        (key, query, document, int(place == 0))
        for key, query in enumerate(lists["new"])
        for place, document in enumerate(
            rw.judging.interleave(lists["new"][query], lists["old"][query], key=key).ranking
        )
    ]
    pl.DataFrame(shown, schema=["key", "query", "document", "clicked"], orient="row").write_csv(path)


def _data(path: Path) -> None:
    rw.write_data(rows(), path)


def _run(path: Path) -> None:
    rw.trec.write_run(_scores() + len(path.stem) * rows().features[:, 1], rows(), path, tag=path.stem)


def _table(path: Path) -> None:
    """A table whose columns are called otherwise, with one of text."""
    data = rows()
    columns = {f"f_{number}": data.features[:, number] for number in range(data.n_features)}
    weights = np.repeat(np.arange(1.0, data.n_queries + 1), data.sizes)
    shops = ["north" if label else "south" for label in data.labels]
    table = pl.DataFrame({"session": data.qids(), "clicked": data.labels, "traffic": weights, **columns, "shop": shops})
    (table.drop("clicked", "traffic") if path.stem == "new" else table).write_csv(path)


def _products(path: Path) -> None:
    """A table with a column of groups."""
    sellers = pl.Series("seller", ["large" if number % 3 else "small" for number in range(rows().n_docs)])
    to_frame(rows()).drop("document").with_columns(sellers).write_csv(path)


def _model(path: Path) -> None:
    rw.LightGBMRanker(rounds=3, threads=1).fit(_named()).save(path)


def _named() -> rw.RankingDataset:
    return rows().with_(feature_names=[f"feature_{number}" for number in range(6)])


def _log(path: Path) -> None:
    """A click log of two rankers."""
    arms = {name: rows().features[:, number] for number, name in enumerate(("old", "second"))}
    log = rw.clicks.simulate(rows(), rankers=arms, curve=[1.0, 0.6, 0.4], impressions=40, seed=1)
    shown: Any = log.sessions
    sizes, names = np.diff(shown.offsets), np.array(log.ranker_names)
    table = {
        "query": np.repeat(log.query_ids, np.diff(log.offsets))[shown.pairs],
        "sku": log.document_ids[shown.pairs],
        "impression": np.repeat(np.arange(sizes.size), sizes),
        "rank": shown.positions,
        "click": shown.clicked,
        "arm": np.repeat(names[shown.rankers], sizes),
        "shown_at": np.repeat(1_714_521_600 + 3600 * np.arange(sizes.size), sizes),
    }
    pl.DataFrame(table).write_parquet(path)


def _ratings(path: Path) -> None:
    """The ratings of a shop have their own names, and times."""
    if path.stem == "shop":
        _rated(("user", "item", "stars", "when")).write_csv(path)
    else:
        _rated(("user", "item", "rating", "when")).drop("when").write_csv(path)


def _rated(names: tuple[str, ...]) -> pl.DataFrame:
    rows = [
        (user, (7 * user + 3 * place) % 40, 1 + (user + place) % 5, place) for user in range(30) for place in range(25)
    ]
    return pl.DataFrame(rows, schema=list(names), orient="row")


def _texts(path: Path) -> None:
    """Lists of texts, other ones in each file."""
    from tests.wings.rerank import graded

    rw.rerank.write(graded.lists(8, seed=len(path.stem)), path)


def _cross_encoder(path: Path) -> None:
    """A model with random weights."""
    from tests.wings.rerank import tiny

    tiny.save(path)


def _collection(path: Path) -> None:
    """Texts of the queries and documents that runs here are of, as BEIR has them."""
    folder = path.with_name(path.name.partition(":")[0])
    if folder.exists():
        return
    (folder / "qrels").mkdir(parents=True)
    data = rows()
    texts = {
        str(document): f"a text about {number % 7}" for number, document in enumerate(np.asarray(data.document_ids))
    }
    for name, known in {"corpus": texts, "queries": {str(query): "what is it" for query in set(data.qids())}}.items():
        lines = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in known.items())
        (folder / f"{name}.jsonl").write_text("".join(lines))
    for split, part in {"train": slice(0, 6), "test": slice(6, 10)}.items():
        judged = data.take(part)
        grades = zip(judged.qids(), np.asarray(judged.document_ids), judged.labels, strict=True)
        lines = (f"{query}\t{document}\t{grade:g}\n" for query, document, grade in grades)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
