"""Distilled rankers: the student learns the teacher's scores, with labels and without, and is a plain model."""

import json
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import rankwise as rw
from rankwise.data.frames import to_frame
from rankwise.rankers.ensembles.distilled import standardized_scores, with_unlabelled
from tests.cli.running import refused, run
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"rounds": 25, "leaves": 7, "min_documents": 5, "learning_rate": 0.2, "threads": 1}


@pytest.fixture(scope="module")
def parts() -> tuple[rw.RankingDataset, ...]:
    data = rw.synthetic(n_queries=120, n_docs=12, n_features=8, seed=3)
    return rw.split(data.with_(query_ids=np.arange(data.n_queries)), (0.4, 0.3, 0.3), seed=0)


@pytest.fixture(scope="module")
def train(parts) -> rw.RankingDataset:
    found: rw.RankingDataset = parts[0]
    return found


@pytest.fixture(scope="module")
def more(parts) -> rw.RankingDataset:
    found: rw.RankingDataset = parts[1]
    return found


@pytest.fixture(scope="module")
def test(parts) -> rw.RankingDataset:
    found: rw.RankingDataset = parts[2]
    return found


@pytest.fixture(scope="module")
def teacher(train) -> rw.LightGBMRanker:
    return rw.LightGBMRanker("lambdarank", **SMALL | {"rounds": 60}).fit(train)


def student(objective: Any = "lambdarank", **changes: Any) -> rw.LightGBMRanker:
    return rw.LightGBMRanker(objective, **SMALL | changes)


def contrary(features: Any) -> Any:
    """A teacher of what labels do not say."""
    return 2.0 * features[:, 1] - 3.0 * features[:, 0]


def agreement(model: Any, data: rw.RankingDataset) -> float:
    """The correlation of a model's scores with the contrary teacher's, within lists."""
    both = (model.predict(data), contrary(data.features))
    one, two = (standardized_scores(np.asarray(scores), data) for scores in both)
    return float(np.mean(one * two))


def test_the_student_is_trained_on_the_mixture_of_losses(train, teacher):
    model = rw.distilled(teacher, student(), weight=0.3, loss="distil", temperature=2.0).fit(train)
    taught = train.with_(teacher_scores=standardized_scores(teacher.predict(train), train))
    by_hand = student("0.3*distil(temperature=2.0) + 0.7*lambdarank").fit(taught)
    np.testing.assert_array_equal(model.predict(train), by_hand.predict(train))
    assert repr(model.ranker_.objective) == by_hand.objective
    assert model.history_ == by_hand.history_
    assert model.score(train) == by_hand.score(train)
    assert model.rank(train).equals(by_hand.rank(train))


def test_by_default_the_teacher_is_all_that_is_learned(train, more, teacher):
    """Its scores hold what labels say: other labels, and another loss of labels, give the same student."""
    found = [
        rw.distilled(teacher, student(objective), unlabelled=more).fit(train.with_(labels=labels)).predict(more)
        for objective, labels in (("lambdarank", train.labels), ("listnet", train.labels[::-1]))
    ]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("loss", ["distil", "margin_mse"])
@pytest.mark.parametrize(
    "ranker",
    [
        student(),
        rw.XGBoostRanker("softmax_ce", **SMALL),
        rw.CatBoostRanker("xendcg", rounds=25, leaves=8, learning_rate=0.2, threads=1),
        rw.NeuralRanker("softmax_ce", epochs=30, hidden=(8,), learning_rate=0.02, threads=1),
    ],
    ids=lambda ranker: ranker.name,
)
def test_every_ranker_comes_near_its_teacher(ranker, loss, train, more, test):
    alone = clone(ranker).fit(train)
    model = rw.distilled(contrary, ranker, loss=loss, weight=0.9, unlabelled=more).fit(train)
    assert agreement(model, test) > 0.7
    assert agreement(alone, test) < 0.3
    assert type(model.ranker_) is type(ranker)
    refuses(lambda: ranker.predict(test), what="…not trained yet")


def test_the_teachers_unit_and_zero_do_not_count(train, more, teacher):
    found = [
        rw.distilled(lambda features, a=a, b=b: a * teacher.predict(features) + b, student(), unlabelled=more)
        .fit(train)
        .predict(more)
        for a, b in ((1.0, 0.0), (1024.0, 0.0), (1.0, 4.0))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], atol=0.05)
    scores = np.array([1.0, 3.0, 7.0, 10.0, 10.0])
    lists = rw.RankingDataset(np.zeros((5, 1)), np.zeros(5), [0, 2, 3, 5])
    # Less their means: −1, 1; a list of one, which says nothing; 0, 0. The root of the mean square over four: √½.
    np.testing.assert_allclose(standardized_scores(scores, lists), np.sqrt(2.0) * np.array([-1.0, 1, 0, 0, 0]))


def test_labels_of_unlabelled_queries_do_not_count(train, more, teacher):
    """With a label loss that learns from lists without relevant documents, too."""
    for objective in ("lambdarank", "listnet"):
        found = []
        for labels in (more.labels, np.zeros(more.n_docs), 9.0 - more.labels):
            unlabelled = more.with_(labels=labels)
            model = rw.distilled(teacher, student(objective), weight=0.5, unlabelled=unlabelled).fit(train)
            found.append(model.predict(train))
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])
        alone = rw.distilled(teacher, student(objective), weight=0.5).fit(train)
        assert not np.array_equal(found[0], alone.predict(train))
    text = "0.5*distil + 0.5*weighted(listnet, by=relevant, power=0.0)"
    scores, labels = np.array([1.0, 0.0, 1.0, 0.0]), [1.0, 0.0, 0.0, 0.0]
    mixed = rw.objective(text)(scores, labels, [0, 2, 4], teacher_scores=-scores)
    only = rw.objectives.Distil()(scores, labels, [0, 2, 4], teacher_scores=-scores)
    np.testing.assert_allclose(mixed.gradient[2:], 0.5 * only.gradient[2:], atol=1e-15)


def test_unlabelled_queries_need_not_have_what_training_queries_have(train, more, teacher):
    weights = np.linspace(0.5, 2.0, train.n_queries)
    rich = train.with_(weights=weights, document_ids=np.arange(train.n_docs), groups=np.zeros(train.n_docs, int))
    joined = with_unlabelled(rich, more)
    np.testing.assert_array_equal(joined.weights, [*weights, *np.ones(more.n_queries)])
    assert joined.document_ids is joined.groups is None
    assert not joined.labels[train.n_docs :].any()
    rw.distilled(teacher, student(rounds=3), unlabelled=more).fit(rich)
    halved = train.with_(document_weights=np.full(train.n_docs, 0.5))
    with refusal(what="margin_mse takes no document_weights"):  # and they are not left out silently
        rw.distilled(teacher, student(), unlabelled=more).fit(halved)
    assert with_unlabelled(train.with_(query_ids=None), more).query_ids is None
    with refusal(what="a query is labelled or unlabelled, and cannot be both", got="query 0 and 47 more"):
        rw.distilled(teacher, student(), unlabelled=train).fit(train)


def test_teachers_of_all_kinds(train, test, teacher, tmp_path):
    again = rw.LightGBMRanker("xendcg", **SMALL).fit(train)
    theirs = lgb.LGBMRanker(n_estimators=20, num_leaves=7, n_jobs=1, verbose=-1)
    theirs = theirs.fit(train.features, train.labels, group=train.sizes)
    linear = LinearRegression().fit(train.features, train.labels)
    teacher.save(tmp_path / "teacher")

    def scores(of: Any) -> Any:
        return rw.distilled(of, student(rounds=8)).fit(train).predict(test)

    np.testing.assert_array_equal(scores(tmp_path / "teacher"), scores(teacher))
    np.testing.assert_array_equal(scores(theirs), scores(rw.wrap(theirs)))
    np.testing.assert_array_equal(scores(linear), scores(lambda features: linear.predict(features)))
    mean = lambda features: (teacher.predict(features) + again.predict(features)) / 2.0  # noqa: E731
    np.testing.assert_array_equal(scores([teacher, again]), scores(mean))
    untrained = rw.LightGBMRanker("lambdarank", **SMALL | {"rounds": 60})
    model = rw.distilled([untrained, again], student(rounds=8)).fit(train)
    np.testing.assert_array_equal(model.predict(test), scores([teacher, again]))
    np.testing.assert_array_equal(model.teacher_[0].predict(test), teacher.predict(test))
    refuses(lambda: untrained.predict(test), what="this LightGBMRanker is not trained yet")


def test_what_is_saved_and_exported_is_the_student(train, test, teacher, tmp_path):
    model = rw.distilled(teacher, student(), weight=0.5).fit(train)
    model.save(tmp_path / "model")
    again = rw.load(tmp_path / "model")
    assert type(again) is rw.LightGBMRanker
    np.testing.assert_array_equal(again.predict(test), model.predict(test))
    assert again.objective == "0.5*margin_mse + 0.5*lambdarank"
    documents = test.features[: test.offsets[1]]
    np.testing.assert_array_equal(model.scorer()(documents), model.predict(documents))
    for number, one in enumerate((model, again)):
        rw.export(one, tmp_path / f"{number}.json", "elasticsearch", names=[f"f{k}" for k in range(8)])
    texts = [json.loads((tmp_path / f"{number}.json").read_text()) for number in (0, 1)]
    assert texts[0]["model"]["model"] == texts[1]["model"]["model"]
    np.testing.assert_allclose(model.explain(test).sum(axis=1), model.predict(test), atol=1e-6)
    assert rw.evaluate(model, test).mean == rw.evaluate(again, test).mean


def test_validation_stopping_and_checkpoints_are_the_students(train, more, test, teacher, tmp_path):
    settings = {"rounds": 30, "patience": 5, "checkpoint_every": 2}
    whole = rw.distilled(teacher, student(**settings)).fit(train, more)
    assert len(whole.history_["ndcg@10"]) >= whole.best_round_

    class Enough(Exception):
        pass

    def stop(done: int, history: object) -> None:
        if done == 7:
            raise Enough

    model = rw.distilled(teacher, student(checkpoint=tmp_path / "state", **settings | {"patience": None}))
    with pytest.raises(Enough):
        clone(model).fit(train, more, callback=stop)
    resumed = clone(model).fit(train, more, resume=True)
    straight = rw.distilled(teacher, student(**settings | {"patience": None})).fit(train, more)
    np.testing.assert_array_equal(resumed.predict(test), straight.predict(test))
    other = clone(model).set_params(teacher=lambda features: features[:, 0])
    with refusal(what="the checkpoint belongs to another training (data: train differs)"):
        other.fit(train, more, resume=True)


def test_scikit_learns_clone_and_parameters(train, teacher):
    model = rw.distilled(teacher, student(), weight=0.25)
    copied = clone(model).set_params(student__leaves=3, weight=1.0)
    assert model.get_params()["student__leaves"] == 7
    assert copied.get_params()["student__leaves"] == 3
    assert (copied.weight, copied.teacher) == (1.0, teacher)
    assert repr(copied.fit(train).ranker_.objective) == "margin_mse"
    assert "student__" not in repr(copied)
    found = rw.cross_validate(rw.distilled(student(), student(rounds=5)), train, folds=2)
    assert 0.0 < found.mean["ndcg@10"] <= 1.0
    qid = train.qids()
    same = clone(model).fit(train.features, train.labels, qid=qid)
    np.testing.assert_array_equal(same.predict(train.features), clone(model).fit(train).predict(train))


def test_errors_say_what_to_do(train, teacher):
    with refusal(what="the student must be a ranker of trees or nets,…", got="the class LightGBMRanker"):
        rw.distilled(teacher, rw.LightGBMRanker)  # type: ignore[arg-type]
    with refusal(what="…trees or nets,…", got="FactorizationRanker"):
        rw.distilled(teacher, rw.recommend.FactorizationRanker())
    with refusal(what="…own objective cannot be mixed…", got="native:lambdarank", hint="…weight=1.0"):
        rw.distilled(teacher, student("native:lambdarank"), weight=0.5).fit(train)
    rw.distilled(teacher, student("native:lambdarank", rounds=2)).fit(train)
    for wrong, message in (
        ({"weight": 1.5}, "weight must be a number in"),
        ({"loss": "distill"}, "unknown loss: got 'distill'.*did you mean 'distil'"),
        ({"loss": "distil", "temperature": 0.0}, "temperature must be a number in"),
        ({"temperature": 2.0}, "temperature is that of the loss distil.*got 2.0 .*margin_mse.*set loss='distil'"),
    ):
        with pytest.raises(ValueError, match=message):
            rw.distilled(teacher, student(), **wrong).fit(train)
    for wrong_teacher, message in (
        ([], "a student needs a teacher"),
        (3.0, "a teacher must be a model that predicts"),
        (lambda features: np.ones(len(features)), "the teacher gives all documents of a list the same score"),
        (lambda features: np.full(len(features), np.nan), "teacher scores must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            rw.distilled(wrong_teacher, student()).fit(train)
    refuses(lambda: rw.distilled(teacher, student()).predict(train), what="this distilled is not trained yet")


def test_the_command_line_trains_a_student(train, more, teacher, tmp_path: Path):
    rw.data.write_parquet(train, tmp_path / "train.parquet")
    to_frame(more).drop("label").write_csv(tmp_path / "more.csv")
    teacher.save(tmp_path / "teacher")
    words = ("train", tmp_path / "train.parquet", "--rounds", 5, "--threads", 1)
    run(*words, "--ranker", f"distilled('{tmp_path / 'teacher'}', lightgbm)", "-o", tmp_path / "model")
    expected = rw.distilled(teacher, rw.LightGBMRanker(rounds=5, threads=1)).fit(train)
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(train.features), expected.predict(train.features))
    named = tmp_path / "train.csv"
    to_frame(train).write_csv(named)
    rw.LightGBMRanker(**SMALL).fit(rw.read_csv(named)).save(tmp_path / "named")
    more_words = ("--unlabelled", tmp_path / "more.csv", "--rounds", 5, "-o", tmp_path / "other")
    printed = run("train", named, "--ranker", f"distilled('{tmp_path / 'named'}', lightgbm, weight=0.5)", *more_words)
    assert "margin_mse" in printed.stdout
    mixed = "0.5*margin_mse + 0.5*weighted(lambdarank, by=relevant, power=0.0)"
    assert (rw.load(tmp_path / "model").objective, rw.load(tmp_path / "other").objective) == ("margin_mse", mixed)
    assert "--unlabelled needs a teacher" in refused("train", named, "--unlabelled", named, "-o", tmp_path / "x")
    assert "no-model" in refused("train", named, "--ranker", "distilled('no-model', lightgbm)", "-o", tmp_path / "x")
