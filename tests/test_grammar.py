"""Text and object are one: what is printed reads back, and what cannot be read says where and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from rankwise import grammar
from rankwise.metrics import DCG, METRICS, NDCG, Precision

WRITTEN = {
    "ndcg": "ndcg",
    " ndcg @ 10 ": "ndcg@10",
    "ndcg(gain=linear, ties=average, empty=skip)@5": "ndcg(gain=linear)@5",
    "ndcg(gain='linear', empty=0)": "ndcg(gain=linear, empty=0)",
    "ndcg(cutoff=5)": "ndcg@5",
    "ndcg@5@10": "ndcg@10",
    "ndcg(gain=[0, 1, 3])": "ndcg(gain=(0.0, 1.0, 3.0))",
    "dcg(gain=(2,))": "dcg(gain=(2.0,))",
    "rbp(p=0.95)": "rbp(p=0.95)",
    "nrbp(relevant=2, p=0.9)@3": "nrbp(relevant=2, p=0.9)@3",
    "precision(relevant=2)@5": "precision(relevant=2)@5",
    "err(highest=2, ties=row)@10": "err(highest=2, ties=row)@10",
    "hit(ties=best, empty=1)@1": "hit(ties=best, empty=1)@1",
}


@pytest.mark.parametrize(("text", "canonical"), WRITTEN.items())
def test_texts_have_one_written_form(text: str, canonical: str) -> None:
    metric = rw.metric(text)
    assert repr(metric) == str(metric) == canonical
    assert rw.metric(canonical) == metric


@given(
    name=st.sampled_from(list(METRICS)),
    cutoff=st.none() | st.integers(1, 10**9),
    ties=st.sampled_from(["average", "row", "worst", "best"]),
    empty=st.sampled_from(["skip", 0, 1]),
    gain=st.sampled_from(["exponential", "linear"]) | st.lists(st.floats(0, 1e9), min_size=1, max_size=4).map(tuple),
    p=st.floats(1e-9, 1 - 1e-9),
    relevant=st.integers(1, 9) | st.floats(0.1, 5.0),
    highest=st.integers(1, 50),
)
def test_every_metric_reads_back(name: str, **options: object) -> None:
    known = METRICS[name].__dataclass_fields__
    metric = METRICS[name](**{word: value for word, value in options.items() if word in known})  # type: ignore[arg-type]
    assert rw.metric(repr(metric)) == metric


def test_options_replace_what_the_text_says() -> None:
    assert rw.metric("ndcg@5", gain="linear", cutoff=7) == NDCG(gain="linear", cutoff=7)
    assert rw.metric(Precision(cutoff=3), relevant=2) == Precision(cutoff=3, relevant=2)
    same = DCG()
    assert rw.metric(same) is same
    assert same @ 3 == DCG(cutoff=3)


BROKEN = [
    ("ndgc@10", r"unknown metric: got 'ndgc' at character 1 of 'ndgc@10'. Cure: did you mean 'ndcg'"),
    ("xyz", r"unknown metric: got 'xyz' .* choose one of ndcg, dcg, ap, rr, rbp, nrbp, err, precision, recall, hit"),
    ("ndcg(gian=linear)", r"unknown argument of ndcg: got 'gian' .* did you mean 'gain'"),
    ("ap(gain=linear)", r"unknown argument of ap: got 'gain' .* choose one of cutoff, ties, empty, relevant"),
    ("ndcg@0", r"cutoff must be a whole number of at least 1: got 0"),
    ("ndcg@-3", r"cutoff must be a whole number of at least 1: got -3"),
    ("ndcg@2.5", r"cutoff must be a whole number of at least 1: got 2.5"),
    ("ndcg@True", r"cutoff must be a whole number of at least 1: got True"),
    ("ndcg(ties=avrage)", r"unknown way to treat ties: got 'avrage'. Cure: did you mean 'average'"),
    ("ndcg(empty=2)", r"the worth of an empty query must be skip, 0 or 1: got 2"),
    ("ndcg(empty=True)", r"the worth of an empty query must be skip, 0 or 1: got True"),
    ("ndcg(gain=exponental)", r"unknown gain: got 'exponental'. Cure: did you mean 'exponential'"),
    ("ndcg(gain=())", r"gain must be a word or a table of numbers by label: got \(\). Cure: write exponential, linear"),
    ("ndcg(gain=3)", r"gain must be a word or a table of numbers by label: got 3"),
    ("ndcg(gain=(0, -1))", r"a gain in the table must be a number in \[0, 1e\+300\]: got -1"),
    ("rbp(p=1)", r"p must be a number in \(0, 1\): got 1"),
    ("rbp(p=0)", r"p must be a number in \(0, 1\): got 0"),
    ("ap(relevant=0)", r"relevant must be a number in \(0, 1e\+300\): got 0"),
    ("err(highest=0)", r"highest must be a whole number of at least 1: got 0"),
    ("err(highest=99)", r"highest must be a number in \[1, 50\]: got 99"),
    ("ndcg(5)", r"cannot build ndcg: got .* at character 1 of 'ndcg\(5\)'"),
    ("ndcg@", r"cannot read the text of a metric: got 'ndcg@' at character \d+. Cure: write it as name"),
    ("0.5*ndcg", r"cannot read part of the text of a metric: got '0.5\*ndcg' at character 1"),
    ("ndcg + ap", r"cannot read part of the text of a metric: got 'ndcg \+ ap' at character 1"),
    ("ndcg(**ap)", r"cannot read part of the text of a metric"),
    ("ndcg(gain=linear if ap else rr)", r"cannot read part of the text of a metric: got 'linear if ap else rr'"),
    ("10", r"the text does not describe a metric: got '10'. Cure: write it like ndcg@10"),
    ("__import__('os')", r"unknown metric: got '__import__'"),
]


@pytest.mark.parametrize(("text", "sentence"), BROKEN)
def test_what_cannot_be_read_is_said(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rw.metric(text)


def test_other_things_than_text() -> None:
    with pytest.raises(ValueError, match="a metric must be given as text: got 10"):
        rw.metric(10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"unknown option of ndcg: got 'gian'. Cure: did you mean 'gain'"):
        rw.metric("ndcg", gian="linear")
    with pytest.raises(ValueError, match="cutoff must be a whole number of at least 1: got '5'"):
        NDCG() @ "5"  # type: ignore[operator]


def test_values_of_every_kind_read_back() -> None:
    def made(*parts: object, **named: object) -> tuple[object, ...]:
        return (*parts, *sorted(named.items()))

    built = grammar.parse(
        "make(make, a=-1, b=(1, two, None), c='x y', d=0.5, e=True, f=make())", {"make": made}, "thing"
    )
    assert built == (
        (),
        ("a", -1),
        ("b", (1, "two", None)),
        ("c", "x y"),
        ("d", 0.5),
        ("e", True),
        ("f", ()),
    )
    assert grammar.word(("x y", "z", 1.5, None)) == "('x y', z, 1.5, None)"


def test_arguments_of_a_metric_name_only_what_differs() -> None:
    metric = NDCG(gain="linear", cutoff=3)
    assert grammar.arguments(metric) == "cutoff=3, gain=linear"
    assert grammar.arguments(metric, leave_out=("cutoff",)) == "gain=linear"
