"""The page of a comparison: what was found in words, means and tests of every metric, and the query explorer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rankwise import Comparison, __version__
from rankwise.base import tables
from rankwise.statistics import (
    Finding,
    Gain,
    Gate,
    Pair,
    SegmentComparison,
    Titles,
    alpha,
    chosen_pairs,
    differences_size,
    draw_differences,
    draw_means,
    gain,
    listed,
    means_size,
    titles_of,
)
from rankwise.wings.lab.report import html
from rankwise.wings.lab.report.blocks import Plot
from rankwise.wings.lab.report.explorer import packed_rankings
from rankwise.wings.lab.report.summary import verdict

_ROOM = 112  # letters that a row of a table has room for
_MARK = 0.8  # of them that a raised one takes
_LONGEST = 40  # letters of a name in a table of means, where all of it is needed to tell names apart
_SHORT = 28  # the same in a table of pairs
_WIDTH = 8.0  # inches of a figure at least, which is as wide as the page
_MOST_OPEN = 12  # rows of a table of pairs that is not folded
_EXPLORER = (
    "Two rankings of every query side by side. Choose two systems and a query; judgments are shaded, the stronger the "
    "more relevant."
)
_DASHES = "A dash stands for a document that nobody judged, and for the rank of one that was not retrieved."


def write_comparison(
    comparison: Comparison,
    path: str | Path,
    *,
    titles: Titles | None = None,
    about: Mapping[str, str] | None = None,
    gate: Gate | None = None,
    force: bool = False,
) -> Path:
    """Write a comparison as one HTML page that needs no network; gives its path.

    It says in words what was found, and has means with marks of significance, a figure of them, the tests of every
    pair, the differences query by query, and an explorer of the rankings of every query, where the evaluations know
    their documents, as those of :func:`evaluate` do. ``titles`` name the metrics, as in tables; ``about`` has further
    lines for how it was made, and ``gate`` what :meth:`Comparison.gate` says, which is shown first.
    """
    shown = titles_of(comparison.metrics, titles)
    packed = packed_rankings(comparison, shown)
    sections = [
        ("summary", "What was found", f'<div class="lead">{html.paragraphs(_found(comparison, shown))}</div>'),
        ("means", "Means", "\n".join(_means(comparison, shown))),
        ("pairs", "Every pair", "\n".join(_pairs(comparison, shown))),
        ("queries", f"{comparison.paired.unit.capitalize()} by {comparison.paired.unit}", _by_unit(comparison, shown)),
    ]
    if comparison.segments is not None:
        sections.insert(3, ("segments", "By segment", "\n".join(_segments(comparison, comparison.segments, shown))))
    if gate is not None:
        asked = f"Is {gate.system} not worse than {gate.against} by {gate.margin:g}?"
        sections.insert(0, ("gate", "Gate", html.table("checks", asked, "", gate.table(titles=titles).html())))
    if packed is not None:
        runs = any(
            one.ranked is not None and one.ranked.judged is not None for one in comparison.paired.evaluations.values()
        )
        words = f"{_EXPLORER} {_DASHES}" if runs else _EXPLORER
        sections.append(("explorer", "Query explorer", html.paragraphs([words]) + html.file("explorer.html")))
    sections.append(("made", "How it was made", _made(comparison, shown, about or {})))
    n_units = tables.count(int(comparison.paired.ids.size), comparison.paired.unit, _plural(comparison))
    return html.write_page(
        path,
        title=_headline(comparison),
        kicker=f"{tables.count(len(comparison.systems), 'system')} compared on {n_units}",
        sections=sections,
        packed=packed,
        force=force,
    )


# Words.


def _headline(comparison: Comparison) -> str:
    """What the tests of the first metric bear out, and no more."""
    metric, baseline = comparison.metrics[0], comparison.baseline
    if baseline is None:
        verdict = Finding.of(comparison, metric)
        text = verdict.headline()
        return text if verdict.beaten or not verdict.close else text[:1].upper() + text[1:]  # begins with a name
    better, worse, *_ = _beside(comparison, metric, baseline)
    for names, word in ((better, "better"), (worse, "worse")):
        if names:
            return f"{listed(list(names))} rank{'s' * (len(names) == 1)} {word} than {baseline}"
    return f"No system is told apart from {baseline}"


def _found(comparison: Comparison, titles: Mapping[str, str]) -> Iterator[str]:
    """What was found by the first metric, and in short by each other."""
    first, *further = comparison.metrics
    baseline = comparison.baseline
    if comparison.paired.holes:
        yield f"{comparison.paired.holes}."
    if baseline is None:
        yield verdict(f"these {_plural(comparison)}", comparison, first, titles[first])
        alike: dict[str, list[str]] = {}
        for metric in further:
            alike.setdefault(Finding.of(comparison, metric).headline(), []).append(titles[metric])
        if alike:
            yield " ".join(f"By {listed(names)}, {headline}." for headline, names in alike.items())
        return
    for metric in comparison.metrics:
        words = [f"{one} than {baseline} by more than chance" for one in ("better", "worse")]
        words += [f"unjudged documents decide who is better than {baseline}", f"not told apart from {baseline}"]
        sentences = [
            f"{word}: {_gains(names, full=metric == first)}."
            for word, names in zip(words, _beside(comparison, metric, baseline), strict=True)
            if names
        ]
        yield f"By mean {titles[metric]}, " + " ".join(
            text if not place else text[:1].upper() + text[1:] for place, text in enumerate(sentences)
        )


def _beside(comparison: Comparison, metric: str, baseline: str) -> list[dict[str, Gain]]:
    """Systems that are surely better, surely worse, or one if holes are irrelevant, and others, by their gain."""
    gains = {name: gain(comparison, metric, name, baseline) for name in comparison.systems if name != baseline}
    ordered = dict(sorted(gains.items(), key=lambda pair: -pair[1].difference))
    sure = {name for name, one in gains.items() if one.p < alpha(comparison.level) and one.low * one.high > 0.0}
    return [
        {name: one for name, one in ordered.items() if name in sure and one.difference > 0 and not one.unsettled},
        {name: one for name, one in ordered.items() if name in sure and one.difference < 0 and not one.unsettled},
        {name: one for name, one in ordered.items() if name in sure and one.unsettled},
        {name: one for name, one in ordered.items() if name not in sure},
    ]


def _gains(names: Mapping[str, Gain], *, full: bool) -> str:
    return "; ".join(f"{name} {one}" for name, one in names.items()) if full else listed(list(names))


def _plural(comparison: Comparison) -> str:
    return {"query": "queries"}.get(comparison.paired.unit, f"{comparison.paired.unit}s")


# Tables and figures.


def _means(comparison: Comparison, titles: Mapping[str, str]) -> Iterator[str]:
    """The means of all metrics, as many side by side as fit, and the figure of them."""
    parts = _columns(comparison, titles)
    judged = {one.note for one in comparison.paired.judged.values()}
    notes = comparison.legend(hint=False), *judged, *comparison.of_holes()
    for number, metrics in enumerate(parts):
        table = only(comparison, metrics).table(titles=titles_of(metrics, [titles[metric] for metric in metrics]))
        last = number == len(parts) - 1
        rows = tuple((row[0], tables.shortened(str(row[1]), _LONGEST), *row[2:]) for row in table.rows)
        table = replace(table, rows=rows, notes=notes if last else ())
        names = "Means and marks of significance" if len(parts) == 1 else listed([titles[one] for one in metrics])
        caption = "The best of each column is bold." if last else ""
        yield html.table(f"means-{number}", names, caption, table.html())
    few = all(math.isnan(low) for of in comparison.interval.values() for low, _ in of.values())
    intervals = "" if few else f" with their {100 * comparison.level:g}% intervals"
    caption = f"Means{intervals}, the best by {titles[comparison.metrics[0]]} on top; letters as in the table."
    if not few:
        caption += " Intervals of single systems may overlap where paired tests tell them apart."
    sentences = [
        f"{titles[metric]}: " + ", ".join(f"{name} {tables.number(mean)}" for name, mean in means.items())
        for metric, means in comparison.mean.items()
    ]
    width, height = means_size(comparison)
    plot = Plot(
        name="means-figure",
        title="Means beside each other",
        caption=caption,
        alt="; ".join(sentences) + ".",
        size=(max(width, _WIDTH), height),
        draw=lambda drawing: draw_means(drawing, comparison, titles=titles),
        frame=comparison.to_frame(),
    )
    yield html.figure(plot)


def _columns(comparison: Comparison, titles: Mapping[str, str]) -> list[list[str]]:
    """Metrics whose columns fit side by side, of about as many for each table."""
    marks = max(len(cell.marks) for row in comparison.table().cells() for cell in row) * _MARK
    widths = {metric: 3 + max(len(title), 6) + marks for metric, title in titles.items()}
    room = _ROOM - 2 * marks - min(_LONGEST, max(map(len, comparison.systems)))
    count = max(1, math.ceil(sum(widths.values()) / room))
    parts: list[list[str]] = [[]]
    for metric, width in widths.items():
        used = sum(widths[one] for one in parts[-1])
        if parts[-1] and (used + width > room or used + width / 2 > sum(widths.values()) / count):
            parts.append([])
        parts[-1].append(metric)
    return parts


def only(comparison: Comparison, metrics: Sequence[str]) -> Comparison:
    """Return the comparison by some of its metrics."""
    values = {metric: comparison.paired.values[metric] for metric in metrics}
    pairs = tuple(pair for pair in comparison.pairs if pair.metric in values)
    return replace(comparison, paired=replace(comparison.paired, values=values), pairs=pairs)


def _pairs(comparison: Comparison, titles: Mapping[str, str]) -> Iterator[str]:
    """A table of tests for each metric; long ones, and those of all metrics but the first, are folded."""
    header = ("system", "against", "difference", f"{100 * comparison.level:g}% interval", "p", "effect")
    caption = (
        "A positive difference: the system is better than the one it is held against. p is that of the test that "
        f"decides{', corrected' * (comparison.correction == 'holm')}, and the difference is bold where that is "
        "significant; effect is the mean difference over its standard deviation; win/tie/loss counts "
        f"{_plural(comparison)}."
    )
    for number, metric in enumerate(comparison.metrics):
        pairs = [pair for pair in comparison.pairs if pair.metric == metric]
        table = tables.Table(
            header=(*header, "win/tie/loss"), rows=tuple(map(_tested, pairs)), align="llrrrrr", notes=()
        )
        written = html.table(f"pairs-{number}", titles[metric], "" if number else caption, table.html())
        yield written if not number and len(pairs) <= _MOST_OPEN else html.folded(titles[metric], written)


def _tested(pair: Pair) -> tuple[tables.TableCell | str, ...]:
    return (
        tables.shortened(pair.system, _SHORT),
        tables.shortened(pair.against, _SHORT),
        tables.TableCell(tables.number(pair.difference, signed=True), best=pair.significant),
        tables.interval(pair.low, pair.high, signed=True),
        tables.probability(pair.p_adjusted),
        tables.number(pair.effect_size, 2, signed=True),
        f"{pair.wins}/{pair.ties}/{pair.losses}",
    )


def _segments(comparison: Comparison, segments: SegmentComparison, titles: Mapping[str, str]) -> Iterator[str]:
    """A table of segments for each metric; those of all metrics but the first are folded."""
    for number, metric in enumerate(comparison.metrics):
        rows = tuple(one for one in segments.pairs if one.metric == metric)
        table = replace(segments, pairs=rows).table(titles={metric: titles[metric]})
        written = html.table(f"segments-{number}", titles[metric], "", table.html())
        yield html.folded(titles[metric], written) if number else written


def _by_unit(comparison: Comparison, titles: Mapping[str, str]) -> str:
    """The differences on single queries, or trials, by the first metric."""
    metric = comparison.metrics[0]
    shown = chosen_pairs(comparison, metric)
    sentences = [f"{one} against {other}: {gain(comparison, metric, one, other)}" for one, other in shown]
    plot = Plot(
        name="differences",
        title=f"Differences in {titles[metric]}",
        caption=f"Every {comparison.paired.unit} is a bar in the colour of who is better, sorted by difference; the "
        "dashed line is the mean.",
        alt="; ".join(sentences) + ".",
        size=differences_size(len(shown)),
        draw=lambda drawing: draw_differences(drawing, comparison, metric, shown, title=titles[metric]),
        frame=comparison.to_frame(),
    )
    return html.figure(plot)


def _made(comparison: Comparison, titles: Mapping[str, str], facts: Mapping[str, str]) -> str:
    rows = {**facts, "Systems": ", ".join(comparison.systems)}
    rows |= {title: metric for metric, title in titles.items() if title != metric}
    return html.definitions(rows | {"Version": f"rankwise {__version__}"})
