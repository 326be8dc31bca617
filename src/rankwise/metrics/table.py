"""The one table of metrics by name, and the way from expression to metric."""

from dataclasses import fields, replace
from typing import Any

from rankwise import check, grammar
from rankwise.metrics.base import Metric
from rankwise.metrics.dcg import DCG, NDCG
from rankwise.metrics.err import ERR
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall
from rankwise.metrics.rbp import NRBP, RBP

METRICS: dict[str, type[Metric]] = {
    kind.name: kind for kind in (NDCG, DCG, AP, RR, RBP, NRBP, ERR, Precision, Recall, Hit)
}


def metric(expression: str | Metric, **options: Any) -> Metric:
    """Give the metric that ``expression`` describes; ``options`` replace what it says.

    >>> metric("ndcg@10")([3.0, 2.0, 1.0], [2, 0, 1], [0, 3]).round(4)
    array([0.9639])
    >>> metric("ndcg(gain=linear, ties=average)@5")
    ndcg(gain=linear)@5
    >>> metric("ap") @ 10, metric("rbp(p=0.95)", relevant=2)
    (ap@10, rbp(relevant=2, p=0.95))
    """
    parsed: Metric = expression if isinstance(expression, Metric) else grammar.parse(expression, METRICS, "metric")
    if options:
        known = [field.name for field in fields(parsed)]
        for word in options:
            if word not in known:
                hint = check.suggestion(word, known).rstrip("?")
                raise check.error(f"unknown option of {parsed.name}", got=repr(word), hint=hint)
        parsed = replace(parsed, **options)
    return parsed
