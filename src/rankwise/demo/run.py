"""Run the demonstration: make data, train rankers on it, compare them, write what was found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise.demo.rankers import OBJECTIVES, trained
from rankwise.demo.result import HEADLINE, METRICS, Demonstration
from rankwise.files import check_writable_folder, replacing
from rankwise.rankers import storage

if TYPE_CHECKING:
    from rankwise.demo.baselines import Scores
    from rankwise.rankers.trees.lightgbm import LightGBMRanker

QUERIES, FEATURES, DOCUMENTS, SEED = 1000, 30, 40.0, 1
STEPS = 7 + len(OBJECTIVES)
MARK = ".rankwise-demo"
_MODELS = "models"
_AUTO = f"{_MODELS}/auto"
_NOTE = "rankwise demo made this folder. Running it again replaces the files that it wrote.\n"


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
    from rankwise.data.splits import split
    from rankwise.data.synthetic.lists import synthetic, synthetic_ideal
    from rankwise.demo.baselines import best_feature, linear
    from rankwise.demo.results import as_results
    from rankwise.demo.search import searched
    from rankwise.evaluation.compare import compare
    from rankwise.evaluation.evaluate import evaluate
    from rankwise.report.write import FILES, PAGE, write_report

    data = synthetic(queries or QUERIES, FEATURES, n_docs=DOCUMENTS, seed=SEED)
    train, valid, test = split(data, (0.6, 0.2, 0.2), seed=SEED)

    rankers = dict(trained(train, valid, progress))
    scores = {name: ranker.predict(test) for name, ranker in rankers.items()}
    progress("Fitting a linear model")
    scores["linear regression"] = linear(train, test)
    progress("Ranking by single features")
    feature, scores_of_feature = best_feature(train, test)
    scores[f"best feature ({feature})"] = scores_of_feature

    progress("Searching for a ranker by itself")
    parts = {"train": train, "valid": valid, "test": test}
    model, search = searched(parts)

    progress("Evaluating and comparing")
    means = {name: evaluate(values, test, HEADLINE).mean[HEADLINE] for name, values in scores.items()}
    scores = {name: scores[name] for name in sorted(scores, key=means.__getitem__, reverse=True)}  # as in the report
    result = Demonstration(
        parts=parts,
        search=search,
        comparison=compare(scores, test, METRICS, seed=SEED),
        floor=evaluate(np.zeros(test.n_docs), test, METRICS),  # metrics average over all orders of equal scores
        ceiling=evaluate(synthetic_ideal(test, seed=SEED), test, METRICS),
        curves={name: rankers[name].history_[HEADLINE] for name in scores if name in rankers},
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
            **{f"{name}.parquet": f"the {name} data" for name in ("train", "valid", "test")},
            **{_file(name): f"the model of {name}" for name in rankers},
            _AUTO: "the ranker that the search took",
            **{_file(name): f"the scores of {name}" for name in scores if name not in rankers},
        },
    )
    progress("Drawing and writing")
    _write(result, rankers, scores)
    model.save(folder / _AUTO, force=True)
    progress("Writing the report")
    found = (search.leaderboard, search.tested)
    write_report(as_results(result, scores, rankers), folder, search=found, force=True)
    return result


def next_commands(result: Demonstration) -> list[str]:
    """Give commands for the reader to begin with: compare two rankers, explain a ranking, train one, search longer."""
    folder, rankings = result.folder, (f"{_key(name)}={result.folder / _file(name)}" for name in result.ranked[1::-1])
    data = f"{folder / 'train.parquet'} --valid {folder / 'valid.parquet'}"
    model = folder / _file(next(name for name in result.ranked if name in OBJECTIVES))
    return [
        f"rankwise compare {folder / 'test.parquet'} {' '.join(rankings)}",
        f"rankwise explain {model} {folder / 'test.parquet'} --query {result.parts['test'].qids()[0]}",
        f"rankwise train {data} --objective approx_ndcg --output {folder / _MODELS / 'mine'}",
        f"rankwise auto {data} --minutes 3 --output {folder / _MODELS / 'longer'}",
    ]


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
    (folder / _MODELS).mkdir(parents=True, exist_ok=True)
    for name in (*map(_file, OBJECTIVES), _AUTO):
        storage.ready(folder / name, force=True)
    _write_text(folder / MARK, _NOTE)
    return folder


def _write_text(path: Path, text: str) -> None:
    with replacing(path, force=True) as new:
        new.write_text(text, encoding="utf-8")


def _write(result: Demonstration, rankers: "dict[str, LightGBMRanker]", scores: "dict[str, Scores]") -> None:
    """Write every file that the result names."""
    import polars as pl

    from rankwise.data.reading import write_data
    from rankwise.demo.picture import draw
    from rankwise.statistics.figures.curves import plot_curves
    from rankwise.statistics.tables import as_csv

    folder, best = result.folder, result.ranked[0]
    for name, part in result.parts.items():
        write_data(part, folder / f"{name}.parquet", force=True)
    for name, values in scores.items():
        if name in rankers:
            rankers[name].save(folder / _file(name), force=True)
        else:
            _write_text(folder / _file(name), "".join(f"{value:.9g}\n" for value in values.tolist()))
    evaluations = {
        **result.comparison.paired.evaluations,
        "random order": result.floor,
        "best possible": result.ceiling,
    }
    rows = [one.to_frame().select(pl.lit(name).alias("ranker"), pl.all()) for name, one in evaluations.items()]
    _write_text(folder / "queries.csv", as_csv(pl.concat(rows)))
    draw(result, folder / "means.png")
    plot_curves(result.curves, folder / "curves.png", metric=HEADLINE, title="How the rankers learned", force=True)
    against = _opponent(result)
    result.comparison.plot(folder / "differences.png", metric=HEADLINE, system=best, against=against, force=True)
    _write_text(folder / "results.json", json.dumps(result.to_dict(), indent=2) + "\n")
    page = [f"# {result.headline}", result.introduction(), result.table().markdown(), result.conclusion()]
    page += ["![How good each ranker is](means.png)", "![How each ranker learned](curves.png)"]
    page += [f"![{best} against {against}, query by query](differences.png)"]
    search = result.search
    page += ["## A search by itself", search.introduction(), search.leaderboard.table().markdown(), result.beside()]
    page += ["## Files", "\n".join(f"- `{file}`: {what}" for file, what in result.files.items())]
    page += ["## Next", "```\n" + "\n".join(next_commands(result)) + "\n```"]
    _write_text(folder / "results.md", "\n\n".join(page) + "\n")


def _opponent(result: Demonstration) -> str:
    """The best ranker that is not trained: what training is good for shows best against it."""
    best = result.ranked[0]
    return next((name for name in result.ranked if name not in OBJECTIVES and name != best), result.ranked[1])


def _key(ranker: str) -> str:
    """The name of a ranker in file names and commands: ``E[LambdaRank]`` is ``e_lambdarank``."""
    words = "".join(letter if letter.isalnum() else " " for letter in ranker.replace("-", "").partition(" (")[0])
    return "_".join(words.lower().split())


def _file(ranker: str) -> str:
    """Where a ranker lies: a folder for a model, a file for scores."""
    return f"{_MODELS}/{_key(ranker)}" if ranker in OBJECTIVES else f"{_key(ranker)}.txt"
