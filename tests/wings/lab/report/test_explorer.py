"""The query explorer in a real browser: loading without a network, choosing, sorting, filtering, keys, many queries."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.schema import DOCUMENTS, QUERIES
from rankwise.wings.lab.report import html
from rankwise.wings.lab.report.explorer import packed
from rankwise.wings.lab.report.view import View
from rankwise.wings.lab.report.write import write_report
from tests.wings.lab import synthetic_results as synthetic

pytestmark = pytest.mark.slow
EVIL = "</script><img src=x onerror=\"document.title='taken'\">"
METHODS = {"ListNet": "lightgbm(listnet)", **synthetic.METHODS}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if program is None:
        pytest.skip("needs Chromium, which is not installed")
    with driver.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def results() -> Results:
    return synthetic.results(trials=1, queries=60, methods=METHODS, curves=False, ids={7: EVIL}, most=20)


@pytest.fixture(scope="module")
def report(results, tmp_path_factory) -> Path:
    """A page with nothing but the explorer."""
    return explorer(results, tmp_path_factory.mktemp("explorer") / "page.html")


def explorer(results: Results, path: Path) -> Path:
    sections = [("explorer", "Query explorer", html.file("explorer.html"))]
    html.write_page(path, title="T", kicker="", sections=sections, packed=packed(View(results)), force=True)
    return path


def opened(browser: Any, path: Path, **options: Any) -> Any:
    """Open a page with the network off; whatever it asks for is kept, and an error of its code is an error here."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", **options)
    context.set_offline(True)
    page = context.new_page()
    page.asked, page.errors = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri() if "#" not in str(path) else str(path))
    page.wait_for_selector("html[data-explorer=ready]")
    return page


@pytest.fixture
def page(browser, report) -> Iterator[Any]:
    page = opened(browser, report)
    yield page
    assert page.errors == []
    page.context.close()


def values(results: Results, method: str, metric: str = "ndcg@5") -> dict[str, float]:
    own = results.queries.filter(pl.col("method") == method)
    return dict(zip(own["query"], own[metric].fill_null(np.nan), strict=True))


def differences(results: Results, a: str, b: str, metric: str = "ndcg@5") -> dict[str, float]:
    one, other = values(results, a, metric), values(results, b, metric)
    return {query: one[query] - other[query] for query in one}


def names(page: Any) -> list[str]:
    return [str(text) for text in page.locator("#x-list .row .name").all_inner_texts()]


def chosen(page: Any) -> str:
    return str(page.inner_text("#x-query h3 .id"))


def wait(page: Any, query: str) -> None:
    """Wait until a query's documents are there."""
    page.wait_for_function("name => document.querySelector('#x-query h3 .id')?.textContent === name", arg=query)


def shown(page: Any, side: str) -> list[str]:
    return [str(text) for text in page.locator(f"#x-ranking-{side} td.document").all_inner_texts()]


def test_queries_are_sorted_by_how_alike_two_rankings_are(page, results):
    """Of every two methods, in either order, by similarities that are computed here from the frames."""
    methods = list(METHODS)
    rows = {name: part for (name,), part in results.documents.partition_by("method", as_dict=True).items()}
    queries = rows[methods[0]]["query"].unique(maintain_order=True).to_list()
    for one, other in ((1, 0), (1, 2), (0, 2)):
        page.select_option("#x-a", label=methods[one])
        page.select_option("#x-b", label=methods[other])
        page.select_option("#x-sort", label="least alike first, by tau")
        expected = {}
        for query in queries:
            scores = [rows[methods[place]].filter(query=query).sort("document")["score"] for place in (one, other)]
            expected[query] = rw.metrics.similarity_measure("tau")(scores[0], scores[1], [0, len(scores[0])])[0]
        ranked = [round(float(expected[name]), 3) for name in names(page)]
        assert len(ranked) > 5
        assert ranked == sorted(ranked)
        assert ranked[0] == min(round(float(value), 3) for value in expected.values())
        assert f"tau {ranked[0]:.3f}".replace("-", "−") in page.locator("#x-list .row .about").first.inner_text()


@pytest.mark.filterwarnings("ignore:100% of the first 10 documents of two were judged")
def test_documents_that_a_run_did_not_retrieve_are_not_ranked_and_those_that_nobody_judged_have_a_dash(
    browser, tmp_path
):
    qrels = {"q": {"d1": 2, "d2": 0, "lost": 1}, "other": {"d1": 1}}
    runs = {
        "one": {"q": {"d1": 3.0, "d2": 2.0, "extra": 1.0}, "other": {"d1": 1.0}},
        "two": {"q": {"d2": 9.0}, "other": {"d1": 1.0}},
    }
    compared = rw.compare({name: rw.evaluate(*rw.trec.join(run, qrels), "ap") for name, run in runs.items()})
    page = opened(browser, compared.to_report(tmp_path / "page.html"))
    wait(page, "q")
    assert (shown(page, "a"), shown(page, "b")) == (["d1", "d2", "extra"], ["d2"])
    cells = [row.split() for row in page.locator("#x-ranking-a tbody tr").all_inner_texts()]
    assert [row[1] for row in cells] == ["2", "0", "–"]
    assert [row[4].rstrip("▲▼") for row in cells] == ["–", "1", "–"]
    lost = page.locator(".missed").all_inner_texts()
    assert [re.findall(r"d1|lost", text) for text in lost] == [["lost"], ["d1", "lost"]]
    page.hover("#x-ranking-a tr[data-document] >> nth=0")
    assert "rank 1 in A, not in B" in page.inner_text("#x-features")
    assert "features" not in page.inner_text("#x-features")
    assert page.errors == []
    page.context.close()


def test_loads_without_asking_for_anything(page, report):
    assert page.asked == [report.as_uri()]
    assert page.inner_text("#x-count") == "60 queries."
    assert page.locator("#x-list .row").count() < 60  # only rows that can be seen exist


def test_begins_with_the_best_model_and_the_largest_difference(page, results):
    means = {name: np.nanmean(list(values(results, name).values())) for name in METHODS}
    best = max(means, key=lambda name: means[name])
    a, b = (page.locator(f"#x-{side} option:checked").inner_text() for side in "ab")
    assert a == best
    apart = differences(results, a, b)
    largest = max((query for query in apart if not np.isnan(apart[query])), key=lambda query: abs(apart[query]))
    assert names(page)[0] == chosen(page) == largest


def test_shows_both_rankings_and_every_metric(page, results):
    page.select_option("#x-a", label="XE-NDCG")
    page.select_option("#x-b", label="ListNet")
    page.fill("#x-text", "q12")
    wait(page, "q12")
    for side, method in (("a", "XE-NDCG"), ("b", "ListNet")):
        own = results.documents.filter(pl.col("method") == method, pl.col("query") == "q12")
        ranked = own.sort("score", descending=True)
        assert shown(page, side) == ranked["id"].to_list()
        labels = page.locator(f"#x-ranking-{side} .grade").all_inner_texts()
        assert labels == [f"{label:g}" for label in ranked["label"]]  # printed, not by colour alone
    cells = page.locator(".values tbody tr").all_inner_texts()
    for metric, cell in zip(synthetic.METRICS, cells, strict=True):
        one, other = (values(results, method, metric)["q12"] for method in ("XE-NDCG", "ListNet"))
        assert cell.split("\t")[:3] == [metric, f"{one:.4f}", f"{other:.4f}"]


@pytest.mark.parametrize(("order", "sign"), [("a", -1), ("b", 1)])
def test_sorts_by_difference(page, results, order, sign):
    page.select_option("#x-a", label="XE-NDCG")
    page.select_option("#x-b", label="LambdaMART")
    page.select_option("#x-sort", order)
    apart = differences(results, "XE-NDCG", "LambdaMART")
    known = sorted((query for query in apart if not np.isnan(apart[query])), key=lambda query: sign * apart[query])
    first = names(page)[:5]
    assert [apart[query] for query in first] == [apart[query] for query in known[:5]]
    page.select_option("#x-metric", label="ap")  # keeps the query that was looked at
    page.evaluate("document.getElementById('x-list').scrollTop = 0")
    page.wait_for_selector("#x-row-0")
    apart = differences(results, "XE-NDCG", "LambdaMART", "ap")
    known = sorted((query for query in apart if not np.isnan(apart[query])), key=lambda query: sign * apart[query])
    assert apart[names(page)[0]] == apart[known[0]]


def test_filters_by_relevant_documents_and_text(page, results):
    page.fill("#x-least", "3")
    page.fill("#x-most", "4")
    own = results.queries.filter(pl.col("method") == "ListNet", pl.col("relevant").is_between(3, 4))
    assert page.inner_text("#x-count") == f"{own.height} of 60 queries."
    assert set(names(page)) <= set(own["query"])
    page.fill("#x-least", "")
    page.fill("#x-most", "")
    page.fill("#x-text", "Q1")  # letters of either case
    assert page.inner_text("#x-count") == "11 of 60 queries."  # q1 and q10 to q19
    page.fill("#x-text", "nothing like it")
    assert page.inner_text("#x-list") == "No query fits."
    assert page.inner_text("#x-query") == ""
    page.fill("#x-text", "")
    assert page.inner_text("#x-count") == "60 queries."


def test_is_used_with_the_mouse(page):
    third = names(page)[2]
    page.locator("#x-list .row").nth(2).click()
    wait(page, third)
    assert page.get_attribute("#x-list .row.chosen", "aria-selected") == "true"
    document = shown(page, "b")[1]
    page.locator("#x-ranking-b tbody tr").nth(1).hover()
    assert document in page.inner_text("#x-features h4")
    assert page.locator("#x-query tr.same").count() == 2  # there and in the other ranking


def test_shows_what_features_add_and_why_one_document_ranks_above_another(browser, results, tmp_path):
    found = synthetic.explained(results, 60)
    page = opened(browser, explorer(found, tmp_path / "page.html"))
    rows = page.locator("#x-ranking-a tbody tr")
    scores = [float(text.replace("−", "-")) for text in page.locator("#x-ranking-a td.score").all_inner_texts()]

    def added() -> list[float]:
        texts = page.locator("#x-features dd.adds.a").all_inner_texts()
        return [float(text.replace("−", "-")) for text in texts]

    rows.nth(0).hover()
    assert sum(added()) == pytest.approx(scores[0], abs=2e-3)
    assert [abs(one) for one in added()] == sorted((abs(one) for one in added()), reverse=True)
    rows.nth(0).click()  # hold it
    rows.nth(1).hover()
    assert "held against" in page.inner_text("#x-features h4")
    assert sum(added()) == pytest.approx(scores[1] - scores[0], abs=2e-3)
    page.focus("#x-list")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")  # let it go
    assert page.locator("tr.held").count() == 0
    page.keyboard.press("ArrowDown")
    assert sum(added()) == pytest.approx(scores[1], abs=2e-3)
    assert page.errors == []
    page.context.close()


def test_is_used_with_the_keyboard(page, results):
    order = names(page)
    page.focus("#x-list")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    wait(page, order[1])
    assert page.get_attribute("#x-list", "aria-activedescendant") == "x-row-1"
    page.keyboard.press("End")
    page.wait_for_selector("#x-row-59.chosen")
    page.keyboard.press("PageUp")
    page.keyboard.press("Home")
    wait(page, order[0])
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    second = shown(page, "a")[1]
    assert page.evaluate("document.activeElement.querySelector('.document').textContent") == second
    own = results.features.join(results.documents.filter(pl.col("method") == "ListNet"), on=["query", "document"])
    first = own.filter(pl.col("id") == second)["features"][0][0]
    assert f"{first:.3f}"[:6].replace("-", "−") in page.inner_text("#x-features dd >> nth=0")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.closest('table').id") == "x-ranking-b"
    assert page.evaluate("document.activeElement.querySelector('.document').textContent") == second
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "x-list"


def test_ids_are_text_and_never_markup(page):
    page.fill("#x-text", "onerror")
    wait(page, EVIL)
    assert chosen(page) == EVIL
    assert names(page) == [EVIL]
    assert page.locator("img").count() == 0
    assert page.title() == "T"


def test_address_leads_back_to_a_query(browser, report, page):
    page.select_option("#x-a", label="LambdaMART")
    page.select_option("#x-sort", "file")
    expected = names(page)[4]
    page.locator("#x-list .row").nth(4).click()
    page.wait_for_function("location.hash.includes('query=')")
    wait(page, expected)
    again = opened(browser, page.url)
    assert chosen(again) == expected
    assert again.locator("#x-a option:checked").inner_text() == "LambdaMART"
    again.context.close()


def test_dark_and_light_differ_and_both_can_be_read(browser, report):
    def contrast(scheme: str) -> tuple[float, str]:
        page = opened(browser, report, color_scheme=scheme)
        colours = page.evaluate("['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])")
        page.context.close()
        light, dark = sorted((luminance(colour) for colour in colours), reverse=True)
        return (light + 0.05) / (dark + 0.05), colours[1]

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour.strip("rgba()").split(",")[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    (light, paper), (dark, night) = contrast("light"), contrast("dark")
    assert paper != night
    assert min(light, dark) > 7  # what WCAG asks of the best legible text


def test_ten_thousand_queries(browser, tmp_path):
    page = opened(browser, explorer(many(10_000), tmp_path / "many.html"))
    assert page.inner_text("#x-count") == "10,000 queries."
    assert page.locator("#x-list .row").count() < 60
    page.focus("#x-list")
    page.keyboard.press("End")
    page.wait_for_selector("#x-row-9999.chosen")
    page.select_option("#x-sort", "file")
    page.keyboard.press("Home")
    page.fill("#x-text", "query-98765")
    assert page.inner_text("#x-list") == "No query fits."
    page.fill("#x-text", "query-4321")
    wait(page, "query-4321")
    assert shown(page, "a") == ["document 1", "document 2", "document 3"]
    assert page.errors == []
    page.context.close()


def many(count: int) -> Results:
    """As many queries as a page holds, of three documents each: the first method has them in order, the second not."""
    ids = [f"query-{i}" for i in range(count)]
    queries, documents = [], []
    for method, sign in (("good", -1.0), ("poor", 1.0)):
        worth = np.random.default_rng(0).random(count) + (0.1 if sign < 0 else 0.0)
        key = {"data": ["d"] * count, "level": [0.0] * count, "trial": [0] * count, "method": [method] * count}
        sizes = {"documents": [3] * count, "relevant": [1] * count, "weight": [1.0] * count}
        queries.append(pl.DataFrame(key | {"query": ids} | sizes | {"ndcg@5": worth}))
        places = np.tile(np.arange(3), count)
        documents.append(
            pl.DataFrame(
                {"data": ["d"] * 3 * count, "method": [method] * 3 * count, "document": places,
                 "query": np.repeat(np.array(ids), 3).tolist(), "id": [None] * 3 * count,
                 "label": (places == 0).astype(float), "score": sign * places},
                schema=DOCUMENTS,
            )
        )  # fmt: skip
    frame = pl.concat(queries).cast({name: kind for name, kind in QUERIES.items() if name != "query"})
    return Results({"methods": {"good": "", "poor": ""}, "decide": "ndcg@5"}, frame, documents=pl.concat(documents))


def test_a_whole_report_loads_offline_and_prints(browser, results, tmp_path):
    """Slow: every figure of a report is drawn, and a browser prints them."""
    page = opened(browser, write_report(results, tmp_path))
    assert len(page.asked) == 1
    assert page.locator("figure svg[role=img]").count() == len(list(tmp_path.glob("*/*.svg")))
    assert page.locator("h2").all_inner_texts()[0] == "What was found"
    page.emulate_media(media="print")
    assert not page.is_visible(".controls")
    assert page.is_visible("#x-ranking-a")
    assert page.errors == []
    page.context.close()
