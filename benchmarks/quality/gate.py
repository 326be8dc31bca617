"""Gates and segments on MQ2007: false passes at the margin, power as predicted, and false claims by segment.

    python -m benchmarks.quality.gate FOLDER [--draws 4000] [--nulls 500] [--queries 50 100 200 400 1000]

FOLDER holds ``mq2007.partial.txt``. Queries are drawn from its 1,692 with replacement; what is true of all of them is
known. "Shifted": differences in NDCG@10 between two features, to which a number is added so that their mean is −margin
(or 0, for the power). "Worse": scores with noise, where the margin is what the noise truly costs; "few differ": there
is noise in one query of ten. The power is that of the margin that is passed with 80% by the standard error of all
queries. Segments: two systems whose values are swapped at random, or shifted to equal means, with three devices and
four markets of which the smallest has one query in 50; claims are those of `rw.compare(segment=)`.
"""

import sys

import numpy as np

import rankwise as rw
from benchmarks import harness
from rankwise.base import tables
from rankwise.statistics.gate import FEWEST_DIFFERENT, POWER, MeanDifference, checked
from rankwise.statistics.significance import TTest

METRIC = "ndcg(empty=0)@10"
MOST_PASSED, MOST_OFF, MOST_CLAIMED = 0.065, 0.05, 0.07
SHARES = {"device": (0.6, 0.35, 0.05), "market": (0.5, 0.3, 0.18, 0.02)}


def differences(folder: str) -> dict[str, np.ndarray]:
    """Return the differences of all queries by kind."""
    data, rng = harness.whole(folder), np.random.default_rng(0)
    first, second = (data.features[:, number].astype(np.float64) for number in (38, 36))
    noise = rng.normal(scale=0.5 * first.std(), size=first.size)
    few = np.repeat(rng.random(data.n_queries) < 0.1, data.sizes)
    value = {
        name: rw.evaluate(scores, data, METRIC)[METRIC]
        for name, scores in {"a": first, "b": second, "worse": first + noise, "few": first + noise * few}.items()
    }
    return {
        "shifted": value["b"] - value["a"],
        "worse": value["worse"] - value["a"],
        "worse, few differ": value["few"] - value["a"],
    }


def passed(values: np.ndarray, shift: float, margin: float, queries: int, draws: int) -> np.ndarray:
    """Return the shares of draws that pass and that fail."""
    rng, counts = np.random.default_rng(queries), np.zeros(2)
    for _ in range(draws):
        verdict = checked(rng.choice(values, queries) + shift, None, METRIC, margin, 0.95)["verdict"]
        counts += verdict == "passes", verdict == "fails"
    return counts / draws


def gates(folder: str, queries: list[int], draws: int) -> tuple[tables.Table, bool]:
    """Return one row for each kind and number of queries, and whether the targets were met."""
    rows, met = [], True
    for kind, values in differences(folder).items():
        whole = MeanDifference.of(values)
        for count in queries:
            test, skew = whole.test, whole.skewness * np.sqrt(ratio := values.size / count)
            freedom = min(count - 1, whole.test.freedom / ratio)
            test = TTest(test.mean, test.error * np.sqrt(ratio), freedom)
            wide = MeanDifference(test, skew).smallest_margin()
            shifted = kind == "shifted"
            true, shift = (0.0, -test.mean) if shifted else (test.mean, 0.0)
            margin = wide if shifted else -true
            false, failed = passed(values, shift - margin if shifted else 0.0, margin, count, draws)
            power = passed(values, shift, wide - true, count, draws)[0]
            differ = float((values != 0.0).mean()) if not shifted else 1.0
            met &= false <= MOST_PASSED
            met &= differ * count < 5 * FEWEST_DIFFERENT or abs(power - POWER) <= MOST_OFF
            shares = [f"{100 * share:.1f}%" for share in (differ, false, failed, POWER, power)]
            rows.append((kind, f"{count:,}", f"{margin:.4f}", *shares))
            print(*rows[-1], file=sys.stderr, flush=True)
    header = ("systems", "queries", "margin", "differ", "false passes", "fails there", "predicted power", "power")
    return tables.Table(header=header, rows=tuple(rows), align="lrrrrrrr"), bool(met)


def claims(folder: str, nulls: int) -> tuple[tables.Table, bool]:
    """Return the share of nulls in which a segment is said to gain or to lose."""
    values, rows, met = differences(folder)["shifted"], [], True
    for kind in ("swapped", "shifted"):
        false = 0
        for seed in range(nulls):
            rng = np.random.default_rng(seed)
            drawn = rng.choice(values - values.mean(), 600)
            drawn = drawn * rng.choice([-1.0, 1.0], 600) if kind == "swapped" else drawn
            segment = {name: rng.choice(len(shares), 600, p=shares) for name, shares in SHARES.items()}
            systems = {
                name: rw.Evaluation({"gain": one}, range(600)) for name, one in (("old", 0 * drawn), ("new", drawn))
            }
            compared = rw.compare(systems, segment=segment, seed=seed)
            assert compared.segments is not None
            false += any(one.verdict != "cannot tell" for one in compared.segments.pairs)
        met &= false <= MOST_CLAIMED * nulls
        rows.append((kind, f"{nulls:,}", f"{100 * false / nulls:.1f}%"))
        print(*rows[-1], file=sys.stderr, flush=True)
    return tables.Table(header=("equal systems", "nulls", "false claims"), rows=tuple(rows), align="lrr"), met


def main() -> int:
    """Measure and print."""
    parser = harness.arguments(__doc__)
    parser.add_argument("folder")
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--nulls", type=int, default=500)
    parser.add_argument("--queries", type=int, nargs="+", default=[50, 100, 200, 400, 1000])
    args = parser.parse_args()
    found = gates(args.folder, args.queries, args.draws), claims(args.folder, args.nulls)
    print("\n\n".join(table.markdown() for table, _ in found))
    return 0 if all(met for _, met in found) else harness.MISSED


if __name__ == "__main__":
    sys.exit(main())
