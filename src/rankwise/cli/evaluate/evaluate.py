"""The commands ``evaluate`` and ``compare``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rankwise as rw
from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import DEFAULT_METRICS
from rankwise.statistics.tables import NOTHING, Table

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.dataset import RankingDataset
    from rankwise.statistics.evaluation import Evaluation
    from rankwise.statistics.judged import JudgedEvaluation


_OURS = (
    " Gains are 2^y − 1, ties are averaged; for trec_eval's numbers write its names, such as ndcg_cut_10 and map, or "
    "add --conventions trec_eval."
)


def evaluate(
    *,
    rankings: options.Rankings,
    metrics: list[str] = DEFAULT_METRICS,
    conventions: str | None = None,
    qrels: Path | None = None,
    judge: str | None = None,
    all_topics: bool = False,
    titles: str | None = None,
    confidence: float = 0.95,
    policy: str | None = None,
    samples: int | None = None,
    exposure_cutoff: int | None = None,
    calibration: bool = False,
    calibration_label: str | None = None,
    plot: Path | None = None,
    seed: int = 0,
    reading: Reading,
    progress: bool | None = None,
    output: Path | None = None,
    per_query: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Evaluate rankings: the mean of each metric, its interval, and how many queries count.

    [cyan]rankwise evaluate test.txt scores.txt[/cyan]
    [cyan]rankwise evaluate test.parquet a.npy b.npy --metrics ndcg@10,ap --per-query values.csv[/cyan]
    [cyan]rankwise evaluate mq2008 scores.txt --fold 2 --conventions lightgbm --json[/cyan]
    [cyan]rankwise evaluate --qrels qrels.txt run.txt --metrics map,ndcg_cut_10,bpref[/cyan]
    [cyan]rankwise evaluate --qrels qrels.txt --judge llm.txt run.txt --metrics ndcg@10[/cyan]
    [cyan]rankwise evaluate test.txt scores.txt --policy plackett_luce --samples 1000[/cyan]
    [cyan]rankwise evaluate test.csv model --policy plackett_luce --groups seller --exposure-cutoff 10[/cyan]
    [cyan]rankwise evaluate test.csv calibrated-model --calibration --plot reliability.png[/cyan]

    --calibration: Scores are probabilities: also show how well they agree with labels of at least 1, or as calibrated.
    --calibration-label NAME: With --calibration: compare with these labels, of --label NAME=COLUMN.
    --plot FILE: With --calibration: draw the reliability curve: .png, .svg or .pdf.
    --output -o FILE: Write the summary: .json, .csv, .md, .tex, .txt.
    """
    outputs.free(output, outputs.TABLES, force=force)
    outputs.free(plot, outputs.PICTURES, force=force)
    outputs.free(per_query, outputs.FRAMES, force=force, beside=output)
    if plot is not None and not calibration:
        raise check.error("--plot draws the curve of --calibration", hint="add --calibration")
    if calibration_label is not None and not calibration:
        raise check.error("--calibration-label is of --calibration", hint="add --calibration")
    how = {"level": confidence, "policy": policy, "samples": samples, "seed": seed}
    how["exposure_cutoff"] = exposure_cutoff
    requested = _Metrics(metrics, conventions, qrels, titles)
    if judge is not None:
        beside = {"--per-query": per_query, "--policy": policy, "--titles": titles, "--all-topics": all_topics}
        beside |= {"--calibration": calibration}
        _judged(rankings, qrels, judge, requested, output, beside, force=force, json=json, level=confidence)
        return
    evaluations = _evaluations(rankings, requested, qrels, all_topics, reading, how, progress)
    document = {"rankings": {name: one.to_dict() for name, one in evaluations.items()}} | requested.described()
    first, *rest = zip(*(one.tables(titles=requested.titles) for one in evaluations.values()), strict=True)
    details = [summary(dict(zip(evaluations, tables, strict=True))) for tables in rest]
    tables = [requested.noted(summary(dict(zip(evaluations, first, strict=True)))), *details]
    titles_of = ["", *(["Exposure by group", "Disparity"][: len(details)])]
    if calibration:
        reliabilities = {name: one.reliability(label=calibration_label) for name, one in evaluations.items()}
        document["calibration"] = {name: one.to_dict() for name, one in reliabilities.items()}
        tables.append(summary({name: one.table() for name, one in reliabilities.items()}))
        titles_of.append("Reliability")
        if plot is not None:
            if len(reliabilities) > 1:
                raise check.error("--plot draws one ranking", got=", ".join(reliabilities), hint="name one")
            next(iter(reliabilities.values())).plot(plot, force=force)
    outputs.save_evaluations(evaluations, document, tables, output, per_query, force=force)
    outputs.show(document, *zip(titles_of, tables, strict=True), json=json, wrote=(output, per_query, plot))


def compare(
    *,
    rankings: Annotated[list[str], typer.Argument(metavar="DATA name=SCORES", help=f"{options.DATA} {options.SCORES}")],
    metrics: list[str] = DEFAULT_METRICS,
    conventions: str | None = None,
    qrels: Path | None = None,
    judge: str | None = None,
    sampled: str | None = None,
    all_topics: bool = False,
    titles: str | None = None,
    baseline: str | None = None,
    test: str = "fisher",
    alpha: float = 0.05,
    correction: str = "holm",
    pairs: bool = True,
    format: str = "text",  # noqa: A002
    output: Path | None = None,
    plot: Path | None = None,
    report: Path | None = None,
    policy: str | None = None,
    samples: int | None = None,
    seed: int = 0,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Test which ranking is better, by how much, and whether that is more than chance.

    Rankings are paired query by query. A raised letter marks a ranking that is significantly better than the one of
    that letter. A ranking without name= is called after its file; runs whose files are called alike, by their tags.

    [cyan]rankwise compare test.txt old=old.txt new=new.txt[/cyan]
    [cyan]rankwise compare test.txt bm25=a.npy tree=b.npy net=c.npy --baseline bm25 --plot differences.png[/cyan]
    [cyan]rankwise compare --qrels qrels.txt run1.txt run2.txt --metrics ap,ndcg@20 --format latex[/cyan]
    [cyan]rankwise compare --qrels qrels.txt run1.txt run2.txt --report page.html[/cyan]
    [cyan]rankwise compare --qrels judged.csv --judge llm.txt --sampled probability old.run new.run -m dcg@10[/cyan]
    [cyan]rankwise compare old=results-a new=results-b[/cyan]   (what 'rankwise train --folds' wrote)

    --sampled COLUMN: With --judge: the column of probabilities with which 'rankwise judge plan' drew the documents.
    --baseline NAME: Test only against this ranking.
    --test fisher|t|wilcoxon: The paired test that decides what is significant.
    --alpha X: The level of significance.
    --correction holm|none: The correction for testing many pairs at once.
    --pairs/--no-pairs: Show the tests of every pair as well.
    --format text|markdown|latex: How the tables are written.
    --output -o FILE: Write the tables: .json, .csv, .md, .tex, .txt.
    --plot FILE: Draw the differences per query: .png, .svg or .pdf.
    --report FILE: Write a page for a browser, with an explorer of all rankings: .html.
    """
    outputs.free(output, outputs.TABLES, force=force)
    outputs.free(plot, outputs.PICTURES, force=force)
    outputs.free(report, outputs.PAGES, force=force)
    write = check.choice("format", format, ("text", "markdown", "latex"))
    check.choice("test", test, ("fisher", "t", "wilcoxon"))
    how = {"level": 1.0 - alpha, "policy": policy, "samples": samples, "seed": seed}
    requested = _Metrics(metrics, conventions, qrels, titles)
    if judge is not None or sampled is not None:
        beside: Keywords = {"--plot": plot, "--report": report, "--policy": policy, "--titles": titles}
        beside |= {"--all-topics": all_topics, "--test": test != "fisher", "--format": write != "text"}
        tests = {"sampled": sampled, "baseline": baseline, "level": 1.0 - alpha, "correction": correction}
        _judged(rankings, qrels, judge, requested, output, beside, force=force, json=json, **tests)
        return
    evaluations = _evaluations(rankings, requested, qrels, all_topics, reading, how, progress)
    if len(evaluations) < 2:
        raise check.error(
            "a comparison needs two rankings", got=", ".join(evaluations), hint="name another: NAME=SCORES"
        )
    result = rw.compare(evaluations, baseline=baseline, test=test, level=1.0 - alpha, correction=correction, seed=seed)
    first, *rest = result.tables(pairs=pairs, titles=requested.titles)
    tables, document = [requested.noted(first), *rest], result.to_dict() | requested.described()
    if output is not None:
        outputs.save(output, document=document, tables=tables, frame=result.to_frame(), force=force)
    if plot is not None:
        result.plot(plot, force=force)
    if report is not None:
        details = {"Rankings": " ".join(rankings)} | ({"Judgments": str(qrels)} if qrels else {})
        details |= {"Conventions": str(requested.described()["conventions"])} if requested.described_by else {}
        result.to_report(
            report, titles=requested.titles or requested.written(result.metrics), about=details, force=force
        )
    if json or write == "text":
        titled = zip(("", "Every pair"), tables, strict=False)
        outputs.show(document, *titled, json=json, wrote=(output, plot, report))
    else:
        typer.echo("\n\n".join(getattr(table, write)() for table in tables))


def _judged(
    words: list[str], qrels: Path | None, judge: str | None, requested: "_Metrics", output: Path | None,
    beside: Mapping[str, object], *, force: bool, json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Evaluate or compare runs by human labels and a judge."""
    from rankwise.evaluation.judged import evaluate_judged

    for word, value in {"no --qrels": qrels is None, **beside}.items():
        if value:
            raise check.error("--judge goes with runs and --qrels, and without some options", got=word)
    rankings = [inputs.file(word) for word in words]
    runs = [rw.trec.read_run(path) for _, path in rankings]
    names = inputs.names([(name, path, run["tag"][0]) for (name, path), run in zip(rankings, runs, strict=True)])
    estimate: Callable[..., JudgedEvaluation] = rw.compare if "correction" in settings else evaluate_judged
    result = estimate(
        dict(zip(names, runs, strict=True)), str(qrels), [*requested.metrics.values()], judge=judge, **settings
    )
    table, document = requested.noted(result.table()), result.to_dict() | requested.described()
    if output is not None:
        outputs.save(output, document=document, tables=[table], frame=result.to_frame(), force=force)
    outputs.show(document, ("", table), json=json, wrote=(output,))


class _Metrics:
    """The metrics that the user wants, as they were written and as they are computed, and what tables call them."""

    def __init__(self, metrics: list[str], conventions: str | None, qrels: Path | None, titles: str | None) -> None:
        from rankwise.metrics.conventions import convention_of

        self.words = metrics
        self.conventions = conventions
        texts = inputs.items(",".join(metrics))
        self.metrics = {text: rw.metric(text, conventions=conventions) for text in texts}
        self.described_by: dict[str, list[str]] = {}
        """Library -> the metrics that follow its conventions, in full; of runs, and where the user names a library."""
        if conventions or qrels:
            for text, one in self.metrics.items():
                self.described_by.setdefault(conventions or convention_of(text), []).append(str(one))
        self.titles: list[str] | dict[str, str] | None = None if titles is None else inputs.items(titles)
        if titles is None and self.described_by:  # the note has the long form
            self.titles = {str(one): text for text, one in self.metrics.items()}

    def written(self, metrics: Sequence[str]) -> dict[str, str]:
        """What the user wrote for each of these metrics."""
        return {str(one): text for text, one in self.metrics.items() if str(one) in metrics}

    def noted(self, table: Table) -> Table:
        """Add notes with the conventions that a table follows."""
        notes = [
            f"Conventions of {library}: {', '.join(dict.fromkeys(expressions))}."
            for library, expressions in self.described_by.items()
        ]
        if self.conventions is None:
            notes = [note + _OURS * note.startswith("Conventions of rankwise") for note in notes]
        return replace(table, notes=(*table.notes, *notes))

    def described(self) -> Json:
        """Return the same for JSON."""
        return {"conventions": ", ".join(self.described_by)} if self.described_by else {}


def _evaluations(
    words: list[str],
    requested: _Metrics,
    qrels: Path | None,
    all_topics: bool,
    reading: Reading,
    how: "Keywords",
    progress: bool | None,
) -> "dict[str, Evaluation]":
    """Read the data and every ranking, and evaluate them."""
    from rankwise.data.file_formats import shown
    from rankwise.evaluation.score_files import columns_to_rank, read_ranking

    beside = {"--conventions": requested.conventions, "--qrels": qrels, "--part": reading.part, "--fold": reading.fold}
    beside["--policy"] = how["policy"]
    if qrels is None and (results := _stored(words, requested.words, beside)) is not None:
        details = {name: how[name] for name in ("level", "seed")}
        return {name: replace(one, **details) for name, one in results.items()}
    rankings = [inputs.file(word) for word in (words if qrels else words[1:])]
    if not rankings:
        what = "evaluating needs DATA and at least one file of SCORES, or --qrels QRELS and at least one RUN"
        raise check.error(what, got=" ".join(words))
    inputs.once_from_standard_input(str(qrels or words[0]), *(str(path) for _, path in rankings))
    if not qrels:
        inputs.names([(name, path, "") for name, path in rankings])  # complains before the work begins
    models = {path: rw.load(path) for _, path in rankings if path.is_dir()}
    evaluations, tags = [], []
    with console.progress(len(rankings) + (not qrels), progress) as bar:
        by: RankingDataset | pl.DataFrame
        if qrels:
            aspects = any(name.startswith("more_labels") for one in requested.metrics.values() for name in one.reads)
            by = rw.trec.read_qrels(qrels, aspects=aspects)  # once, for all runs
        else:
            bar.step(f"Reading {words[0]}")
            named = {"features", "categorical"} & reading.options.keys()
            tables = {} if named else columns_to_rank(models.values())
            by = reading.data(words[0], bar=bar, tables=tables)
        for _, path in rankings:
            bar.step(f"Evaluating {shown(path)}")
            scores, judged, tag = read_ranking(path, by, all_topics=all_topics, model=models.get(path))
            seen = models[path].seen_in_training(by) if path in models else None
            if seen is not None and seen.any():
                what = f"{seen.sum():,} of these {seen.size:,} queries have the features of queries that {shown(path)} "
                console.note(f"{what}was trained on: what is measured on them says little about new queries")
            with check.naming(shown(path)):
                one = rw.evaluate(scores, judged, list(requested.metrics.values()), **how)
            if one.ranked is not None and (predicts := getattr(models.get(path), "predicts_", None)):
                one = replace(one, ranked=one.ranked._replace(predicts=predicts))
            evaluations.append(one)
            tags.append(tag if qrels else "")
    names = inputs.names([(name, path, tag) for (name, path), tag in zip(rankings, tags, strict=True)])
    return dict(zip(names, evaluations, strict=True))


def _stored(
    words: Sequence[str], metrics: Sequence[str], beside: Mapping[str, object]
) -> "dict[str, Evaluation] | None":
    """Read what ``train --folds`` or ``--per-query`` wrote, where the command line names that; None if it does not."""
    from rankwise.evaluation import evaluation_files
    from rankwise.metrics import metric

    paths = [Path(word.partition("=")[2] or word) for word in words]
    ready = [evaluation_files.is_evaluation(path) for path in paths]
    if not any(ready):
        return None
    if not all(ready):
        hint = "name results alone, RESULT_A RESULT_B, or DATA and SCORES alone"
        raise check.error(
            "results and data or scores do not go together", got=str(paths[ready.index(False)]), hint=hint
        )
    for word, value in beside.items():
        if value:
            raise check.error("results hold the values of metrics already", got=word, hint=f"leave {word} out")
    evaluations = {name: evaluation_files.read_evaluation(path) for name, path in inputs.named(words).items()}
    if list(metrics) == DEFAULT_METRICS:
        return evaluations
    requested = [str(metric(one)) for one in inputs.items(",".join(metrics))]
    for name, one in evaluations.items():
        missing = [expression for expression in requested if expression not in one.metrics]
        if missing:
            raise check.error(
                f"{name} was not evaluated by a metric asked for",
                got=missing[0],
                hint=f"choose among {', '.join(one.metrics)}, or write it anew with --metrics",
            )
        evaluations[name] = replace(one, values={expression: one[expression] for expression in requested})
    return evaluations


def summary(tables: Mapping[str, Table]) -> Table:
    """Join the tables of all rankings, one below the other."""
    first = max(tables.values(), key=lambda table: len(table.header))
    if len(tables) == 1:
        return first
    rows = tuple(
        (name, *row, *[NOTHING] * (len(first.header) - len(row)))
        for name, table in tables.items()
        for row in table.rows
    )
    notes = first.notes
    if any(table.notes != notes for table in tables.values()):
        notes = tuple(f"{name}: {note}" for name, table in tables.items() for note in table.notes)
    return replace(first, header=("ranking", *first.header), rows=rows, align="l" + first.align, notes=notes)
