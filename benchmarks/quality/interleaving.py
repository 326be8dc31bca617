"""Interleaving: false alarms, power, fairness of coins, and the sign of credits.

    python -m benchmarks.quality.interleaving [--experiments 2000] [--impressions 100000] [--keys 1000000]
        [--out FILE]

*Null*: 65% of impressions are ties, and each ranking wins half of the rest. The e-value is looked at after every
impression, a z test (two-sided, at 5%) once at the end, at the end of each of 40 days, and after every impression from
the hundredth on.

*Effect*: the same ties, and a preference of .0325. The z test is computed once, after 4,000 impressions.

*Users*: 500 users with 1 to 19 impressions each. Half of them prefer a ranking nine times of ten, half the other, so
that together they prefer neither. They come one after the other, or visits overlap: users come at random times, and
again after a mean of three hundredths of the experiment. Warned of: credits of neighbours go together.

*Traffic*: what :func:`rankwise.judging.traffic` forecasts for a power of 80%, and the share of experiments that are
decided by then.

*Keys*: the ranking whose document is first, for a million keys.

*Signs*: every pair of different permutations of four documents, with clicks by the position-based model. The expected
credit is a sum over all outcomes of the coins and all documents that may be clicked.
"""

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks import harness
from rankwise.judging import traffic
from rankwise.wings.clicks.interleaving.anytime_test import DEPENDENT, dependence, evidence

TIES, EFFECT, FIXED, DAYS = 0.65, 0.0325, 4000, 40
REACHED = np.log(20.0)
BLOCK, KEYS = 100, 100_000  # experiments and keys in a cell
TRAFFIC = ((0.1, 0.5), (0.05, 0.65), (0.03, 0.65), (0.03, 0.9))
CURVES = {"1/position": 1.0 / np.arange(1, 5), "1, .6, .4, .3": np.array([1.0, 0.6, 0.4, 0.3])}
RELEVANCE = {"w": 0.9, "x": 0.5, "y": 0.3, "z": 0.1}


@dataclass(frozen=True)
class Cell:
    kind: str
    number: int
    impressions: int = 0
    folder: str = ""


def drawn(rng: np.random.Generator, n: int, effect: float = 0.0, ties: float = TIES) -> np.ndarray:
    """Return credits of impressions."""
    uniform = rng.random(n)
    wins, losses = (1.0 - ties + effect) / 2.0, (1.0 - ties - effect) / 2.0
    return (uniform < wins) * 1.0 - (uniform >= 1.0 - losses)


def z_values(values: np.ndarray) -> Any:
    """Return the z statistic after every impression."""
    n, sums, squares = np.arange(1, values.size + 1), np.cumsum(values), np.cumsum(values**2)
    return np.abs(sums) / np.sqrt(np.maximum(squares - sums**2 / n, 1e-9))


def null(rng: np.random.Generator, impressions: int) -> dict[str, bool]:
    """Return the alarms of an experiment without a preference."""
    values = drawn(rng, impressions)
    z = z_values(values) > 1.96
    return {
        "e-value, after every impression": bool(evidence(values).max() >= REACHED),
        "warned of dependence": dependence(values) > DEPENDENT,
        "z test, once": bool(z[-1]),
        f"z test, at the end of {DAYS} days": bool(z[impressions // DAYS - 1 :: impressions // DAYS].any()),
        "z test, after every impression": bool(z[99:].any()),
    }


def effect(rng: np.random.Generator) -> list[float]:
    """Return whether the z test shows an effect, and after how many impressions the e-value does."""
    values = drawn(rng, 3 * FIXED, EFFECT)
    reached = evidence(values) >= REACHED
    return [float(z_values(values[:FIXED])[-1] > 1.96), float(reached.argmax() + 1 if reached.any() else 1e9)]


def users(rng: np.random.Generator, *, overlap: bool = False) -> list[bool]:
    """Return the alarms by user and by impression, and whether the latter is warned of."""
    counts = rng.integers(1, 20, 500)
    who = np.repeat(np.arange(500), counts)
    favours_a = np.repeat(rng.random(500) < 0.5, counts)
    wins = np.where(rng.random(who.size) < 0.9, favours_a, ~favours_a)
    columns = {"key": np.arange(who.size), "user": who, "document": ["d"] * who.size, "clicked": [1] * who.size}
    log = pl.DataFrame(columns | {"team": np.where(wins, "a", "b")})
    if overlap:
        log = log[np.argsort(100.0 * rng.random(500)[who] + rng.exponential(3.0, who.size))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_user, by_impression = (rw.judging.interleaving(one) for one in (log, log.drop("user")))
    return [by_user.decided, by_impression.decided, by_impression.dependent]


def first(number: int) -> int:
    """Return for how many keys a is first."""
    a, b = ["d1", "d2", "d3", "d4"], ["d3", "d1", "d5", "d2"]
    keys = range(number * KEYS, (number + 1) * KEYS)
    return sum(rw.judging.interleave(a, b, key=f"search-{key}", seed=7).teams[0] == "a" for key in keys)


def signs(name: str) -> dict[str, list[int]]:
    """Return for how many pairs of permutations each credit has the right sign, another, and the right size."""
    theta, rankings = CURVES[name], list(itertools.permutations(RELEVANCE))
    pairs = [pair for pair in itertools.product(rankings, repeat=2) if pair[0] != pair[1]]
    place = np.array([[[ranking.index(one) for one in RELEVANCE] for ranking in pair] for pair in pairs])
    truth = (theta[place] @ np.array(list(RELEVANCE.values()))) @ [1.0, -1.0]
    counts = {}
    for method, credit in (("team_draft", "clicks"), ("team_draft", "debiased"), ("balanced", "debiased")):
        outcomes: dict[tuple[str, ...], int] = {}
        for key in range(100):  # until each outcome of the coins has a key
            shown = rw.judging.interleave(["x", "y", "z"], ["z", "u", "v"], cutoff=4, key=key, method=method)
            outcomes.setdefault(tuple(shown.ranking), key)
        rows, weights = [], []
        lists: tuple[dict[str, Any], ...] = ({}, {})
        for (number, pair), key, clicked in itertools.product(enumerate(pairs), outcomes.values(), range(4)):
            query = f"{number} {clicked}"
            for side in (0, 1):
                lists[side][query] = pair[side]
            ranking = rw.judging.interleave(*pair, cutoff=4, key=key, method=method).ranking
            rows += [(query, key, document, at == clicked) for at, document in enumerate(ranking)]
            weights.append(theta[clicked] * RELEVANCE[ranking[clicked]])
        log = pl.DataFrame(rows, schema=["query", "key", "document", "clicked"], orient="row")
        bias = theta if credit == "debiased" else None
        values = rw.judging.interleaving(log, *lists, cutoff=4, method=method, credit=credit, bias=bias).credits
        expected = (values * weights).reshape(len(pairs), -1).sum(axis=1) / len(outcomes)
        right = np.sign(np.round(expected, 12)) == np.sign(np.round(truth, 12))
        exact = np.abs(expected - truth) < 1e-12
        counts[f"{method}, {credit}"] = [int(right.sum()), int((~right).sum()), int(exact.sum())]
    return counts


def measure(cell: Cell) -> Any:
    """Run a block of experiments."""
    rng = np.random.default_rng([cell.number, *cell.kind.encode()])
    match cell.kind:
        case "null":
            return [null(rng, cell.impressions) for _ in range(BLOCK)]
        case "effect":
            return [effect(rng) for _ in range(BLOCK)]
        case "users":
            return [users(rng) + users(rng, overlap=True) for _ in range(BLOCK)]
        case "traffic":
            size, ties = TRAFFIC[cell.number]
            n = traffic(size, ties=ties)
            draws = [evidence(drawn(rng, n, size, ties)).max() for _ in range(20 * BLOCK)]
            return n, float(np.mean(np.array(draws) >= REACHED))
        case "keys":
            return first(cell.number)
        case _:
            return signs(list(CURVES)[cell.number])


def page(outcomes: dict[Cell, Any]) -> str:
    """Return the tables."""

    def blocks(kind: str) -> list[Any]:
        return [one for cell, block in outcomes.items() if cell.kind == kind for one in block]

    nulls, effects = blocks("null"), np.array(blocks("effect"))
    alarms = [[name, f"{np.mean([one[name] for one in nulls]):.1%}"] for name in nulls[0]]
    visits = np.reshape(np.mean(blocks("users"), axis=0), (2, 3))
    stops = effects[:, 1]
    power = [["z test, once", f"{FIXED:,}", f"{effects[:, 0].mean():.3f}"]]
    power += [
        ["e-value, after every impression", f"{times * FIXED:,.0f}", f"{(stops <= times * FIXED).mean():.3f}"]
        for times in (1.0, 1.5, 2.0, 2.5)
    ]
    n_keys = KEYS * sum(cell.kind == "keys" for cell in outcomes)
    share = sum(block for cell, block in outcomes.items() if cell.kind == "keys") / n_keys
    forecasts, counts = [], []
    for cell, block in outcomes.items():
        if cell.kind == "traffic":
            size, ties = TRAFFIC[cell.number]
            forecasts.append([size, ties, f"{block[0]:,}", f"{block[1]:.3f}"])
        elif cell.kind == "signs":
            counts += [[list(CURVES)[cell.number], name, *numbers] for name, numbers in block.items()]
    early = np.median(stops[stops <= FIXED])
    return "\n\n".join(
        [
            f"{len(nulls):,} experiments without a preference",
            harness.markdown(["", "false alarms"], alarms),
            f"{len(blocks('users')):,} experiments with users who come again",
            harness.markdown(
                ["visits", "false alarms by user", "by impression", "warned of"],
                [
                    [name, *(f"{one:.1%}" for one in row)]
                    for name, row in zip(("in a row", "overlap"), visits, strict=True)
                ],
            ),
            f"{len(effects):,} experiments with a preference of {EFFECT}",
            harness.markdown(["", "impressions", "power"], power),
            f"median of decisions within {FIXED:,} impressions: after {early:,.0f}",
            harness.markdown(["preference", "ties", "impressions for a power of .8", "decided by then"], forecasts),
            f"a is first for {share:.4f} of {n_keys:,} keys",
            harness.markdown(["examination", "credit", "right sign", "wrong sign", "equal to the difference"], counts),
        ]
    )


def main() -> None:
    """Measure and print."""
    parser = harness.arguments(__doc__, out="results/interleaving.md", processes=1)
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--impressions", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    args = parser.parse_args()
    blocks = range(-(-args.experiments // BLOCK))
    cells = [Cell("null", number, args.impressions) for number in blocks]
    cells += [Cell(kind, number) for kind in ("effect", "users") for number in blocks]
    cells += [Cell("traffic", number) for number in range(len(TRAFFIC))]
    cells += [Cell("signs", number) for number in range(len(CURVES))]
    cells += [Cell("keys", number) for number in range(-(-args.keys // KEYS))]
    text = page(harness.Cells[Cell](args.out).measure(cells, measure, args.processes))
    harness.write(args.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
