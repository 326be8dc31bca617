"""How a report was made: the command, the versions, the machine, the settings."""

import html
import json
from pathlib import Path
from typing import Any

from rankwise._version import __version__
from rankwise.arrays import Keywords
from rankwise.report.view import View
from rankwise.statistics import tables

_TOLD = ("title", "claim", "methods", "quick", "cost")
_WORDS = {"command": "Command", "date": "Date", "machine": "Machine"}


def made(view: View, folder: Path) -> str:
    """Write the last section of the page."""
    spec, facts = view.results.spec, view.results.about
    rows = [(_WORDS[name], _words(facts[name])) for name in _WORDS if facts.get(name)]
    versions = facts.get("versions") or {"rankwise": facts.get("rankwise", __version__)}
    rows.append(("Versions", ", ".join(f"{name} {text}" for name, text in versions.items())))
    if facts.get("other_versions"):
        rows.append(("Also", "; ".join(_words(one) for one in facts["other_versions"])))
    rows += _counts(view)
    seconds = facts.get("seconds") or {}
    if seconds:
        rows.append(("Training time", ", ".join(f"{name} {_time(seconds[name])}" for name in seconds)))
    methods = [(name, str(text)) for name, text in (spec.get("methods") or {}).items()]
    settings = {name: value for name, value in spec.items() if name not in _TOLD and value not in ("", None, {}, [])}
    return (
        f"{_list(rows)}\n<h3>Methods</h3>\n{_list(methods, code=True)}\n"
        f"<details><summary>Every setting</summary>\n<pre>{html.escape(_settings(settings))}</pre></details>\n"
        f"<p>Beside this page, <code>{html.escape(folder.name)}</code> holds every figure as SVG and PNG and every "
        "table as LaTeX and Markdown, each with its numbers as CSV.</p>"
    )


def _counts(view: View) -> list[tuple[str, str]]:
    queries = view.results.queries
    if not queries.height:
        return []
    counts = []
    for (data,), rows in queries.group_by("data", maintain_order=True):
        trials, count = rows["trial"].n_unique(), rows["query"].n_unique()
        text = f"{tables.count(count, 'test query', 'test queries')}, {tables.count(trials, 'trial')}"
        counts.append((str(data), text))
    return [("Data", "; ".join(f"{name}: {text}" for name, text in counts))]


def _list(rows: list[tuple[str, str]], *, code: bool = False) -> str:
    def write(text: str) -> str:
        return f"<code>{html.escape(text)}</code>" if code else html.escape(text)

    entries = "".join(f"<dt>{html.escape(name)}</dt><dd>{write(text)}</dd>" for name, text in rows)
    return f"<dl>{entries}</dl>"


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
