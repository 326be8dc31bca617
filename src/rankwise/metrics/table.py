"""The one table of metrics by name, and the way from expression to metric."""

import functools
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, overload

from rankwise import check, grammar, registry
from rankwise.metrics.base import Metric, RankMetric
from rankwise.metrics.conventions import OWN, TREC_EVAL, options_of
from rankwise.metrics.counts import NumQ, NumRel, NumRelRet, NumRet
from rankwise.metrics.custom import FunctionMetric, MetricFunction, checked_name
from rankwise.metrics.dcg import DCG, NDCG
from rankwise.metrics.err import ERR
from rankwise.metrics.judged import Bpref, InfAP, Judged
from rankwise.metrics.names import peers, spelled, with_cutoff
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall, RPrecision
from rankwise.metrics.rbp import NRBP, RBP
from rankwise.plain import Keywords

MetricLike = str | Metric | MetricFunction
"""An expression, a metric, or a function of one's own."""

METRICS: dict[str, type[RankMetric]] = {
    kind.name: kind
    for kind in (
        *(NDCG, DCG, AP, RR, RBP, NRBP, ERR, Precision, Recall, Hit, RPrecision, Bpref, InfAP, Judged),
        *(NumQ, NumRet, NumRel, NumRelRet),
    )
}


@overload
def metric(expression: str | RankMetric, *, conventions: str | None = None, **options: Any) -> RankMetric: ...
@overload
def metric(expression: MetricLike, *, conventions: str | None = None, **options: Any) -> Metric: ...
def metric(expression: MetricLike, *, conventions: str | None = None, **options: Any) -> Metric:
    """Give the metric that ``expression`` describes; ``options`` replace what it says.

    A function of one's own becomes a metric, too: see :class:`Metric`.

    Names of trec_eval and ir_measures are read too, and mean what they do there: ``P_10``, ``ndcg_cut_20``,
    ``nDCG@20``, ``AP(rel=2)``.

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
    >>> metric("recip_rank"), metric("AP(rel=2)@100")
    (rr(ties=row, empty=0), ap(relevant=2, ties=row, empty=0)@100)
    """
    if not isinstance(expression, str) and callable(expression) and not isinstance(expression, RankMetric):
        return _custom(expression, conventions, options)
    parsed = _read(expression, conventions)
    if not isinstance(parsed, RankMetric):
        return _without_options(parsed, conventions, options)
    if options:
        known = [field.name for field in fields(parsed)]
        for word in options:
            if word not in known:
                hint = check.suggestion(word, known).rstrip("?")
                raise check.error(f"unknown option of {parsed.name}", got=repr(word), hint=hint)
        parsed = replace(parsed, **options)
    return parsed


def expression(given: MetricLike) -> str | Metric:
    """Return the expression of a metric where that reads back as the same; else, as of a function, the metric.

    >>> expression(metric("ndcg", cutoff=5)), expression(len)
    ('ndcg@5', len)
    """
    found = metric(given)
    return str(found) if isinstance(found, RankMetric) or _known(str(found)) == found else found


def metrics(given: MetricLike | Iterable[MetricLike]) -> tuple[Metric, ...]:
    """Give one metric or several, each of them once; two that are called the same are an error.

    >>> metrics("ap"), metrics(["ndcg@10", "ndcg(ties=average)@10", "rr"])
    ((ap,), (ndcg@10, rr))
    """
    found: dict[str, Metric] = {}
    several: object = given
    if not (isinstance(several, Iterable) or callable(several)):
        hint = "write a name, such as 'ndcg@10', or a list of them"
        raise check.error("metrics are names, or functions", got=repr(given), hint=hint)
    for one in [given] if isinstance(given, str) or callable(given) else given:
        chosen = metric(one)
        if found.setdefault(str(chosen), chosen) != chosen:
            hint = "rename one of the functions, or give it an attribute name"
            raise check.error("two metrics have the same name", got=repr(str(chosen)), hint=hint)
    return tuple(found.values())


def _custom(given: Metric | MetricFunction, conventions: str | None, options: Keywords) -> Metric:
    """Take a metric of one's own."""
    if isinstance(given, type):
        raise check.error("a metric is needed, and not its class", got=given.__name__, hint=f"write {given.__name__}()")
    found = checked_name(given if isinstance(given, Metric) else FunctionMetric(given), _known)
    return _without_options(found, conventions, options)


def _without_options(own: Metric, conventions: str | None, options: Keywords) -> Metric:
    """Refuse options beside a metric of one's own."""
    if conventions is not None or options:
        what = "a metric of one's own has no options or conventions"
        raise check.error(what, got=repr(own), hint="build them into the function")
    return own


def _known(name: str) -> Metric | None:
    """Return the metric that a name stands for: ours, or one that is registered."""
    try:
        return metric(name)
    except ValueError:
        return None


def _read(expression: str | RankMetric, conventions: str | None) -> Metric:
    if isinstance(expression, RankMetric):
        if conventions is None:
            return expression
        set_there = options_of(conventions, type(expression))
        open_here = [field.name for field in fields(expression) if getattr(expression, field.name) == field.default]
        return replace(expression, **{name: value for name, value in set_there.items() if name in open_here})
    otherwise = f"pass one of your own as the function itself, or {registry.HINT}"
    table = _makers(conventions) | _registered()
    parsed: Metric = grammar.parse(spelled(expression), table, "metric", otherwise=otherwise)
    return with_cutoff(expression, parsed) if isinstance(parsed, RankMetric) else parsed


def _registered() -> Keywords:
    """What makes metrics of users' own."""
    return {
        name: thing if isinstance(thing, type) else functools.partial(FunctionMetric, thing)
        for name, thing in registry.of("metric").items()
    }


@functools.cache
def _makers(conventions: str | None) -> Keywords:
    """What makes a metric of a name and its arguments; arguments go before what the convention sets."""
    ours = {name: functools.partial(kind, **options_of(conventions or OWN, kind)) for name, kind in METRICS.items()}
    return ours | peers(conventions or TREC_EVAL)
