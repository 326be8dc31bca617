"""The demonstration: trees with seven objectives and two baselines compared on synthetic data, and a short search."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import rankwise as rw
from rankwise import RankingDataset, __version__, check
from rankwise.base import tables
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.base.files import check_writable_folder, replacing
from rankwise.statistics import BLUE, COLOURS, GREY, Finding, Result, alpha, draw_means, figure

if TYPE_CHECKING:
    import polars as pl

    from rankwise import Comparison, Evaluation
    from rankwise.model_selection import Leaderboard
    from rankwise.wings.lab.experiments.results import Results

METRICS, HEADLINE = ("ndcg@5", "ndcg@10", "ap", "rr"), "ndcg@10"
OBJECTIVES = {
    "ListNet": "listnet",
    "LambdaRank": "lambdarank",
    "XE-NDCG": "xendcg",
    "E[LambdaRank]": "stochastic(lambdarank, samples=8, scale=0.25)",
    "PL-Rank": "plrank",
    "LightGBM lambdarank": "native:lambdarank",
    "LightGBM rank_xendcg": "native:rank_xendcg",
}
QUERIES, FEATURES, DOCUMENTS, SEED = 1000, 30, 40.0, 1
# One thread: so small a set gains little from more, and the numbers repeat everywhere.
SETTINGS: Keywords = {
    "rounds": 200, "patience": 25, "learning_rate": 0.15, "leaves": 15, "min_documents": 50,
    "metrics": (HEADLINE,), "threads": 1,
}  # fmt: skip
MINUTES = 0.2
SEARCH: Keywords = {"minutes": MINUTES, "metric": HEADLINE, "folds": 3, "threads": 1, "progress": False}
_QUICK: Keywords = SETTINGS | {"progress": False, "rounds": 150, "patience": 20, "learning_rate": 0.2, "smoothing": 5}
RECIPES = (
    *(("lightgbm", "lambdarank", _QUICK), ("lightgbm", "xendcg", _QUICK), ("xgboost", "lambdarank", _QUICK)),
    *(("lightgbm", "ranknet", _QUICK), ("lightgbm", "listnet", _QUICK)),
    *(("neural", "softmax_ce", {"epochs": 15, "smoothing": 3}), ("catboost", "xendcg", _QUICK)),
)
"""Quicker recipes than those of the portfolio, so that several are tried in a few seconds."""
STEPS = 6 + len(OBJECTIVES)
MARK = ".rankwise-demo"
GREEN = COLOURS[2]
_DATA, _AUTO = "synthetic web search", "models/auto"
_FILES = {
    "report.html": "the report: words, tables, figures and a query explorer, for a browser",
    "report-files": "every figure and table of the report as files",
    "results.md": "the tables, the figures and the conclusion",
    "results.json": "every number, for programs",
    "queries.csv": "the value of each metric on each query",
    "means.png": "how good each ranker is",
    "curves.png": "how each ranker learned, and where it stopped",
    "differences.png": "on which queries the best ranker wins, and by how much",
    **{f"{part}.parquet": f"the {part} data" for part in ("train", "valid", "test")},
    _AUTO: "the ranker that the search took",
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Demonstration(Result):
    """The rankers compared, the limits between which they lie, a search on the same data, and the files."""

    parts: dict[str, RankingDataset]
    """train, valid and test."""
    comparison: "Comparison"
    limits: "dict[str, Evaluation]"
    """A random order, which no ranker should fall below, and the order by true utility, which on average no ranker can
    beat: the judges' noise is left."""
    curves: dict[str, list[float]]
    """Trained ranker -> the headline metric of the validation part after every round."""
    leaderboard: "Leaderboard"
    tested: "Evaluation"
    """The ranker of the search on the test part."""
    folder: Path
    files: dict[str, str]
    """File name -> what is in it."""

    @property
    def verdict(self) -> Finding:
        """Which ranker is best by the headline metric, and which are close behind."""
        return Finding.of(self.comparison, HEADLINE)

    def table(self) -> tables.Table:
        """Return the comparison's table, with the two limits as last rows."""
        table = self.comparison.table()
        rows = (("", f"({name})", *map(tables.number, one.mean.values())) for name, one in self.limits.items())
        return replace(table, rows=(*table.rows, *rows))

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per pair of rankers and metric, as the comparison does."""
        return self.comparison.to_frame()

    @property
    def sentence(self) -> str:
        """The :meth:`conclusion`."""
        return self.conclusion()

    def introduction(self) -> str:
        """Describe the data."""
        train, valid, test = self.parts.values()
        queries, documents = (sum(getattr(part, n) for part in self.parts.values()) for n in ("n_queries", "n_docs"))
        return (
            f"Synthetic web search: {queries:,} queries, {documents:,} documents, {test.n_features} features. "
            f"The rankers saw {train.n_queries} queries in training and {valid.n_queries} to know when to stop; "
            f"they are judged on {test.n_queries} others."
        )

    def conclusion(self) -> str:
        """Describe which ranker is best, by how much, and how sure that is."""
        from rankwise.wings.lab.report.summary import verdict

        best = self.comparison.mean[HEADLINE][self.verdict.ranked[0]]
        floor, ceiling = (one.mean[HEADLINE] for one in self.limits.values())
        share = f"{(best - floor) / (ceiling - floor):.0%} of the way from a random order to the best possible one"
        return f"{verdict(_DATA, self.comparison, HEADLINE)} It goes {share}."

    def search(self) -> tuple[str, str]:
        """Describe the search, and its ranker beside the best of the others: without a test, as the clock decides."""
        best, mean = self.verdict.ranked[0], tables.number(self.tested.mean[HEADLINE])
        return (
            f"And with nothing chosen by hand: rw.AutoRanker(minutes={MINUTES:g}) tries recipes of what is installed "
            f"for {tables.duration(60.0 * MINUTES)}, on the training and validation queries.",
            f"On the test queries what it took has {HEADLINE} {mean} {tables.interval(*self.tested.interval[HEADLINE])}"
            f"; {best}, the best above, has {tables.number(self.comparison.mean[HEADLINE][best])}. "
            "More minutes try more recipes.",
        )

    def to_dict(self) -> Json:
        """Return everything as plain data that JSON can hold."""
        return {
            "made_by": "rankwise demo",
            "version": __version__,
            "queries": {name: part.n_queries for name, part in self.parts.items()},
            "documents": {name: part.n_docs for name, part in self.parts.items()},
            "ranked": self.verdict.ranked,
            "close_to_the_best": self.verdict.close,
            "rounds": {name: int(np.argmax(curve)) + 1 for name, curve in self.curves.items()},
            "curves": self.curves,
            **{name.replace(" ", "_"): one.to_dict() for name, one in self.limits.items()},
            "comparison": self.comparison.to_dict(),
            "search": {**self.leaderboard.to_dict(), "test": self.tested.to_dict()},
            "folder": str(self.folder),
            "files": self.files,
        }

    def next_commands(self) -> list[str]:
        """Return commands to continue with: compare two rankers, explain a ranking, train one, search longer."""
        folder, ranked = self.folder, self.verdict.ranked
        rankings = (f"{_key(name)}={folder / _file(name)}" for name in ranked[1::-1])
        data = f"{folder / 'train.parquet'} --valid {folder / 'valid.parquet'}"
        model = folder / _file(next(name for name in ranked if name in OBJECTIVES))
        return [
            f"rankwise compare {folder / 'test.parquet'} {' '.join(rankings)}",
            f"rankwise explain {model} {folder / 'test.parquet'} --id {self.parts['test'].qids()[0]}",
            f"rankwise train {data} --objective approx_ndcg --output {folder / 'models/mine'}",
            f"rankwise auto {data} --minutes 3 --output {folder / 'models/longer'}",
        ]


def _key(ranker: str) -> str:
    """Return the name of a ranker in file names and commands: ``E[LambdaRank]`` is ``e_lambdarank``."""
    words = "".join(letter if letter.isalnum() else " " for letter in ranker.replace("-", "").partition(" (")[0])
    return "_".join(words.lower().split())


def _file(ranker: str) -> str:
    """Return where a ranker lies: a folder for a model, a file for scores."""
    return f"models/{_key(ranker)}" if ranker in OBJECTIVES else f"{_key(ranker)}.txt"


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
    from rankwise.model_selection import installed_ones
    from rankwise.wings.lab.report.write import write_report

    data = rw.synthetic(queries or QUERIES, FEATURES, n_docs=DOCUMENTS, seed=SEED)
    parts = dict(zip(("train", "valid", "test"), rw.split(data, (0.6, 0.2, 0.2), seed=SEED), strict=True))
    train, valid, test = parts.values()
    rankers: dict[str, Any] = {}
    for name, objective in OBJECTIVES.items():
        progress(f"Training {name}")
        rankers[name] = rw.LightGBMRanker(objective, **SETTINGS, progress=False).fit(train, valid)
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
        limits={
            "random order": rw.evaluate(np.zeros(test.n_docs), test, METRICS),  # a mean over all orders of equal scores
            "best possible": rw.evaluate(rw.data.synthetic_ideal(test, seed=SEED), test, METRICS),
        },
        curves={name: rankers[name].history_[HEADLINE] for name in scores if name in rankers},
        leaderboard=replace(search.leaderboard_, notes=(*search.leaderboard_.notes, *notes)),
        tested=rw.evaluate(search, test, METRICS),
        folder=folder,
        files=_FILES | {_file(name): f"the {'model' if name in rankers else 'scores'} of {name}" for name in scores},
    )
    progress("Drawing and writing")
    for name, values in scores.items():
        if name in rankers:
            rankers[name].save(folder / _file(name), force=True)
        else:
            _write(folder / _file(name), "".join(f"{value:.9g}\n" for value in values.tolist()))
    search.save(folder / _AUTO, force=True)
    _write_results(result)
    progress("Writing the report")
    results = _as_results(result, scores, rankers)
    write_report(results, folder, search=(result.leaderboard, result.tested), force=True)
    return result


def _baselines(train: RankingDataset, test: RankingDataset) -> dict[str, Array]:
    """Score the test part by ridge regression, and by the one feature that ranks the training part best."""
    from rankwise.rankers import FeatureRanker

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
    ours = not folder.exists() or (folder.is_dir() and ((folder / MARK).exists() or not any(folder.iterdir())))
    if not ours and not (force and folder.is_dir()):
        hint = "choose another folder with --output, or add files to this one with --force"
        raise FileExistsError(check.Message(f"{folder} exists already and was not made by rankwise demo", hint=hint))
    check_writable_folder(folder)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    check_writable_folder(folder / "models")
    _write(folder / MARK, "rankwise demo made this folder. Running it again replaces the files that it wrote.\n")
    return folder


def _write(path: Path, text: str) -> None:
    with replacing(path, force=True) as new:
        new.write_text(text, encoding="utf-8")


def _write_results(result: Demonstration) -> None:
    """Write data, values per query, pictures, JSON and the page in Markdown."""
    import polars as pl

    from rankwise import write_data
    from rankwise.statistics import plot_curves
    from rankwise.wings.lab.report.comparison import only

    folder, (best, *behind) = result.folder, result.verdict.ranked
    for name, part in result.parts.items():
        write_data(part, folder / f"{name}.parquet", force=True)
    values = {**result.comparison.paired.evaluations, **result.limits}.items()
    rows = pl.concat([one.to_frame().select(pl.lit(name).alias("ranker"), pl.all()) for name, one in values])
    _write(folder / "queries.csv", tables.as_csv(rows))
    with figure(folder / "means.png", 8.0, 4.2, force=True) as drawing:
        kinds = {name: name in OBJECTIVES and OBJECTIVES[name].partition(":")[0] for name in result.verdict.ranked}
        colours = {name: GREEN if kind == "native" else BLUE if kind else "#555555" for name, kind in kinds.items()}
        draw_means(drawing, only(result.comparison, [HEADLINE]), colours)
        for (name, one), side in zip(result.limits.items(), ("left", "right"), strict=True):
            limit = one.mean[HEADLINE]
            drawing.axes[0].axvline(limit, color=GREY, linewidth=1.2, linestyle="--")
            drawing.axes[0].annotate(f" {name} {limit:.3f} ", (limit, -0.45), fontsize=8, ha=side)
        drawing.suptitle(result.verdict.headline(), fontweight="bold")
    plot_curves(result.curves, folder / "curves.png", metric=HEADLINE, title="How the rankers learned", force=True)
    # What training is good for shows best against the best ranker that is not trained.
    against = next((name for name in behind if name not in OBJECTIVES), behind[0])
    result.comparison.plot(folder / "differences.png", metric=HEADLINE, system=best, against=against, force=True)
    _write(folder / "results.json", json.dumps(result.to_dict(), indent=2) + "\n")
    introduced, concluded = result.search()
    page = [
        *(f"# {result.verdict.headline()}", result.introduction(), result.table().markdown(), result.conclusion()),
        *("![How good each ranker is](means.png)", "![How each ranker learned](curves.png)"),
        f"![{best} against {against}, query by query](differences.png)",
        *("## A search by itself", introduced, result.leaderboard.table().markdown(), concluded),
        *("## Files", "\n".join(f"- `{name}`: {what}" for name, what in result.files.items())),
        *("## Next", "```\n" + "\n".join(result.next_commands()) + "\n```"),
    ]
    _write(folder / "results.md", "\n\n".join(page) + "\n")


def _as_results(result: Demonstration, scores: dict[str, Array], rankers: dict[str, Any]) -> "Results":
    """Return one trial of every ranker as the results of an experiment, from which the report is written."""
    from rankwise.wings.lab.experiments.results import Results
    from rankwise.wings.lab.experiments.running import frames
    from rankwise.wings.lab.experiments.running.trials import date, machine, versions
    from rankwise.wings.lab.experiments.schema import stack_trials

    test, ranked = result.parts["test"], result.verdict.ranked
    trials = []
    for name in ranked:
        key = {"data": _DATA, "level": 0.0, "trial": 0, "method": name}
        values = result.comparison.paired.evaluations[name].values
        trials.append(frames.of_documents(key, rankers.get(name), test, scores[name]))
        trials[-1]["queries"] = frames.queries(key, test, values, relevant=1.0)
        if name in rankers:
            trials[-1]["curves"] = frames.curves(key, rankers[name])
    methods = dict.fromkeys(ranked, "one feature")
    methods |= {name: repr(rw.LightGBMRanker(objective, **SETTINGS)) for name, objective in OBJECTIVES.items()}
    methods["linear regression"] = "ridge regression of the labels on standardised features"
    return Results(
        spec={
            "name": "demo",
            "title": "rankwise demo",
            "introduction": result.introduction(),
            "methods": methods,
            "metrics": list(METRICS),
            "decide": HEADLINE,
            "baseline": dict.fromkeys([name for name in ranked if name in rankers][:3], "linear regression"),
            "split": [0.6, 0.2, 0.2],
            "trials": 1,
            "alpha": alpha(result.comparison.level),
        },
        **stack_trials(trials),
        feature_names=None if test.feature_names is None else list(test.feature_names),
        about={
            "command": "rankwise demo",
            "date": date(),
            "machine": machine(),
            "versions": versions("lightgbm"),
        },
    )
