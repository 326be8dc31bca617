"""The outcome in tables: means with intervals and tests, the paper's figures beside ours, and who wins where."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.statistics import bounds_of, significance
from rankwise.wings.lab.experiments.comparisons import alpha, comparison, data_levels, letters_of, measured
from rankwise.wings.lab.experiments.verdicts import MARGIN, Verdict, verdicts

if TYPE_CHECKING:
    from rankwise import Comparison
    from rankwise.wings.lab.experiments.results import Results

LEVELS = {
    "negatives": "extra negatives",
    "flips": "flipped labels",
    "clicks": "clicks on grade 0",
    "binarize": "binary labels",
    "negative_ratio": "negatives per relevant item",
    "negative_ratio_in_training": "negatives per relevant item, in training",
}


def verdict_table(results: "Results") -> tables.Table | None:
    """Lay the verdicts out; None where the paper claims nothing about these methods."""
    judged = verdicts(results)
    if not judged:
        return None
    words = {True: ", significant", False: ", level", None: ""}
    levels = len({one.levels + one.rounds for one in judged if one.levels}) > 1
    rows = []
    for one in judged:
        row = [one.data or tables.NOTHING]
        span = [f"{level:g}" for level in one.levels[:1] + one.levels[1:][-1:]]
        row += [f"rounds {one.rounds[0]} to {one.rounds[-1]}" if one.rounds else " to ".join(span)] * levels
        row += [one.metric, one.says]
        other = "other data: " if one.data and not one.same_data else ""
        row += [f"{other}{one.published_on}{words[one.published_significant]}"]
        ours, low, high, p = (
            math.nan if value is None else value for value in (one.difference, one.low, one.high, one.p_adjusted)
        )
        row += [tables.number(ours, signed=True), tables.interval(low, high, signed=True), tables.probability(p)]
        rows.append((*row, one.verdict))
    interval = f"{100 * (1 - alpha(results)):g}% interval"
    header = ("data", *["level"] * levels, "metric", "the paper says", "on", "ours", interval, "p adjusted", "verdict")
    return tables.Table(
        header=header,
        rows=tuple(rows),
        align="l" + "r" * levels + "lllrlrl",
        notes=(*shrunken(results), *_read(judged)),
    )


COVERED = {
    "splits": "Tests allow for trials that share data (the correction of Nadeau and Bengio)",
    "splits, queries": "Two tests, over folds, which share data (the correction of Nadeau and Bengio), and over "
    "queries: the interval holds both of theirs, and the greater p-value counts",
    "draws": "All trials share one split, so the test covers what is drawn in training, and nothing else",
    "queries": "A single trial, so the test covers the choice of test queries, and nothing else",
}


def _read(judged: list[Verdict]) -> Iterator[str]:
    """Return the notes below verdicts: sources of the statements, coverage of the tests and their correction."""
    sources = dict.fromkeys(f"{one.source}{': ' if one.note else ''}{one.note.rstrip('.')}" for one in judged)
    yield f"The paper: {'; '.join(sources)}."
    if any(one.data and not one.same_data for one in judged):
        yield "Other data: the paper's sets are not among ours, so the verdict is about the direction on other data."
    covered = dict.fromkeys(one.covers for one in judged if one.covers)
    count = sum(bool(one.covers) for one in judged)
    if covered:
        tests, many = ". ".join(COVERED[name] for name in covered), tables.count(count, "statement")
        yield f"{tests}. p-values after Holm's correction for {many}; intervals without."
    if any(len(one.levels) > 1 for one in judged):
        yield (
            "Over several levels: by how much the difference of the two methods changes from the first to the last, on "
            "the least-squares line through all of them."
        )
    if any(one.data and not one.covers for one in judged):
        yield "Not tested: a statement about learning curves needs two trials of them."
    if any(one.rounds for one in judged):
        yield (
            "Over rounds: the mean of the difference over all rounds of training, or its change from the first to the "
            "last where the paper says that one method gains. A trial that stopped early keeps its last value."
        )
    if any(one.published_significant is False for one in judged):
        yield f"≈: the paper calls the methods level, which agrees if their difference surely is within ±{MARGIN:g}."


def means_table(results: "Results", data: str, level: float) -> tables.Table:
    """Means over trials with intervals, marks of significance, and the published figures, at one place."""
    compared = comparison(results, data, level)
    at_place = results.trial_means().filter((pl.col("data") == data) & (pl.col("level") == level))
    metrics = measured(results)
    published = results.published.filter((pl.col("data") == data) & (pl.col("level") == level))
    short = letters_of(results) if compared else {}
    shown = [name for name in metrics if name in set(published["metric"])]
    rows: list[tuple[tables.TableCell | str, ...]] = []
    for method in results.methods:
        trials = at_place.filter(method=method).sort("trial")
        if not trials.height:
            continue
        row: list[tables.TableCell | str] = [short.get(method, ""), method]
        for name in metrics:
            row.append(_cell(trials[name].to_numpy(), name, method, compared, alpha(results)))
            if name in shown:
                value = published.filter((pl.col("method") == method) & (pl.col("metric") == name))
                row.append(tables.number(value["value"][0]) if value.height else tables.NOTHING)
        rows.append(tuple(row))
    header = ["", "method"]
    for name in metrics:
        header += [name, "paper"] if name in shown else [name]
    notes = [compared.legend(hint=False)] if compared else []
    notes += [f"{_half(results)}."] * (at_place["trial"].n_unique() >= significance.FEWEST)
    sources = published["source"].unique(maintain_order=True).to_list()
    notes += [f"Paper: {'; '.join(sources)}."] if shown else []
    notes += shrunken(results, data)
    return tables.Table(
        header=tuple(header), rows=tuple(rows), align="ll" + "r" * (len(header) - 2), notes=tuple(notes)
    )


def shrunken(results: "Results", data: str | None = None) -> list[str]:
    """Return a note where an experiment of a paper ran in a smaller form: ``--quick``, or fewer queries.

    What ``--quick`` changes is compared with what was run, since its keys may have been changed again.
    """
    spec = results.spec
    if not spec.get("paper"):
        return []
    quick, overall = spec.get("quick") or {}, (spec.get("settings_for") or {}).get("", {})
    most = spec.get("queries")
    small = [f"at most {most:,} queries of each data set"] if most else []
    changed = {key: value for key, value in quick.get("settings", {}).items() if overall.get(key) == value}
    changed |= {
        key: "changed" for key, value in quick.get("settings_for", {}).items() if spec["settings_for"].get(key) == value
    }
    small += [", ".join(f"{key} {value}" for key, value in changed.items())] * bool(changed)
    if not small:
        return []
    if data is not None:
        queries = results.queries.filter(data=data)
        tested = queries.select("trial", "query").n_unique() / queries["trial"].n_unique()
        small.append(f"{tested:,.0f} test queries a trial")
    return [f"A small form, not the paper's: {'; '.join(small)}. Its figures are not comparable with published ones."]


def _half(results: "Results") -> str:
    """Return the legend of what follows a mean."""
    return f"±: half of the {100 * (1 - alpha(results)):g}% interval of the mean, over trials"


def _cell(
    values: NDArray[np.float64], metric: str, method: str, compared: "Comparison | None", least: float
) -> tables.TableCell:
    text = tables.number(float(np.mean(values)))
    if len(values) >= significance.FEWEST:
        low, high = significance.interval_of_mean(values, bounds=bounds_of(metric), level=1.0 - least)
        text += f" ± {tables.number((high - low) / 2)}"
    if compared is None or metric not in compared.metrics:
        return tables.TableCell(text)
    short = dict(zip(compared.systems, compared.labels, strict=True))
    beaten = []
    for pair in compared.pairs:
        if pair.metric == metric and pair.significant:
            better, worse = (pair.system, pair.against) if pair.difference > 0 else (pair.against, pair.system)
            beaten += [worse] if better == method else []
    best = max(compared.mean[metric].values())
    marks = tables.join_marks([short[name] for name in compared.systems if name in beaten])
    return tables.TableCell(text, marks, compared.mean[metric][method] == best)


def levels_table(results: "Results", data: str) -> tables.Table:
    """The deciding metric by level, one column per method, and how far the last method is ahead of the others."""
    metric = results.spec["decide"]
    compared = {level: comparison(results, name, level) for name, level in data_levels(results) if name == data}
    means = results.trial_means().filter(data=data)
    ahead = results.methods[-1]
    rivals = results.methods[:-1]
    rows: list[tuple[tables.TableCell | str, ...]] = []
    for level, one in compared.items():
        row: list[tables.TableCell | str] = [f"{level:g}"]
        for method in results.methods:
            values = means.filter((pl.col("level") == level) & (pl.col("method") == method))[metric].to_numpy()
            row.append(_cell(values, metric, method, one, alpha(results)) if values.size else tables.NOTHING)
        row += [_gap(one, metric, ahead, method) for method in rivals]
        rows.append(tuple(row))
    short = letters_of(results)
    header = (LEVELS.get(results.spec["treatment"], "level"), *(f"{short[name]} {name}" for name in results.methods))
    header += tuple(f"{ahead} − {method}" for method in rivals)
    first = next((one for one in compared.values() if one), None)
    half = f" {_half(results)}." if means["trial"].n_unique() >= significance.FEWEST else ""
    notes = [f"{metric}.{half} *: the difference is significant."]
    notes += [first.legend(hint=False)] if first else []
    notes += shrunken(results, data)
    return tables.Table(header=header, rows=tuple(rows), align="r" * len(header), notes=tuple(notes))


def _gap(compared: "Comparison | None", metric: str, ahead: str, method: str) -> str:
    for pair in compared.pairs if compared else ():
        if pair.metric == metric and {pair.system, pair.against} == {ahead, method}:
            sign = 1.0 if pair.system == ahead else -1.0
            return tables.number(sign * pair.difference, signed=True) + "*" * pair.significant
    return tables.NOTHING


def all_tables(results: "Results") -> list[tuple[str, tables.Table]]:
    """Every table with its title."""
    listed = []
    levels = len(set(results.queries["level"])) > 1
    for data in dict.fromkeys(data for data, _ in data_levels(results)):
        mine = [level for name, level in data_levels(results) if name == data]
        count = results.queries.filter(data=data)["trial"].n_unique()
        title = f"{data}, {tables.count(count, 'trial')}"
        if levels:
            listed.append((title, levels_table(results, data)))
        if not levels or len(mine) <= 2:
            listed += [
                (title + (f", {LEVELS.get(results.spec['treatment'], 'level')} {level:g}" if levels else ""), one)
                for level, one in ((level, means_table(results, data, level)) for level in mine)
            ]
    agreement = verdict_table(results)
    return [*listed, ("Does it hold here?", agreement)] if agreement else listed


def claimed(spec: Json) -> str:
    """Return the source of the claim that an experiment tests."""
    return "The paper claims" if spec.get("paper") else "What it is to show"


def markdown(results: "Results") -> str:
    """Write the outcome as a Markdown page."""
    spec, facts = results.spec, results.about
    claim = f"{claimed(spec)}: {spec['claim']}" if spec.get("claim") else ""
    parts = [f"# {spec.get('title') or spec['name']}", spec.get("paper", ""), claim]
    parts += [text for title, table in all_tables(results) for text in (f"## {title}", table.markdown())]
    facts_listed = [f"- {name.capitalize()}: {facts[name]}" for name in ("date", "machine") if facts.get(name)]
    if facts.get("command"):
        facts_listed.insert(0, f"- Command: `{facts['command']}`")
    if facts.get("versions"):
        facts_listed.append(f"- Versions: {', '.join(f'{name} {text}' for name, text in facts['versions'].items())}")
    facts_listed += [f"- {method}: `{text}`" for method, text in spec["methods"].items()]
    return "\n\n".join(part for part in (*parts, "## How it was made", "\n".join(facts_listed)) if part) + "\n"


def to_dict(results: "Results") -> Json:
    """Return the outcome as plain data: means and tests at every data set and level, and the verdicts."""
    outcomes = []
    for data, level in data_levels(results):
        compared = comparison(results, data, level)
        outcomes.append({"data": data, "level": level, "comparison": compared.to_dict() if compared else None})
    return {
        "spec": results.spec,
        "about": results.about,
        "shrunken": shrunken(results),
        "places": outcomes,
        "verdicts": [asdict(v) for v in verdicts(results)],
    }
