"""Fill the pages about reproductions with tables and figures of results that were computed before.

    python benchmarks/results.py [RESULTS] [--pages docs/results] [--reports FOLDER] [--only 2021-table1 …]
    python benchmarks/results.py --check                 # is every table what the trials give? No figures, 1 if not
    python benchmarks/results.py --pack FOLDER           # keep the trials of FOLDER/2021-table1 and others in RESULTS

RESULTS, by default docs/results/trials, holds the results of each experiment: a folder as ``rankwise reproduce`` writes
it, or ``NAME.zip``, a pack of it. What stands between markers in the pages is made anew, and everything else is left as
it was written:

    <!-- made 2021-table1:begin --> … <!-- made 2021-table1:end -->       command, date, versions, trials
    <!-- means 2021-table1:begin --> …                                    means with intervals and marks
    <!-- beside thesis-mq2008-ap:begin --> …                              each method beside the paper's figure for it
    <!-- paper 2019-table1:begin --> …                                    what the paper published for its own data
    <!-- verdicts 2021-table1:begin --> …                                 does it hold here?
    <!-- figure 2021-table1/means-mq2008:begin --> …                      a figure of the report, copied into img/
    <!-- overview all:begin --> …                                         a line for each experiment that has a page

Markers whose results are not in RESULTS keep what they hold. Figures come from reports, which take seconds to a minute
each: ``--reports`` keeps them, and takes those that are there.
"""

import argparse
import difflib
import html
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl
from PIL import Image

import rankwise as rw
from rankwise import check
from rankwise.evaluation import tables
from rankwise.evaluation.comparison import Comparison
from rankwise.experiments.comparisons import alpha, comparison, places
from rankwise.experiments.results import DESCRIPTION, Results
from rankwise.experiments.spec import Spec, find_spec
from rankwise.experiments.summary import LEVELS, levels_table, means_table, verdict_table
from rankwise.experiments.verdicts import counted, verdicts

METRICS = 6  # as many columns as a page has room for
ROWS = 16  # a longer table of verdicts shows the metric that decides, and counts the others
WIDTH = 1100  # pixels
KEPT = Path("docs/results/trials")
CHANGED = ("queries", "protocol", "split", "seed", "levels", "metrics", "early_stopping", "tune_trials", "tune_minutes")
NEED_DOCUMENTS = "cutoffs"  # the figure of metrics that were not computed
COLOURS = 256
WRITTEN_AS = {"mq2007-partial": "mq2007-partial=DIR/mq2007-partial/mq2007.partial.txt.gz"}
NAMED = re.compile(r"^([\w-]+)=.*")
BLOCK = re.compile(r"<!-- (?P<what>\w+) (?P<run>[\w/.-]+):begin -->.*?<!-- (?P=what) (?P=run):end -->", re.DOTALL)
FIGURE = re.compile(
    r'<figure id="([^"]+)"><h3>(.*?)</h3>\n<svg[^>]* aria-label="([^"]*)">.*?<figcaption>(.*?)</figcaption>', re.DOTALL
)


@dataclass(frozen=True)
class Shelf:
    """Where results, their reports and the pages lie."""

    results: Path
    reports: Path | None
    """None: figures are left as they are."""
    pages: Path

    def has(self, run: str) -> bool:
        """Whether there are results of an experiment."""
        return (self.results / run / DESCRIPTION).is_file() or self.pack(run).is_file()

    def pack(self, run: str) -> Path:
        """Where the pack of an experiment lies, if there is one."""
        return self.results / f"{run}.zip"

    @cache  # noqa: B019 (lives as long as the program)
    def read(self, run: str) -> Results:
        """The results of an experiment."""
        folder = self.results / run
        return Results.read(folder if folder.is_dir() else self.pack(run))

    @cache  # noqa: B019
    def figures(self, run: str) -> dict[str, tuple[str, str, str]]:
        """Title, text and caption of every figure in the report of an experiment, by name."""
        page = (self.reports or Path()) / run / "report.html"
        if not page.is_file():
            rw.write_report(self.read(run), page.parent)
        found = FIGURE.findall(page.read_text(encoding="utf-8"))
        return {
            name: (html.unescape(title), html.unescape(alt), html.unescape(text)) for name, title, alt, text in found
        }


def command(results: Results) -> str:
    """What to type for these results, where DIR holds the data."""
    spec, recipe = results.spec, find_spec(results.spec["name"]).plain()
    named = (NAMED.sub(r"\1", one) for one in spec["data"])
    data = [shlex.quote(WRITTEN_AS.get(name, name)) for name in named]
    words = ["rankwise reproduce", spec["name"], *(f"--data {name}" for name in data), "--data-folder DIR"]
    if spec["trials"] != recipe["trials"]:
        words.append(f"--trials {spec['trials']}")
    everywhere = spec["settings_for"].get("", {})
    changed = {key: spec[key] for key in CHANGED if key in spec and spec[key] != recipe[key]}
    changed |= {f"settings.{key}": value for key, value in everywhere.items()}
    words += [f"--set {key}={shlex.quote(_written(value))}" for key, value in changed.items()]
    jobs = re.search(r"--jobs \d+", results.about.get("command", ""))
    return " ".join([*words, *([jobs[0]] if jobs else [])])


def _written(value: object) -> str:
    """A value as ``--set`` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def trials(results: Results) -> str:
    """How many trials there are on each data set, and how many the paper has, where that is not the same."""
    full = find_spec(results.spec["name"]).trials
    counts = dict(results.queries.group_by("data", maintain_order=True).agg(pl.col("trial").n_unique()).iter_rows())
    same = len(set(counts.values())) == 1
    ours = str(next(iter(counts.values()))) if same else ", ".join(f"{data} {n}" for data, n in counts.items())
    return ours if set(counts.values()) == {full} else f"{ours} (paper: {full})"


def made(results: Results) -> str:
    """Command, date, versions, machine and size of an experiment, and what the full one would take."""
    about, spec, recipe = results.about, results.spec, find_spec(results.spec["name"])
    versions = ", ".join(f"{name} {text}" for name, text in about["versions"].items())
    scored = results.queries.filter(pl.col(spec["decide"]).is_not_null()).group_by("data", maintain_order=True)
    queries = [f"{data} {count:,}" for data, count in scored.agg(pl.col("query").n_unique()).iter_rows()]
    seconds = [second for one in about["seconds"].values() for second in one]
    system, _, cores = about["machine"].rpartition(", ")
    lines = [
        f"Made on {about['date'][:10]} with {versions}, on {system.partition('-')[0]} with {cores}.",
        f"Trials: {trials(results)}. Queries or users tested that have something relevant: {', '.join(queries)}.",
        f"Training took {duration(sum(seconds))}, added up over {len(seconds):,} models.",
    ]
    if recipe.tune_trials:
        searched = f"{spec['tune_trials']} times (paper: up to {recipe.tune_trials})"
        lines.append(f"Each method's parameters are searched in every trial anew, {searched}.")
    lines += full_protocol(results, recipe)
    lines += [f"{name}: `{text}`" for name, text in spec["methods"].items()]
    mark = "<!-- commands: not run, hours of training on data that must be fetched -->"
    return "\n".join([f"{mark}\n```text\n{command(results)}\n```\n", *(f"- {line}" for line in lines)])


def duration(seconds: float) -> str:
    """Seconds in words: minutes, or hours where there are two or more.

    >>> duration(340), duration(9000)
    ('6 minutes', '2.5 hours')
    """
    minutes = seconds / 60
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def full_protocol(results: Results, recipe: Spec) -> list[str]:
    """How long the paper's number of trials and searches would take on these data, where there are fewer."""
    spec, seconds = results.spec, results.about["seconds"]
    datasets, levels = results.queries["data"].n_unique(), results.queries["level"].n_unique()
    models = recipe.trials * datasets * len(recipe.levels)
    searched = (1 + recipe.tune_trials) / (1 + spec["tune_trials"])
    fewer = any(len(one) < models for one in seconds.values()) or levels < len(recipe.levels) or searched > 1
    if not fewer:
        return []
    total = sum(sum(one) / len(one) * models * searched for one in seconds.values() if one)
    measured = sum(map(sum, seconds.values())) / sum(map(len, seconds.values()))
    cut = f"{recipe.trials} trials" + (f" with searches of {recipe.tune_trials} each" if searched > 1 else "")
    text = f"The full protocol, {cut}, would take about {duration(total)} of training on these data "
    return [text + f"(measured: {measured:.1f} seconds per model here)."]


def narrowed(results: Results) -> Results:
    """Leave out the metrics that a page has no room for."""
    return replace(results, queries=results.queries.drop(results.metrics[METRICS:]))


def means(results: Results) -> str:
    """Means with intervals and marks: by level where there are some, else by metric."""
    results = narrowed(results)
    texts = []
    for data in dict.fromkeys(data for data, _ in places(results)):
        levels = [level for name, level in places(results) if name == data]
        table = levels_table(results, data) if len(levels) > 1 else means_table(results, data, levels[0])
        texts += [f"**{data}**", table.markdown()]
    return "\n\n".join(texts)


def beside(results: Results) -> str:
    """Each method beside the paper's figure for it, and how far it is from the first method, in both."""
    metric, first = results.spec["decide"], results.methods[0]
    published = {row[:4]: row[4] for row in results.published.iter_rows()}
    by_level = len({level for _, level in places(results)}) > 1
    rows, legend = [], ""
    for data, level in places(results):
        compared = comparison(results, data, level)
        if compared is None:
            continue
        legend = compared.legend().partition(". ")[2]
        theirs = {name: published.get((data, level, name, metric), float("nan")) for name in results.methods}
        for name in results.methods:
            row = [f"{level:g}"] * by_level
            row += [name, tables.number(compared.mean[metric][name]), tables.number(theirs[name])]
            row += _ahead(compared, metric, name, first) if name != first else ["", ""]
            row += [tables.number(theirs[name] - theirs[first], signed=True) if name != first else ""]
            rows.append(tuple(row))
    header = (*[LEVELS.get(results.spec["treatment"], "level")] * by_level, "method", metric, "paper")
    header += (f"ours − {first}", f"{100 * (1 - alpha(results)):g}% interval", f"paper − {first}")
    notes = (f"*: significant. {legend}",)
    return tables.Table(header=header, rows=tuple(rows), align="r" * by_level + "lrrrlr", notes=notes).markdown()


def _ahead(compared: Comparison, metric: str, name: str, other: str) -> list[str]:
    """By how much one method is ahead of another, and the interval of that."""
    pair = next(one for one in compared.pairs if one.metric == metric and {one.system, one.against} == {name, other})
    sign = 1.0 if pair.system == name else -1.0
    low, high = sorted((sign * pair.low, sign * pair.high))
    gap = tables.number(sign * pair.difference, signed=True) + "*" * pair.significant
    return [gap, tables.interval(low, high, signed=True)]


def paper(results: Results) -> str:
    """What the paper published for its own data."""
    published = results.published
    if not published.height:
        return "The paper has no figures in print for this."
    metrics = published["metric"].unique(maintain_order=True).to_list()
    by_level = published["level"].n_unique() > 1
    rows = []
    for (data, level, method), own in published.group_by("data", "level", "method", maintain_order=True):
        cells = []
        for metric in metrics:
            one = own.filter(metric=metric).select("value", "high").rows()
            value, high = one[0] if one else (float("nan"), None)
            cells.append(tables.number(value) + (f" ± {tables.number(high - value)}" if high is not None else ""))
        rows.append((str(data), *([f"{level:g}"] if by_level else []), str(method), *cells))
    header = ("data", *([LEVELS.get(results.spec["treatment"], "level")] if by_level else []), "method", *metrics)
    notes = (f"The paper: {'; '.join(published['source'].unique(maintain_order=True))}.",)
    align = "l" + "r" * by_level + "l" + "r" * len(metrics)
    return tables.Table(header=header, rows=tuple(rows), align=align, notes=notes).markdown()


def judged(results: Results) -> str:
    """The verdicts, those of the deciding metric alone where there are many."""
    found = verdicts(results)
    if not found:
        return "The paper claims nothing of these methods that a table could hold them to."
    table = verdict_table(results)
    if table is None or len(found) <= ROWS:
        return table.markdown() if table else ""
    kept = tuple(row for row, one in zip(table.rows, found, strict=True) if one.metric == results.spec["decide"])
    text = replace(table, rows=kept).markdown()
    return f"{text}\n\nOver all metrics and places, {len(found)} statements: {counted(found)}."


def figure(shelf: Shelf, run: str, name: str) -> str:
    """Copy a figure of the report beside the pages, made smaller, and write it with its text and caption."""
    title, alt, caption = shelf.figures(run)[check.choice("figure", name, list(shelf.figures(run)))]
    picture = shelf.pages / "img" / f"{run}-{name}.png"
    picture.parent.mkdir(exist_ok=True)
    with Image.open((shelf.reports or Path()) / run / "report-files" / f"{name}.png") as drawn:
        flat = Image.new("RGB", drawn.size, "white")
        flat.paste(drawn, mask=drawn.getchannel("A"))
        if flat.width > WIDTH:
            flat = flat.resize((WIDTH, round(flat.height * WIDTH / flat.width)), Image.Resampling.LANCZOS)
        # An octree keeps rare colours, such as those of a thin line, where median cut would merge them.
        flat.quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(picture, optimize=True)
    alt = alt.replace("[", "(").replace("]", ")")
    return f"![{alt}](img/{picture.name})\n\n*{title}.* {caption}"


def overview(shelf: Shelf) -> str:
    """One line for each experiment that has a page."""
    rows = []
    for page in sorted(shelf.pages.glob("*.md")):
        for what, run in (match.group("what", "run") for match in BLOCK.finditer(page.read_text(encoding="utf-8"))):
            if what != "made" or not shelf.has(run):
                continue
            results = shelf.read(run)
            data = ", ".join(dict.fromkeys(name for name, _ in places(results)))
            cells = (
                f"[`{run}`]({page.name})",
                data,
                trials(results),
                results.spec["claim"],
                counted(verdicts(results)) or "see the page",
            )
            rows.append(" | ".join(cells))
    head = "| reproduction | data | trials | what it is to show | the paper's statements, with us |"
    return "\n".join([head, "| :-- | :-- | :-- | :-- | :-- |", *(f"| {row} |" for row in rows)])


BLOCKS: dict[str, Callable[[Results], str]] = {
    "made": made, "means": means, "beside": beside, "paper": paper, "verdicts": judged,
}  # fmt: skip


def filled(shelf: Shelf, text: str, page: str) -> str:
    """Give a page with every block made anew whose results there are."""
    if text.count(":begin -->") != text.count(":end -->") or text.count(":begin -->") != len(BLOCK.findall(text)):
        raise check.error("every <!-- … :begin --> needs its <!-- … :end -->", where=page)

    def anew(block: re.Match[str]) -> str:
        what, run = block.group("what", "run")
        run, _, name = run.partition("/")
        check.choice("block", what, [*BLOCKS, "figure", "overview"])
        if what != "overview" and not shelf.has(run):
            print(f"{page}: no results of {run}, left as it is", file=sys.stderr)
            return block[0]
        if what == "figure" and shelf.reports is None:
            return block[0]
        content = (
            overview(shelf) if what == "overview"
            else figure(shelf, run, name) if what == "figure"
            else BLOCKS[what](shelf.read(run))
        )  # fmt: skip
        begin, end = block[0].split("-->")[0], block[0].rpartition("<!--")[2]
        return f"{begin}-->\n\n{content}\n\n<!--{end}"

    return BLOCK.sub(anew, text)


def pages(folder: Path, only: list[str]) -> Iterator[Path]:
    """The pages to fill, the index last because it reads the others."""
    chosen = [page for page in sorted(folder.glob("*.md")) if not only or page.stem in only]
    yield from sorted(chosen, key=lambda page: page.stem == "index")


def differences(shelf: Shelf, only: list[str]) -> list[str]:
    """What would change in the pages if their tables were made anew, as lines of a diff."""
    found: list[str] = []
    for page in pages(shelf.pages, only):
        old = page.read_text(encoding="utf-8")
        new = filled(shelf, old, page.name)
        names = (str(page), f"{page} as the trials have it")
        found += difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="", n=1)
    return found


def public(results: Results) -> Results:
    """Give results without the folders of the machine that they were computed on."""
    named = [NAMED.sub(r"\1", one) for one in results.spec["data"]]
    return replace(results, spec=results.spec | {"data": named}, about=results.about | {"command": command(results)})


def keep(folder: Path, shelf: Shelf, only: list[str]) -> None:
    """Pack the results of every experiment in a folder."""
    shelf.results.mkdir(parents=True, exist_ok=True)
    texts = [page.read_text(encoding="utf-8") for page in pages(shelf.pages, [])]
    for description in sorted(folder.glob(f"*/{DESCRIPTION}")):
        run = description.parent.name
        if only and run not in only:
            continue
        shown = any(f"<!-- figure {run}/{NEED_DOCUMENTS}" in text for text in texts)
        results = Results.read(description.parent)
        if not results.queries.height:
            print(f"{description.parent}: none of its trials is there, left out", file=sys.stderr)
            continue
        path = public(results).pack(shelf.pack(run), documents=shown)
        wanted, there = len(json.loads(description.read_bytes())["files"]), results.trial_means().height
        missing = f", {there} of {wanted} trainings" if there < wanted else ""
        print(f"{path}: {path.stat().st_size / 1000:,.0f} kB{missing}")


def main() -> None:
    """Fill the pages, or check or keep what they are filled with."""
    parser = argparse.ArgumentParser(description="Fill the pages about reproductions with tables and figures.")
    parser.add_argument("results", type=Path, nargs="?", default=KEPT)
    parser.add_argument("--pages", type=Path, default=Path("docs/results"))
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="PAGE", help="pages; with --pack experiments")
    parser.add_argument("--check", action="store_true", help="show what would change, and exit with 1 if anything does")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="keep the trials of every experiment in FOLDER")
    given = parser.parse_args()
    if given.pack:
        keep(given.pack, Shelf(given.results, None, given.pages), given.only)
        return
    if given.check:
        changes = differences(Shelf(given.results, None, given.pages), given.only)
        print("\n".join(changes))
        sys.exit(bool(changes))
    with tempfile.TemporaryDirectory() as scratch:
        shelf = Shelf(given.results, given.reports or Path(scratch), given.pages)
        for page in pages(given.pages, given.only):
            page.write_text(filled(shelf, page.read_text(encoding="utf-8"), page.name), encoding="utf-8")


if __name__ == "__main__":
    main()
