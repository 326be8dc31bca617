"""The one table of metrics by name, and the way from expression to metric."""

import functools
from dataclasses import fields, replace
from typing import Any

from rankwise import check, grammar
from rankwise.metrics.base import Metric
from rankwise.metrics.conventions import options_of
from rankwise.metrics.dcg import DCG, NDCG
from rankwise.metrics.err import ERR
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall
from rankwise.metrics.rbp import NRBP, RBP

METRICS: dict[str, type[Metric]] = {
    kind.name: kind for kind in (NDCG, DCG, AP, RR, RBP, NRBP, ERR, Precision, Recall, Hit)
}


def metric(expression: str | Metric, *, conventions: str | None = None, **options: Any) -> Metric:
    """Give the metric that ``expression`` describes; ``options`` replace what it says.

    ``conventions`` names a library (see :func:`rankwise.conventions`): what the expression leaves open is then as
    there, instead of as here.

    >>> metric("ndcg@10")([3.0, 2.0, 1.0], [2, 0, 1], [0, 3]).round(4)
    array([0.9639])
    >>> metric("ndcg(gain=linear, ties=average)@5")
    ndcg(gain=linear)@5
    >>> metric("ap") @ 10, metric("rbp(p=0.95)", relevant=2)
    (ap@10, rbp(relevant=2, p=0.95))
    >>> metric("ap@10", conventions="trec_eval"), metric("ndcg(ties=best)", conventions="trec_eval")
    (ap(ties=row, empty=0)@10, ndcg(gain=linear, ties=best, empty=0))
    """
    parsed = _read(expression, conventions)
    if options:
        known = [field.name for field in fields(parsed)]
        for word in options:
            if word not in known:
                hint = check.suggestion(word, known).rstrip("?")
                raise check.error(f"unknown option of {parsed.name}", got=repr(word), hint=hint)
        parsed = replace(parsed, **options)
    return parsed


def _read(expression: str | Metric, conventions: str | None) -> Metric:
    if isinstance(expression, Metric):
        if conventions is None:
            return expression
        set_there = options_of(conventions, type(expression))
        open_here = [field.name for field in fields(expression) if getattr(expression, field.name) == field.default]
        return replace(expression, **{name: value for name, value in set_there.items() if name in open_here})
    makers: dict[str, Any] = dict(METRICS)
    if conventions is not None:  # arguments in the expression go before those of the convention
        makers = {name: functools.partial(kind, **options_of(conventions, kind)) for name, kind in METRICS.items()}
    parsed: Metric = grammar.parse(expression, makers, "metric")
    return parsed
