"""The parts of pages that are made of the results of many experiments: all of them in lines, and paper by paper."""

from collections.abc import Iterable

from rankwise.evaluation import tables
from rankwise.experiments.comparisons import alpha, places
from rankwise.experiments.results import Results
from rankwise.experiments.verdicts import Verdict, counted, verdicts
from result_blocks import trials
from result_folders import Folders


def overview(folders: Folders) -> str:
    """One line for each experiment that has a page."""
    rows = []
    for page, run in folders.subjects():
        if folders.has(run):
            results = folders.read(run)
            data = ", ".join(dict.fromkeys(name for name, _ in places(results)))
            words = counted(verdicts(results)) or "see the page"
            rows.append((f"[`{run}`]({page.name})", data, trials(results), results.spec["claim"], words))
    head = ("reproduction", "data", "trials", "what it is to show", "the paper's statements, with us")
    return _table(head, rows)


def holds(folders: Folders, paper: str) -> str:
    """Each statement of a paper with our evidence for and against it: one line by experiment and data set."""
    rows, levels = [], set()
    for page, run in folders.subjects():
        results = folders.read(run) if folders.has(run) else None
        if results is None or not results.spec.get("published", "").startswith(f"{paper}."):
            continue
        levels.add(f"{100 * (1 - alpha(results)):g}%")
        for same in _statements(verdicts(results), results.spec["decide"]):
            first = same[0]
            where = f"[`{run}`]({page.name})" + (f", {first.data}" if first.data else "")
            ours = _ours(same) if first.data else tables.NOTHING
            count = _count(results, first.data) if first.data else tables.NOTHING
            word = first.verdict if len(same) == 1 else counted(same)
            rows.append((first.says, first.source, where, count, first.metric, ours, word))
    if not rows:
        return "There are no kept results."
    head = ("the paper says", "where", "our evidence", "trials", "metric", "ours, with interval", "verdict")
    return _table(head, rows) + f"\n\nIntervals are of {' or '.join(sorted(levels))}."


def _statements(found: Iterable[Verdict], decide: str) -> list[list[Verdict]]:
    """The verdicts on each statement and data set by level, by the deciding metric where that is among them."""
    groups: dict[tuple[str, str, bool], list[Verdict]] = {}
    for one in found:
        groups.setdefault((one.data, one.says, len(one.levels) > 1), []).append(one)
    return [[one for one in same if one.metric == decide] or same[:1] for same in groups.values()]


def _ours(same: list[Verdict]) -> str:
    """The difference and its interval; of several levels, the least and the greatest."""
    ordered = sorted(same, key=lambda one: one.difference or 0.0)
    texts = [
        f"{tables.number(one.difference, signed=True)} {tables.interval(one.low, one.high, signed=True)}"
        for one in (ordered[:1] if len(same) == 1 else (ordered[0], ordered[-1]))
        if one.difference is not None and one.low is not None and one.high is not None
    ]
    return " to ".join(texts) + (f", by level ({len(same)})" if len(same) > 1 else "")


def _count(results: Results, data: str) -> str:
    return str(results.queries.filter(data=data)["trial"].n_unique())


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table whose cells are Markdown already."""
    lines = [" | ".join(head), " | ".join([":--"] * len(head)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)
