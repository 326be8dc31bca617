"""Why trees trained by PL-Rank trail those of LambdaRank on synthetic lists, what closes the gap, and real lists.

    python -m benchmarks.quality.plrank_gap [--queries 300] [--seeds 4] [--rounds 200] [--processes 2] [--only METHOD …]
    python -m benchmarks.quality.plrank_gap FOLDER [--data mq2008 mq2007] [--folds 5] [--seeds 2] [--rounds 600] …

LightGBM on `rw.synthetic`, whose lists of about 117 documents an ideal ranker orders well; half of the queries train, a
fifth chooses the number of trees, the others test. Every seed makes data of its own, so that test queries are
independent; the difference to ``lambdarank`` is paired by query, with a 95% interval over all test queries.

With FOLDER, that of `benchmarks/README.md`, the same on real lists, with its folds and settings: a fold's validation
part stops a model early, and its test part tests it. Seeds are no new queries, so values of a query are averaged over
them before they are compared. There is a table for each set, and one of all queries together.

The first table is of models at the round that validation queries choose. *expected* is the NDCG@10 that the
Plackett-Luce policy of a model expects on training queries, and *train* that of the ranking by score; *choices* is the
perplexity of its first rank: how many documents it chooses from. All are of the model's scores as they are. The second,
of synthetic lists, is of plain ``plrank`` as it trains: its expectation and choices, the size of the gradient per list,
which share of that lies on the ten documents with the highest scores, and the cosine to the gradient that training
began with.

``spread 2.0`` trains with the policy of scores that are multiplied by one number for all lists, such that their mean
standard deviation within a list is 2, from the second round on. ``Fisher`` takes the diagonal of the policy's Fisher
information as the curvature, so that steps are those of a natural gradient, leaf by leaf. ``entropy 0.1`` adds that
much of the entropy of the first rank to what is maximised.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, SETTINGS, parts, shuffled
from rankwise.base.pools import processes as pool_of

METRIC = "ndcg@10"
PLAIN, BASELINE = "plrank", "lambdarank"
PLRANK = "plrank(samples=32)"


class Method(NamedTuple):
    """An objective, and what is done to it."""

    text: str = PLRANK
    spread: float = 0.0
    """Of the policy's scores; 0 leaves them as they are."""
    rate: float = 0.1
    fisher: bool = False
    entropy: float = 0.0


METHODS = {
    BASELINE: Method("lambdarank"),
    "xendcg": Method("xendcg"),
    "softmax_ce": Method("softmax_ce"),
    PLAIN: Method(),
    "plrank, samples=256": Method("plrank(samples=256)"),
    "plrank, learning rate .3": Method(rate=0.3),
    "plrank, spread 1.0": Method(spread=1.0),
    "plrank, spread 2.0": Method(spread=2.0),
    "plrank, spread 3.0": Method(spread=3.0),
    "plrank, Fisher": Method(fisher=True),
    "plrank, Fisher, learning rate 1": Method(fisher=True, rate=1.0),
    "plrank, Fisher, learning rate 3": Method(fisher=True, rate=3.0),
    "plrank, entropy 0.03": Method(entropy=0.03),
    "plrank, entropy 0.1": Method(entropy=0.1),
    "plrank + 0.3*softmax_ce": Method(f"{PLRANK} + 0.3*softmax_ce"),
    "plrank + softmax_ce": Method(f"{PLRANK} + softmax_ce"),
    "plrank + lambdarank": Method(f"{PLRANK} + lambdarank"),
}
ON_REAL_LISTS = (
    BASELINE, "xendcg", "softmax_ce", PLAIN, "plrank + 0.3*softmax_ce", "plrank + softmax_ce", "plrank + lambdarank",
)  # fmt: skip
ON_SYNTHETIC_LISTS = {"leaves": 31, "min_documents": 20}
WATCHED = (1, 10, 25, 50, 100, 200)


class Job(NamedTuple):
    """One model; without a folder, data are synthetic, ``queries`` of them."""

    method: str
    seed: int
    rounds: int
    queries: int = 0
    folder: str = ""
    data: str = ""
    fold: int = 0


class Found(NamedTuple):
    """What was measured of one model."""

    summary: tuple[float, ...]
    test: np.ndarray
    by_round: list[tuple[float, ...]]


def spread_of(scores: np.ndarray, offsets: np.ndarray) -> float:
    """The standard deviation of scores within a list, in the mean."""
    return float(np.mean([scores[a:b].std() for a, b in itertools.pairwise(offsets)]))


def choices(scores: np.ndarray, offsets: np.ndarray) -> float:
    """The perplexity of the first rank, in the mean over lists."""
    found = []
    for a, b in itertools.pairwise(offsets):
        logs = scores[a:b] - np.logaddexp.reduce(scores[a:b])
        found.append(np.exp(-np.sum(np.exp(logs) * logs)))
    return float(np.mean(found))


def on_top(scores: np.ndarray, gradient: np.ndarray, offsets: np.ndarray, most: int = 10) -> float:
    """The share of the gradient's size that lies on the documents with the highest scores of each list."""
    top = 0.0
    for a, b in itertools.pairwise(offsets):
        top += float(np.abs(gradient[a:b][np.argsort(-scores[a:b])[:most]]).sum())
    return top / float(np.abs(gradient).sum())


def fisher(scores: np.ndarray, offsets: np.ndarray, seed: int, samples: int = 32, cutoff: int = 10) -> np.ndarray:
    """The diagonal of the Fisher information of the policy's first ranks, in the mean of some of its rankings.

    While document d can be chosen at a rank, with chance p, its score has the information p − p² there.
    """
    found, rng = np.empty(scores.size), np.random.default_rng(seed)
    for a, b in itertools.pairwise(offsets):
        odds = np.exp(scores[a:b] - scores[a:b].max())
        order = np.argsort(-(scores[a:b] + rng.gumbel(size=(samples, b - a))), axis=1)
        ranked = odds[order]
        left = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1][:, :cutoff]  # the odds of all that are not placed yet
        until = np.minimum(np.arange(b - a), left.shape[1] - 1)
        chance, squared = (np.cumsum(left**-power, axis=1)[:, until] * ranked**power for power in (1.0, 2.0))
        own = np.empty_like(ranked)
        np.put_along_axis(own, order, chance - squared, axis=1)
        found[a:b] = own.mean(axis=0)
    return found


def entropy(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entropy of the first rank of every list, and its derivatives by the scores."""
    values, derivatives = [], np.empty(scores.size)
    for a, b in itertools.pairwise(offsets):
        logs = scores[a:b] - np.logaddexp.reduce(scores[a:b])
        values.append(-np.sum(np.exp(logs) * logs))
        derivatives[a:b] = -np.exp(logs) * (logs + values[-1])
    return np.array(values), derivatives


def watched(method: Method, seen: list[tuple[float, ...]]) -> Callable[..., Any]:
    """The objective with what is done to it, which notes what its policy looks like in some rounds."""
    prepared: list[Any] = []
    start: list[np.ndarray] = []

    def objective(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray, stream: rw.Stream) -> Any:
        if not prepared:
            prepared.extend(rw.objective(one).prepare(labels, offsets) for one in (method.text, "plrank(samples=256)"))
        now = spread_of(scores, offsets)
        scores = scores * (method.spread / now) if method.spread and now else scores
        if stream.round + 1 in WATCHED:
            found = prepared[1](scores, stream)
            start.append(found.gradient)
            sizes = np.linalg.norm(found.gradient) * np.linalg.norm(start[0])
            cosine = float(found.gradient @ start[0] / sizes)
            size = float(np.abs(found.gradient).sum()) / found.value.size
            top = on_top(scores, found.gradient, offsets)
            seen.append((stream.round + 1, -float(found.value.mean()), choices(scores, offsets), size, top, cosine))
        found = prepared[0](scores, stream)
        if method.fisher:
            return found.value, found.gradient, fisher(scores, offsets, seed=stream.round)
        if method.entropy:
            bonus, change = entropy(scores, offsets)
            gradient = found.gradient - method.entropy * change
            return found.value - method.entropy * bonus, gradient, np.abs(gradient)  # as plrank's own treatment has it
        return found

    return objective


def measure(job: Job) -> Found:
    """Train a model and look at it."""
    method = METHODS[job.method]
    done = bool(method.spread or method.fisher or method.entropy)
    seen: list[tuple[float, ...]] = []
    objective: Any = method.text
    if job.folder:
        train, valid, test = parts(job.folder, job.data, job.fold)
        train = shuffled(train, job.seed)
        settings: dict[str, Any] = {**SETTINGS, "rounds": job.rounds}
        if done:
            objective = watched(method, seen)
    else:
        train, valid, test = rw.split(
            rw.synthetic(n_queries=job.queries, seed=job.seed), (0.5, 0.2, 0.3), seed=job.seed
        )
        settings = {**ON_SYNTHETIC_LISTS, "rounds": job.rounds, "patience": job.rounds, "learning_rate": method.rate}
        if done or job.method == PLAIN:
            objective = watched(method, seen)
    model = rw.LightGBMRanker(objective, metrics=[METRIC], seed=job.seed, threads=1, progress=False, **settings)
    model.fit(train, valid)
    scores = model.predict(train)
    policy = rw.objectives.PLRank(samples=256)(scores, train.labels, train.offsets, rw.Stream(seed=job.seed))
    valid_ndcg, train_ndcg = (rw.evaluate(model, part, [METRIC]).mean[METRIC] for part in (valid, train))
    expected = -float(
        policy.value[[bool(train.labels[a:b].any()) for a, b in itertools.pairwise(train.offsets)]].mean()
    )
    summary = (float(model.best_round_), valid_ndcg, train_ndcg, expected, choices(scores, train.offsets))
    return Found(summary, rw.evaluate(model, test, [METRIC])[METRIC], seen)


def differences(names: Sequence[str], found: dict[str, list[Found]]) -> str:
    """The table of trained models."""
    lines = ["| method | round | valid | test | test − lambdarank | train | expected | choices |", "|---" * 8 + "|"]
    for name in names:
        rounds, valid, train, expected, many = np.mean([one.summary for one in found[name]], axis=0)
        test, other = (np.concatenate([one.test for one in found[which]]) for which in (name, BASELINE))
        gaps = (test - other)[~np.isnan(test)]
        gap = "" if name == BASELINE else harness.difference(gaps)
        cells = (
            f"{rounds:.0f} | {valid:.4f} | {np.nanmean(test):.4f} | {gap} | {train:.4f} | {expected:.4f} | {many:.1f}"
        )
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def as_it_trains(found: list[Found]) -> str:
    """The table of plain ``plrank``."""
    lines = ["| round | expected | choices | gradient | on the first ten | cosine |", "|---" * 6 + "|"]
    for number, expected, *others in np.mean([one.by_round for one in found], axis=0):
        cells = [f"{number:.0f}", f"{expected:.3f}", *(f"{value:.2f}" for value in others)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def averaged(found: Sequence[Found]) -> Found:
    """Several seeds on the same queries as one."""
    summary = tuple(float(x) for x in np.mean([one.summary for one in found], axis=0))
    return Found(summary, np.mean([one.test for one in found], axis=0), [])


def on_synthetic_lists(args: argparse.Namespace, names: Sequence[str]) -> list[Job]:
    """The models of synthetic lists."""
    seeds, rounds = args.seeds or 4, args.rounds or 200
    return [Job(name, seed, rounds, queries=args.queries) for seed in range(seeds) for name in names]


def on_real_lists(args: argparse.Namespace, names: Sequence[str]) -> list[Job]:
    """The models of real lists."""
    rounds = args.rounds or int(SETTINGS["rounds"])
    grid = itertools.product(range(args.seeds or 2), args.data, range(1, args.folds + 1), names)
    return [Job(name, seed, rounds, folder=args.folder, data=data, fold=fold) for seed, data, fold, name in grid]


def main() -> None:
    """Train all models, and print the tables."""
    parser = harness.arguments(__doc__)
    parser.add_argument("folder", nargs="?", default="", help="where real lists are; without, lists are synthetic")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"], choices=["mq2008", "mq2007"])
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seeds", type=int, help="4 of synthetic lists, 2 of real ones")
    parser.add_argument("--rounds", type=int, help="trees at most: 200 and 600")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=list(METHODS))
    args = parser.parse_args()
    names = list(dict.fromkeys([BASELINE, *(args.only or (ON_REAL_LISTS if args.folder else METHODS))]))
    jobs = on_real_lists(args, names) if args.folder else on_synthetic_lists(args, names)
    with pool_of(args.processes) as pool:
        found = dict(zip(jobs, pool.map(measure, jobs), strict=True))
    if not args.folder:
        by_name = {name: [one for job, one in found.items() if job.method == name] for name in names}
        print(differences(names, by_name))
        if PLAIN in names:
            print(f"\n{as_it_trains(by_name[PLAIN])}")
        return
    for sets in [[one] for one in args.data] + ([args.data] if len(args.data) > 1 else []):
        by_name = {
            name: [
                averaged([one for job, one in found.items() if (job.method, job.data, job.fold) == (name, data, fold)])
                for data, fold in itertools.product(sets, range(1, args.folds + 1))
            ]
            for name in names
        }
        print(f"\n{' and '.join(sets)}\n\n{differences(names, by_name)}")


if __name__ == "__main__":
    main()
