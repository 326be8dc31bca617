"""Words of texts: code, scripts without spaces, HTML, stop words, stems."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from rankwise.check import MissingExtraError
from tests.refusals import refuses


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        ({}, "HTTPServer float64 nan_median nanMedian __init__", "http server float64 nan median nan median init"),
        ({"split": False}, "HTTPServer nan_median", "httpserver nan_median"),
        ({}, "don't re-rank 3.5", "don t re rank 3 5"),
        ({}, "ｆｕｌｌ ﬁne ÉTÉ", "full fine été"),  # Unicode's compatible form
        ({}, "Straße STRASSE ὈΔΌΣ ὀδός", "strasse strasse ὀδόσ ὀδόσ"),
        ({}, "हिन्दी में สวัสดี مُحَمَّد x̄_bar", "हिन्दी में สวัสดี مُحَمَّد x̄ bar"),  # marks are parts of words
        ({"ngrams": 3}, "สวัสดี", "สวั วัส ัสด สดี"),
        ({}, "co\u00adoperate می\u200cخواهم ❤\ufe0flove", "cooperate میخواهم love"),
        ({}, "Москва и Киев", "москва и киев"),
        ({"ngrams": 2}, "東京都 a", "東京 京都 a"),
        ({"ngrams": 3}, "median", "med edi dia ian"),
        ({"ngrams": 1}, "北京", "北 京"),
        ({"html": True}, "<b>caf&eacute;</b><script>var x;</script>a&lt;b <p>c", "café a b c"),
        ({"html": True}, "a < b & c", "a b c"),
        ({"stop": "english"}, "The mean of an array", "mean array"),
        ({"stop": ["mean"]}, "The mean", "the"),
        ({}, "", ""),
        ({}, "\ud800 lone", "lone"),
    ],
)
def test_words(options, text, words):
    assert rw.text.Analyzer(**options)(text) == words.split()


@given(
    st.text("<![]>-&#;a/ \"'=", max_size=20),
    st.sampled_from(["", "<![", "<![foo[", "<!DOCTYPE", "<![CDATA[", "<script>"]),
)
def test_any_text_is_read_as_html(text, beginning):
    assert all(rw.text.Analyzer(html=True)(beginning + text))


def test_stems_are_made_by_snowball(monkeypatch):
    pytest.importorskip("snowballstemmer")
    assert rw.text.Analyzer(stem="english")("running runs") == ["run", "run"]


def test_stems_are_asked_of_the_library(monkeypatch):
    library = SimpleNamespace(
        algorithms=lambda: ["english", "german"],
        stemmer=lambda language: SimpleNamespace(stemWord=lambda word: word.removesuffix("s") + language[0]),
    )
    monkeypatch.setitem(sys.modules, "snowballstemmer", library)
    assert rw.text.Analyzer(stem="german", stop=["cats"])("Dogs cats hat") == ["dogg", "hatg"]
    refuses(lambda: rw.text.Analyzer(stem="klingon"), got="'klingon'", hint="…english…")
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    refuses(lambda: rw.text.Analyzer(stem="german"), MissingExtraError, what="…rankwise[text]…")


def test_options_that_are_refused():
    refuses(lambda: rw.text.Analyzer(ngrams=0), got="0")
    refuses(lambda: rw.text.Analyzer(stop="german"), got="'german'")


def test_an_analyzer_is_a_value_that_prints_and_reads_back():
    analyzer = rw.text.Analyzer(stop=["a"], ngrams=2)
    assert eval(repr(analyzer), {"Analyzer": rw.text.Analyzer}) == analyzer  # noqa: S307


def test_texts_with_odd_characters_are_kept():
    pages = rw.text.Documents({"a": "one\x00two \ud800 \u2028 三"}, fields=("text",))
    assert pages.search(["two", "三"])["document"].to_list() == ["a", "a"]
    assert pages.text("a")["text"].startswith("one\x00two")


def test_threads_share_a_stemmer():
    pytest.importorskip("snowballstemmer", reason="needs the extra text")
    words = [
        f"{start}{end}" for start in ("relat", "comput", "organ") for end in ("ional", "ers", "ization", "ing", "ly")
    ]
    expected = [rw.text.Analyzer(stem="english")(word) for word in words]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            shared = rw.text.Analyzer(stem="english")
            with ThreadPoolExecutor(4) as pool:
                found = [pool.submit(list, map(shared, words)) for _ in range(4)]
            assert all(one.result() == expected for one in found)
    finally:
        sys.setswitchinterval(before)
