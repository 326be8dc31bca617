"""The demonstration: trees with seven objectives and two baselines compared on synthetic data, and a short search."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.arrays import Array, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.demo.result import HEADLINE, METRICS, MINUTES, OBJECTIVES, Demonstration, file
from rankwise.files import check_writable_folder, replacing
from rankwise.rankers import storage
from rankwise.rankers.expressions import RankerExpression
from rankwise.statistics import tables

if TYPE_CHECKING:
    from rankwise.experiments.results import Results

QUERIES, FEATURES, DOCUMENTS, SEED = 1000, 30, 40.0, 1
# One thread: so small a set gains little from more, and the numbers repeat everywhere.
SETTINGS: Keywords = {
    "rounds": 200, "patience": 25, "learning_rate": 0.15, "leaves": 15, "min_documents": 50,
    "metrics": (HEADLINE,), "threads": 1, "progress": False,
}  # fmt: skip
SEARCH: Keywords = {"minutes": MINUTES, "metric": HEADLINE, "folds": 3, "threads": 1, "progress": False}
_QUICK: Keywords = SETTINGS | {"rounds": 150, "patience": 20, "learning_rate": 0.2, "smoothing": 5}
RECIPES = (
    *(("lightgbm", "lambdarank", _QUICK), ("lightgbm", "xendcg", _QUICK), ("xgboost", "lambdarank", _QUICK)),
    *(("lightgbm", "ranknet", _QUICK), ("lightgbm", "listnet", _QUICK)),
    *(("neural", "softmax_ce", {"epochs": 15, "smoothing": 3}), ("catboost", "xendcg", _QUICK)),
)
"""Quicker recipes than those of the portfolio, so that several are tried in a few seconds."""
STEPS = 6 + len(OBJECTIVES)
MARK = ".rankwise-demo"
_AUTO = "models/auto"


def demonstrate(
    folder: str | Path = "results/demo",
    *,
    queries: int | None = None,
    force: bool = False,
    progress: Callable[[str], object] = str,
) -> Demonstration:
    """Run the demonstration and write its results into ``folder``; ``progress`` is called with what happens next.

    A folder that the demonstration made before is used again. One that holds anything else is refused unless
    ``force``; even then only files of the demonstration's own names are replaced.
    """
    folder = _prepare(Path(folder), force)
    progress("Making data")
    import rankwise as rw
    from rankwise.model_selection.auto.portfolio import installed_ones
    from rankwise.report.write import FILES, PAGE, write_report

    data = rw.synthetic(queries or QUERIES, FEATURES, n_docs=DOCUMENTS, seed=SEED)
    parts = dict(zip(("train", "valid", "test"), rw.split(data, (0.6, 0.2, 0.2), seed=SEED), strict=True))
    train, valid, test = parts.values()
    rankers: dict[str, Any] = {}
    for name, objective in OBJECTIVES.items():
        progress(f"Training {name}")
        rankers[name] = RankerExpression("lightgbm", objective, SETTINGS).build().fit(train, valid)
    progress("Fitting a line, and ranking by single features")
    scores = {name: ranker.predict(test) for name, ranker in rankers.items()} | _baselines(train, test)
    progress("Searching for a ranker by itself")
    recipes, notes = installed_ones(RECIPES)
    search = rw.AutoRanker(recipes=recipes, **SEARCH).fit(train, valid)
    progress("Evaluating and comparing")
    means = {name: rw.evaluate(values, test, HEADLINE).mean[HEADLINE] for name, values in scores.items()}
    scores = {name: scores[name] for name in sorted(scores, key=means.__getitem__, reverse=True)}  # as in the report
    result = Demonstration(
        parts=parts,
        comparison=rw.compare(scores, test, METRICS, seed=SEED),
        floor=rw.evaluate(np.zeros(test.n_docs), test, METRICS),  # metrics average over all orders of equal scores
        ceiling=rw.evaluate(rw.synthetic_ideal(test, seed=SEED), test, METRICS),
        curves={name: rankers[name].history_[HEADLINE] for name in scores if name in rankers},
        leaderboard=replace(search.leaderboard_, notes=(*search.leaderboard_.notes, *notes)),
        tested=rw.evaluate(search, test, METRICS),
        folder=folder,
        files={
            PAGE: "the report: words, tables, figures and a query explorer, for a browser",
            FILES: "every figure and table of the report as files",
            "results.md": "the tables, the figures and the conclusion",
            "results.json": "every number, for programs",
            "queries.csv": "the value of each metric on each query",
            "means.png": "how good each ranker is",
            "curves.png": "how each ranker learned, and where it stopped",
            "differences.png": "on which queries the best ranker wins, and by how much",
            **{f"{name}.parquet": f"the {name} data" for name in parts},
            **{file(name): f"the {'model' if name in rankers else 'scores'} of {name}" for name in scores},
            _AUTO: "the ranker that the search took",
        },
    )
    progress("Drawing and writing")
    for name, values in scores.items():
        if name in rankers:
            rankers[name].save(folder / file(name), force=True)
        else:
            _write(folder / file(name), "".join(f"{value:.9g}\n" for value in values.tolist()))
    search.save(folder / _AUTO, force=True)
    _write_results(result)
    progress("Writing the report")
    search_results = (result.leaderboard, result.tested)
    write_report(_as_results(result, scores, rankers), folder, search=search_results, force=True)
    return result


def _baselines(train: RankingDataset, test: RankingDataset) -> dict[str, Array]:
    """Score the test part by ridge regression, and by the one feature that ranks the training part best."""
    from rankwise.rankers.ensembles.feature import FeatureRanker

    mean, spread = np.nanmean(train.features, axis=0), np.nanstd(train.features, axis=0)
    design, test_design = (
        np.nan_to_num((part.features - mean) / np.where(spread > 0, spread, 1.0)) for part in (train, test)
    )
    gram = design.T @ design + np.eye(train.n_features)
    weights = np.linalg.solve(gram.astype(np.float64), design.T @ (train.labels - train.labels.mean()))
    single = [FeatureRanker(number, (HEADLINE,)).fit(train) for number in range(train.n_features)]
    best = max(single, key=lambda ranker: ranker.history_[HEADLINE][0])
    name = f"{'-' * (best.sign_ < 0)}{(train.feature_names or range(train.n_features))[int(best.feature)]}"
    return {
        "linear regression": np.asarray(test_design @ weights, np.float64),
        f"best feature ({name})": best.predict(test),
    }


def _prepare(folder: Path, force: bool) -> Path:
    """Make the folder, or make sure that it is ours to write into."""
    if folder.exists():
        ours = folder.is_dir() and ((folder / MARK).exists() or not any(folder.iterdir()))
        if not ours and not (force and folder.is_dir()):
            raise FileExistsError(
                f"{folder} exists already and was not made by rankwise demo. "
                "Hint: choose another folder with --output, or add files to this one with --force."
            )
    check_writable_folder(folder)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    for name in (*map(file, OBJECTIVES), _AUTO):
        storage.ready(folder / name, force=True)
    _write(folder / MARK, "rankwise demo made this folder. Running it again replaces the files that it wrote.\n")
    return folder


def _write(path: Path, text: str) -> None:
    with replacing(path, force=True) as new:
        new.write_text(text, encoding="utf-8")


def _write_results(result: Demonstration) -> None:
    """Write data, values per query, pictures, JSON and the page in Markdown."""
    import polars as pl

    from rankwise.data.reading import write_data
    from rankwise.demo.picture import draw
    from rankwise.statistics.figures.curves import plot_curves

    folder, (best, *behind) = result.folder, result.verdict.ranked
    for name, part in result.parts.items():
        write_data(part, folder / f"{name}.parquet", force=True)
    limits = {"random order": result.floor, "best possible": result.ceiling}
    values = {**result.comparison.paired.evaluations, **limits}.items()
    rows = pl.concat([one.to_frame().select(pl.lit(name).alias("ranker"), pl.all()) for name, one in values])
    _write(folder / "queries.csv", tables.as_csv(rows))
    draw(result, folder / "means.png")
    plot_curves(result.curves, folder / "curves.png", metric=HEADLINE, title="How the rankers learned", force=True)
    # What training is good for shows best against the best ranker that is not trained.
    against = next((name for name in behind if name not in OBJECTIVES), behind[0])
    result.comparison.plot(folder / "differences.png", metric=HEADLINE, system=best, against=against, force=True)
    _write(folder / "results.json", json.dumps(result.to_dict(), indent=2) + "\n")
    search = [result.search_introduction(), result.leaderboard.table().markdown(), result.search_conclusion()]
    page = [
        *(f"# {result.verdict.headline()}", result.introduction(), result.table().markdown(), result.conclusion()),
        *("![How good each ranker is](means.png)", "![How each ranker learned](curves.png)"),
        f"![{best} against {against}, query by query](differences.png)",
        *("## A search by itself", *search),
        *("## Files", "\n".join(f"- `{name}`: {what}" for name, what in result.files.items())),
        *("## Next", "```\n" + "\n".join(result.next_commands()) + "\n```"),
    ]
    _write(folder / "results.md", "\n\n".join(page) + "\n")


def _as_results(result: Demonstration, scores: dict[str, Array], rankers: dict[str, Any]) -> "Results":
    """Return one trial of every ranker as the results of an experiment, from which the report is written."""
    from rankwise.experiments.results import Results
    from rankwise.experiments.running import frames, provenance
    from rankwise.experiments.schema import CONTRIBUTIONS, CURVES, DOCUMENTS, QUERIES, together

    test, ranked, values = result.parts["test"], result.verdict.ranked, result.comparison.paired.evaluations
    keys = {name: {"data": "synthetic web search", "level": 0.0, "trial": 0, "method": name} for name in ranked}
    explained = [frames.contributions(keys[name], one, test) for name, one in rankers.items()]
    shown = {name: value for name, value in SETTINGS.items() if name != "progress"}
    written = {name: repr(RankerExpression("lightgbm", OBJECTIVES[name], shown).build()) for name in rankers}
    written["linear regression"] = "ridge regression of the labels on standardised features"
    return Results(
        spec={
            "name": "demo",
            "title": "rankwise demo",
            "introduction": result.introduction(),
            "methods": {name: written.get(name, "one feature") for name in ranked},
            "metrics": list(METRICS),
            "decide": HEADLINE,
            "baseline": dict.fromkeys([name for name in ranked if name in rankers][:3], "linear regression"),
            "split": [0.6, 0.2, 0.2],
            "trials": 1,
            "alpha": result.comparison.alpha,
        },
        queries=together([frames.queries(keys[name], test, values[name].values, 1.0) for name in ranked], QUERIES),
        curves=together([frames.curves(keys[name], rankers[name]) for name in result.curves], CURVES),
        documents=together([frames.documents(keys[name], test, scores[name]) for name in ranked], DOCUMENTS),
        features=frames.features(keys[ranked[0]], test),
        contributions=together([one for one in explained if one is not None], CONTRIBUTIONS),
        feature_names=None if test.feature_names is None else list(test.feature_names),
        about={
            "command": "rankwise demo",
            "date": provenance.date(),
            "machine": provenance.machine(),
            "versions": provenance.versions("lightgbm"),
        },
    )
