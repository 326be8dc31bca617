"""What a report says in words: which method is best and how sure that is, and how the report was made."""

import html
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import Comparison, __version__
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.statistics import Finding, gain, listed
from rankwise.wings.lab.experiments.comparisons import DRAWS
from rankwise.wings.lab.experiments.summary import COVERED
from rankwise.wings.lab.experiments.verdicts import counted, verdicts
from rankwise.wings.lab.report.html import definitions
from rankwise.wings.lab.report.view import View

if TYPE_CHECKING:
    from rankwise.wings.lab.experiments.results import Results


def headline(view: View, comparisons: Mapping[str, Comparison]) -> str:
    """The title of a report: what the tests bear out, and no more."""
    if not comparisons:
        return str(view.results.spec.get("title") or view.results.spec.get("name") or "Report")
    outcomes = [Finding.of(comparison, view.main) for comparison in comparisons.values()]
    if len(outcomes) == 1:
        text = outcomes[0].headline()
        return text if text.startswith(outcomes[0].ranked[0]) else text[:1].upper() + text[1:]
    sure = [one.ranked[0] for one in outcomes if not one.close]
    if sure:
        best = max(sure, key=sure.count)
        count, of = sure.count(best), len(outcomes)
        return f"{best} ranks best on {f'all {of}' if count == of else f'{count} of {of}'} data sets"
    ahead = " of all others" if any(one.beaten for one in outcomes) else ""
    return f"No method is ahead{ahead} by more than chance"


def summary(view: View, comparisons: Mapping[str, Comparison]) -> list[str]:
    """One paragraph per data set, and what the tests do not cover where all trials share one split."""
    sentences = [verdict(data, comparison, view.main) for data, comparison in comparisons.items()]
    drawn = view.results.spec.get("protocol") == "runs" and any(
        one.paired.unit == "trial" for one in comparisons.values()
    )
    return [*sentences, f"{COVERED[DRAWS]}."] if drawn else sentences


def verdict(data: str, comparison: Comparison, metric: str, title: str | None = None) -> str:
    """Return a sentence about the best method on a data set and the methods that it significantly beats.

    ``title`` is what the metric is called.
    """
    outcome, title = Finding.of(comparison, metric), title or metric
    best = outcome.ranked[0]
    unit, n = comparison.paired.unit, gain(comparison, metric, best, outcome.ranked[1]).units  # those that count
    units = tables.count(n, unit, {"query": "queries"}.get(unit))
    mean = f"{tables.number(comparison.mean[metric][best])}{_interval(comparison, metric, best)} over {units}"
    if not outcome.close:
        text = f"On {data}, {best} ranks best: mean {title} {mean}. "
    else:
        nobody = "" if outcome.beaten else f"{outcome.headline()}: "
        text = f"On {data}, {nobody}{best} has the highest mean {title}, {mean}. "
    if outcome.beaten:
        against = "; ".join(f"over {name} {gain(comparison, metric, best, name)}" for name in outcome.beaten[:3])
        more = f" and {tables.count(len(outcome.beaten) - 3, 'more method')}" if len(outcome.beaten) > 3 else ""
        text += f"That is more than chance: {against}{more}. "
    chance = [name for name in outcome.close if name not in outcome.unsettled]
    for names, why in ((outcome.unsettled, "depends on documents that were never judged"), (chance, "could be chance")):
        if names:
            lead = gain(comparison, metric, best, names[0])
            text += f"Over {listed(names)} the lead {why} ({names[0]}: {lead}). "
    return text.strip()


def _interval(comparison: Comparison, metric: str, system: str) -> str:
    low, high = comparison.interval[metric][system]
    level = f"{100 * comparison.level:g}% interval"
    return "" if math.isnan(low) else f" ({level} {tables.interval(low, high)})"


def agreement(results: "Results") -> list[str]:
    """Return a sentence about how many statements of the paper hold here; nothing if there is no paper."""
    judged = verdicts(results)
    return [f"The paper's {tables.count(len(judged), 'statement')}, here: {counted(judged)}."] if judged else []


_TOLD = ("title", "claim", "methods", "quick", "cost")
_WORDS = {"command": "Command", "date": "Date", "machine": "Machine"}


def provenance_section(view: View, folder: Path) -> str:
    """Write the last section of the page."""
    spec, facts = view.results.spec, view.results.about
    rows = {_WORDS[name]: _words(facts[name]) for name in _WORDS if facts.get(name)}
    versions = facts.get("versions") or {"rankwise": facts.get("rankwise", __version__)}
    rows["Versions"] = _words(versions)
    if facts.get("other_versions"):
        rows["Also"] = "; ".join(map(_words, facts["other_versions"]))
    if counts := _counts(view):
        rows["Data"] = counts
    if seconds := facts.get("seconds"):
        rows["Training time"] = ", ".join(f"{name} {_time(seconds[name])}" for name in seconds)
    methods = {name: str(text) for name, text in (spec.get("methods") or {}).items()}
    settings = {name: value for name, value in spec.items() if name not in _TOLD and value not in ("", None, {}, [])}
    return (
        f"{definitions(rows)}\n<h3>Methods</h3>\n{definitions(methods, code=True)}\n"
        f"<details><summary>Every setting</summary>\n<pre>{html.escape(_settings(settings))}</pre></details>\n"
        f"<p>Beside this page, <code>{html.escape(folder.name)}</code> holds every figure as SVG and PNG and every "
        "table as LaTeX and Markdown, each with its numbers as CSV.</p>"
    )


def _counts(view: View) -> str:
    counts = []
    for (data,), rows in view.results.queries.group_by("data", maintain_order=True):
        trials, count = rows["trial"].n_unique(), rows["query"].n_unique()
        text = f"{tables.count(count, 'test query', 'test queries')}, {tables.count(trials, 'trial')}"
        counts.append(f"{data}: {text}")
    return "; ".join(counts)


def _settings(settings: Keywords) -> str:
    return "\n".join(
        f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in settings.items()
    )


def _words(value: object) -> str:
    return ", ".join(f"{name} {text}" for name, text in value.items()) if isinstance(value, dict) else str(value)


def _time(seconds: Any) -> str:
    each = list(seconds) if isinstance(seconds, list | tuple) else [float(seconds)]
    mean = sum(each) / len(each)
    return f"{mean:.1f} s" + (f" a trial ({len(each)})" if len(each) > 1 else "")
