"""Run the demonstration: make data, rank it in simple ways, compare the ways, write what was found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise.demo.result import HEADLINE, METRICS, Demonstration

if TYPE_CHECKING:
    from rankwise.demo.baselines import Scores

QUERIES, FEATURES, DOCUMENTS, SEED = 1000, 30, 40.0, 1
STEPS = 6
MARK = ".rankwise-demo"
_NOTE = "rankwise demo made this folder. Running it again replaces the files that it wrote.\n"


def demonstrate(
    folder: str | Path = "results/demo",
    *,
    queries: int | None = None,
    force: bool = False,
    step: Callable[[str], object] = str,
) -> Demonstration:
    """Run the demonstration and write its results into ``folder``; ``step`` is told what happens next.

    A folder that the demonstration made before is used again. One that holds anything else is refused unless
    ``force``; even then only files of the demonstration's own names are replaced.
    """
    folder = _prepare(Path(folder), force)
    step("Making data")
    from rankwise.data.splits import split
    from rankwise.data.synthetic import synthetic, synthetic_ideal
    from rankwise.demo.baselines import best_feature, lambdarank, linear
    from rankwise.evaluation.compare import compare
    from rankwise.evaluation.evaluate import evaluate

    data = synthetic(queries or QUERIES, FEATURES, documents=DOCUMENTS, seed=SEED)
    train, valid, test = split(data, (0.6, 0.2, 0.2), seed=SEED)

    step("Ranking by single features")
    feature, scores_of_feature = best_feature(train, test)
    scores = {f"best feature ({feature})": scores_of_feature}
    step("Fitting a linear model")
    scores["linear regression"] = linear(train, test)
    step("Training LightGBM")
    trees, scores["LightGBM lambdarank"] = lambdarank(train, valid, test)

    step("Evaluating and comparing")
    result = Demonstration(
        parts={"train": train, "valid": valid, "test": test},
        comparison=compare(scores, test, METRICS, seed=SEED),
        floor=evaluate(np.zeros(test.n_docs), test, METRICS),  # metrics average over all orders of equal scores
        ceiling=evaluate(synthetic_ideal(test, seed=SEED), test, METRICS),
        trees=trees,
        folder=folder,
        files={
            "results.md": "the table, the pictures and what they say",
            "results.json": "every number, for programs",
            "queries.csv": "the value of each metric on each query",
            "means.png": "how good each ranker is",
            "differences.png": "on which queries the best ranker wins, and by how much",
            "test.parquet": "the test data",
            **{_file(name): f"the scores of: {name}" for name in scores},
        },
    )
    step("Drawing and writing")
    _write(result, scores)
    return result


def next_command(result: Demonstration) -> str:
    """Give a command that compares the two best rankers again, for the reader to begin with."""
    rankings = (f"{Path(_file(name)).stem}={result.folder / _file(name)}" for name in result.ranked[1::-1])
    return f"rankwise compare {result.folder / 'test.parquet'} {' '.join(rankings)}"


def _prepare(folder: Path, force: bool) -> Path:
    """Make the folder, or make sure that it is ours to write into."""
    if folder.exists():
        ours = folder.is_dir() and ((folder / MARK).exists() or not any(folder.iterdir()))
        if not ours and not (force and folder.is_dir()):
            raise FileExistsError(
                f"{folder} exists already and was not made by rankwise demo. "
                "Cure: choose another folder with --output, or add files to this one with --force."
            )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(_NOTE, encoding="utf-8")
    return folder


def _write(result: Demonstration, scores: "dict[str, Scores]") -> None:
    """Write every file that the result names."""
    import polars as pl

    from rankwise.data.files import write_data
    from rankwise.demo.picture import draw

    folder, (best, second) = result.folder, result.ranked[:2]
    write_data(result.parts["test"], folder / "test.parquet", force=True)
    for name, values in scores.items():
        np.savetxt(folder / _file(name), values, fmt="%.9g")
    evaluations = {
        **result.comparison.paired.evaluations,
        "random order": result.floor,
        "best possible": result.ceiling,
    }
    rows = [one.to_frame().select(pl.lit(name).alias("ranker"), pl.all()) for name, one in evaluations.items()]
    pl.concat(rows).write_csv(folder / "queries.csv")
    draw(result, folder / "means.png")
    result.comparison.plot(folder / "differences.png", metric=HEADLINE, system=best, against=second, force=True)
    (folder / "results.json").write_text(json.dumps(result.to_dict(), indent=2) + "\n", encoding="utf-8")
    page = [f"# {best} ranks best", result.introduction(), result.table().markdown(), result.conclusion()]
    page += ["![How good each ranker is](means.png)", f"![{best} against {second}, query by query](differences.png)"]
    page += ["## Files", "\n".join(f"- `{file}`: {what}" for file, what in result.files.items())]
    page += ["## Go on from here", f"```\n{next_command(result)}\n```"]
    (folder / "results.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def _file(ranker: str) -> str:
    return f"{ranker.split()[0].lower()}.txt"
