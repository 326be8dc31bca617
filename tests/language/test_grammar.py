"""Text and object are one: what is printed reads back, and what cannot be read says where and why."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from rankwise.language import grammar
from rankwise.metrics import DCG, METRICS, NDCG, Precision
from rankwise.rankers import expressions
from rankwise.wings.fairness.diversity import AspectMetric
from tests.refusals import refusal, refuses

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
    "ap(divide=cutoff)@10": "ap(divide=cutoff)@10",
    "num_rel_ret(relevant=2)@10": "num_rel_ret(relevant=2)@10",
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
    known = set(METRICS[name].__dataclass_fields__) - ({"empty"} if METRICS[name].of_every_query else set())
    known -= set(METRICS[name].fixed)
    if issubclass(METRICS[name], AspectMetric) and options["ties"] in ("worst", "best"):
        known.remove("ties")  # there is no worst or best order of several aspects at once
    metric = METRICS[name](**{word: value for word, value in options.items() if word in known})  # type: ignore[arg-type]
    assert rw.metric(repr(metric)) == metric


def test_options_replace_arguments_of_the_expression() -> None:
    assert rw.metric("ndcg@5", gain="linear", cutoff=7) == NDCG(gain="linear", cutoff=7)
    assert rw.metric(Precision(cutoff=3), relevant=2) == Precision(cutoff=3, relevant=2)
    same = DCG()
    assert rw.metric(same) is same
    assert same @ 3 == DCG(cutoff=3)


BROKEN = [
    ("ndgc@10", r"unknown metric: got 'ndgc' at character 1 of 'ndgc@10'. Hint: did you mean 'ndcg'"),
    (
        "xyz",
        r"unknown metric: got 'xyz' .* choose one of ndcg, mean_ndcg, dcg, ap, rr, rbp, nrbp, err, precision, recall",
    ),
    ("ndcg(gian=linear)", r"unknown argument of ndcg: got 'gian' .* did you mean 'gain'"),
    (
        "ap(gain=linear)",
        r"unknown argument of ap: got 'gain' .* choose one of cutoff, ties, empty, label, judged_only, relevant",
    ),
    ("ndcg@0", r"cutoff must be a whole number of at least 1: got 0"),
    ("ndcg@-3", r"cutoff must be a whole number of at least 1: got -3"),
    ("ndcg@2.5", r"cutoff must be a whole number of at least 1: got 2.5"),
    (
        "ndcg@True",
        r"@ does not go between these in the metric expression: got 'ndcg@True' at character 5 of 'ndcg@True'",
    ),
    ("ndcg@9999999999999999999", r"character 5 of .*: cutoff must be below 2\^63: got a number of 64 bits"),
    ("ndcg(ties=avrage)", r"unknown way to treat ties: got 'avrage'. Hint: did you mean 'average'"),
    ("ndcg(empty=2)", r"empty must be skip, 0 or 1: got 2"),
    ("ndcg(empty=True)", r"empty must be skip, 0 or 1: got True"),
    ("ndcg(gain=exponental)", r"unknown gain: got 'exponental'. Hint: did you mean 'exponential'"),
    (
        "ndcg(gain=())",
        r"gain must be a word or a table of numbers by label: got \(\). Hint: set gain=exponential, gain=linear",
    ),
    ("ndcg(gain=3)", r"gain must be a word or a table of numbers by label: got 3"),
    ("ndcg(gain=(0, -1))", r"a gain in the table must be a number in \[0, 1e\+300\]: got -1"),
    ("rbp(p=1)", r"p must be a number in \(0, 1\): got 1"),
    ("rbp(p=0)", r"p must be a number in \(0, 1\): got 0"),
    ("ap(relevant=0)", r"relevant must be a number in \(0, 1e\+300\): got 0"),
    ("err(highest=0)", r"highest must be a whole number of at least 1: got 0"),
    ("err(highest=99)", r"highest must be at most 50: got 99"),
    ("ndcg(5)", r"cannot build ndcg: got .* at character 1 of 'ndcg\(5\)'"),
    ("ndcg@", r"cannot read the metric expression: got its end at character 6 of 'ndcg@'. Hint: write it as name"),
    ("0.5*ndcg", r"\* does not go between these in the metric expression: got '0.5\*ndcg' at character 4"),
    ("ndcg + ap", r"\+ does not go between these in the metric expression: got 'ndcg \+ ap' at character 6"),
    ("ndcg(**ap)", r"cannot read the metric expression: got '\*' at character 6"),
    ("ndcg(gain=linear if ap else rr)", r"got 'if' at character 18 of .* Hint: write a comma or \)"),
    (
        "10",
        r"the expression does not describe a metric: got '10' at character 1 of '10'. Hint: write .* for example ndcg",
    ),
    ("__import__('os')", r"unknown metric: got '__import__'"),
]


@pytest.mark.parametrize(("text", "sentence"), BROKEN)
def test_errors_of_metric_expressions(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rw.metric(text)


def test_only_objectives_are_objectives() -> None:
    for text in ("5", "None", "True", "'xendcg'", "()", "[xendcg]", "(xendcg,)", "-1e3"):
        with refusal(what="the expression does not describe an objective", where="character 1 of…"):
            rw.objective(text)
    for text in ("xendcg + 2", "2 - xendcg", "0.5*3", "xendcg*xendcg", "True*xendcg", "xendcg@5", "'a'*2000000000"):
        with refusal(what="…does not go between these in the objective expression"):
            rw.objective(text)
    for text in ("stochastic(5)", "weighted(None)", "bounded('smooth_rbp')", "stochastic(inner=xendcg)"):
        with pytest.raises(ValueError, match=f"character 1 of .*: {text.partition('(')[0]} goes around an objective"):
            rw.objective(text)
    others: list[Any] = [5, None, b"xendcg", rw.objectives.XENDCG, rw.metric("ndcg"), ["xendcg"]]
    for other in others:
        with refusal(what="an objective is an object, an expression or a function"):
            rw.objective(other)
    for wrong in (rw.objectives.XENDCG, rw.metric("ndcg"), 2, "xendcg"):
        with pytest.raises(TypeError, match="unsupported operand"):
            rw.objectives.XENDCG() + wrong
    refuses(lambda: rw.objectives.stochastic(rw.metric("ndcg")), what="stochastic goes around an objective")  # type: ignore[arg-type]
    with refusal(what="the factor of an objective must be a number in (-inf, inf)"):
        float("nan") * rw.objectives.XENDCG()
    data = rw.synthetic(n_queries=5, seed=0)
    for ranker in (rw.LightGBMRanker("5"), rw.CatBoostRanker("None"), rw.XGBoostRanker(others[1])):
        with pytest.raises(ValueError, match="an objective"):
            ranker.fit(data)


def test_only_rankers_are_rankers() -> None:
    for text in ("lightgbm(5)", "lightgbm(None)", "lightgbm('5')", "lightgbm(objective='0.5*3')", "lightgbm(lightgbm)"):
        with refusal(what="…objective…"):
            expressions.read(text)
    for text in ("5", "lightgbm + xgboost", "2*lightgbm", "stochastic(lightgbm)", "xendcg + lightgbm"):
        with pytest.raises(ValueError, match="at character|goes around"):
            expressions.read(text)
    assert (
        expressions.read("lightgbm(objective=xendcg)").objective
        == expressions.read("lightgbm(xendcg)").objective
        == "xendcg"
    )
    assert expressions.read("lightgbm(objective='native:lambdarank')").objective == "native:lambdarank"


PLACES = {
    "xendcg / 2": 8,
    "xendcg(epsilon=2**3)": 18,
    "xendcg(epsilon=2*3)": 17,
    "rw.objectives.XENDCG()": 3,
    "-" * 9_999 + "1": 1,
    "1" + "-" * 9_998: 3,
    "-xendcg": 1,
    "xendcg xendcg": 8,
    "(" * 9_999: 51,
    "stochastic(" * 60 + "xendcg" + ")" * 60: 551,
    "xendcg(epsilon=" + "[" * 100: 65,
    "+".join(["xendcg"] * 1_400) + " / 2": 9_801,
    "f'xendcg'": 2,
    "f'{5}'": 2,
    "xendcg(gamma=b'x')": 15,
    "ｘendcg": 1,
    "xendcg(gamma=größe)": 16,
    "xen\0dcg": 4,
    "xendcg\ud800": 7,
    "\x1b[2J": 1,
    "xendcg\u2028+ xendcg": 7,
    "xendcg(epsilon=" + "9" * 9_000 + ")": 16,
    "xendcg(epsilon=99999999999999999999)": 16,
    "xendcg(epsilon=1e400)": 16,
    "xendcg(epsilon=1j)": 17,
    "xendcg(epsilon=0x10)": 17,
    "xendcg(gamma='\\d')": 14,
    "xendcg(gamma='\\N{DIGIT ONE}')": 14,
    "xendcg(gamma='one)": 14,
    "xendcg(epsilon=1, epsilon=2)": 19,
    "stochastic(samples=2, xendcg)": 23,
    "xendcg(*xendcg)": 8,
    "xendcg(5=5)": 9,
    "xendcg(())(1)": 11,
    "xendcg[0]": 7,
    "lambda: xendcg": 7,
    "xendcg; xendcg": 7,
    "xendcg := xendcg": 8,
    "": 1,
    "  ": 3,
    "unknown + xendcg": 1,
    "xendcg + unknown": 10,
    "xendcg + stochastic(xendcg, scale=-1)": 10,
    "xendcg + stochastic(xendcg, noise=loud)": 10,
    "xendcg + xendcg(unknown=1)": 10,
}


@pytest.mark.parametrize("text", PLACES, ids=lambda text: ascii(text[:20]))
def test_errors_point_at_the_character(text: str) -> None:
    with pytest.raises(ValueError, match=rf"\bcharacter {PLACES[text]} of ['\"]") as raised:
        rw.objective(text)
    sentence = str(raised.value)
    assert len(sentence) < 500
    assert sentence.isprintable()


def test_expressions_are_limited_in_length_and_nothing_is_built_of_an_invalid_one() -> None:
    with refusal(what="the objective expression may have 10000 characters at most", got="10001…"):
        rw.objective("-" * 10_000 + "1")
    made = []
    refuses(lambda: grammar.parse("make + /", {"make": lambda: made.append(1)}, "thing"), where="character 8…")
    assert not made


@given(st.text(max_size=30) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63))
def test_every_value_reads_back(value: object) -> None:
    assert grammar.parse(f"keep(a={grammar.word(value)}, b={grammar.word((value,))})", {"keep": _keep}, "thing") == (
        value,
        (value,),
    )


def _keep(a: object, b: object) -> tuple[object, object]:
    return a, b


def test_quoted_words_are_read_without_python() -> None:
    for written, meant in {
        "'\ud800'": "\ud800",
        r"'\ud800\x41\U0001F600\''": "\ud800A😀'",
        r"""'\\n\n\"'""": '\\n\n"',
    }.items():
        assert grammar.parse(f"keep({written}, b=1)", {"keep": _keep}, "thing") == (meant, 1)


def test_numbers_of_numpy_read_back() -> None:
    smooth = rw.objectives.SmoothAP(eta=np.float64(0.5))
    assert repr(smooth) == "smooth_ap(eta=0.5)"
    assert rw.objective(repr(smooth)) == smooth


def test_values_other_than_text_are_rejected() -> None:
    refuses(lambda: rw.metric(10), what="a metric must be given as an expression", got="10")  # type: ignore[call-overload]
    with refusal(what="unknown option of ndcg", got="'gian'", hint="did you mean 'gain'"):
        rw.metric("ndcg", gian="linear")
    refuses(lambda: NDCG() @ "5", what="cutoff must be a whole number of at least 1", got="'5'")  # type: ignore[operator]


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
    pairs = grammar.parse("make(a={price: -1, 'x y': 0.5, 2: (1, two)}, b={})", {"make": made}, "thing")
    assert pairs == (("a", {"price": -1, "x y": 0.5, 2: (1, "two")}), ("b", {}))
    for broken, at in (("make(a={price})", 9), ("make(a={price: 1 2})", 18), ("make(a={(1, 2): 3})", 9)):
        with pytest.raises(ValueError, match=f"character {at} of"):
            grammar.parse(broken, {"make": made}, "thing")


def test_arguments_of_a_metric_name_only_what_differs() -> None:
    metric = NDCG(gain="linear", cutoff=3)
    assert grammar.arguments(metric) == "cutoff=3, gain=linear"
    assert grammar.arguments(metric, leave_out=("cutoff",)) == "gain=linear"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("lightgbm(patience=none)", {"patience": None}),
        ("lightgbm(patience=Null, threads=NONE)", {"patience": None, "threads": None}),
        ("lightgbm(debias=false, progress=FALSE)", {"debias": False, "progress": False}),
        ("neural(checkpoint=none, debias=true)", {"checkpoint": None, "debias": True}),
        ("lightgbm(boosting='none')", {"boosting": "none"}),
    ],
)
def test_words_for_nothing_and_truth_are_no_texts(text: str, settings: dict[str, object]) -> None:
    ranker = rw.ranker(text)
    assert {name: ranker.get_params()[name] for name in settings} == settings
    assert rw.ranker(repr(ranker)).get_params() == ranker.get_params()


def test_a_text_may_be_none() -> None:
    assert rw.objective("pairwise(weight=none)") == rw.objective("pairwise")
    assert rw.objective("lambdarank(truncation=none, norm=false)") == rw.objectives.LambdaRank(
        truncation=None, norm=False
    )
