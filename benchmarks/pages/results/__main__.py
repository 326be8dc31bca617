"""Fill the pages about reproductions with tables and figures of results that were computed before.

    python -m benchmarks.pages.results [RESULTS] [--pages docs/results] [--reports FOLDER] [--only 2021-table1 …]
    python -m benchmarks.pages.results --tables          # in seconds, because figures stay
    python -m benchmarks.pages.results --check           # is every table what the trials give? 1 if not
    python -m benchmarks.pages.results --pack FOLDER     # keep the trials of FOLDER/2021-table1 … in RESULTS

RESULTS, by default docs/results/trials, holds the results of each experiment: a folder as ``rankwise reproduce`` writes
it, or ``NAME.zip``, a pack of it. What stands between markers in the pages is made anew, and everything else is left as
it was written:

    <!-- made 2021-table1:begin --> … <!-- made 2021-table1:end -->       command, date, versions, trials
    <!-- means 2021-table1:begin --> …                                    means with intervals and marks
    <!-- beside thesis-mq2008-ap:begin --> …                              each method beside the paper's figure for it
    <!-- paper 2019-table1:begin --> …                                    what the paper published for its own data
    <!-- verdicts 2021-table1:begin --> …                                 does it hold here?
    <!-- rounds 2021-figure1:begin --> …                                  differences while rounds are few
    <!-- reached 2020-figure3:begin --> …                                 how far methods get, and in how many rounds
    <!-- peaks 2024-figure3-at10:begin --> …                             methods at their best rounds and at the last
    <!-- bounds 2019-bound:begin --> …                                   metrics beside what losses guarantee of them
    <!-- changes 2020-table1-nets:begin --> …                               methods that are one change apart
    <!-- figure 2021-table1/means-mq2008:begin --> …                      a figure of the report, copied into img/
    <!-- gamma gamma:begin --> …                                         measurements of a benchmark, RESULTS/gamma.csv
    <!-- overview all:begin --> …                                         a line for each experiment that has a page
    <!-- holds bruch2021:begin --> …                                      each statement of a paper with our evidence

What has no results says so if RESULTS is the default, and keeps what it holds if it is another folder. Figures come
from reports, which take seconds to a minute each: ``--reports`` keeps them, and takes those that are there.
"""

import argparse
import difflib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from PIL import Image

from benchmarks.pages.results.blocks import ABSENT, BLOCKS, NAMED, command, planned
from benchmarks.pages.results.folders import BLOCK, Folders
from benchmarks.pages.results.overviews import holds, overview
from benchmarks.quality import gamma
from rankwise import check
from rankwise.wings.lab.experiments.results import DESCRIPTION, Results

WIDTH = 1100  # pixels
COLOURS = 256
KEPT = Path("docs/results/trials")
MEASURED: dict[str, Callable[[Path], str]] = {"gamma": lambda path: gamma.table(gamma.read(path))}
NEED_DOCUMENTS = "cutoffs"  # the figure of metrics that were not computed


def figure(folders: Folders, run: str, name: str) -> str:
    """Copy a figure of the report beside the pages, made smaller, and write it with its text and caption."""
    title, alt, caption = folders.figures(run)[check.choice("figure", name, list(folders.figures(run)))]
    picture = folders.pages / "img" / f"{run}-{name}.png"
    picture.parent.mkdir(exist_ok=True)
    smaller((folders.reports or Path()) / run / "report-files" / f"{name}.png", picture)
    alt = alt.replace("[", "(").replace("]", ")")
    return f"![{alt}](img/{picture.name})\n\n*{title}.* {caption}"


def smaller(drawn: Path, picture: Path) -> None:
    """Write a figure as small as a page needs it."""
    with Image.open(drawn) as given:
        flat = Image.new("RGB", given.size, "white")
        flat.paste(given, mask=given.getchannel("A"))
    if flat.width > WIDTH:
        flat = flat.resize((WIDTH, round(flat.height * WIDTH / flat.width)), Image.Resampling.LANCZOS)
    # An octree keeps rare colours, such as those of a thin line, where median cut would merge them.
    flat.quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(picture, optimize=True)


def filled(folders: Folders, text: str, page: str) -> str:
    """Give a page with every block made anew whose results there are."""
    if text.count(":begin -->") != text.count(":end -->") or text.count(":begin -->") != len(BLOCK.findall(text)):
        raise check.error("every <!-- … :begin --> needs its <!-- … :end -->", where=page)

    def anew(block: re.Match[str]) -> str:
        what, run = block.group("what", "run")
        run, _, name = run.partition("/")
        check.choice("block", what, [*BLOCKS, *MEASURED, "figure", "overview", "holds"])
        there = what in ("overview", "holds") or folders.has(run)
        if not there and (what in MEASURED or not folders.all_there):
            print(f"{page}: no results of {run}, left as it is", file=sys.stderr)
            return block[0]
        if (not there and ABSENT in block[0]) or (there and what == "figure" and not folders.reports):
            return block[0]
        content = (
            planned(run, what) if not there
            else overview(folders) if what == "overview"
            else holds(folders, run) if what == "holds"
            else figure(folders, run, name) if what == "figure"
            else MEASURED[what](folders.measured(run)) if what in MEASURED
            else BLOCKS[what](folders.read(run))
        )  # fmt: skip
        begin, end = block[0].split("-->")[0], block[0].rpartition("<!--")[2]
        return f"{begin}-->\n\n{content}\n\n<!--{end}"

    return BLOCK.sub(anew, text)


def pages(folder: Path, only: list[str]) -> Iterator[Path]:
    """The pages to fill."""
    yield from (page for page in sorted(folder.glob("*.md")) if not only or page.stem in only)


def differences(folders: Folders, only: list[str]) -> list[str]:
    """What would change in the pages if their tables were made anew, as lines of a diff."""
    found: list[str] = []
    for page in pages(folders.pages, only):
        old = page.read_text(encoding="utf-8")
        new = filled(folders, old, page.name)
        names = (str(page), f"{page} as the trials have it")
        found += difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="", n=1)
    return found


def public(results: Results) -> Results:
    """Give results without the folders of the machine that they were computed on."""
    named = [NAMED.sub(r"\1", one) for one in results.spec["data"]]
    return replace(results, spec=results.spec | {"data": named}, about=results.about | {"command": command(results)})


def keep(folder: Path, folders: Folders, only: list[str]) -> None:
    """Pack the results of every experiment in a folder."""
    folders.results.mkdir(parents=True, exist_ok=True)
    texts = [page.read_text(encoding="utf-8") for page in pages(folders.pages, [])]
    for description in sorted(folder.glob(f"*/{DESCRIPTION}")):
        run = description.parent.name
        if only and run not in only:
            continue
        shown = any(f"<!-- figure {run}/{NEED_DOCUMENTS}" in text for text in texts)
        results = Results.read(description.parent)
        if not results.queries.height:
            print(f"{description.parent}: none of its trials is there, left out", file=sys.stderr)
            continue
        path = public(results).pack(folders.pack(run), documents=shown)
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
    parser.add_argument("--tables", action="store_true", help="leave figures as they are")
    parser.add_argument("--check", action="store_true", help="show what would change, and exit with 1 if anything does")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="keep the trials of every experiment in FOLDER")
    given = parser.parse_args()
    if given.pack:
        keep(given.pack, Folders(given.results, None, given.pages), given.only)
        return
    if given.check:
        changes = differences(Folders(given.results, None, given.pages, all_there=given.results == KEPT), given.only)
        print("\n".join(changes))
        sys.exit(bool(changes))
    with tempfile.TemporaryDirectory() as scratch:
        reports = None if given.tables else given.reports or Path(scratch)
        folders = Folders(given.results, reports, given.pages, all_there=given.results == KEPT)
        for page in pages(given.pages, given.only):
            page.write_text(filled(folders, page.read_text(encoding="utf-8"), page.name), encoding="utf-8")


if __name__ == "__main__":
    main()
