"""The picture of the search page: the documentation of NumPy and SciPy, searched by words.

python -m benchmarks.pages.search [--picture docs/img/search.png] [--save search]

Queries to train on are a few words of a page's first sentence; relevant are the page, and what it lists under "See
Also". Beside it stands a ranker trained on names with whole sentences, as `rw.text.numpy_scipy` has them. The folder of
--save is what `rankwise serve` takes. Needs Chromium and playwright.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import rankwise as rw

PICTURE = Path(__file__).parents[2] / "docs" / "img" / "search.png"
QUERY, WIDTH, HEIGHT = "fit a smooth curve to noisy data", 1280, 860
DEPTH = 60


def trained(rounds: int = 500) -> rw.text.Search:
    """Return a search of the pages for a few words."""
    pages, draws = rw.text.numpy_scipy(), np.random.default_rng(0)
    index, queries, qrels = pages.index(), {}, {}
    for page, summary in pages.documents.select("id", "summary").iter_rows():
        words = re.findall(r"\w{3,}", summary.lower())
        if len(words) > 1:
            kept = np.sort(draws.permutation(len(words))[: draws.integers(2, 6)])
            queries[page] = " ".join(words[place] for place in kept)
            qrels[page] = {page: 2, **dict.fromkeys(pages.qrels.get(page, {}), 1)}
    found = {"bm25": index.search(queries, DEPTH)}
    data: Any = rw.text.dataset(index, queries, found, qrels, depth=DEPTH, unjudged="irrelevant")
    parts: Any = rw.split(data, (0.6, 0.2, 0.2), seed=0)
    train, valid, test = parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pages with the same sentence are queries with the same features
        model = rw.LightGBMRanker("lambdarank", rounds=rounds, leaves=15).fit(train, valid)
        sentences = rw.text.dataset(
            index, pages.queries, {"bm25": pages.runs(index)["bm25"]}, pages.qrels, depth=DEPTH, unjudged="irrelevant"
        )
        train, valid, _ = rw.split(sentences, (0.6, 0.2, 0.2), seed=0)
        other = rw.LightGBMRanker("lambdarank", rounds=rounds, leaves=15).fit(train, valid)
    bm25 = test.features[:, data.feature_names.index("score(bm25)")]
    print(rw.compare({"BM25": bm25, "trained on sentences": other, "trained on words": model}, test))
    return rw.text.Search(index, model, depth=DEPTH)


def photographed(folder: Path, picture: Path, query: str) -> None:
    """Serve a search, and write a picture of its page with an explanation."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "rankwise", "serve", f"documentation={folder}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving, sync_playwright() as driver:
        try:
            address = serving.stdout.readline().split()[-1] if serving.stdout else ""
            program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            page.goto(address)
            page.fill("#query", query)
            page.keyboard.press("Enter")
            page.wait_for_selector("#learned li")
            page.click("#learned li:nth-child(1)")
            page.click("#before li:nth-child(1)")
            page.wait_for_selector("#why:not([hidden])")
            page.wait_for_load_state("networkidle")
            page.mouse.move(0, 0)
            page.screenshot(path=str(picture))
            browser.close()
        finally:
            serving.terminate()
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="The picture of the search page.")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    parser.add_argument("--save", type=Path, help="keep the search in this folder")
    parser.add_argument("--query", default=QUERY)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = trained(options.rounds).save(options.save or Path(temporary, "search"), force=True)
        photographed(folder, options.picture, options.query)
    print(f"\nwrote {options.picture} ({options.picture.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
