"""The contract of results: each prints, shows in notebooks, and is saved in every format."""

import importlib
import json
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.base.tables import Table
from rankwise.evaluation.history import History
from rankwise.evaluation.policy import PolicyEvaluation
from rankwise.model_selection.cross_validate import CrossValidation
from rankwise.quality.examine import DataCheck
from rankwise.quality.findings import DataFinding
from rankwise.quality.learning_curve import LearningCurve
from rankwise.statistics.result import Result, as_json
from rankwise.wings.clicks.off_policy.assumptions import Assumption
from rankwise.wings.clicks.off_policy.decision import Blend, OffPolicyComparison, OffPolicyComparisons
from rankwise.wings.judging.prediction_powered import JudgedMean
from rankwise.wings.judging.result import JudgedEvaluation
from rankwise.wings.lab.demo.run import BASELINES, HEADLINE, RANKERS, Demonstration
from rankwise.wings.recommend.choice import Candidate, RecommenderChoice
from rankwise.wings.serve.skew import compare_features
from rankwise.wings.tuning import spaces
from rankwise.wings.tuning.auto.leaderboard import Entry, Leaderboard
from rankwise.wings.tuning.feature_selection import CurvePoint, FeatureRow, FeatureSelection
from rankwise.wings.tuning.frontier import Frontier
from rankwise.wings.tuning.result import Trial, Tuning
from tests.refusals import refusal, refuses
from tests.wings.lab import synthetic_results

SOURCE = Path(rw.__file__).parent
NAN = float("nan")
RNG = np.random.default_rng(1)
IDS = [f"q{number}" for number in range(12)]


def evaluation(**values: Any) -> rw.Evaluation:
    return rw.Evaluation(values, IDS[: len(next(iter(values.values())))])


@cache
def data() -> rw.RankingDataset:
    made = rw.synthetic(n_queries=20, n_docs=6, n_features=4, seed=1)
    made = made.with_(query_ids=[f"q{number}" for number in range(20)], document_ids=np.arange(made.n_docs))
    return made.with_(groups=np.arange(made.n_docs) % 2)


@cache
def policy() -> PolicyEvaluation:
    return rw.evaluate(data().features[:, 0], data(), policy="plackett_luce", samples=4, resamples=50)


@cache
def comparison() -> rw.Comparison:
    values = RNG.random((2, 12))
    return rw.compare({"a, tuned": evaluation(ap=values[0]), "b": evaluation(ap=values[1])})


@cache
def by_segment() -> rw.Comparison:
    values = RNG.random((2, 40))
    systems = {name: rw.Evaluation({"ap": row}, range(40)) for name, row in zip(("a, tuned", "b"), values, strict=True)}
    return rw.compare(systems, segment={"device & market": np.arange(40) % 7 // 3})


@cache
def history() -> History:
    with tempfile.TemporaryDirectory() as folder:
        rw.results.append_history(comparison(), folder)
        return rw.results.read_history(folder)


@cache
def explanation() -> Any:
    model = rw.LightGBMRanker("xendcg", rounds=3, leaves=3, min_documents=2, threads=1).fit(data())
    return rw.explain(model, data(), query="q3")


@cache
def log() -> Any:
    rankers = {name: data().features[:, column] for column, name in enumerate(("old", "new"))}
    return rw.clicks.simulate(data(), rankers=rankers, curve=[1.0, 0.6, 0.4, 0.3, 0.2], impressions=200, seed=1)


def bias() -> rw.clicks.Bias:
    return rw.clicks.Bias.known([1.0, 0.6, 0.4, 0.3, 0.2], beta=[0.0, 0.01, 0.01, 0.01, 0.01])


def off_policy(name: str = "new") -> OffPolicyComparison:
    numbers: Any = {"clicks": 0.5, "effective_size": 2000.0, "largest_weight": 2.0, "unsupported": 0.1}
    ends: Any = {"difference": 0.02, "low": 0.01, "high": 0.03, "lowest": 0.005, "highest": 0.04, "likely_low": None}
    blends = tuple(Blend(share=share, **numbers, **ends, outcome="passed", failure="") for share in (0.5, 1.0))
    return OffPolicyComparison(
        candidate=name, production="old", production_clicks=0.4, blends=blends, verdict="ship",
        reason=f"Ship {name}: +0.0200 clicks an impression.", recommended=1.0, scale=1.0, bias_check=None,
        assumptions=(Assumption(name="the clicks", outcome="holds", sentence="they do."),),
        estimator="doubly robust", by="query", level=0.95, n_units=100, n_impressions=2000.0,
    )  # fmt: skip


def cross_validation() -> CrossValidation:
    fold = np.repeat([1, 2], 6)
    return CrossValidation({"ap": RNG.random(12)}, np.array(IDS), fold=fold, scores=RNG.random(30), models=(None, None))


def judged() -> JudgedEvaluation:
    mean = JudgedMean(0.5, 0.1, 0.05, 9, 0.6, 10, None, metric="ap", system="a", low=0.4, high=0.6)
    return JudgedEvaluation(means=(mean,), unit="query", n_queries=30, level=0.95, notes=("By chance.",))


def tuning() -> Tuning:
    trials = tuple(
        Trial(
            number=i, state="complete", value=v, values={"leaves": n}, parameters={"leaves": n}, best_round=1, seconds=1
        )
        for i, (v, n) in enumerate(((0.1, 2), (0.4, 5), (0.3, 7), (0.2, 9)))
    )
    space = {"leaves": spaces.dimension("whole(1, 9)")}
    return Tuning(
        ranker_name="lightgbm", metric="ap", space=space, trials=trials, seed=0, stopped="trials", checkpoint=None
    )


def leaderboard() -> Leaderboard:
    first = Entry(recipe="a <b>", state="complete", rounds=3, mean=0.5, low=0.4, high=0.6, chosen=True)
    second = Entry(recipe="c", state="failed", reason="it diverged.")
    return Leaderboard(metric="ndcg@10", entries=(first, second), stopped="recipes", seconds=60.0, queries=12)


def frontier() -> Frontier:
    names, means = ("ap", "rr"), ((0.9, 0.1), (0.6, 0.7), (0.5, 0.6), (0.1, 0.9))
    columns = {
        f"{name}, {number}": np.clip(mean + 0.1 * RNG.normal(size=12), 0.0, 1.0)
        for number, row in enumerate(means)
        for name, mean in zip(names, row, strict=True)
    }
    weights = ((1.0, 0.0), (0.6, 0.4), (0.4, 0.6), (0.0, 1.0))
    objectives: Any = dict.fromkeys(names, rw.objective("xendcg"))
    return Frontier(objectives, weights, (None,) * 4, evaluation(**columns))


def learning_curve() -> LearningCurve:
    values = tuple(0.5 + 0.1 * RNG.random((2, parts)) for parts in (8, 4, 2, 1))
    return LearningCurve("ndcg@10", (10, 20, 40, 80), values, 0.02, (0.01, 0.03), (-0.01, 0.05), 30, 2)


def feature_selection() -> FeatureSelection:
    rows = (FeatureRow("a <b>", True, 1.0, 0, 0.1, 5), FeatureRow("c", False, 2.0, 1, NAN, 0))
    curve = (CurvePoint(3.0, 3.0, 2.0, 0.5, 0.0, 0.0, 0.0), CurvePoint(1.0, 1.0, 1.0, 0.4, 0.1, -0.1, 0.3))
    about: Any = {
        "loss": 0.1,
        "interval": (-0.1, 0.3),
        "level": 0.95,
        "n_scored": 12,
        "folds": 5,
        "stopped": "finished",
    }
    return FeatureSelection(metric="ndcg@10", rows=rows, curve=curve, point=1, cost=1.0, **about)


RUN = {f"q{number}": {"a": 3.0, "b": number % 4, "c": 1.0} for number in range(12)}


def found() -> Any:
    pages = rw.text.Documents({name: f"{name} of an array <b>" for name in ("mean", "sum", "max")}, fields=["text"])
    queries = {"q": "mean of array", "p": "sum"}
    runs, qrels = {"bm25": pages.search(queries)}, {"q": {"mean": 1}, "p": {"sum": 1}}
    model = rw.LinearRanker(l2=0.1, threads=1).fit(rw.text.dataset(pages, queries, runs, qrels))
    return rw.text.Search(pages, model)("sum of array")


def data_check() -> DataCheck:
    findings = (
        DataFinding("error", "copies", "3 queries are in both.", "train, test", 3.0, "drop them"),
        DataFinding("note", "smallest difference", "It is not known.", "test", NAN),
    )
    ndcg = {"train": {"random order": 0.3, "order of rows": 0.4, "feature 1": 0.6}}
    return DataCheck(parts={"train": "12 queries"}, findings=findings, ndcg=ndcg)


def choice() -> RecommenderChoice:
    tried = (
        Candidate("ease", {"regularization": 50.0}, {"ndcg@10": 0.2}, 1.0),
        Candidate("popularity", {}, {"ndcg@10": 0.1}, 0.1),
    )
    return RecommenderChoice(tried, ("ndcg@10",), "all items")


def interleaving() -> Any:
    keys = np.repeat(np.arange(30), 2)
    rows = {"key": keys, "document": np.tile(["d1", "d2"], 30), "team": np.tile(["a", "b"], 30)}
    return rw.judging.interleaving(pl.DataFrame({**rows, "clicked": np.tile([1, 0, 0, 1, 1, 0], 10)}), cutoff=2)


def agreement() -> Any:
    people = {"a": {"d1": 2, "d2": 0, "d3": 1}, "b": {"d1": 0, "d2": 1}, "c": {"d1": 1, "d2": 0}}
    judge = {"a": {"d1": 2, "d2": 1, "d3": 1}, "b": {"d1": 0, "d2": 1}, "c": {"d1": 1, "d2": 1}}
    systems = {name: {query: {"d1": one, "d2": 2.0} for query in people} for name, one in (("x", 1.0), ("y", 3.0))}
    return rw.judging.agreement(people, judge, systems)


def plan() -> Any:
    judge = {query: {f"d{i}": i % 3 for i in range(6)} for query in IDS}
    systems = {
        name: {query: {f"d{i}": float(i * sign) for i in range(6)} for query in IDS}
        for name, sign in (("x", 1), ("y", -1))
    }
    return rw.judging.plan(systems, judge=judge, judgements=8)


def demonstration() -> Demonstration:
    values = np.sort(RNG.random((len(BASELINES) + len(RANKERS), 12)), axis=0)
    systems = {name: evaluation(**{HEADLINE: row}) for name, row in zip([*BASELINES, *RANKERS], values, strict=True)}
    return Demonstration(
        data="pages", parts={"train": data(), "valid": data(), "test": data()}, comparison=rw.compare(systems),
        query="q", why="it is", folder=Path("demo"),
    )  # fmt: skip


DRAWN = np.random.default_rng(0).integers(0, 3, (2, 60, 6))
GRADES, OTHERS = (
    {f"q{n}": {f"d{k}": int(grade) for k, grade in enumerate(row)} for n, row in enumerate(rows)} for rows in DRAWN
)


def preferences() -> Result:
    pairs = [("q", "a", "b", "a"), ("q", "b", "a", "a"), ("q", "b", "c", "b"), ("q", "c", "b", "tie")]
    return rw.judging.preferences(pl.DataFrame(pairs, schema=["query", "first", "second", "preferred"], orient="row"))


RESULTS: dict[str, Any] = {
    "Evaluation": lambda: evaluation(ap=[0.5, 0.25, NAN, 1.0]),
    "PolicyEvaluation": policy,
    "CrossValidation": cross_validation,
    "JudgedEvaluation": judged,
    "GroupExposure": lambda: policy().groups,
    "Comparison": comparison,
    "SegmentComparison": lambda: by_segment().segments,
    "Gate": lambda: by_segment().gate(0.1),
    "History": history,
    "Explanation": explanation,
    "Breakdown": lambda: explanation().versus(*explanation().documents[:2]),
    "Reliability": lambda: rw.evaluate(1.0 / (1.0 + np.exp(-data().features[:, 0])), data()).reliability(bins=3),
    "Tuning": tuning,
    "Leaderboard": leaderboard,
    "Frontier": frontier,
    "LearningCurve": learning_curve,
    "FeatureSelection": feature_selection,
    "LinearWeights": lambda: rw.LinearRanker(threads=1).fit(data()).weights(),
    "Cascade": lambda: rw.text.cascade(
        data().features[:, 0], data().features[:, 1], data(), depths=[2, 4], seconds=(0.1, 0.2)
    ),
    "SearchResult": found,
    "TunedFusion": lambda: rw.text.tune_fusion({"one": RUN, "other": RUN}, {name: {"a": 1} for name in RUN}, "rr"),
    "DataCheck": data_check,
    "RecommenderChoice": choice,
    "FeatureComparison": lambda: compare_features(data(), data().with_(features=60.0 * data().features)),
    "Agreement": agreement,
    "Interleaving": interleaving,
    "Plan": plan,
    "Merged": lambda: rw.judging.merge({"people": GRADES, "llm": OTHERS}, precedence=["people", "llm"]),
    "JudgeAgreement": lambda: rw.judging.judge_agreement({"people": GRADES, "llm": OTHERS}),
    "Forecast": lambda: rw.judging.forecast({"run": OTHERS}, {q: GRADES[q] for q in [*GRADES][:40]}, judge=GRADES),
    "Preferences": preferences,
    "OffPolicyComparison": off_policy,
    "OffPolicyComparisons": lambda: OffPolicyComparisons(comparisons=(off_policy("a"), off_policy("b")), level=0.95),
    "Estimates": lambda: rw.clicks.estimates(log(), data(), bias()),
    "Examination": lambda: log().examine(),
    "Bias": bias,
    "BiasCheck": lambda: bias().check(log()),
    "PBM": lambda: rw.clicks.click_model(log(), "pbm"),
    "UBM": lambda: rw.clicks.click_model(log(), "ubm"),
    "DBN": lambda: rw.clicks.click_model(log(), "dbn"),
    "SDBN": lambda: rw.clicks.click_model(log(), "sdbn"),
    "DCM": lambda: rw.clicks.click_model(log(), "dcm"),
    "ObjectiveChecks": lambda: rw.objectives.check_objective("xendcg"),
    "Results": synthetic_results.results,
    "Demonstration": demonstration,
}
"""Class -> a small instance."""
PLOTS = {
    *(
        "Comparison",
        "History",
        "Explanation",
        "Breakdown",
        "Reliability",
        "Tuning",
        "Frontier",
        "LearningCurve",
        "DataCheck",
        "Cascade",
        "LinearWeights",
    ),
    *(
        "FeatureSelection",
        "Agreement",
        "Preferences",
        "Interleaving",
        "OffPolicyComparison",
        "OffPolicyComparisons",
        "Examination",
        "Bias",
        "BiasCheck",
    ),
}
ONE_LINE = {"Bias", "BiasCheck", "Estimates"}
"""Results whose ``repr`` is a line, as others hold them; printed, or in notebooks, they are tables."""


@pytest.fixture(scope="module", params=RESULTS)
def result(request: pytest.FixtureRequest) -> Result:
    made: Result = RESULTS[request.param]()
    assert type(made).__name__ == request.param
    return made


def classes(of: type[Any]) -> set[str]:
    own: list[type[Any]] = [one for one in of.__subclasses__() if one.__module__.startswith("rankwise.")]
    return {one.__name__ for one in own}.union(*map(classes, own))


def test_every_result_of_the_package_is_here():
    for path in SOURCE.rglob("*.py"):
        if re.search(r"^class \w+\((Result|Evaluation|ClickModel)\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    assert classes(Result) - {"ClickModel"} == set(RESULTS)  # which is the base of five


def test_tables_are_written_in_every_format(result: Result):
    tables = result.tables()
    assert tables
    assert all(isinstance(table, Table) and table.rows for table in tables)
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.header)} == {len(table.align)}
    text, html, latex = result.to_text(), result.to_html(), result.to_latex()
    assert text.strip()
    assert str(result) == text or type(result).__name__ in ONE_LINE
    assert repr(result) == text or (type(result).__name__ in ONE_LINE and "\n" not in repr(result))
    assert result._repr_html_() == html
    assert html.count("<table>") == html.count("</table>") == len(tables)
    assert latex.count(r"\begin{tabular}") == len(tables)
    assert result.to_markdown().count("\n|") >= len(tables)
    for table in tables:
        assert table.title.strip() in text or type(result).__name__ == "Plan"
        assert table.markdown().split("\n| ")[-1] in result.to_markdown()


def test_sentences_are_sentences(result: Result):
    assert isinstance(result.sentence, str)
    assert result.sentence == result.sentence.strip()


def test_json_reads_back(result: Result):
    assert json.loads(result.to_json()) == json.loads(as_json(result.to_dict()))
    assert json.loads(result.to_json())


def test_saved_in_every_format(result: Result, tmp_path: Path):
    frame, name = result.to_frame(), type(result).__name__
    assert frame.height > 0
    own = {"Tuning": {".json"}}.get(name, set())
    for ending in (".csv", ".parquet", ".json", ".txt", ".md", ".tex", ".html"):
        path = tmp_path / f"result{ending}"
        assert result.save(path) == path
        with pytest.raises(FileExistsError):
            result.save(path)
        content = path.read_bytes()
        assert result.save(str(path), force=True)
        assert path.read_bytes() == content
        expected = {
            ".json": result.to_json(), ".txt": result.to_text(), ".md": result.to_markdown(), ".tex": result.to_latex(),
        }.get(ending)  # fmt: skip
        if expected is not None and ending not in own:
            assert content.decode().rstrip() == expected.rstrip()
    assert pl.read_parquet(tmp_path / "result.parquet").equals(frame)
    assert pl.read_csv(tmp_path / "result.csv").shape == frame.shape
    page = (tmp_path / "result.html").read_text(encoding="utf-8")
    assert result.to_html() in page
    assert page.startswith("<!DOCTYPE html>")
    refuses(lambda: result.save(tmp_path / "result.xyz"), what="the ending of a file is that of its format")


def test_plots(result: Result, tmp_path: Path):
    if type(result).__name__ not in PLOTS:
        refuses(result.plot, what="this result has no plot")
        refuses(lambda: result.save(tmp_path / "result.png"), what="the ending of a file is that of its format")
        return
    shown = result.plot()
    assert shown.axes
    assert shown._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert result.plot(tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert result.save(tmp_path / "save.pdf").read_bytes().startswith(b"%PDF")
    one, other = result.plot(tmp_path / "plot.svg"), result.save(tmp_path / "save.svg")
    assert one.read_bytes() == other.read_bytes()
    with pytest.raises(FileExistsError):
        result.plot(tmp_path / "plot.png")
    with refusal(what="a plot is written as .png, .svg or .pdf", got="'plot.gif'"):
        result.plot(tmp_path / "plot.gif")


def test_the_best_parameters_of_a_search_keep_their_file(tmp_path: Path):
    assert json.loads(tuning().save(tmp_path / "best.json").read_text())["leaves"] == 5
    assert "leaves = 5" in tuning().save(tmp_path / "best.toml").read_text()


def test_a_bias_reads_back(tmp_path: Path):
    again = rw.clicks.read_bias(bias().save(tmp_path / "bias.json"))
    np.testing.assert_array_equal(again.alpha, bias().alpha)


def test_options_reach_tables_and_plots(tmp_path: Path):
    assert "p Fisher" in comparison().to_latex(pairs=True)
    assert "p Fisher" not in comparison().to_latex()
    assert "MAP" in comparison().to_html(titles=["MAP"])
    assert len(explanation().to_text(top=1)) < len(explanation().to_text())
    explanation().plot(tmp_path / "one.png", top=1)
    with pytest.raises(TypeError):
        explanation().plot(tmp_path / "two.png", topp=1)


def test_names_of_any_letters_stay_in_their_cells(tmp_path: Path):
    odd = {"a\nb\x1b[2J <script>|": RNG.random(12), "x" * 300: RNG.random(12)}
    result = rw.compare({name: evaluation(ap=values) for name, values in odd.items()})
    assert result.to_text().splitlines()[1].startswith("a  a b [2J <script>|  ")
    assert r"a & a b [2J $<$script$>$| & " in result.to_latex()
    assert r"| a b \[2J \<script\>\| |" in result.to_markdown()
    assert "<script>" not in result.to_html()
    figure = result.plot()
    (panel,) = figure.axes
    assert panel.get_position().width > 0.8, "names above the panel take its room"


def test_facts_of_a_document_are_below_its_name_in_the_figure():
    panel = explanation().plot().axes[0]
    assert not panel.get_title("right")
    assert any("score" in text.get_text() for text in panel.texts)


def test_the_title_of_a_learning_curve_is_inside_its_figure():
    figure = learning_curve().plot()
    (panel,) = figure.axes
    title = panel._left_title.get_window_extent()  # type: ignore[attr-defined]
    assert title.x1 <= figure.bbox.x1
    assert not panel.get_legend()
