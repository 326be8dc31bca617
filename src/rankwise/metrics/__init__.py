"""How good a ranking is: NDCG and its relatives, with gains, ties and empty queries said out loud."""

from rankwise.metrics.base import Metric, RankMetric
from rankwise.metrics.conventions import conventions
from rankwise.metrics.counts import NumQ, NumRel, NumRelRet, NumRet
from rankwise.metrics.dcg import DCG, NDCG
from rankwise.metrics.err import ERR
from rankwise.metrics.judged import Bpref, InfAP, Judged
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall, RPrecision
from rankwise.metrics.rbp import NRBP, RBP
from rankwise.metrics.table import METRICS, MetricLike, expression, metric, metrics

__all__ = [
    "AP",
    "DCG",
    "ERR",
    "METRICS",
    "NDCG",
    "NRBP",
    "RBP",
    "RR",
    "Bpref",
    "Hit",
    "InfAP",
    "Judged",
    "Metric",
    "MetricLike",
    "NumQ",
    "NumRel",
    "NumRelRet",
    "NumRet",
    "Precision",
    "RPrecision",
    "RankMetric",
    "Recall",
    "conventions",
    "expression",
    "metric",
    "metrics",
]
