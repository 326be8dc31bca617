"""Linear models with any objective: fast, explained by their weights, and at their best where queries are few."""

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Never

import numpy as np

from rankwise import check
from rankwise.base.arrays import Json, Keywords
from rankwise.base.threads import thread_count, use_threads
from rankwise.check.docstrings import documented
from rankwise.check.parameters import OneOf, Option, Search, Unset, Within, assign
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import require_scored, weighted_mean
from rankwise.models.linear import TRANSFORMS, LinearModel, LinearTransform
from rankwise.models.schema import Schema
from rankwise.rankers.base import IterativeRanker
from rankwise.rankers.linear.learner import L2, LinearLearner
from rankwise.rankers.sklearn import check_fitted
from rankwise.rankers.table import Recipe
from rankwise.rankers.training import parameters as training
from rankwise.rankers.training import stopping
from rankwise.rankers.training.settings import TrainingData, TrainingSettings, metrics_of, objective_of
from rankwise.rankers.trees import monotone
from rankwise.statistics import significance

if TYPE_CHECKING:
    from rankwise.rankers.linear.weights import LinearWeights, Rounded

_GROUP = "Training"


@documented
class LinearRanker(IterativeRanker):
    """A linear model, trained with any objective: exact derivatives, L-BFGS, and a penalty that the data choose.

    A round is one strength of the penalty, from strong to weak. With validation data the best round is kept, as in a
    bag, whose folds choose; without, the strength with the least loss on folds held out of the training data is taken.
    ``model_.penalty`` has ``(l1, l2)``. The penalised loss is mean loss + l1 · Σ|w| + l2 / 2 · Σw², where weights are
    those of transformed features. Losses that are convex in scores, such as ``softmax_ce``, ``ranknet`` and ``xendcg``,
    are at their least value then. Objectives that draw see the same random numbers at all weights.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=60, n_docs=20, n_features=5, seed=1)
    >>> ranker = rw.LinearRanker(l2=0.03, threads=1).fit(data)
    >>> ranker.stopped_, ranker.model_.weights.shape
    ('converged', (10,))
    """

    name = "linear"
    portfolio = (Recipe("softmax_ce", {}, small=(1, 12)),)  # it errs otherwise than trees, and takes little time
    unit = "strengths"
    single = folds_choose = True
    takes_categories = False
    first_round_pace = 1.0
    model_: LinearModel
    search_space: ClassVar[Keywords] = {}

    def __init__(
        self,
        objective: training.Objective = "softmax_ce",
        *,
        transform: Annotated[
            str | None,
            OneOf(TRANSFORMS),
            Unset("features as they are"),
            """Transform of features, a part of the model. ``"quantile+query"`` takes normal quantiles of the training
            data beside values standardised within the query, ``"quantile"`` the first alone, and ``"standard"``
            subtracts means and divides by deviations. None leaves features as they are, and penalises each weight as if
            the feature's deviation were 1.""",
            Option(group=_GROUP),
            Search("choice('quantile+query', 'quantile', 'standard')"),
        ] = "quantile+query",
        l2: Annotated[
            float | None,
            Within(0.0),
            Unset("chosen"),
            "Strength of the ridge; 0 where only ``l1`` is set.",
            Option(hidden=True),
            Search("log(0.001, 10, start=0.03)"),
        ] = None,
        l1: Annotated[
            float | None,
            Within(0.0),
            Unset("none, or chosen"),
            "Strength of the penalty that makes weights 0.",
            Option(hidden=True),
        ] = None,
        penalty: Annotated[
            str,
            OneOf(("l2", "l1")),
            "Penalty whose strength is chosen where neither is set.",
            Option(hidden=True),
        ] = "l2",
        strengths: Annotated[
            int,
            Within(1, len(L2)),
            "Number of strengths at most that are tried.",
            Option(hidden=True),
        ] = len(L2),
        folds: Annotated[training.Folds, "They choose where there are no validation data.", Option(hidden=True)] = 5,
        nonnegative: Annotated[bool, "Whether all weights are at least 0.", Option(hidden=True)] = False,
        monotone_constraints: Annotated[
            Mapping[str, int] | None,
            """Signs of weights, as of trees: ``{"price": -1, "rating": 1}``, by the names of features or their numbers
            from 0.""",
            Option(hidden=True),
        ] = None,
        seed: Annotated[training.Seed, "Folds, and what the objective draws."] = 0,
        threads: training.Threads = None,
        patience: training.Patience = None,
        stop_on: training.StopOn = "first",
        metrics: training.Metrics = ("ndcg@10",),
        debias: training.Debias = False,
        checkpoint: training.Checkpoint = None,
        checkpoint_every: training.CheckpointEvery = 1,
        progress: training.Progress = None,
    ) -> None:
        assign(self, locals())

    def older(self, model: object) -> Never:
        """Refuse a model to continue: the least value of a loss does not depend on where the search begins."""
        hint = "leave init_model out, or train on data with `init_scores=`, which are added to"
        raise check.error("a LinearRanker is trained from nothing", got="init_model", hint=hint)

    def learner(self, data: TrainingData, settings: TrainingSettings) -> LinearLearner:
        """Return what fits the weights."""
        train = data.train
        objective = settings.objective or objective_of(self)  # which says that a library's own is for its trees
        self.check_data(train)
        signs = monotone.by_column(self.monotone_constraints, Schema.of(train))
        transform, varied = LinearTransform.fit(self.transform, train.features)
        if not varied:
            raise stopping.no_feature(train)
        given = self.l1 is not None or self.l2 is not None
        return LinearLearner(
            train=train,
            held_out=data.held_out,
            chosen_by_rounds=data.valid is not None,
            settings=settings,
            objective=objective,
            documents=settings.columns(data),
            transform=transform,
            signs=np.where(np.array(signs) == 0, float(self.nonnegative), np.array(signs, float)),
            penalty=self.penalty,
            strength=(self.l1 or 0.0, self.l2 or 0.0) if given else None,
            folds=self.folds,
            start=settings.start(data),
        )

    # Weights.

    def weights(
        self, data: RankingDataset | None = None, *, samples: int = 200, level: float = 0.95, seed: int = 0
    ) -> "LinearWeights":
        """Return the weights of transformed features; with the training ``data`` with bootstrap intervals over queries.

        Each of ``samples`` resamples is fitted from the weights of the model, with its transform and penalty.

        >>> import rankwise as rw
        >>> data = rw.synthetic(n_queries=60, n_docs=20, n_features=3, seed=1)
        >>> ranker = rw.LinearRanker(transform="standard", l2=0.03, threads=1).fit(data)
        >>> ranker.weights().sentence
        '3 of 3 weights are not 0 (l1 = 0, l2 = 0.03).'
        """
        from rankwise.rankers.linear.weights import resampled, weights_of

        check_fitted(self)
        if data is None:
            return weights_of(self.model_, None, check.number("level", level, least=0.0, most=1.0, open_ends=True))
        level = check.number("level", level, least=0.0, most=1.0, open_ends=True)
        samples = check.integer("samples", samples, least=1)
        with use_threads(thread_count() if self.threads is None else self.threads):
            learner = self.learner(TrainingData(train=self.model_.schema.align(data)), TrainingSettings.of(self))
            learner.transform = self.model_.transform
            return weights_of(self.model_, resampled(learner, self.model_, samples, seed), level)

    def round(self, digits: int, data: RankingDataset) -> "Rounded":
        """Return this ranker with weights of so many significant digits, and what the first metric loses on ``data``.

        >>> import rankwise as rw
        >>> data = rw.synthetic(n_queries=60, n_docs=20, n_features=3, seed=1)
        >>> ranker = rw.LinearRanker(transform="standard", l2=0.03, threads=1).fit(data)
        >>> plain, loss, _ = ranker.round(2, data)
        >>> sorted({len(f"{abs(weight):.6g}".lstrip("0.")) for weight in plain.model_.weights})[-1], abs(loss) < 0.01
        (2, True)
        """
        from rankwise.rankers.linear.weights import Rounded, rounded

        check_fitted(self)
        simpler = copy.copy(self)
        simpler.model_ = rounded(self.model_, check.integer("digits", digits, least=1))
        metric = metrics_of(self, data)[0]
        values = metric.of(self.predict(data), data) - metric.of(simpler.predict(data), data)
        require_scored(metric, values, data.weights)
        scored = ~np.isnan(values)
        weights = None if data.weights is None else data.weights[scored]
        interval = significance.t_test(values[scored], weights).interval(0.95)
        return Rounded(simpler, weighted_mean(values, data.weights), interval)

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> LinearModel:
        """Read the weights."""
        return LinearModel.from_files(description, files, schema)
