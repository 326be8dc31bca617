"""What a single change does: methods that differ in their settings alone, or in noise on the scores alone.

    python -m benchmarks.pages.results.changes RESULTS/2020-table1-nets

For experiments that change both at once between the methods that a paper compares. Methods are read as they are
written: ``neural(loss, preset='2020-tuned')`` differs from ``neural(loss)`` in its settings, and from
``neural(stochastic(loss, …), preset='2020-tuned')`` in noise. Intervals are of one minus the experiment's alpha, and
allow for trials that share data; they are those of single differences.
"""

import ast
from itertools import permutations

import rankwise as rw
from benchmarks import harness
from rankwise import check
from rankwise.base import tables
from rankwise.statistics.comparison import Comparison
from rankwise.wings.lab.experiments.comparisons import alpha, comparison, data_levels

NOISE, SETTINGS = "noise", "settings"


def by_change(results: rw.lab.Results) -> str:
    """The deciding metric's difference for every pair of methods that are one change apart, on each data set."""
    metric = results.spec["decide"]
    pairs = single_changes(results.spec["methods"])
    rows = []
    for data, level in data_levels(results):
        compared = comparison(results, data, level)
        if compared is None:
            continue
        for what, before, after in pairs:
            gap, interval = ahead(compared, metric, after, before)
            rows.append((data, what, before, after, gap.rstrip("*"), interval))
    header = ("data", "changed", "from", "to", f"{metric}, to − from", f"{100 * (1 - alpha(results)):g}% interval")
    return tables.Table(header=header, rows=tuple(rows), align="llllrl", notes=()).markdown()


def ahead(compared: Comparison, metric: str, name: str, other: str) -> list[str]:
    """By how much one method is ahead of another, and the interval of that."""
    pair = next(one for one in compared.pairs if one.metric == metric and {one.system, one.against} == {name, other})
    sign = 1.0 if pair.system == name else -1.0
    low, high = sorted((sign * pair.low, sign * pair.high))
    gap = tables.number(sign * pair.difference, signed=True) + "*" * pair.significant
    return [gap, tables.interval(low, high, signed=True)]


def single_changes(methods: dict[str, str]) -> list[tuple[str, str, str]]:
    """What is changed, and the names of the methods before and after: settings are added, or noise is.

    >>> single_changes({"a": "neural(x)", "b": "neural(x, preset='t')", "c": "neural(stochastic(x), preset='t')"})
    [('noise', 'b', 'c'), ('settings', 'a', 'b')]
    """
    read = {name: _read(text) for name, text in methods.items()}
    found = []
    for before, after in permutations(read, 2):
        (ranker, loss, settings), (other, noisy, more) = read[before], read[after]
        if ranker != other:
            continue
        if settings == more and isinstance(noisy, ast.Call) and ast.unparse(noisy.func) == "stochastic":
            if ast.unparse(noisy.args[0]) == ast.unparse(loss):
                found.append((NOISE, before, after))
        elif ast.unparse(loss) == ast.unparse(noisy) and not settings and more:
            found.append((SETTINGS, before, after))
    return sorted(found, key=lambda one: one[0])


def _read(text: str) -> tuple[str, ast.expr, list[str]]:
    """The ranker, the loss and the settings of a method."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        raise check.error("a method is a ranker with its loss in parentheses", got=text)
    return ast.unparse(call.func), call.args[0], sorted(ast.unparse(one) for one in call.keywords)


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("results")
    print(by_change(rw.lab.Results.read(parser.parse_args().results)))


if __name__ == "__main__":
    main()
