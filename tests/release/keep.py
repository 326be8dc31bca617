"""Writes what users keep beside models, one small file of each kind: ``python -m tests.release.keep`` in a checkout.

Run it for a release, beside ``python -m tests.rankers.saved.make``, and commit ``kept/VERSION.tar.xz``. An archive is
never written again: it holds what that version wrote, and later versions must read it (``docs/upgrading.md``). Kinds
that were added since get an archive beside it, ``VERSION-KIND.tar.xz``.

In an archive, ``KIND/`` is a folder with what that version wrote, and ``facts.json`` what it said of it. ``FILES`` are
read for ever, and say the same to the bit, but for the last ones of what is ``computed`` from them. ``WORK`` is not
finished, or a copy that may be made anew: a later version says the same of it, or refuses it as of another version.

What does not read its own files back has no kind here, such as a comparison that was saved as JSON.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

import rankwise as rw
from tests.rankers.saved import make

HERE = Path(__file__).parent / "kept"
Write = Callable[[Path], object]
Tell = Callable[[Path], dict[str, Any]]
FILES: dict[str, tuple[Write, Tell]] = {}
WORK: dict[str, tuple[Write, Tell]] = {}
"""Kind -> (what writes it into a folder, what a version says of the folder, as JSON has it)."""
TIME = 1_700_000_000_000_000_000
"""When a source was written that a copy belongs to, in nanoseconds."""
TRAINING: dict[str, Any] = {"leaves": 3, "min_documents": 3, "learning_rate": 0.3, "patience": None}


def keep(kinds: dict[str, tuple[Write, Tell]], tell: Tell) -> Callable[[Write], Write]:
    def add(write: Write) -> Write:
        kinds[write.__name__] = write, tell
        return write

    return add


def documents(seed: int = 5, n_queries: int = 6) -> rw.RankingDataset:
    """Lists with ids, without drawing from rankwise: other versions must have the same."""
    drawn = make.features_of(seed, n_queries)
    total = drawn["labels"].size
    return rw.RankingDataset(
        np.nan_to_num(drawn["features"][:, :3]),
        drawn["labels"],
        drawn["offsets"],
        query_ids=[f"q{seed}.{number}" for number in range(n_queries)],
        document_ids=[f"d{seed}.{number}" for number in range(total)],
    )


def every_column() -> rw.RankingDataset:
    drawn = make.features_of(5, 6)
    total, draw = drawn["labels"].size, np.random.default_rng(7)
    return rw.RankingDataset(
        drawn["features"],
        drawn["labels"],
        drawn["offsets"],
        feature_names=make.NAMES,
        categorical=(3, 4),
        categories={3: make.SHOPS, 4: make.MARKETS},
        weights=draw.uniform(0.5, 2.0, 6),
        query_ids=[f"q{number}" for number in range(6)],
        document_ids=[f"d{number}" for number in range(total)],
        init_scores=drawn["init_scores"],
        more_labels={"buy": drawn["buy"]},
        propensities=draw.uniform(0.1, 1.0, total),
    )


def told(data: rw.RankingDataset) -> dict[str, Any]:
    """Every column of a data set that there is, to the bit."""
    names = ("labels", "offsets", "weights", "query_ids", "document_ids", "init_scores", "propensities", "judged")
    columns = {name: np.asarray(values).tolist() for name in names if (values := getattr(data, name)) is not None}
    more = {name: np.asarray(values).tolist() for name, values in (data.more_labels or {}).items()}
    lists = {str(column): list(values) for column, values in data.categories.items()}
    features = np.asarray(data.features, np.float64).tolist()
    names_ = None if data.feature_names is None else list(data.feature_names)
    return columns | {"features": features, "feature_names": names_, "more_labels": more, "categories": lists}


# What is read for ever.


def tell_bias(folder: Path) -> dict[str, Any]:
    bias = rw.clicks.read_bias(folder / "bias.json")
    return {"fields": bias.to_dict(), "at": [curve.tolist() for curve in bias.of(np.array([1, 3, 9]))]}


@keep(FILES, tell_bias)
def position_bias(folder: Path) -> object:
    plain = rw.clicks.Bias.known([1.0, 0.5, 1 / 3])
    both = rw.clicks.Bias.known([1.0, 0.6, 0.3], beta=[0.0, 0.05, 0.01])
    segments: dict[str, Any] = {
        "segment_names": ("phone", "desk ä"),
        "by_segment": np.array([[1.0, 0.4, 0.2], [1.0, 0.8, 0.7]]),
    }
    whole = replace(both, alpha_low=both.alpha * 0.9, alpha_high=both.alpha * np.nan, pbm=plain, **segments)
    return whole.save(folder / "bias.json")


def tell_evaluation(folder: Path) -> dict[str, Any]:
    read = rw.results.read_evaluation(folder / "evaluation.parquet", resamples=50)
    values = {name: read[name].tolist() for name in read.metrics}
    digests = {name: digest.tolist() for name, digest in read.label_digests.items()}
    weights = None if read.weights is None else read.weights.tolist()
    about = {"queries": read.query_ids.tolist(), "weights": weights, "judged": read.judged, "ranked": read.candidates}
    return {"values": values, "digests": digests, "computed": dict(read.mean), **about}


@keep(FILES, tell_evaluation)
def evaluation(folder: Path) -> object:
    data = every_column()
    result = rw.evaluate(data.features[:, 0], data, ("ndcg@5", "err", "ndcg(label=buy)@3"), resamples=50)
    return rw.results.write_evaluation(result, folder / "evaluation.parquet")


def systems() -> tuple[dict[str, Any], Any]:
    """Two runs, and the grades of a judge, as tables of their own."""
    data = documents(n_queries=16)
    frame = pl.DataFrame({"query": data.qids(), "document": data.document_ids})
    runs = {name: frame.with_columns(score=pl.Series(data.features[:, at])) for at, name in enumerate(("new", "old"))}
    return runs, frame.with_columns(grade=pl.Series((data.labels > 1).astype(np.int64)))


def tell_plan(folder: Path) -> dict[str, Any]:
    runs, judge = systems()
    settings: dict[str, Any] = {"judge": judge, "sampled": "probability"}
    (mean,) = rw.compare(runs, folder / "plan.csv", "dcg@5", **settings).means
    again = rw.judging.plan(runs, judge=judge, judgements=5, metric="dcg@5", previous=folder / "plan.csv")
    second = again.to_frame().filter(pl.col("grade").is_not_null())
    computed = {"value": mean.value, "low": mean.low, "high": mean.high}
    return {"computed": computed, "known": second.to_dict(as_series=False)}


@keep(FILES, tell_plan)
def plan_of_judgements(folder: Path) -> object:
    runs, judge = systems()
    drawn = rw.judging.plan(runs, judge=judge, judgements=40, metric="dcg@5").write(folder / "plan.csv")
    table = pl.read_csv(drawn)
    grades = pl.Series("grade", np.arange(table.height) % 3)  # what people would fill in
    return table.with_columns(grades).write_csv(drawn)


def tell_features(folder: Path) -> dict[str, Any]:
    qrels = {"q0": {"d0": 2, "d1": 0}}
    return told(rw.data.read_feature_log(folder / "features.jsonl", labels=qrels))


@keep(FILES, tell_features)
def feature_log(folder: Path) -> object:
    data = every_column()
    schema: Any = SimpleNamespace(count=5, title=lambda column: make.NAMES[column], categories=data.categories)
    queries: Any = [
        SimpleNamespace(
            words={"ids": np.asarray(part.document_ids).tolist(), "id": f"q{number}"}, features=part.features
        )
        for number, part in enumerate(data.take([number]) for number in range(2))
    ]
    log = importlib.import_module("rankwise.wings.serve.feature_log_writer").FeatureLog(folder / "features.jsonl")
    return log.check_target().write(queries, schema, {"id": "r1", "model": "m", "version": "1"})


def tell_trec(folder: Path) -> dict[str, Any]:
    run, qrels = folder / "run.txt", folder / "qrels.txt"
    scores, joined = rw.trec.join(run, qrels)
    return {
        "run": rw.trec.read_run(run).to_dict(as_series=False),
        "qrels": rw.trec.read_qrels(qrels).to_dict(as_series=False),
        "computed": rw.metric("ndcg@5")(scores, joined.labels, joined.offsets).tolist(),
    }


@keep(FILES, tell_trec)
def run_and_qrels(folder: Path) -> object:
    data = documents()
    rw.trec.write_qrels(data, folder / "qrels.txt")
    return rw.trec.write_run(data.features[:, 0], data, folder / "run.txt", tag="mine")


def search(**kept: Any) -> Any:
    settings: dict[str, Any] = {name: value for name, value in TRAINING.items() if name != "leaves"} | {"rounds": 4}
    train, valid = documents(1, 12), documents(2, 8)
    ranges: dict[str, Any] = {"leaves": "whole(2, 6)", "learning_rate": "log(0.05, 1)"}
    settings.pop("learning_rate")
    return rw.tune(
        train, valid, "xendcg", space="none", search=ranges, fixed=settings, threads=1, progress=False, prune=False,
        metric="ndcg@5", **kept,
    )  # fmt: skip


def tell_search(folder: Path) -> dict[str, Any]:
    read = rw.results.Tuning.read(folder / "search.json")
    described = {name: value for name, value in read.to_dict().items() if name != "study"}
    parameters = importlib.import_module("rankwise.cli.train.rankers").read_parameters
    files = {name: parameters(folder / name) for name in ("best.toml", "best.json")}
    return {"search": described, "ranker": repr(read.ranker(threads=1)), **files}


@keep(FILES, tell_search)
def table_of_a_search(folder: Path) -> object:
    found = search(trials=3)
    (folder / "search.json").write_text(json.dumps(found.to_dict()), encoding="utf-8")
    return found.save(folder / "best.toml"), found.save(folder / "best.json")


def tell_data(folder: Path) -> dict[str, Any]:
    csv = rw.read_csv(folder / "data.csv", query="query", label="label", features=("a", "b", "c"))
    names = ("data.txt", "data.txt.gz", "data.parquet")
    return {"data.csv": told(csv)} | {name: told(rw.read_data(folder / name)) for name in names}


@keep(FILES, tell_data)
def data_sets(folder: Path) -> object:
    data = documents()
    for name in ("data.txt", "data.txt.gz"):
        rw.write_data(data, folder / name, lossy=True)
    columns = dict(zip("abc", data.features.T, strict=True))
    table = pl.DataFrame({"query": data.qids(), "label": data.labels, **columns})
    table.write_csv(folder / "data.csv")
    return rw.write_data(every_column(), folder / "data.parquet")


def tell_clicks(folder: Path) -> dict[str, Any]:
    names = {name: name for name in ("query", "document", "impression", "position", "clicked", "ranker")}
    log = rw.clicks.read(folder / "log.csv", **names)  # type: ignore[arg-type]
    return {"cells": log.to_frame().to_dict(as_series=False), "clicks": told(rw.read_data(folder / "clicks.parquet"))}


@keep(FILES, tell_clicks)
def click_logs(folder: Path) -> object:
    """The rows of a site's log, and impressions as data that rankwise wrote."""
    data = documents()
    rows = {
        "query": data.qids(),
        "document": data.document_ids,
        "impression": np.repeat(np.arange(data.n_queries), data.sizes),
        "position": np.concatenate([np.arange(1, size + 1) for size in data.sizes]),
        "clicked": (data.labels > 1).astype(np.int64),
        "ranker": np.repeat([f"r{number % 2}" for number in range(data.n_queries)], data.sizes),
    }
    pl.DataFrame(rows).write_csv(folder / "log.csv")
    shown = rw.clicks.simulate_clicks(data, ranker=data.features[:, 0], impressions=2, seed=1)
    return rw.write_data(shown, folder / "clicks.parquet")


def spec() -> rw.lab.Spec:
    return rw.lab.Spec(
        name="kept", data=("data.txt",), trials=2, metrics=("ndcg@5",), split=(0.5, 0.25, 0.25),
        methods={"one": "lightgbm(xendcg)", "two": "lightgbm(lambdarank)"}, settings={**TRAINING, "rounds": 3},
    )  # fmt: skip


def tell_results(folder: Path) -> dict[str, Any]:
    found = {}
    for name in ("results", "results.zip"):
        read = rw.lab.Results.read(folder / name)
        frames = {"queries": read.queries.to_dict(as_series=False), "curves": read.curves.to_dict(as_series=False)}
        found[name] = {**frames, "computed": [read.to_frame().to_dict(as_series=False), read.to_dict()]}
    return found


@keep(FILES, tell_results)
def experiment_results(folder: Path) -> object:
    return experiment(folder).pack(folder / "results.zip")


def experiment(folder: Path) -> rw.lab.Results:
    """Run an experiment, or what is missing of it; its data lie beside it, under a name without a folder."""
    if not (folder / "data.txt").exists():
        rw.write_data(documents(4, 16), folder / "data.txt", lossy=True)
    run = importlib.import_module(spec().__module__.replace(".spec", ".running.run")).run
    with contextlib.chdir(folder), mock.patch("platform.platform", return_value="a machine"):
        results: rw.lab.Results = run(spec(), "results", jobs=1, estimate=False)
    return results


def tell_search_of_texts(folder: Path) -> dict[str, Any]:
    pages, search = rw.text.Documents.load(folder / "pages"), rw.text.Search.load(folder / "search")
    found = [search(query).to_frame() for query in QUERIES.values()]
    run = pages.search(QUERIES, k=9)
    scores = [*(one["score"].to_list() for one in found), run["score"].to_list()]
    texts = {"fields": list(pages.fields), "run": run.select("query", "document").rows()}
    return {"documents": [one["document"].to_list() for one in found], **texts, "computed": scores}


QUERIES = {"q1": "median of values", "q2": "mean along the axis"}


@keep(FILES, tell_search_of_texts)
def search_of_texts(folder: Path) -> object:
    """An index of documents with a number, and a search with a model."""
    pages = rw.text.Documents(
        [
            {"id": "mean", "title": "Mean", "text": "Arithmetic mean along the axis.", "visits": 90},
            {"id": "nanMedian", "title": "nanMedian ä", "text": "The median of values, without NaN.", "visits": 5},
            {"id": "median", "title": "Median", "text": "Middle of the sorted values.", "visits": 40},
        ],
        columns=["visits"],
    )
    qrels = {"q1": {"median": 2, "nanMedian": 1}, "q2": {"mean": 1}}
    data = rw.text.dataset(pages, QUERIES, {"bm25": pages.search(QUERIES, k=9)}, qrels, unjudged="irrelevant")
    ranker = rw.LightGBMRanker("xendcg", rounds=3, leaves=2, min_documents=1, threads=1, progress=False).fit(data)
    rw.text.Search(pages, ranker, {"bm25": pages}, depth=9).save(folder / "search")
    return pages.save(folder / "pages")


def tell_history(folder: Path) -> dict[str, Any]:
    return {"rows": rw.results.read_history(folder / "history").to_frame().to_dict(as_series=False)}


@keep(FILES, tell_history)
def history_of_comparisons(folder: Path) -> object:
    data = every_column()
    compared = rw.compare({"new": data.features[:, 0], "old": data.features[:, 1]}, data, ["ndcg@5"])
    return rw.results.append_history(compared, folder / "history")


def tell_judgements(folder: Path) -> dict[str, Any]:
    read = rw.judging.read(folder / "judged.csv")
    qrels = rw.trec.read_qrels(folder / "judged.csv")
    return {"standing": read.to_dict(as_series=False), "qrels": qrels.to_dict(as_series=False)}


@keep(FILES, tell_judgements)
def judgements_of_people(folder: Path) -> object:
    """Of two judges, one of whom took a grade back and skipped a document."""
    rows = ["q1,d1,2,ann,2026-11-19T09:30:12.481Z", "q1,d2,1,ann,2026-11-19T09:30:15.022Z"]
    rows += ["q1,d2,,ann,2026-11-19T09:30:16.004Z", '"q 2","d,3",0,"bo ä",2026-11-19T09:31:00.000Z']
    lines = ["query,document,grade,judge,time", *rows]
    return (folder / "judged.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


# What is not finished, and copies.


def tell_experiment(folder: Path) -> dict[str, Any]:
    return {"means": experiment(folder).to_frame().to_dict(as_series=False)}


@keep(WORK, tell_experiment)
def unfinished_experiment(folder: Path) -> None:
    experiment(folder)
    missing = max((folder / "results" / "trials").glob("*.parquet"))
    for one in missing.parent.glob(f"{missing.name.partition('.')[0]}*"):
        one.unlink()


def training(folder: Path, **fit: Any) -> Any:
    ranker = rw.LightGBMRanker(
        "xendcg", rounds=5, checkpoint=folder / "checkpoint", checkpoint_every=1, threads=1, **TRAINING
    )
    return ranker.fit(documents(1, 12), documents(2, 8), **fit)


def tell_training(folder: Path) -> dict[str, Any]:
    ranker = training(folder, resume=True)
    return {"scores": ranker.predict(documents()).tolist(), "history": {**ranker.history_}}


@keep(WORK, tell_training)
def unfinished_training(folder: Path) -> object:
    def kill(done: int, _: object) -> None:
        if done == 3:
            raise RuntimeError("killed")

    try:
        return training(folder, callback=kill)
    except RuntimeError:
        return None


def cross_validation(folder: Path, **resume: Any) -> Any:
    ranker = rw.LightGBMRanker("xendcg", rounds=3, threads=1, **TRAINING)
    return rw.cross_validate(ranker, documents(1, 12), folds=3, checkpoint=folder / "folds", **resume)


def tell_cross_validation(folder: Path) -> dict[str, Any]:
    found = cross_validation(folder, resume=True)
    return {"values": {name: found[name].tolist() for name in found.metrics}, "fold": found.fold.tolist()}


@keep(WORK, tell_cross_validation)
def kept_cross_validation(folder: Path) -> object:
    return cross_validation(folder)


def tell_study(folder: Path) -> dict[str, Any]:
    found = search(trials=3, checkpoint=folder / "study.db", resume=True)
    return {"trials": [{"values": {**trial.values}, "value": trial.value} for trial in found.trials]}


@keep(WORK, tell_study)
def unfinished_search(folder: Path) -> object:
    return search(trials=2, checkpoint=folder / "study.db")


def tell_copy(folder: Path) -> dict[str, Any]:
    os.utime(folder / "data.txt", ns=(TIME, TIME))
    with mock.patch.dict(os.environ):
        os.environ.pop("RANKWISE_CACHE", None)  # the copy lies beside its source
        return told(rw.open_data(folder / "data.txt"))


@keep(WORK, tell_copy)
def copy_of_data(folder: Path) -> object:
    rw.write_data(documents(), folder / "data.txt", lossy=True)
    return tell_copy(folder)


# The archive.


def kinds() -> dict[str, tuple[Write, Tell]]:
    return FILES | WORK


def as_json(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON gives them back."""
    return dict(json.loads(json.dumps(facts, default=lambda value: getattr(value, "tolist", value.__str__)())))


def archived(version: str) -> set[str]:
    """The kinds in the archives of a version."""
    found: set[str] = set()
    for path in (*HERE.glob(f"{version}.tar.xz"), *HERE.glob(f"{version}-*.tar.xz")):
        with tarfile.open(path) as packed:
            found |= {name.partition("/")[0] for name in packed.getnames() if "/" in name}
    return found


def main() -> None:
    old = archived(rw.__version__)
    new = {name: kind for name, kind in kinds().items() if name not in old}
    if not new:
        sys.exit(f"{rw.__version__} has written every kind, and what it wrote is kept")
    archive = HERE / f"{'-'.join([rw.__version__, *(sorted(new) if old else ())])}.tar.xz"
    content, facts = io.BytesIO(), {}
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=content, mode="w:xz", preset=9) as packed:
        for name, (write, tell) in new.items():
            folder = Path(place, name)
            folder.mkdir()
            write(folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
            for path in files:
                make.add(packed, path.relative_to(place).as_posix(), path.read_bytes())
            facts[name] = as_json(tell(folder))  # which may go on with what is unfinished
        make.add(packed, "facts.json", json.dumps(facts, ensure_ascii=False).encode())
    HERE.mkdir(exist_ok=True)
    archive.write_bytes(content.getvalue())
    print(f"{len(facts)} kinds in {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
