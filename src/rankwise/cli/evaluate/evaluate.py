"""The commands ``evaluate`` and ``compare``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rankwise as rw
from rankwise import check
from rankwise.base import files, hooks
from rankwise.base.arrays import Json, Keywords
from rankwise.base.tables import Table
from rankwise.check.parameters import Above, AtLeast, OneOf, Option, Unset
from rankwise.cli import arguments, console, outputs
from rankwise.cli.arguments import DATA, DEFAULT_METRICS, SCORES
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But
from rankwise.cli.running import Running
from rankwise.cli.segments import segment_of, segmented, with_columns
from rankwise.evaluation import ranking_names
from rankwise.statistics.result import stacked

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.dataset import RankingDataset
    from rankwise.metrics.base import Metric
    from rankwise.statistics.evaluation import Evaluation
    from rankwise.statistics.result import Result

_OURS = (
    " Gains are 2^y − 1, ties are averaged; for trec_eval's numbers write its names, such as ndcg_cut_10 and map, or "
    "add --conventions trec_eval."
)


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """The metrics that the user wants, and what they are measured by."""

    words: Annotated[arguments.Metrics, Option("metrics", short="-m", metavar="LIST")] = DEFAULT_METRICS
    conventions: Annotated[
        str | None,
        "Count gains, ties and queries without relevant documents as another library does: lightgbm, xgboost, "
        "catboost, sklearn, trec_eval or letor; rankwise names our own way.",
        Unset("by the names of metrics"),
        Option(metavar="NAME"),
    ] = None
    qrels: Annotated[
        Path | None, "Take relevance from a TREC qrels file instead of DATA; the rankings are TREC runs."
    ] = None
    judge: Annotated[
        str | None,
        "Grades of a judge, such as an LLM, for all queries: qrels, also .csv, or a column of the table --qrels. Few "
        "human labels, --qrels, then suffice.",
        Option(metavar="FILE"),
    ] = None
    all_topics: Annotated[
        bool, "With --qrels: count topics that a run has no line for, as trec_eval -c does.", Option()
    ] = False
    names: Annotated[
        Sequence[str],
        "What metrics are called in the tables: one title for each, between commas, in their order.",
        Option("titles", metavar="LIST"),
    ] = ()
    policy: arguments.Policy = None
    samples: arguments.Samples = None

    @cached_property
    def metrics(self) -> "dict[str, Metric]":
        """Metrics by what the user wrote."""
        return {text: rw.metric(text, conventions=self.conventions) for text in self.words}

    @cached_property
    def described_by(self) -> dict[str, list[str]]:
        """Library -> the metrics that follow its conventions, in full; of runs, and where the user names a library."""
        from rankwise.metrics.conventions import convention_of

        described: dict[str, list[str]] = {}
        for text, metric in self.metrics.items() if self.conventions or self.qrels else ():
            described.setdefault(self.conventions or convention_of(text), []).append(str(metric))
        return described

    @property
    def titles(self) -> list[str] | dict[str, str] | None:
        """What tables call the metrics; where a note has the long form, what the user wrote."""
        if self.names:
            return list(self.names)
        return {str(one): text for text, one in self.metrics.items()} if self.described_by else None

    def written(self, metrics: Sequence[str]) -> dict[str, str]:
        """What the user wrote for each of these metrics."""
        return {str(one): text for text, one in self.metrics.items() if str(one) in metrics}

    def noted(self, table: Table) -> Table:
        """Add notes with the conventions that a table follows."""
        from rankwise.metrics.conventions import OWN

        notes = [
            f"Conventions of {library}: {', '.join(dict.fromkeys(expressions))}."
            + (_OURS if library == OWN and self.conventions is None else "")
            for library, expressions in self.described_by.items()
        ]
        return replace(table, notes=(*table.notes, *notes))

    def described(self) -> Json:
        """Return the same for JSON."""
        return {"conventions": ", ".join(self.described_by)} if self.described_by else {}

    def reject(self, beside: Mapping[str, object]) -> None:
        """Raise if an option does not go with a judge."""
        without = {"no --qrels": self.qrels is None, "--policy": self.policy, "--titles": self.names}
        for word, value in (without | {"--all-topics": self.all_topics, **beside}).items():
            if value:
                raise check.error("--judge goes with runs and --qrels, and without some options", got=word)


def evaluate(
    rankings: Annotated[list[str], f"{DATA} {SCORES}", Option(metavar="DATA SCORES")],
    *,
    measuring: Measuring,
    level: arguments.Level = 0.95,
    exposure_cutoff: Annotated[
        int | None, AtLeast(1), "With --policy: only the first K ranks expose documents.", Unset("all ranks"),
        Option(metavar="K")
    ] = None,
    segment: arguments.Segment = (),
    calibration: Annotated[
        bool, "Scores are probabilities: also show how well they agree with labels of at least 1, or as calibrated."
    ] = False,
    calibration_label: Annotated[
        str | None, "With --calibration: compare with these labels, of --label NAME=COLUMN."
    ] = None,
    plot: Annotated[arguments.Plot, "With --calibration: the reliability curve."] = None,
    output: arguments.Summary = None,
    per_query: arguments.PerQuery = None,
    reading: Reading,
    running: Annotated[Running, But("threads")],
) -> None:  # fmt: skip
    """Evaluate rankings: the mean of each metric, its interval, and how many queries count.

    rankwise evaluate test.txt scores.txt
    rankwise evaluate test.parquet a.npy b.npy --metrics ndcg@10,ap --per-query values.csv
    rankwise evaluate mq2008 scores.txt --fold 2 --conventions lightgbm --json
    rankwise evaluate --qrels qrels.txt run.txt --metrics map,ndcg_cut_10,bpref
    rankwise evaluate --qrels qrels.txt --judge llm.txt run.txt --metrics ndcg@10
    rankwise evaluate test.csv model --policy plackett_luce --groups seller --exposure-cutoff 10
    rankwise evaluate test.csv calibrated-model --calibration --plot reliability.png
    """
    running.check_target(output, outputs.TABLES)
    running.check_target(plot, outputs.PICTURES)
    running.check_target(per_query, outputs.FRAMES, beside=output)
    for option, given in (("--plot draws the curve", plot), ("--calibration-label is", calibration_label)):
        if given is not None and not calibration:
            raise check.error(f"{option} of --calibration", hint="add --calibration")
    if measuring.judge is not None:
        measuring.reject({"--per-query": per_query, "--calibration": calibration, "--segment": segment})
        _judged(rankings, measuring, output, running, level=level)
        return
    evaluations = _evaluations(rankings, measuring, reading, running, level, exposure_cutoff, segment)
    document = {"rankings": {name: one.to_dict() for name, one in evaluations.items()}} | measuring.described()
    columns = zip(*(one.tables(titles=measuring.titles) for one in evaluations.values()), strict=True)
    first, *details = (stacked(dict(zip(evaluations, column, strict=True))) for column in columns)
    tables = [measuring.noted(first), *details]
    titles_of = ["", *(["By segment"] * bool(segment)), *(["Exposure by group", "Disparity"])][: len(tables)]
    if calibration:
        reliabilities = {name: one.reliability(label=calibration_label) for name, one in evaluations.items()}
        document["calibration"] = {name: one.to_dict() for name, one in reliabilities.items()}
        tables.append(stacked({name: one.table() for name, one in reliabilities.items()}))
        titles_of.append("Reliability")
        if plot is not None:
            if len(reliabilities) > 1:
                raise check.error("--plot draws one ranking", got=", ".join(reliabilities), hint="name one")
            next(iter(reliabilities.values())).plot(plot, force=running.force)
    outputs.save_evaluations(evaluations, document, tables, output, per_query, force=running.force)
    running.show(document, *zip(titles_of, tables, strict=True), wrote=(output, per_query, plot))


def compare(
    rankings: Annotated[list[str], f"{DATA} {SCORES}", Option(metavar="DATA name=SCORES")],
    *,
    measuring: Measuring,
    sampled: Annotated[
        str | None, "With --judge: the column of probabilities with which 'rankwise judge plan' drew the documents.",
        Option(metavar="COLUMN")
    ] = None,
    baseline: Annotated[str | None, "Test only against this ranking."] = None,
    not_worse_than: Annotated[
        float | None, Above(0),
        "A gate: whether the second ranking (or the one beside the baseline) is not worse by this margin, by the first "
        "metric, on all queries and every segment. Exit code 0: it passes; 3: it fails; 4: these queries cannot tell.",
        Option(metavar="MARGIN")
    ] = None,
    segment: arguments.Segment = (),
    test: Annotated[
        str, OneOf(("fisher", "t", "wilcoxon"), "test"), "The paired test that decides what is significant.",
        Option("paired-test")
    ] = "fisher",
    level: arguments.Level = 0.95,
    correction: Annotated[str, OneOf(("holm", "none")), "The correction for testing many pairs at once."] = "holm",
    pairs: Annotated[bool, "Show the tests of every pair as well."] = True,
    alike: Annotated[
        bool, "Show how alike the rankings are: rank-biased overlap, overlap@10, Kendall's tau and tau_AP.", Option()
    ] = False,
    history: Annotated[
        Path | None, "Keep the comparison in this folder, and show its systems over time: 'rankwise history'.",
        Option(metavar="FOLDER")
    ] = None,
    format: Annotated[str, OneOf(("text", "markdown", "latex")), "How the tables are written."] = "text",  # noqa: A002
    output: arguments.Summary = None,
    plot: Annotated[arguments.Plot, "It shows the differences per query."] = None,
    report: Annotated[arguments.Page, "It has an explorer of all rankings."] = None,
    reading: Reading,
    running: Annotated[Running, But("threads")],
) -> None:  # fmt: skip
    """Test which ranking is better, by how much, and whether that is more than chance.

    Rankings are paired query by query. A raised letter marks a ranking that is significantly better than the one of
    that letter. A ranking without name= is called after its file; runs whose files are called alike, by their tags.
    Folders that 'rankwise cross-validate' wrote are compared without data: rankwise compare old=a new=b.

    rankwise compare test.txt old=old.txt new=new.txt
    rankwise compare test.txt bm25=a.npy tree=b.npy net=c.npy --baseline bm25 --plot differences.png
    rankwise compare --qrels qrels.txt run1.txt run2.txt --metrics ap,ndcg@20 --format latex
    rankwise compare --qrels qrels.txt run1.txt run2.txt --alike --report page.html
    rankwise compare test.txt old=old.txt new=model --history nightly
    rankwise compare test.csv old=old.txt new=new.txt --not-worse-than 0.01 --segment device --json
    rankwise compare --qrels judged.csv --judge llm.txt --sampled probability old.run new.run -m dcg@10
    """
    running.check_target(output, outputs.TABLES)
    running.check_target(plot, outputs.PICTURES)
    running.check_target(report, outputs.PAGES)
    if history is not None:
        files.check_writable_folder(history)
    tests: Keywords = {"baseline": baseline, "level": level, "correction": correction}
    if measuring.judge is not None or sampled is not None:
        beside: dict[str, object] = {"--plot": plot, "--report": report, "--paired-test": test != "fisher"}
        beside |= {"--format": format != "text", "--alike": alike, "--history": history}
        beside |= {"--segment": segment, "--not-worse-than": not_worse_than}
        measuring.reject(beside)
        _judged(rankings, measuring, output, running, sampled=sampled, **tests)
        return
    from rankwise.evaluation.history import append_history, read_history

    evaluations = _evaluations(rankings, measuring, reading, running, level, segment=segment)
    if len(evaluations) < 2:
        raise check.error(
            "a comparison needs two rankings", got=", ".join(evaluations), hint="name another: NAME=SCORES"
        )
    kinds = tuple(next(iter(evaluations.values())).segments) if segment else None
    result = rw.compare(evaluations, test=test, seed=running.seed, segment=kinds, **tests)
    gate = None if not_worse_than is None else result.gate(not_worse_than)
    first, *rest = result.tables(pairs=pairs, titles=measuring.titles)
    tables, document = [measuring.noted(first), *rest], result.to_dict() | measuring.described()
    titles_of = ["", *["Every pair"] * pairs, *["By segment"] * bool(segment)]
    if gate is not None:
        document["gate"] = gate.to_dict()
        tables.append(gate.table(titles=measuring.titles))
        titles_of.append("Gate")
    if alike:
        similarities = hooks.find("comparison", "alike")(evaluations)
        found = {f"{one} / {other}": pair for (one, other), pair in similarities.items()}
        document["alike"] = {name: pair.to_dict() for name, pair in found.items()}
        tables.append(stacked({name: pair.table() for name, pair in found.items()}))
        titles_of.append("How alike")
    kept = None
    if history is not None:
        kept = append_history(result, history)
        document["history"] = str(kept)
        tables.append(read_history(history).table())
        titles_of.append("Over time")
    if output is not None:
        outputs.save(output, document, tables, result.to_frame(), force=running.force)
    if plot is not None:
        result.plot(plot, force=running.force)
    if report is not None:
        details = {"Rankings": " ".join(rankings)} | ({"Judgments": str(measuring.qrels)} if measuring.qrels else {})
        details |= {"Conventions": str(measuring.described()["conventions"])} if measuring.described_by else {}
        columns = measuring.titles or measuring.written(result.metrics)
        result.to_report(report, titles=columns, about=details, gate=gate, force=running.force)
    if running.json or format == "text":
        running.show(document, *zip(titles_of, tables, strict=True), wrote=(output, plot, report, kept))
    else:
        typer.echo("\n\n".join(getattr(table, format)() for table in tables))
    if gate is not None:
        raise typer.Exit(gate.exit_code)


def _judged(words: list[str], measuring: Measuring, output: Path | None, running: Running, **settings: Any) -> None:
    """Evaluate or compare runs by human labels and a judge."""
    rankings = [ranking_names.ranking_file(word) for word in words]
    runs = [rw.trec.read_run(path) for _, path in rankings]
    names = ranking_names.names([(name, path, run["tag"][0]) for (name, path), run in zip(rankings, runs, strict=True)])
    estimate: Callable[..., Result] = rw.compare if "baseline" in settings else hooks.find("evaluation", "judge")
    systems, metrics = dict(zip(names, runs, strict=True)), [*measuring.metrics.values()]
    result = estimate(systems, str(measuring.qrels), metrics, judge=measuring.judge, **settings)
    table, document = measuring.noted(result.table()), result.to_dict() | measuring.described()
    if output is not None:
        outputs.save(output, document, [table], result.to_frame(), force=running.force)
    running.show(document, ("", table), wrote=(output,))


def _evaluations(
    words: list[str], measuring: Measuring, reading: Reading, running: Running, level: float, cutoff: int | None = None,
    segment: Sequence[str] = (),
) -> "dict[str, Evaluation]":  # fmt: skip
    """Read the data and every ranking, and evaluate them."""
    from rankwise.evaluation.score_files import columns_to_rank, evaluate_files

    qrels, kinds = measuring.qrels, segment_of(segment)
    if qrels is None and (results := _stored(words, measuring, reading)) is not None:
        settings: Keywords = {"level": level, "seed": running.seed}
        return {name: replace(segmented(one, kinds), **settings) for name, one in results.items()}
    rankings = [ranking_names.ranking_file(word) for word in (words if qrels else words[1:])]
    if not rankings:
        what = "evaluating needs DATA and at least one file of SCORES, or --qrels QRELS and at least one RUN"
        raise check.error(what, got=" ".join(words))
    ranking_names.once_from_standard_input(str(qrels or words[0]), *(str(path) for _, path in rankings))
    if not qrels:
        ranking_names.names([(name, path, "") for name, path in rankings])  # complains before the work begins
    how: Keywords = {"policy": measuring.policy, "samples": measuring.samples, "exposure_cutoff": cutoff}
    how |= {"level": level, "seed": running.seed, "segment": kinds, "all_topics": measuring.all_topics}
    models = {path: rw.load(path) for _, path in rankings if path.is_dir()}
    metrics = [*measuring.metrics.values()]
    with running.steps(len(rankings) + (not qrels)) as bar:
        by: RankingDataset | pl.DataFrame
        if qrels:
            aspects = any(name.startswith("more_labels") for one in metrics for name in one.reads)
            by = rw.trec.read_qrels(qrels, aspects=aspects)  # once, for all runs
        else:
            bar.step(f"Reading {words[0]}")
            named = {"features", "categorical"} & reading.arguments.keys()
            by = reading.data(words[0], bar, {} if named else with_columns(columns_to_rank(models.values()), kinds))
        return evaluate_files(rankings, by, metrics, models, step=bar.step, note=console.note, **how)


def _stored(words: Sequence[str], measuring: Measuring, reading: Reading) -> "dict[str, Evaluation] | None":
    """Read what ``cross-validate`` or ``--per-query`` wrote, where the command line names that; None if it does not."""
    from rankwise.evaluation import evaluation_files

    paths = [Path(word.partition("=")[2] or word) for word in words]
    ready = [evaluation_files.is_evaluation(path) for path in paths]
    if not any(ready):
        return None
    if not all(ready):
        hint = "name results alone, RESULT_A RESULT_B, or DATA and SCORES alone"
        raise check.error(
            "results and data or scores do not go together", got=str(paths[ready.index(False)]), hint=hint
        )
    beside = {"--conventions": measuring.conventions, "--part": reading.part, "--fold": reading.fold}
    for word, value in (beside | {"--policy": measuring.policy}).items():
        if value:
            raise check.error("results hold the values of metrics already", got=word, hint=f"leave {word} out")
    metrics = None if tuple(measuring.words) == DEFAULT_METRICS else list(map(str, measuring.metrics.values()))
    return evaluation_files.read_evaluations(ranking_names.named(words), metrics)
