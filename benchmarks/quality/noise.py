"""How much noise `stochastic` should add: validation NDCG@10 by the scale of the noise, for several losses.

    python -m benchmarks.quality.noise FOLDER [--data mq2008 mq2007] [--seeds 3] [--nets] [--processes 2]
        [--out noise.csv]

FOLDER and folds are those of `benchmarks/README.md`; the test part of a fold is never looked at. Four fifths of its
training queries train a model, one fifth stops it, and the fold's validation part measures it. The scale is given as a
multiple of the loss's own scale (`Objective.score_scale`: 1/sigma, 1/eta, or 1), 0 is the loss without noise. Shown is
the mean difference to it, paired by fold and seed, with a 95% interval over folds and seeds.
"""

import itertools
from typing import Any

import rankwise as rw
from benchmarks import harness
from benchmarks.harness import FOLDS, SETTINGS, parts

LOSSES = (
    "lambdarank", "lambdarank(sigma=2.0, norm=False)", "ranknet", "xendcg", "softmax_ce", "listnet",
    "approx_ndcg", "approx_ndcg(eta=1.0)", "smooth_ap",
)  # fmt: skip
NET_LOSSES = ("lambdarank", "softmax_ce", "approx_ndcg", "smooth_ap")
FACTORS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
METRIC = "ndcg@10"
Job = tuple[str, str, bool, int, int, str, float]


def measure(job: Job) -> float:
    """Train a model with one amount of noise; give its NDCG on the validation part."""
    folder, data, nets, seed, fold, loss, factor = job
    train, valid, _ = parts(folder, data, fold)
    inner = rw.objective(loss)
    noisy = rw.objectives.stochastic(inner, scale=factor * inner.score_scale) if factor else inner
    fitted, stopping = rw.split(train, (0.8, 0.2), seed=seed)
    common: dict[str, Any] = {"metrics": [METRIC], "seed": seed, "threads": 1, "progress": False}
    model: rw.NeuralRanker | rw.LightGBMRanker
    if nets:
        model = rw.NeuralRanker(noisy, hidden=(64, 32), epochs=100, patience=15, **common)
    else:
        model = rw.LightGBMRanker(noisy, **{**SETTINGS, **common})
    model.fit(fitted, stopping)
    return float(rw.evaluate(model, valid, [METRIC]).mean[METRIC])


def main() -> None:
    parser = harness.arguments(__doc__, out="noise.csv")
    parser.add_argument("folder")
    parser.add_argument("--data", nargs="+", default=["mq2008", "mq2007"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nets", action="store_true")
    parser.add_argument("--losses", nargs="+")
    args = parser.parse_args()
    losses = args.losses or (NET_LOSSES if args.nets else LOSSES)
    runs = itertools.product(range(args.seeds), range(1, FOLDS + 1), args.data, losses, FACTORS)
    jobs: list[Job] = [(args.folder, data, args.nets, seed, fold, loss, f) for seed, fold, data, loss, f in runs]
    results = [
        ((data, loss), f"× {factor:g}", (seed, fold), value)
        for (_, data, _, seed, fold, loss, factor), value in zip(
            jobs, harness.measured(jobs, measure, args.processes, args.out), strict=True
        )
    ]
    print(harness.paired_table(results, ("data", "loss"), "× 0"))


if __name__ == "__main__":
    main()
