"""How a report was made: the command, the versions, the machine, the settings."""

import html
import json
from pathlib import Path
from typing import Any

from rankwise import __version__
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.wings.lab.report.html import definitions
from rankwise.wings.lab.report.view import View

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
