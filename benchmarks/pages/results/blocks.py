"""The parts of a page that are made of the results of one experiment: what was run, means, the paper's, verdicts."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import polars as pl

from benchmarks.pages.results.bounds import by_bound
from benchmarks.pages.results.changes import ahead, by_change
from benchmarks.pages.results.peaks import by_peak
from benchmarks.pages.results.rounds import by_reach, by_round
from rankwise.base import tables
from rankwise.wings.lab.experiments.comparisons import alpha, comparison, data_levels
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.schema import QUERIES, empty
from rankwise.wings.lab.experiments.spec import Spec, find_spec, recipes
from rankwise.wings.lab.experiments.summary import LEVELS, levels_table, means_table, verdict_table
from rankwise.wings.lab.experiments.verdicts import counted, verdicts
from rankwise.wings.lab.papers.claims import figures

METRICS = 6  # as many columns as a page has room for
ROWS = 16  # a longer table of verdicts shows the metric that decides, and counts the others
CHANGED = (
    *("queries", "protocol", "split", "seed", "treatment", "levels", "relevant", "metrics", "early_stopping"),
    *("tune_trials", "tune_minutes"),
)
WRITTEN_AS = {"mq2007-partial": "mq2007-partial=DIR/mq2007-partial/mq2007.partial.txt.gz"}
NAMED = re.compile(r"^([\w-]+)=.*")
ABSENT = "Not computed yet"
NOT_RUN = "<!-- commands: not run, hours of training on data that must be fetched -->"


def command(results: Results) -> str:
    """What to type for these results, where DIR holds the data."""
    spec, recipe = results.spec, recipe_of(results.spec["name"]).plain()
    named = (NAMED.sub(r"\1", one) for one in spec["data"])
    data = [shlex.quote(WRITTEN_AS.get(name, name)) for name in named]
    words = ["rankwise reproduce", spec["name"], *(f"--data {name}" for name in data), "--data-folder DIR"]
    if spec["trials"] != recipe["trials"]:
        words.append(f"--trials {spec['trials']}")
    everywhere = spec["settings_for"].get("", {})
    changed = {key: spec[key] for key in CHANGED if key in spec and spec[key] != recipe[key]}
    changed |= {f"settings.{key}": value for key, value in everywhere.items()}
    words += [f"--set {key}={shlex.quote(_written(value))}" for key, value in changed.items()]
    jobs = re.search(r"--jobs \d+", results.about.get("command", ""))
    return " ".join([*words, *([jobs[0]] if jobs else [])])


def _written(value: object) -> str:
    """A value as ``--set`` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def trials(results: Results) -> str:
    """How many trials there are on each data set, and how many the paper has, where it has published such figures."""
    counts = dict(results.queries.group_by("data", maintain_order=True).agg(pl.col("trial").n_unique()).iter_rows())
    same = len(set(counts.values())) == 1
    ours = str(next(iter(counts.values()))) if same else ", ".join(f"{data} {n}" for data, n in counts.items())
    return f"{ours} (paper: {recipe_of(results.spec['name']).trials})" if results.spec.get("published") else ours


def made(results: Results) -> str:
    """Command, date, versions, machine and size of an experiment, and what the full one would take."""
    about, spec, recipe = results.about, results.spec, recipe_of(results.spec["name"])
    versions = ", ".join(f"{name} {text}" for name, text in about["versions"].items())
    scored = results.queries.filter(pl.col(spec["decide"]).is_not_null()).group_by("data", maintain_order=True)
    queries = [f"{data} {count:,}" for data, count in scored.agg(pl.col("query").n_unique()).iter_rows()]
    seconds = [second for one in about["seconds"].values() for second in one]
    system, _, cores = about["machine"].rpartition(", ")
    lines = [
        f"Made on {about['date'][:10]} with {versions}, on {system.partition('-')[0]} with {cores}.",
        f"Trials: {trials(results)}. Queries or users tested that have something relevant: {', '.join(queries)}.",
        f"Training took {duration(sum(seconds))}, added up over {len(seconds):,} models.",
    ]
    if recipe.tune_trials:
        searched = f"{spec['tune_trials']} times (paper: up to {recipe.tune_trials})"
        lines.append(f"Each method's parameters are searched in every trial anew, {searched}.")
    lines += full_protocol(results, recipe)
    lines += [f"{name}: `{text}`" for name, text in spec["methods"].items()]
    return "\n".join([_fenced(command(results)), "", *(f"- {line}" for line in lines)])


def planned(run: str, what: str) -> str:
    """Say of an experiment that there are no results of it, and how they are made; what the paper has is there."""
    recipe = recipe_of(run)
    if what == "paper":
        return paper(Results(recipe.plain(), empty(QUERIES), published=figures(recipe.published)))
    if what != "made":
        return f"{ABSENT}."
    data = "movielens-latest-small" if recipe.protocol == "ratings" else "mq2008"
    text = f"{ABSENT} with the present version; the command below makes it."
    ending = run.rpartition("-")[2]
    more = f" --trials {ending} -o results/{run}" if run != recipe.name and ending.isdigit() else ""
    return f"{text}\n\n{_fenced(f'rankwise reproduce {recipe.name} --data {data} --data-folder DIR{more}')}"


@cache
def recipe_of(run: str) -> Spec:
    """The experiment whose name a folder of results begins with, such as 2019-table1 of 2019-table1-50."""
    return find_spec(max((name for name in recipes() if f"{run}-".startswith(f"{name}-")), key=len, default=run))


def _fenced(text: str) -> str:
    return f"{NOT_RUN}\n```text\n{text}\n```"


def duration(seconds: float) -> str:
    """Seconds in words: minutes, or hours where there are two or more.

    >>> duration(340), duration(9000)
    ('6 minutes', '2.5 hours')
    """
    minutes = seconds / 60
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def full_protocol(results: Results, recipe: Spec) -> list[str]:
    """How long the paper's number of trials and searches would take on these data, where there are fewer."""
    spec, seconds = results.spec, results.about["seconds"]
    datasets, levels = results.queries["data"].n_unique(), results.queries["level"].n_unique()
    models = recipe.trials * datasets * len(recipe.levels)
    searched = (1 + recipe.tune_trials) / (1 + spec["tune_trials"])
    fewer = any(len(one) < models for one in seconds.values()) or levels < len(recipe.levels) or searched > 1
    if not fewer:
        return []
    total = sum(sum(one) / len(one) * models * searched for one in seconds.values() if one)
    measured = sum(map(sum, seconds.values())) / sum(map(len, seconds.values()))
    cut = f"{recipe.trials} trials" + (f" with searches of {recipe.tune_trials} each" if searched > 1 else "")
    text = f"The full protocol, {cut}, would take about {duration(total)} of training on these data "
    return [text + f"(measured: {measured:.1f} seconds per model here)."]


def narrowed(results: Results) -> Results:
    """Leave out the metrics that a page has no room for."""
    return replace(results, queries=results.queries.drop(results.metrics[METRICS:]))


def means(results: Results) -> str:
    """Means with intervals and marks: by level where there are some, else by metric."""
    results = narrowed(results)
    texts = []
    for data in dict.fromkeys(data for data, _ in data_levels(results)):
        levels = [level for name, level in data_levels(results) if name == data]
        table = levels_table(results, data) if len(levels) > 1 else means_table(results, data, levels[0])
        texts += [f"**{data}**", table.markdown()]
    return "\n\n".join(texts)


def beside(results: Results) -> str:
    """Each method beside the paper's figure for it, if there are any, and how far it is from the first, in both."""
    metric, first = results.spec["decide"], results.methods[0]
    published = {row[:4]: row[4] for row in results.published.iter_rows()}
    by_level = len({level for _, level in data_levels(results)}) > 1
    printed = any(row[3] == metric for row in results.published.iter_rows())
    rows, legend = [], ""
    for data, level in data_levels(results):
        compared = comparison(results, data, level)
        if compared is None:
            continue
        legend = compared.legend(hint=False).partition(". ")[2]
        theirs = {name: published.get((data, level, name, metric), float("nan")) for name in results.methods}
        for name in results.methods:
            row = [f"{level:g}"] * by_level
            row += [name, tables.number(compared.mean[metric][name]), *[tables.number(theirs[name])] * printed]
            row += ahead(compared, metric, name, first) if name != first else ["", ""]
            row += [tables.number(theirs[name] - theirs[first], signed=True) if name != first else ""] * printed
            rows.append(tuple(row))
    header = (*[LEVELS.get(results.spec["treatment"], "level")] * by_level, "method", metric, *["paper"] * printed)
    header += (f"ours − {first}", f"{100 * (1 - alpha(results)):g}% interval", *[f"paper − {first}"] * printed)
    notes, align = (f"*: significant. {legend}",), "r" * by_level + ("lrrrlr" if printed else "lrrl")
    return tables.Table(header=header, rows=tuple(rows), align=align, notes=notes).markdown()


def paper(results: Results) -> str:
    """What the paper published for its own data."""
    published = results.published
    if not published.height:
        return "The paper has no figures in print for this."
    metrics = published["metric"].unique(maintain_order=True).to_list()
    by_level = published["level"].n_unique() > 1
    rows = []
    for (data, level, method), own in published.group_by("data", "level", "method", maintain_order=True):
        cells = []
        for metric in metrics:
            one = own.filter(metric=metric).select("value", "high").rows()
            value, high = one[0] if one else (float("nan"), None)
            cells.append(tables.number(value) + (f" ± {tables.number(high - value)}" if high is not None else ""))
        rows.append((str(data), *([f"{level:g}"] if by_level else []), str(method), *cells))
    header = ("data", *([LEVELS.get(results.spec["treatment"], "level")] if by_level else []), "method", *metrics)
    notes = (f"The paper: {'; '.join(published['source'].unique(maintain_order=True))}.",)
    align = "l" + "r" * by_level + "l" + "r" * len(metrics)
    return tables.Table(header=header, rows=tuple(rows), align=align, notes=notes).markdown()


def judged(results: Results) -> str:
    """The verdicts, those of the deciding metric alone where there are many."""
    found = verdicts(results)
    if not found:
        return "The paper claims nothing of these methods that a table could hold them to."
    table = verdict_table(results)
    if table is None or len(found) <= ROWS:
        return table.markdown() if table else ""
    kept = tuple(row for row, one in zip(table.rows, found, strict=True) if one.metric == results.spec["decide"])
    text = replace(table, rows=kept).markdown()
    return f"{text}\n\nOver all metrics and places, {len(found)} statements: {counted(found)}."


BLOCKS: dict[str, Callable[[Results], str]] = {
    "made": made, "means": means, "beside": beside, "paper": paper, "verdicts": judged, "rounds": by_round,
    "reached": by_reach, "bounds": by_bound, "peaks": by_peak, "changes": by_change,
}  # fmt: skip
