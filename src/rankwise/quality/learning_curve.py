"""Learning curves by number of training queries, with a forecast of what twice as many are worth."""

import textwrap
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax, stdtrit

from rankwise import check, metrics
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.base.progress import bar
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import split
from rankwise.model_selection.cross_validate import Trainings, checked_ranker
from rankwise.quality import leakage
from rankwise.quality.parts import warn_shared
from rankwise.statistics.figures.drawing import BLUE, GREY, canvas
from rankwise.statistics.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

RANKER = "lightgbm(rounds=100, leaves=15, min_documents=20, patience=None, extra_trees=True, feature_fraction=0.5)"
"""The default ranker: quick, and with the same settings whatever the number of queries."""
_PARTS = (8, 4, 2, 1)  # into which the queries are cut
_RATIOS = np.linspace(0.5, 1.0, 11)  # of the gain of a doubling to the one before
_T = float(stdtrit(sum(_PARTS[:-1]) - len(_PARTS[:-1]), 0.975))  # freedom: the doublings of one draw


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve(Result):
    """A metric by number of training queries, and the forecast of a doubling; made by :func:`learning_curve`."""

    metric: str
    queries: tuple[int, ...]
    """The sizes of training sets: an eighth of the queries, a quarter, half, and all."""
    values: tuple[Array, ...]
    """For each size an array (draws, parts): the mean of the metric on test queries under each model."""
    gain: float
    interval: tuple[float, float]
    """The forecast: how much the metric gains on average from twice the queries, with a 95% interval."""
    single: tuple[float, float]
    """The 95% interval of the change that one training on twice the queries shows, against the one on all queries."""
    n_scored: int
    n_skipped: int

    @property
    def sentence(self) -> str:
        """The forecast in words."""
        gain = f"{tables.number(self.gain, signed=True)} ± {tables.number(self.interval[1] - self.gain)}"
        return (
            f"Doubling the training queries from {self.queries[-1]:,} to {2 * self.queries[-1]:,} is worth {gain} "
            f"{self.metric} on average; a single training may show {tables.interval(*self.single, signed=True)}."
        )

    def table(self) -> tables.Table:
        """Return one row per size: models, mean and standard deviation of the metric, gain over half the queries."""
        gains = np.diff([values.mean() for values in self.values], prepend=np.nan)
        rows = []
        for size, values, gain in zip(self.queries, self.values, gains, strict=True):
            spread = values.std(ddof=1) if values.size > 1 else np.nan
            numbers = tables.number(values.mean()), tables.number(spread), tables.number(gain, signed=True)
            rows.append((f"{size:,}", str(values.size), *numbers))
        tested = f"{tables.count(self.n_scored, 'test query', 'test queries')} ({self.n_skipped:,} skipped)"
        assumed = "queries to come are like these; a doubling gains as much as the one before, or down to half of it"
        notes = f"{self.sentence} Intervals of 95%, {tested}.", f"Assumed: {assumed}."
        header = ("training queries", "models", self.metric, "sd of models", "gain")
        return tables.Table(header=header, rows=tuple(rows), align="rrrrr", notes=notes)

    def to_frame(self) -> "pl.DataFrame":
        """One row for each trained model: its number of queries, its draw, its part and the metric."""
        import polars as pl

        rows = [(n, *at, v) for n, one in zip(self.queries, self.values, strict=True) for at, v in np.ndenumerate(one)]
        return pl.DataFrame(rows, orient="row", schema=("queries", "draw", "part", self.metric))

    def figure(self) -> "Figure":
        """Draw every model, the means, and the forecast with both intervals."""
        last, ticks = float(self.values[-1].mean()), (*self.queries, 2 * self.queries[-1])
        with canvas(7.2, 4.2) as drawing:
            panel = drawing.subplots()
            models = np.concatenate([values.ravel() for values in self.values])
            sizes = np.repeat(self.queries, [values.size for values in self.values])
            panel.plot(sizes, models, "o", color=GREY, markersize=4, label="a model")
            panel.plot(self.queries, [one.mean() for one in self.values], "D-", color=BLUE, label="mean of models")
            panel.plot(ticks[-2:], [last, last + self.gain], "--", color=BLUE)
            for ends, width, label in ((self.single, 1.0, "a single training"), (self.interval, 4.0, "average gain")):
                panel.plot(ticks[-1:] * 2, np.add(last, ends), color=BLUE, linewidth=width, label=f"forecast: {label}")
            panel.set_xscale("log", base=2)
            panel.set_xticks(ticks, [f"{size:,}" for size in ticks])
            panel.set_xlabel("training queries")
            panel.set_ylabel(f"{self.metric}, {self.n_scored:,} test queries")
            drawing.legend(loc="outside lower center", ncols=4, fontsize=8)
            panel.set_title(textwrap.fill(self.sentence, 75), loc="left", fontweight="bold")
        return drawing


def learning_curve(
    train: RankingDataset,
    test: RankingDataset,
    ranker: object = None,
    *,
    valid: RankingDataset | None = None,
    metric: metrics.MetricLike = "ndcg@10",
    draws: int = 2,
    seed: int = 0,
    progress: bool | None = None,
) -> LearningCurve:
    """Train on an eighth, a quarter, half and all of the queries, and forecast what twice as many are worth.

    Each draw cuts the training queries into eight random parts, which are trained on one by one, in twos and in fours:
    parts of a size share no query. ``ranker`` is a ranker or its expression, by default a quick LightGBMRanker that
    learns the labels that the metric measures. One that stops early needs ``valid``, or a fifth of the training queries
    is held out; test queries decide nothing.

    Power laws are fitted in which a doubling gains as much as the one before, or down to half of it, and averaged by
    likelihood. Intervals allow for training draws, for test queries (paired), for the form, and ``single`` for one more
    training; not for curves that rise faster and faster, nor for steps, as of a LightGBMRanker whose ``leaves`` and
    ``min_documents`` depend on the number of documents.

    >>> import rankwise as rw
    >>> train, test = rw.split(rw.synthetic(n_queries=120, n_docs=10, seed=1), (0.7, 0.3), seed=1)
    >>> curve = rw.learning_curve(train, test, "lightgbm(rounds=10, leaves=4, min_documents=5, patience=None)")
    >>> curve.queries, [values.shape for values in curve.values]
    ((10, 21, 42, 84), [(2, 8), (2, 4), (2, 2), (1, 1)])
    """
    measure, draws = metrics.metric(metric), check.integer("draws", draws, least=1)
    of_label = {} if (label := getattr(measure, "label", None)) is None else {"objective": f"on({label}, lambdarank)"}
    ranker = checked_ranker(RANKER).set_params(**of_label) if ranker is None else checked_ranker(ranker)
    if valid is None and getattr(ranker, "patience", None) is not None:
        train, valid = split(train, (0.8, 0.2), seed=seed)
    scored = ~np.isnan(measure.of(np.zeros(test.n_docs), test))
    weights = (np.ones(scored.size) if test.weights is None else test.weights)[scored]
    counts = (("to train on", train.n_queries, 40), (f"to test that {measure} scores", np.count_nonzero(weights), 10))
    for purpose, count, least in counts:
        if count < least:
            raise check.error(f"a learning curve needs at least {least} queries {purpose}", got=count)
    warn_shared(train=train, valid=valid, test=test)
    plan, stream = [np.arange(train.n_queries)], train.stream(seed)
    for draw in range(draws):
        order = np.argsort(stream.child("learning_curve", draw).per_query(train.n_queries)[:, 0])
        cuts = np.linspace(0, order.size, _PARTS[0] + 1).astype(np.int64)
        plan += [np.sort(part) for n in _PARTS[:-1] for part in np.split(order, cuts[:: _PARTS[0] // n][1:-1])]
    columns = []
    with bar(progress, len(plan), "models") as update, leakage.checked():
        trainings = Trainings("model", len(plan), update)
        for number, queries in enumerate(plan, 1):
            model = trainings.model(number, ranker, train.take(queries), valid)
            scores = check.scores(model.predict(test.without_rows()), test.offsets, test.query_ids)
            columns.append(measure.of(scores, test))
    weights = weights / weights.sum()
    every, rest = columns[0][None, None, scored], np.stack(columns[1:])[:, scored].reshape(draws, -1, weights.size)
    by_size = [*np.split(rest, np.cumsum(_PARTS[:-2]), axis=1), every]
    sizes, values = tuple(train.n_queries // n for n in _PARTS), tuple(one @ weights for one in by_size)
    (low, gain, high), (least, _, most) = forecast(by_size, weights).tolist()
    ends, skipped = ((low, high), (least, most)), scored.size - weights.size
    return LearningCurve(str(measure), sizes, values, gain, *ends, weights.size, skipped)


def forecast(by_size: list[Array], weights: Array) -> Array:
    """Return the average gain of a doubling, and the change that one training shows: lower end, mean and upper end.

    ``by_size``: the values (draws, parts, test queries) of sizes that double. The variance of the mean of one model is
    in proportion to 1/size: its factor is estimated from how much single doublings differ from each other.
    """
    sizes = 2.0 ** np.arange(len(by_size) + 1)
    by_query = np.stack([one.mean(axis=(0, 1)) for one in by_size])
    gaps = by_query[:-1] - by_query[-1]  # to the largest size, paired by test query
    means = gaps @ weights
    centred = (gaps - means[:, None]) * weights
    doublings = [np.repeat(large @ weights, 2, axis=1) - small @ weights for small, large in pairwise(by_size)]
    squares = sum(size * float(((one - one.mean()) ** 2).sum()) for size, one in zip(sizes, doublings, strict=False))
    noise = squares / sum(one.size - 1 for one in doublings) / 1.5 / sizes  # 1.5: both models of a doubling have it
    of_means = noise[:-1] / [one[..., 0].size for one in by_size]
    covariance = centred @ centred.T * weights.size / (weights.size - 1) + np.diag(of_means[:-1] + 1e-15) + of_means[-1]
    inverse, before, fits = np.linalg.inv(covariance), np.arange(1.0 - len(by_size), 0.0), []
    for ratio in _RATIOS:
        form = before if abs(ratio - 1.0) < 1e-9 else (1.0 - ratio**before) / (1.0 - ratio)  # the next size has 1
        solve = inverse @ form / (form @ inverse @ form)
        residuals = np.eye(form.size) - np.outer(form, solve)
        change = solve + of_means[-1] * inverse.sum(axis=0) @ residuals  # the luck of the last model does not last
        errors = covariance @ solve @ solve, covariance @ change @ change + of_means[-1] * (1.0 - 2.0 * change.sum())
        misfit = means @ residuals.T @ inverse @ residuals @ means
        fits.append((misfit, solve @ means, change @ means, errors[0], errors[1] + noise[-1]))
    misfits, *moments = np.array(fits).T
    shares, estimates, variances = softmax(-misfits / 2.0), np.array(moments[:2]), np.array(moments[2:])
    centre = estimates @ shares
    half = _T * np.sqrt((variances + (estimates - centre[:, None]) ** 2) @ shares)
    return np.stack([centre - half, centre, centre + half], axis=1)
