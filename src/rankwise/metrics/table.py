"""The table of metrics by name, and metrics from expressions and functions."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, overload

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.language import grammar, registry
from rankwise.metrics.base import FunctionMetric, Metric, MetricFunction, RankMetric, checked_name
from rankwise.metrics.conventions import OWN, TREC_EVAL, normalized_name, options_of, peers, require_cutoff
from rankwise.metrics.dcg import DCG, NDCG, NRBP, RBP, MeanNDCG, Reward
from rankwise.metrics.err import ERR
from rankwise.metrics.judged import Bpref, Judged, NumQ, NumRel, NumRelRet, NumRet
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall, RPrecision

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

MetricLike = str | Metric | MetricFunction
"""What names a metric: an expression such as ``"ndcg@10"``, a :class:`Metric`, or a function of scores, labels and
offsets that returns one number per query."""

_OURS: dict[str, type[RankMetric]] = {
    kind.name: kind
    for kind in (
        *(NDCG, MeanNDCG, DCG, AP, RR, RBP, NRBP, ERR, Precision, Recall, Hit, RPrecision, Bpref, Judged),
        *(NumQ, NumRet, NumRel, NumRelRet, Reward),
    )
}
METRICS: Mapping[str, type[RankMetric]] = hooks.ByName("metric", _OURS)
"""Those of wings, too."""


DEFAULT = ("ndcg@10",)
"""The metrics of rankers and evaluations that name none."""
OF_REWARDS = ("reward@10",)
"""The same on data whose documents have rewards."""
_PLAIN = re.compile(r"([a-z_]+)(?:@([1-9][0-9]{0,9}))?")


@overload
def metric(expression: str | RankMetric, *, conventions: str | None = None, **options: Any) -> RankMetric: ...
@overload
def metric(expression: MetricLike, *, conventions: str | None = None, **options: Any) -> Metric: ...
def metric(expression: MetricLike, *, conventions: str | None = None, **options: Any) -> Metric:
    """Return the metric that ``expression`` describes; ``options`` replace its arguments.

    A custom function is accepted, too: see :class:`Metric`.

    Names of trec_eval and ir_measures are read with the meaning that they have there: ``P_10``, ``ndcg_cut_20``,
    ``nDCG@20``, ``AP(rel=2)``.

    ``conventions`` names a library (see :func:`rankwise.metrics.conventions`), whose defaults replace ours.

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
    plain = _PLAIN.fullmatch(expression) if isinstance(expression, str) else None
    if plain is not None and plain[1] in _OURS and conventions is None and not options:  # needs no grammar
        return _OURS[plain[1]](cutoff=None if plain[2] is None else int(plain[2]))
    if isinstance(expression, type):
        name = expression.__name__
        raise check.error("a metric is needed, and not its class", got=name, hint=f"write {name}()")
    if isinstance(expression, RankMetric) or not callable(expression):
        parsed = _read(expression, conventions)
    else:
        custom = expression if isinstance(expression, Metric) else FunctionMetric(expression)
        parsed = checked_name(custom, _lookup)
    if not isinstance(parsed, RankMetric):
        if conventions is not None or options:
            what = "a custom metric has no options or conventions"
            raise check.error(what, got=repr(parsed), hint="build them into the function")
        return parsed
    names = [field.name for field in fields(parsed)]
    for name in options:
        if name not in names:
            hint = check.suggestion(name, names)
            raise check.error(f"unknown option of {parsed.name}", got=repr(name), hint=hint)
    return replace(parsed, **options) if options else parsed


def expression(value: MetricLike) -> str | Metric:
    """Return the expression of a metric if it reads back as the same metric; else, as for a function, the metric.

    >>> expression(metric("ndcg", cutoff=5)), expression(len)
    ('ndcg@5', len)
    """
    parsed = metric(value)
    return str(parsed) if isinstance(parsed, RankMetric) or _lookup(str(parsed)) == parsed else parsed


def metrics(values: MetricLike | Iterable[MetricLike]) -> tuple[Metric, ...]:
    """Return one metric or several, each of them once; two with the same name are an error.

    >>> metrics("ap"), metrics(["ndcg@10", "ndcg(ties=average)@10", "rr"])
    ((ap,), (ndcg@10, rr))
    """
    by_name: dict[str, Metric] = {}
    several: object = values
    if not (isinstance(several, Iterable) or callable(several)):
        hint = "write a name, such as 'ndcg@10', or a list of them"
        raise check.error("metrics are names, or functions", got=repr(values), hint=hint)
    for value in [values] if isinstance(values, str) or callable(values) else values:
        parsed = metric(value)
        if by_name.setdefault(str(parsed), parsed) != parsed:
            hint = "rename one of the functions, or give it an attribute name"
            raise check.error("two metrics have the same name", got=repr(str(parsed)), hint=hint)
    return tuple(by_name.values())


def metrics_for(values: MetricLike | Iterable[MetricLike], data: "RankingDataset | None") -> tuple[Metric, ...]:
    """Return metrics to measure data by: in the place of the default, that of rewards where documents have them."""
    rewarded = data is not None and data.document_rewards is not None
    return metrics(OF_REWARDS if rewarded and isinstance(values, tuple) and values == DEFAULT else values)


def _lookup(name: str) -> Metric | None:
    """Return the metric of a name, one of ours or a registered one; None if there is none."""
    try:
        return metric(name)
    except ValueError:
        return None


def _read(expression: str | RankMetric, conventions: str | None) -> Metric:
    if isinstance(expression, RankMetric):
        if conventions is None:
            return expression
        defaults = [field.name for field in fields(expression) if getattr(expression, field.name) == field.default]
        options = options_of(conventions, type(expression))
        return replace(expression, **{name: value for name, value in options.items() if name in defaults})
    otherwise = f"`pass one of your own as the function itself, or |`{registry.HINT}"
    registered = {
        name: custom if isinstance(custom, type) else functools.partial(FunctionMetric, custom)
        for name, custom in registry.of("metric").items()
    }
    table = _builders(conventions) | registered
    parsed: Metric = grammar.parse(normalized_name(expression), table, "metric", otherwise=otherwise)
    return require_cutoff(expression, parsed) if isinstance(parsed, RankMetric) else parsed


@functools.cache
def _builders(conventions: str | None) -> Keywords:
    """Return the builders of metrics by name; arguments of an expression override the options of the convention."""
    ours = {name: functools.partial(kind, **options_of(conventions or OWN, kind)) for name, kind in METRICS.items()}
    return ours | peers(conventions or TREC_EVAL)
