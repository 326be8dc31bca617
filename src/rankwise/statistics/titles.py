"""What metrics are called in tables: by their expressions, unless the user gives them titles."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from rankwise import check
from rankwise.base import hooks
from rankwise.metrics import Metric, MetricLike, metric

Titles = Mapping[str, str] | Sequence[str]
"""Metric, in any spelling, -> title; or one title for each metric, in their order."""


def titles_of(metrics: Sequence[str], titles: Titles | None) -> dict[str, str]:
    """Return the title of each metric.

    >>> titles_of(["ndcg@10", "ap"], ["nDCG@10", "MAP"])
    {'ndcg@10': 'nDCG@10', 'ap': 'MAP'}
    >>> titles_of(["ndcg(gain=linear)@10", "ap"], {"ndcg(gain=linear, ties=average)@10": "nDCG"})
    {'ndcg(gain=linear)@10': 'nDCG', 'ap': 'ap'}
    """
    titled = {name: name for name in metrics}
    if isinstance(titles, Mapping):
        for name, title in titles.items():
            name_of = find(name, metrics)
            if name_of is None:
                hint = check.suggestion(str(name), metrics)
                raise check.error("a title is for a metric of the table", got=repr(name), hint=hint)
            titled[name_of] = str(title)
    elif titles is not None:
        texts = [titles] if isinstance(titles, str) else [str(title) for title in titles]
        if len(texts) != len(metrics):
            got = f"{len(texts)} titles for {', '.join(metrics)}"
            raise check.error("give one title for each metric", got=got, hint="titles are in the order of the metrics")
        titled = dict(zip(metrics, texts, strict=True))
    return titled


def find(name: MetricLike, metrics: Iterable[str]) -> str | None:
    """Find a metric among expressions; it may be spelled in any way that means the same."""
    names = list(metrics)
    return next((text for text in (name, *canonical(name)) if isinstance(text, str) and text in names), None)


def canonical(name: MetricLike) -> list[str]:
    """Return the canonical expression of a metric; nothing for a name that is none, as of values computed elsewhere."""
    try:
        return [str(metric(name))]
    except ValueError:
        return []


def bounds_of(name: str) -> tuple[float, float]:
    """Return the lowest and the highest possible value of a metric, or of a measure of wings; of other names ±∞.

    >>> bounds_of("ndcg@10"), bounds_of("tau"), bounds_of("dwell time")
    ((0.0, 1.0), (-1.0, 1.0), (-inf, inf))
    """
    for text in canonical(name):
        return metric(text).bounds
    for kind in hooks.places("measure"):
        with suppress(ValueError):
            found: tuple[float, float] = hooks.find("measure", kind)(name).bounds
            return found
    return Metric.bounds
