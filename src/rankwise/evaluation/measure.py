"""Metrics of one system on every query: what :func:`rankwise.evaluate` returns and :func:`rankwise.compare` pairs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.evaluation.systems import Evaluated, Scored, on_data, scores_of
from rankwise.metrics import Metric, MetricLike, metrics_for
from rankwise.metrics.base import weighted_mean
from rankwise.metrics.judged import Judged
from rankwise.statistics.evaluation import Evaluation, JudgedShare, Ranked
from rankwise.statistics.judgements import judgements_of

if TYPE_CHECKING:
    from rankwise.data.segments import Segment


def score(
    system: Scored, data: Evaluated, metrics: MetricLike | Iterable[MetricLike]
) -> tuple[ArrayLike, RankingDataset, tuple[Metric, ...]]:
    """Return the scores of a system, not checked yet, the labelled lists that they are of, and the metrics of these."""
    system, lists = on_data(system, data)
    chosen_metrics = metrics_for(metrics, lists)
    if not lists.is_labelled and all("labels" in one.reads for one in chosen_metrics):
        hint = "name the column of labels where the data are read: `label=…`"
        raise check.error("rankings are evaluated by labels", got=repr(lists), hint=hint)
    return scores_of(system, lists), lists, chosen_metrics


def measure(
    system: Scored,
    data: Evaluated,
    metrics: MetricLike | Iterable[MetricLike],
    segment: "Segment | None" = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate the one ranking of every query by the scores of a system; ``settings`` are those of its intervals."""
    scores, lists, chosen_metrics = score(system, data, metrics)
    values = check.scores(scores, lists.offsets, lists.query_ids)
    if segment is not None:
        from rankwise.evaluation import segments

        settings["segments"] = segments.of_data(segment, lists)
    ids = np.arange(lists.n_queries) if lists.query_ids is None else lists.query_ids
    columns = {str(one): one.of(values, lists) for one in chosen_metrics}
    documents = (lists.labels, lists.offsets, lists.document_ids, lists.judged, lists.more_labels)
    ranked = Ranked(values, *documents, predicts=getattr(system, "predicts_", None))
    settings["candidates"] = getattr(lists, "candidates", "")  # of lists of texts
    settings |= {
        "judgements": judgements_of(lists, chosen_metrics),
        "judged": judged_share(values, lists, chosen_metrics),
    }
    return Evaluation(columns, ids, lists.weights, ranked=ranked, **settings)


def judged_share(scores: Array, data: RankingDataset, metrics: Sequence[Metric]) -> JudgedShare | None:
    """Return the share of judged documents among the first, up to the cutoff of the first metric, or 10."""
    if data.judged is None or not any(getattr(one, "label", None) is None for one in metrics):
        return None
    cutoff = getattr(metrics[0], "cutoff", None) or 10
    retrieved = np.maximum.reduceat(scores, data.offsets[:-1]) > -np.inf
    shares = np.where(retrieved, Judged(cutoff=cutoff).of(scores, data), np.nan)
    return JudgedShare(cutoff, weighted_mean(shares, data.weights)) if retrieved.any() else None
