"""How good scores are: metrics on every query, of one ranking or of rankings drawn from a policy."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, overload

from numpy.typing import ArrayLike

from rankwise import check, moved
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.evaluation.measure import measure, score
from rankwise.evaluation.systems import Evaluated, Run, Scored
from rankwise.metrics import MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.statistics.evaluation import Evaluation

if TYPE_CHECKING:
    from rankwise.data.segments import Segment
    from rankwise.wings.fairness.policy import PolicyEvaluation
    from rankwise.wings.judging.result import JudgedEvaluation


@overload
def evaluate(
    scores_or_model: Scored, data: Evaluated, metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10",), *,
    policy: None = None, samples: None = None, exposure_cutoff: None = None, seed: int = 0, level: float = 0.95,
    resamples: int = 2000, segment: "Segment | None" = None,
) -> Evaluation: ...  # fmt: skip
@overload
def evaluate(
    scores_or_model: Scored, data: Evaluated, metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10",), *, policy: str,
    samples: int | None = None, exposure_cutoff: int | None = None, seed: int = 0, level: float = 0.95,
    resamples: int = 2000, segment: "Segment | None" = None,
) -> "PolicyEvaluation": ...  # fmt: skip
@overload
def evaluate(
    scores_or_model: Scored, data: Evaluated, metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10",), *,
    judge: Run | ArrayLike, level: float = 0.95,
) -> "JudgedEvaluation": ...  # fmt: skip
@moved.renamed("rw.evaluate")
def evaluate(
    scores_or_model: Scored,
    data: Evaluated,
    metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10",),
    *,
    judge: Run | ArrayLike | None = None,
    policy: str | None = None,
    samples: int | None = None,
    exposure_cutoff: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = 2000,
    segment: "Segment | None" = None,
) -> "Evaluation | JudgedEvaluation":
    """Evaluate scores, or a model that predicts them, on every query.

    A model is a ranker; a trained model of LightGBM, XGBoost or CatBoost (see :func:`wrap`); a scikit-learn estimator,
    of which classifiers score by their decision function or probability, or the expected grade where there are more
    than two classes; anything whose ``predict`` takes the data set; a function from the features to scores; or a TREC
    run, joined with the data by ids. A :class:`rankwise.rerank.Reranker` is evaluated on a data set with texts,
    :class:`rankwise.rerank.Lists`.

    The mean is Σwv / Σw over the queries that a metric scores. A query without relevant documents is skipped unless
    the metric gives it a worth (``"ndcg(empty=0)@10"``). The interval resamples queries, ``resamples`` times; of fewer
    than ten it is Student's, and of fewer than three there is none.

    With ``policy="plackett_luce"`` rankings are drawn from the scores, ``samples`` (256) of each query: the values are
    expectations, and ``.exposure`` says how much each document is seen, by its rank up to the ``exposure_cutoff``; of
    data with groups ``.groups`` says what each group gets (see :class:`PolicyEvaluation`). ``policy="deterministic"``
    measures the same of the ranking by score, with equal scores in random order.

    Metrics are expressions, or functions of one's own (see :class:`Metric`).

    ``data`` may also be a table with columns ``qid`` and ``label``; and a TREC run is evaluated by qrels, both as
    tables, dictionaries or files, which :func:`rw.trec.join <rankwise.evaluation.trec.join>` joins.

    ``segment`` adds means and intervals by segment of the queries: the name of a feature that is the same for all
    documents of a query, such as ``"device"``; a mapping from query ids to values, or an array with a value for each
    query; ``"traffic"``, head, torso and tail by the weights of queries (:func:`rankwise.data.traffic_segments`); or a
    list of several.

    With a ``judge`` human labels of some queries, drawn at random, suffice: its grades, of an LLM for example, are of
    all queries, and PPI++ corrects them by its errors on the labelled ones. It is qrels, or the name of a column of the
    table of qrels; for a data set, a grade per document. The result is a :class:`JudgedEvaluation`.

    >>> import rankwise as rw
    >>> data = rw.RankingDataset([[0.1], [0.2], [0.3], [0.4]], [1, 0, 0, 2], [0, 2, 4], query_ids=["a", "b"])
    >>> evaluation = rw.evaluate(data.features[:, 0], data, ["ndcg@10", "rr"])
    >>> evaluation
    metric     mean  95% interval  scored  skipped
    ndcg@10  0.8155  –                  2        0
    rr       0.7500  –                  2        0
    <BLANKLINE>
    Fewer than 3 queries: no interval.
    >>> evaluation["rr"].tolist()
    [0.5, 1.0]
    """
    find_metrics(metrics)  # a wrong name is an error before data are read
    if judge is not None:
        for name, value in {"policy": policy, "segment": segment}.items():
            if value is not None:
                raise check.error(f"a judge does not go with a {name}", got=f"{name}={value!r}", hint="leave one out")
        evaluate_judged: Callable[..., JudgedEvaluation] = hooks.find("evaluation", "judge")
        return evaluate_judged({"": scores_or_model}, data, metrics, judge, level=level)
    settings: Keywords = {"seed": seed, "level": level, "resamples": resamples}
    if policy is not None:
        scores, lists, chosen_metrics = score(scores_or_model, data, metrics)
        if segment is not None:
            from rankwise.evaluation import segments

            settings["segments"] = segments.of_data(segment, lists)
        evaluate_policy: Callable[..., PolicyEvaluation] = hooks.find("evaluation", "policy")
        return evaluate_policy(scores, lists, chosen_metrics, policy, samples, exposure_cutoff, settings)
    for name, value in {"samples": samples, "exposure_cutoff": exposure_cutoff}.items():
        if value is not None:
            what = f"{name} belong{'s' * (name != 'samples')} to a policy"
            raise check.error(what, got=f"{name}={value!r}", hint="`set policy='plackett_luce'`")
    return measure(scores_or_model, data, metrics, segment, **settings)
