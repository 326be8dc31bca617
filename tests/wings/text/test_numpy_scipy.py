"""The documentation of NumPy and SciPy: what pages and links are, no leaks, the cache, the set of the catalog."""

import json
import re
import subprocess
import sys
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
import scipy

import rankwise as rw
from rankwise.wings.text import numpy_scipy as module
from tests.processes import environment
from tests.refusals import refuses


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> rw.text.Pages:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKWISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        first = rw.text.numpy_scipy()
        patch.setattr(module, "_collected", None)  # what is kept is not collected again
        second = rw.text.numpy_scipy()
    assert first.documents.equals(second.documents)
    assert (first.queries, first.qrels, first.versions) == (second.queries, second.qrels, second.versions)
    return second


def test_versions_are_printed(pages):
    assert pages.versions == {"numpy": np.__version__, "scipy": scipy.__version__}
    assert repr(pages).endswith(f"numpy {np.__version__} and scipy {scipy.__version__})")


def test_pages_are_what_their_authors_wrote(pages):
    rows = {row["id"]: row for row in pages.documents.iter_rows(named=True)}
    assert 1_500 < len(rows) < 5_000
    assert rows["numpy.median"]["summary"] == "Compute the median along the specified axis."
    assert rows["numpy.median"]["module"] == "numpy"
    assert pages.queries["numpy.median"] == "numpy.median Compute the median along the specified axis."
    assert pages.qrels["numpy.median"].keys() >= {"numpy.mean", "numpy.percentile"}
    assert "axis" in rows["numpy.median"]["parameters"]


def test_a_summary_is_a_sentence(pages):
    rows = {row["id"]: row["summary"] for row in pages.documents.iter_rows(named=True)}
    assert rows["scipy.special.airy"] == "Airy functions and their derivatives."  # after two signatures
    assert sum(bool(re.match(r"\w+\(", one)) for one in rows.values()) <= len(rows) // 200


def test_links_lead_to_other_pages(pages):
    ids = set(pages.documents["id"])
    assert pages.qrels.keys() == pages.queries.keys()
    for page, links in pages.qrels.items():
        assert links
        assert links.keys() <= ids - {page}


def test_an_object_is_one_page(pages):
    ids = set(pages.documents["id"])
    assert "numpy.absolute" in ids or "numpy.abs" in ids
    assert not {"numpy.absolute", "numpy.abs"} <= ids
    assert pages.documents["id"].n_unique() == pages.documents.height


def test_no_section_see_also_is_in_a_text(pages):
    for field in module.FIELDS:
        for text in pages.documents[field]:
            assert not re.search(r"(?im)^\s*see also\s*\n\s*-{3,}", text)
    text = pages.documents.filter(pl.col("id") == "numpy.ptp")["text"].item()
    assert "numpy.amin" not in text


def test_sections_of_a_docstring():
    doc = "mean(a)\n\nThe mean.\n\nMore.\n\nParameters\n----------\na : array\n\nSee Also\n--------\nmedian, :func:`nanmean` : x\n    std\nNotes\n-----\nn"  # noqa: E501
    sections = module._sections(doc)
    assert list(module._listed(sections["See Also"])) == ["median", "nanmean"]
    row = module._page("numpy.mean", sections)
    assert (row["name"], row["module"], row["summary"], row["notes"].strip()) == ("mean", "numpy", "The mean.", "n")
    assert row["text"].split() == ["More.", "a", ":", "array", "n"]


def test_a_damaged_copy_is_made_anew(monkeypatch, tmp_path, pages):
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path))
    row = dict.fromkeys(("id", *module.FIELDS), "x")
    monkeypatch.setattr(module, "_collected", lambda progress: ([row], {"x": {"y": 1}}))
    assert rw.text.numpy_scipy().documents.height == 1
    (kept,) = tmp_path.iterdir()
    assert np.__version__ in kept.name
    for damage in ("", "[]", "[[{}], {}]", json.dumps([[{"id": "x"}], {}]), json.dumps([[row], {"z": {}}])):
        kept.write_text(damage)
        assert rw.text.numpy_scipy().qrels == {"x": {"y": 1}}
        assert json.loads(kept.read_text()) == [[row], {"x": {"y": 1}}]


def test_python_without_docstrings_is_refused_and_spoils_no_cache(tmp_path):
    code = "import rankwise as rw\nrw.text.numpy_scipy()"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code], check=False, capture_output=True, text=True,
        env=environment(RANKWISE_CACHE=str(tmp_path)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "there are no docstrings" in done.stderr
    assert "-OO" in done.stderr
    assert not [*tmp_path.glob("numpy-scipy*")]


def test_modules_that_a_version_lacks_are_left_out(monkeypatch):
    monkeypatch.setattr(module, "_MODULES", {"numpy": ("", "of_the_future"), "scipy": ("cluster.vq", "differentiated")})
    rows, _ = module._collected(progress=False)
    assert {row["id"].partition(".")[0] for row in rows} == {"numpy", "scipy"}


def test_the_set_of_the_catalog(pages, monkeypatch):
    monkeypatch.setattr(module, "numpy_scipy", lambda: pages)
    parts: Any = rw.load_dataset("NumPy SciPy")
    train, valid, test = parts
    assert train.n_features == rw.data.datasets()[-1].n_features
    assert not {*train.query_ids} & {*valid.query_ids, *test.query_ids}
    assert train.judged is None
    assert train.n_queries + valid.n_queries + test.n_queries == len(pages.queries)
    assert not (
        np.repeat(test.query_ids, np.diff(test.offsets)) == test.document_ids
    ).any()  # no page is its own answer
    monkeypatch.setattr(module, "split", lambda data, shares, seed: (train, valid, test))
    monkeypatch.setattr(rw.text.Pages, "dataset", lambda self: None)
    assert rw.load_dataset("numpy-scipy", part="valid") is valid
    refuses(lambda: rw.load_dataset("numpy-scipy", 2), what="…no folds", got="fold 2")
    refuses(lambda: rw.load_dataset("numpy-scipy", part=cast("Any", "dev")), got="'dev'")
    scores: dict[str, Any] = {
        name: test.features[:, test.feature_names.index(name)] for name in ("bm25(text)", "bm25(summary)")
    }
    model = rw.LightGBMRanker(rounds=30, progress=False).fit(train)
    means = {
        name: rw.evaluate(one, test, ["ndcg@10"]).mean["ndcg@10"] for name, one in {**scores, "model": model}.items()
    }
    assert means["model"] > max(means["bm25(text)"], means["bm25(summary)"]) + 0.1, means
