"""Write a report: the page, and a folder with every figure and table as files."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base.files import check_writable_folder
from rankwise.results import Tuning
from rankwise.wings.lab.bounding import figure as orderings
from rankwise.wings.lab.experiments.comparisons import comparison
from rankwise.wings.lab.experiments.running.store import slug
from rankwise.wings.lab.experiments.summary import claimed
from rankwise.wings.lab.report import html, leaderboard, mean_figures, per_query_figures, result_tables, training
from rankwise.wings.lab.report.blocks import Plot, Tabled
from rankwise.wings.lab.report.explorer import packed
from rankwise.wings.lab.report.summary import agreement, headline, provenance_section, summary
from rankwise.wings.lab.report.view import View

if TYPE_CHECKING:
    from rankwise import Comparison, Evaluation
    from rankwise.results import Leaderboard
    from rankwise.wings.lab.experiments.results import Results

PAGE = "report.html"
FILES = "report-files"


def check_report_target(folder: Path, *, force: bool) -> None:
    """Check, before the work begins, that a report can be written into ``folder``."""
    check.free_path(folder / PAGE, force=force)
    check_writable_folder(folder)
    check_writable_folder(folder / FILES)


def write_report(
    results: "Results",
    folder: str | Path,
    *,
    tunings: Mapping[str, Tuning] | None = None,
    search: "tuple[Leaderboard, Evaluation] | None" = None,
    force: bool = False,
    progress: Callable[[str], object] = str,
) -> Path:
    """Write the report of an experiment into ``folder``; gives the path of its page, ``report.html``.

    The page is one file that needs no network: what was found in words, tables, figures, the query explorer, and how it
    was made. Beside it, ``report-files`` holds every figure as SVG and PNG and every table as LaTeX and Markdown, each
    with its numbers as CSV. Which of them there are follows from what the results hold; ``tunings`` adds figures of
    searches for parameters, by name, and ``search`` the leaderboard of one for a ranker, with its value on test data.
    ``progress`` is called with the title of what is drawn next.
    """
    folder = Path(folder)
    files = folder / FILES
    check_report_target(folder, force=force)
    files.mkdir(parents=True, exist_ok=True)
    view = View(results)
    compared_at = {data: comparison(results, data, view.base(data)) for data in view.datasets}
    comparisons = {data: one for data, one in compared_at.items() if one is not None}
    searches = {name: Tuning.from_dict(one) for name, one in results.about.get("searches", {}).items()}
    written = []
    for name, title, parts in _sections(view, comparisons, searches | dict(tunings or {})):
        texts = []
        for part in parts:
            progress(part.title)
            texts.append(_written(part, files, force=force))
        if texts:
            text = html.paragraphs([_ORDERINGS]) + "\n" if name == "orderings" else ""
            written.append((name, title, text + "\n".join(texts)))
    if search is not None:
        written.append(leaderboard.section(*search))
    progress("The query explorer")
    data = packed(view) if results.queries.height else None
    if comparisons:
        text = html.paragraphs([*summary(view, comparisons), *agreement(results)])
        written.insert(0, ("summary", "What was found", f'<div class="lead">{text}</div>'))
    if data is not None:
        written.append(("explorer", "Query explorer", html.paragraphs([_EXPLORER]) + html.file("explorer.html")))
    written.append(("made", "How it was made", provenance_section(view, files)))
    spec = results.spec
    titles = [str(spec[name]) for name in ("paper", "title") if spec.get(name) and comparisons]
    return html.write_page(
        folder / PAGE,
        title=headline(view, comparisons),
        kicker=" · ".join(titles) or "A comparison of rankers",
        claim=(claimed(spec), str(spec["claim"])) if spec.get("claim") else ("", str(spec.get("introduction") or "")),
        sections=written,
        packed=data,
        force=force,
    )


_EXPLORER = (
    "Two rankings of every query side by side. Choose two models and a query; labels are shaded, the stronger the more "
    "relevant."
)
_ORDERINGS = "What bounding does to a metric, before anything is trained: all orderings of a list, counted or drawn."


def _sections(
    view: View, comparisons: "Mapping[str, Comparison]", tunings: Mapping[str, Tuning]
) -> Iterator[tuple[str, str, Iterable[Plot | Tabled]]]:
    """Every section: name, title and parts, which are made when their section is asked for."""
    if view.results.queries.height:
        places = ((data, level) for data in view.datasets for level in view.tabled_levels(data))
        parts = (result_tables.comparison_parts(view, *place, comparison(view.results, *place)) for place in places)
        yield "tables", "Comparison", itertools.chain.from_iterable(parts)
        yield "paper", "What the paper says", result_tables.agreement(view)
        yield "noise", "Level by level", [*mean_figures.noise_curves(view), *result_tables.level_tables(view)]
    if view.results.curves.height:
        curves = [*training.both_parts(view), *training.learning_curves(view), *training.bounds(view)]
        yield "training", "Training", curves
    if view.results.queries.height:
        plots = [
            *per_query_figures.differences(view, comparisons),
            *mean_figures.by_cutoff(view),
            *per_query_figures.distributions(view),
        ]
        yield "queries", "Query by query", [*plots, *per_query_figures.scatters(view), *per_query_figures.gains(view)]
    yield "search", "Searches for parameters", _searches(tunings)
    if orderings.belong(view.results.spec):
        yield "orderings", "Orderings", orderings.without_training()


def _searches(tunings: Mapping[str, Tuning]) -> Iterator[Plot]:
    for name, tuning in tunings.items():
        value = f"{tuning.metric} {tuning.value:.4f}"
        yield Plot(
            name=f"search-{slug(name)}",
            title=f"The search for {name}",
            caption="Above: the value of every trial on validation data, and the best so far. Below: by parameter.",
            alt=f"Search for {name}: {len(tuning.trials)} trials, the best has {value} (trial {tuning.best.number}).",
            size=tuning.size,
            draw=tuning.draw,
            frame=tuning.to_frame(),
        )


def _written(part: Plot | Tabled, files: Path, *, force: bool) -> str:
    content = part.write(files, force=force)
    if isinstance(part, Plot):
        return html.figure(part, content)
    written = html.table(part.name, part.title, part.caption, content)
    return html.folded(part.title, written) if part.name.startswith("pairs-") else written
