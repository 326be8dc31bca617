"""What was found, in words: which method is best, by how much, and how sure that is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankwise.evaluation import tables
from rankwise.evaluation.comparison import Comparison
from rankwise.evaluation.verdict import Verdict, gain, listed
from rankwise.experiments.verdicts import verdicts
from rankwise.report.view import View

if TYPE_CHECKING:
    from rankwise.experiments.results import Results


def headline(view: View, comparisons: Mapping[str, Comparison]) -> str:
    """The title of a report without one: the method that wins on most data sets."""
    if not comparisons:
        return str(view.results.spec.get("name") or "Report")
    first = [Verdict.of(one, view.main).ranked[0] for one in comparisons.values()]
    best = max(first, key=first.count)
    return f"{best} ranks best" if first.count(best) == len(first) else f"{best} ranks best on most data sets"


def summary(view: View, comparisons: Mapping[str, Comparison]) -> list[str]:
    """One paragraph per data set."""
    return [verdict(data, comparison, view.main) for data, comparison in comparisons.items()]


def verdict(data: str, comparison: Comparison, metric: str) -> str:
    """Say which method is best on a data set, whom it beats by more than chance, and whom it does not."""
    found = Verdict.of(comparison, metric)
    best = found.ranked[0]
    low, high = comparison.interval[metric][best]
    unit, n = comparison.paired.unit, gain(comparison, metric, best, found.ranked[1]).units  # those that count
    units = tables.count(n, unit, {"query": "queries"}.get(unit))
    text = f"On {data}, {best} ranks best: mean {metric} {tables.number(comparison.mean[metric][best])} "
    text += f"{tables.interval(low, high)} over {units}. "
    if found.beaten:
        against = "; ".join(f"over {name} {gain(comparison, metric, best, name)}" for name in found.beaten[:3])
        more = f" and {tables.count(len(found.beaten) - 3, 'more method')}" if len(found.beaten) > 3 else ""
        text += f"That is more than chance: {against}{more}. "
    if found.close:
        lead = gain(comparison, metric, best, found.close[0])
        text += f"Over {listed(found.close)} the lead could be chance ({found.close[0]}: {lead})."
    return text.strip()


def agreement(results: "Results") -> list[str]:
    """Say how many statements of the paper have the same direction here; nothing where there is no paper."""
    found = verdicts(results)
    if not found:
        return []
    same = [one for one in found if one.verdict.startswith("agrees")]
    sure = sum(one.verdict == "agrees" for one in same)
    text = (
        f"The paper: {len(same)} of {tables.count(len(found), 'statement')} about these methods point the same way here"
    )
    return [f"{text}, {sure} of them by more than chance."]
