"""Ranking metrics: NDCG and others, with explicit conventions for gains, ties and empty queries."""

from rankwise.metrics.base import Metric, RankMetric
from rankwise.metrics.conventions import conventions
from rankwise.metrics.dcg import DCG, NDCG, NRBP, RBP
from rankwise.metrics.err import ERR
from rankwise.metrics.judged import Bpref, Judged, NumQ, NumRel, NumRelRet, NumRet
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall, RPrecision
from rankwise.metrics.reward import Reward
from rankwise.metrics.sampled import InfAP, InfNDCG, XInfAP
from rankwise.metrics.table import METRICS, MetricLike, expression, metric, metrics, metrics_for

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
    "InfNDCG",
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
    "Reward",
    "XInfAP",
    "conventions",
    "expression",
    "metric",
    "metrics",
    "metrics_for",
]
