"""The parts of pages that are made of the results of many experiments: all of them in lines, and paper by paper."""

from collections.abc import Iterable

from benchmarks.pages.results.blocks import ABSENT, recipe_of, trials
from benchmarks.pages.results.folders import Folders
from rankwise.base import tables
from rankwise.wings.lab.experiments.comparisons import alpha, data_levels
from rankwise.wings.lab.experiments.verdicts import Verdict, counted, verdicts


def overview(folders: Folders) -> str:
    """One line for each experiment that has a page."""
    rows = []
    for page, run in folders.subjects():
        if folders.has(run):
            results = folders.read(run)
            data = ", ".join(dict.fromkeys(name for name, _ in data_levels(results)))
            words = counted(verdicts(results)) or "see the page"
            rows.append((f"[`{run}`]({page.name})", data, trials(results), results.spec["claim"], words))
        elif folders.all_there:
            recipe = recipe_of(run)
            full = f"{tables.NOTHING} (paper: {recipe.trials})" if recipe.published else tables.NOTHING
            rows.append((f"[`{run}`]({page.name})", tables.NOTHING, full, recipe.claim, ABSENT.lower()))
    head = ("reproduction", "data", "trials", "what it is to show", "the paper's statements, with us")
    return _table(head, rows)


def holds(folders: Folders, paper: str) -> str:
    """Each statement of a paper with our evidence for and against it: one line by experiment and data set."""
    rows = {}
    percents: dict[str, list[str]] = {}
    for page, run in sorted(
        folders.subjects(), key=lambda one: ("table" not in one[1], one[1])
    ):  # numbers, then curves
        there = folders.has(run)
        spec = folders.read(run).spec if there else recipe_of(run).plain() if folders.all_there else {}
        if not str(spec.get("published", "")).startswith(f"{paper}."):
            continue
        if not there:
            rows[spec["claim"], run] = (spec["claim"], f"[`{run}`]({page.name})", tables.NOTHING, ABSENT.lower())
            continue
        results = folders.read(run)
        percents.setdefault(f"{100 * (1 - alpha(results)):g}%", []).append(f"`{run}`")
        for same in _statements(verdicts(results), results.spec["decide"]):
            first = same[0]
            said = f"{first.says} ({first.source})"
            if first.data:
                count = results.queries.filter(data=first.data)["trial"].n_unique()
                where = f"[`{run}`]({page.name}): {first.data}, {tables.count(count, 'trial')}"
                word = first.verdict if len(same) == 1 else counted(same)
                rows[said, where] = (said, where, _ours(same), word)
            else:  # said once, however many experiments it could be about
                rows[said, ""] = (said, tables.NOTHING, tables.NOTHING, first.verdict)
    if not rows:
        return "There are no kept results."
    head = ("the paper says", "our evidence", "ours, with interval", "verdict")
    ordered = sorted(rows.values(), key=lambda row: (row[1] == tables.NOTHING, row[2] == tables.NOTHING))
    usual, *others = sorted(percents, key=lambda percent: -len(percents[percent])) or [""]
    notes = f"\n\nIntervals: {usual}" if usual else ""
    notes += "".join(f", and {percent} in {', '.join(percents[percent])}" for percent in others)
    return _table(head, ordered) + (f"{notes}." if notes else "")


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
    several = f", over {len(same)} levels" if len(same) > 1 else ""
    return f"{same[0].metric}: {' to '.join(texts)}{several}" if texts else tables.NOTHING


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table whose cells are Markdown already."""
    lines = [" | ".join(head), " | ".join([":--"] * len(head)), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)
