"""A ranker of one's own, and every place where rankers go: it trains, is kept, and is known by its name there too."""

import copy
import itertools
import json
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import rankwise as rw
from rankwise.language import registry
from rankwise.models import storage
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"rounds": 6, "leaves": 4, "min_documents": 3, "threads": 1}


@pytest.fixture(autouse=True)
def name():
    rw.register("mean_label", MeanLabel)
    rw.register("one_model", OneModel)


class MeanLabel(rw.Ranker):
    """Scores by features times their covariance with labels, in which the alpha-th part of noise is mixed."""

    name = "mean_label"
    search_space = {"alpha": "uniform(0, 1, start=0.5)"}  # noqa: RUF012

    def __init__(self, alpha: float = 0.0, seed: int = 0) -> None:
        self.alpha = alpha
        self.seed = seed

    def _fit(self, train: rw.RankingDataset, valid: rw.RankingDataset | None) -> None:
        labels = train.labels - train.labels.mean()
        noise = np.random.default_rng(self.seed).normal(size=train.n_features)
        self.weights_ = (train.features - train.features.mean(axis=0)).T @ labels / train.n_docs + self.alpha * noise
        self.about_ = {"queries": train.n_queries, "validated": valid is not None}

    def _predict(self, features, offsets):
        return features @ self.weights_


class Place(rw.Ranker):
    """Looks at whole lists: the rank of a feature in the list."""

    needs_lists = True

    def _fit(self, train, valid):
        self.column_ = 0

    def _predict(self, features, offsets):
        lists = [features[start:end, self.column_] for start, end in itertools.pairwise(offsets)]
        return np.concatenate([np.argsort(np.argsort(one)) for one in lists])


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=40, n_docs=10, n_features=6, seed=3)


@pytest.fixture(scope="module")
def parts(data):
    return rw.split(data, (0.6, 0.4), seed=0)


def by_hand(train: rw.RankingDataset) -> np.ndarray:
    labels = train.labels - train.labels.mean()
    return np.asarray((train.features - train.features.mean(axis=0)).T @ labels / train.n_docs)


# By itself.


def test_it_has_what_every_ranker_has(parts):
    train, valid = parts
    model = MeanLabel().fit(train, valid, eval_sets={"train": train})
    np.testing.assert_allclose(model.predict(valid), valid.features @ by_hand(train))
    expected = rw.evaluate(valid.features @ by_hand(train), valid, ["ndcg@10"]).mean["ndcg@10"]
    assert model.history_["ndcg@10"] == [pytest.approx(expected)]
    assert model.history_["train ndcg@10"] == [model.score(train)]
    assert model.about_ == {"queries": train.n_queries, "validated": True}
    assert repr(MeanLabel(alpha=0.5)) == "mean_label(alpha=0.5)"
    assert MeanLabel(alpha=0.5).get_params() == {"alpha": 0.5, "seed": 0}
    assert model.rank(valid, cutoff=1)["rank"].to_list() == [1] * valid.n_queries
    np.testing.assert_allclose(model.scorer()(valid.features[:7]), model.predict(valid)[:7])
    copied = clone(model)
    assert copied.alpha == 0.0
    assert not hasattr(copied, "weights_")
    refuses(lambda: MeanLabel().predict(valid), what="this MeanLabel is not trained yet")
    with refusal(what="MeanLabel has no such parameter", got="'alhpa'", hint="did you mean 'alpha'"):
        MeanLabel().set_params(alhpa=1.0)
    with refusal(TypeError, what="fit has no argument 'eval_data'", hint="…valid=…"):
        MeanLabel().fit(train, eval_data=[valid])  # type: ignore[call-arg]


def test_it_takes_what_every_ranker_takes(parts):
    train, valid = parts
    model = MeanLabel().fit(
        train.features, train.labels, qid=train.qids(), valid=(valid.features, valid.labels, valid.qids())
    )
    expected = MeanLabel().fit(train, valid)
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    assert model.history_ == expected.history_
    columns = [f"f{number}" for number in range(train.n_features)]
    table = pl.DataFrame(train.features, schema=columns)
    named = MeanLabel().fit(table, train.labels, qid=train.qids())
    turned = table.select(reversed(columns))  # columns are found by their names
    np.testing.assert_array_equal(named.predict(turned), expected.predict(train))


class OneModel(rw.Ranker):
    """Keeps what it learned as ``model_``, and has parameters that mean something else in other rankers."""

    name = "one_model"

    def __init__(self, power=1.0, learner="mean", library="numpy", constraints=None):
        self.power, self.library, self.constraints = power, library, constraints
        self.learner = learner  # type: ignore[method-assign]

    def _fit(self, train, valid):
        self.model_ = by_hand(train)  # type: ignore[assignment]

    def _predict(self, features, offsets):
        return self.power * (features @ self.model_)

    @property
    def feature_importances_(self):
        return self.model_.clip(0.0)  # type: ignore[attr-defined]


def test_a_copy_is_a_ranker_of_its_own(parts):
    train, valid = parts
    for ranker in (MeanLabel(), OneModel()):
        model = ranker.fit(train)
        scores = model.predict(valid)
        copied = copy.copy(model).fit(valid)
        np.testing.assert_allclose(copied.predict(valid), valid.features @ by_hand(valid))
        np.testing.assert_array_equal(model.predict(valid), scores)
        np.testing.assert_array_equal(copy.deepcopy(model).predict(valid), scores)
    copied = copy.copy(model).set_params(power=2.0)
    np.testing.assert_array_equal(copied.predict(valid), 2.0 * scores)
    np.testing.assert_array_equal(model.predict(valid), scores)


def test_what_it_calls_model_stays_its_own(parts, tmp_path):
    train, valid = parts
    model = OneModel(constraints=(1, 0)).fit(train, valid)
    scores = model.predict(valid)
    np.testing.assert_allclose(scores, valid.features @ by_hand(train))
    np.testing.assert_allclose(model.feature_importances_, by_hand(train).clip(0.0))
    np.testing.assert_array_equal(rw.load(model.save(tmp_path / "model")).predict(valid), scores)
    np.testing.assert_array_equal(model.set_params(power=2.0).predict(valid), 2.0 * scores)
    np.testing.assert_allclose(model.fit(valid).predict(valid), 2.0 * valid.features @ by_hand(valid))
    assert len(rw.bagged(OneModel(), folds=2).fit(train).members_) == 2


def test_whole_lists_must_be_known(parts):
    train, valid = parts
    model = Place().fit(train)
    first = valid.take([0])
    np.testing.assert_array_equal(model.predict(valid)[: first.n_docs], np.argsort(np.argsort(first.features[:, 0])))
    np.testing.assert_array_equal(model.scorer()(first.features), model.predict(first))
    refuses(lambda: model.predict(valid.features), what="a Place looks at whole lists…", hint="pass a RankingDataset…")
    bag = rw.bagged(Place(), folds=2).fit(train)
    np.testing.assert_array_equal(bag.predict(valid), model.predict(valid))
    with refusal(what="a Place looks at whole lists, and must know which documents belong together"):
        bag.predict(valid.features)


@pytest.mark.parametrize(
    ("scores", "fields"),
    [
        (lambda features: features, {"what": "…one number", "got": "shape (…, 6)"}),
        (lambda features: features[1:, 0], {"what": "…each of …documents one number", "got": "shape…"}),
        (lambda features: features[:, 0] * np.nan, {"what": "…one number", "got": "NaN"}),
    ],
)
def test_scores_that_are_none(scores, fields, data):
    class Wrong(MeanLabel):
        def _predict(self, features, offsets):
            return scores(features)

    refuses(lambda: Wrong().fit(data).predict(data), **fields)


def test_what_it_must_define_is_said(data):
    class Empty(rw.Ranker):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty defines no _fit\(train, valid\)"):
        Empty().fit(data)

    class Mute(rw.Ranker):
        def _fit(self, train, valid):
            pass

    with pytest.raises(NotImplementedError, match=r"Mute defines no _predict\(features, offsets\)"):
        Mute().fit(data).predict(data)


# On disk.


def test_it_is_saved_without_pickle_and_loaded_by_its_name(parts, tmp_path):
    train, valid = parts
    model = MeanLabel(alpha=0.25).fit(train, valid)
    model.save(tmp_path / "model")
    loaded: Any = rw.load(tmp_path / "model")
    assert loaded == loaded
    assert type(loaded) is MeanLabel
    assert (loaded.get_params(), loaded.about_, loaded.history_) == (model.get_params(), model.about_, model.history_)
    np.testing.assert_array_equal(loaded.predict(valid), model.predict(valid))
    loaded.fit(train, valid)
    for file in (tmp_path / "model").iterdir():
        assert b"MeanLabel" not in file.read_bytes()  # a name, and no code


def test_loading_needs_the_class_to_be_registered(parts, tmp_path, monkeypatch):
    MeanLabel().fit(parts[0]).save(tmp_path / "model")
    rw.bagged(MeanLabel(), folds=2).fit(parts[0]).save(tmp_path / "bag")
    monkeypatch.setattr(registry, "_entries", {})
    for name in ("model", "bag"):
        with refusal(what="unknown ranker", got="'mean_label'", hint="…register…rw.register"):
            rw.load(tmp_path / name)


def test_a_ranker_without_a_name_is_not_saved(data, tmp_path):
    class Nameless(MeanLabel):
        name = ""

    with refusal(what="a file cannot name a ranker without a name", got="Nameless", hint="register it: @rw.register…"):
        Nameless().fit(data).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_cannot_be_kept_is_an_error_when_it_is_saved(data, tmp_path):
    model = MeanLabel().fit(data)
    model.scaler_ = object()  # type: ignore[attr-defined]
    with refusal(what="what a MeanLabel learned cannot be saved", got="scaler_, which is of type object"):
        model.save(tmp_path / "model")
    model = MeanLabel(alpha=np.zeros(6)).fit(data)  # type: ignore[arg-type]
    with refusal(what="a parameter of the MeanLabel cannot be saved", got="alpha, …ndarray"):
        model.save(tmp_path / "model")


def test_a_ranker_inside_is_saved_with_it(parts, tmp_path):
    class Twice(rw.Ranker):
        def _fit(self, train, valid):
            self.inner_ = rw.LightGBMRanker("xendcg", **SMALL).fit(train, valid)
            self.beside_ = MeanLabel().fit(train)

        def _predict(self, features, offsets):
            return self.inner_.predict(features) + self.beside_.predict(features)

    rw.register("twice", Twice)
    train, valid = parts
    model = Twice().fit(train, valid)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(valid), model.predict(valid))


def test_a_forged_file_sets_no_other_attributes(data, tmp_path):
    model = MeanLabel().fit(data)
    model.save(tmp_path / "model")
    description, files = storage.read(tmp_path / "model")
    for values in ({"_predict": 1}, {"predict": 1}, {"stopped_": 1}, {"__class___": 1}):
        files["learned.json"] = json.dumps({"values": values, "rankers": {}}).encode()
        shutil.rmtree(tmp_path / "forged", ignore_errors=True)
        about = {name: value for name, value in description.items() if name not in ("files", "format", "versions")}
        storage.write(tmp_path / "forged", about, files)
        refuses(lambda: rw.load(tmp_path / "forged"), what="the model is damaged", got="an attribute…")


# Where rankers go.


def test_members_of_a_bag_are_trained_once_and_averaged(data, tmp_path):
    bag: Any = rw.bagged(MeanLabel(alpha=0.1), folds=3).fit(data)
    assert (len(bag.members_), bag.best_round_, list(bag.history_)) == (3, 1, ["ndcg@10"])
    by_folds = rw.cross_validate(MeanLabel(), data, folds=3)
    plain = rw.bagged(MeanLabel(), folds=3).fit(data)
    np.testing.assert_allclose(plain.oof_scores_, by_folds.scores)  # the same folds, and no choice of rounds
    assert plain.out_of_fold_.mean == by_folds.mean
    np.testing.assert_allclose(plain.predict(data), np.mean([one.predict(data) for one in plain.members_], axis=0))
    assert len({float(one.weights_[0]) for one in bag.members_}) == 3
    assert len({one.seed for one in bag.members_}) == 3  # drawn from that of the ranker, which it has
    bag.save(tmp_path / "bag")
    loaded: Any = rw.load(tmp_path / "bag")
    np.testing.assert_array_equal(loaded.predict(data), bag.predict(data))
    assert loaded.get_params()["ranker__alpha"] == 0.1
    assert bag.set_params(alpha=0.3).ranker.alpha == 0.3


def test_settings_of_the_training_that_it_has_not_are_those_of_the_bag(data, tmp_path):
    bag = rw.bagged(MeanLabel(), folds=2).set_params(metrics=("ap",), threads=1, progress=False)
    assert clone(bag).metrics == ("ap",)
    assert list(bag.fit(data).history_) == ["ap"]
    bag.save(tmp_path / "bag")
    loaded: Any = rw.load(tmp_path / "bag")
    assert loaded.score(data) == bag.score(data) == rw.evaluate(bag, data, ["ap"]).mean["ap"]


def test_a_bag_resumes_from_its_checkpoint(data, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.language.user_code.digests", lambda *_: {})  # the class will be changed
    bag = rw.bagged(MeanLabel(), folds=2).set_params(checkpoint=tmp_path / "kept").fit(data)
    trained = []
    monkeypatch.setattr(MeanLabel, "_fit", lambda *_: trained.append(1))
    again = rw.bagged(MeanLabel(), folds=2).set_params(checkpoint=tmp_path / "kept").fit(data, resume=True)
    assert not trained
    np.testing.assert_array_equal(again.predict(data), bag.predict(data))


def test_an_edited_class_does_not_get_what_another_one_did(data, tmp_path, monkeypatch):
    rw.cross_validate(MeanLabel(), data, folds=2, checkpoint=tmp_path / "kept")
    rw.cross_validate(MeanLabel(), data, folds=2, checkpoint=tmp_path / "kept", resume=True)
    monkeypatch.setattr(MeanLabel, "_predict", lambda self, features, offsets: -features @ self.weights_)
    with refusal(what="the folder holds another cross-validation (code: MeanLabel differs)"):
        rw.cross_validate(MeanLabel(), data, folds=2, checkpoint=tmp_path / "kept", resume=True)


def test_blends_hold_it_beside_others(data, tmp_path):
    blend = rw.blended([MeanLabel(), rw.LightGBMRanker("xendcg", **SMALL), 0], folds=2).fit(data)
    assert blend.weights_.names == ("mean_label", "lightgbm(xendcg)", "column 0")
    blend.save(tmp_path / "blend")
    np.testing.assert_array_equal(rw.load(tmp_path / "blend").predict(data), blend.predict(data))


def top(scores, labels, offsets):
    return [labels[start:end][np.argmax(scores[start:end])] for start, end in itertools.pairwise(offsets)]


@pytest.mark.parametrize("metric", ["ndcg@10", top])
def test_a_search_tries_it_among_its_recipes(metric, data, tmp_path):
    def search():
        recipes = [MeanLabel(), MeanLabel(alpha=0.5), rw.LightGBMRanker("xendcg", **SMALL)]
        settings: dict[str, Any] = {"folds": 2, "checkpoint": tmp_path / "study", "progress": False, "threads": 1}
        return rw.AutoRanker(None, metric, recipes=recipes, **settings).fit(data)

    first, again = search(), search()
    names = {entry.recipe for entry in first.leaderboard_.entries}
    assert {"mean_label(alpha=0.0)", "mean_label(alpha=0.5)", "lightgbm(xendcg)"} < names
    assert {entry.state for entry in first.leaderboard_.entries} == {"complete"}
    np.testing.assert_array_equal(again.predict(data), first.predict(data))
    alone = rw.bagged(MeanLabel(), folds=2).fit(data)
    values = rw.evaluate(alone.oof_scores_, data, [metric]).mean
    entry = next(entry for entry in first.leaderboard_.entries if entry.recipe == "mean_label(alpha=0.0)")
    assert entry.mean == pytest.approx(next(iter(values.values())))
    first.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(data), first.predict(data))


def test_it_teaches_and_learns_from_a_teacher(parts):
    train, valid = parts
    student = rw.LightGBMRanker("xendcg", **SMALL)
    taught = rw.distilled(MeanLabel(), student).fit(train, valid)
    assert taught.teacher_.weights_.size == train.n_features
    with refusal(what="…one of one's own with an objective", got="MeanLabel without a parameter objective"):
        rw.distilled(taught.teacher_, MeanLabel())

    class Descent(rw.Ranker):
        """One step down the gradient of an objective."""

        def __init__(self, objective="lambdarank"):
            self.objective = objective

        def _fit(self, train, valid):
            columns = {name: getattr(train, name) for name in self._objective().reads}
            found = self._objective()(np.zeros(train.n_docs), train.labels, train.offsets, train.stream(0), **columns)
            self.weights_ = -train.features.T @ found.gradient

        def _predict(self, features, offsets):
            return features @ self.weights_

    model = rw.distilled(taught.teacher_, Descent()).fit(train, valid)
    assert repr(model.ranker_.objective) == "margin_mse"
    assert model.score(valid) > Descent().fit(train.with_(labels=train.labels.max() - train.labels)).score(valid)


def test_tuning_searches_what_it_declares_or_what_is_asked_for(parts, tmp_path):
    train, valid = parts
    found = rw.tune(train, valid, ranker="mean_label", trials=4, progress=False, checkpoint=tmp_path / "study.db")
    assert list(found.space) == ["alpha"]
    assert found.trials[0].values == {"alpha": 0.5}
    assert found.value == max(trial.value or 0.0 for trial in found.trials)
    assert found.ranker().fit(train, valid).history_["ndcg@10"] == [found.value]
    again = rw.tune(
        train, valid, ranker="mean_label", trials=4, progress=False, checkpoint=tmp_path / "study.db", resume=True
    )
    assert again.parameters == found.parameters
    asked = rw.tune(
        train, valid, ranker="mean_label", trials=2, folds=2, metric="ap", space="none", search={"alpha": [0.0, 0.1]},
        seed=3, progress=False,
    )  # fmt: skip
    bag: Any = asked.ranker().set_params(metrics="ap").fit(train, valid)
    assert bag.history_["ap"] == [asked.value]
    text = asked.save(tmp_path / "best.toml").read_text(encoding="utf-8")
    assert 'ranker = "mean_label"\nalpha = 0.' in text
    with refusal(what="mean_label has no parameter objective", got="xendcg"):
        rw.tune(train, valid, "xendcg", ranker="mean_label")
    with refusal(what="mean_label has no such parameter", got="'beta'"):
        rw.tune(train, valid, ranker="mean_label", search={"beta": [1, 2]})
    with refusal(what="…takes the name of one", got="mean_label…", hint="…rw.register…"):
        rw.tune(train, valid, ranker=MeanLabel())  # type: ignore[arg-type]


DATA = "synthetic(n_queries=20, n_features=6, n_docs=8)"


def spec(**changes: Any) -> rw.lab.Spec:
    methods = {
        "own": "mean_label(alpha=0.1)",
        "bag": "bagged(mean_label, folds=2)",
        "blend": "blended(mean_label, lightgbm(xendcg, rounds=5), folds=2)",
    }
    return rw.lab.Spec(**{"name": "mine", "data": (DATA,), "methods": methods, "trials": 1, **changes})


def test_experiments_compare_it(tmp_path):
    results = rw.lab.reproduce(spec(curves=("valid", "test")), tmp_path / "results", jobs=1)
    assert results.methods == ["own", "bag", "blend"]
    assert results.trial_means()["ndcg@5"].is_not_nan().all()
    assert {"valid ndcg@5", "test ndcg@10"} <= set(results.curves["series"].unique())
    with refusal(what="mean_label has no such parameter", got="'leaves'"):
        rw.lab.reproduce(spec(methods={"own": "mean_label(leaves=3)"}), tmp_path / "other", jobs=1)
    with refusal(what="mean_label has no parameter objective", got="xendcg"):
        spec(methods={"own": "mean_label(xendcg)"})


def test_experiments_tune_it(tmp_path):
    results = rw.lab.reproduce(spec(methods={"own": "mean_label"}, tune_trials=2), tmp_path / "results", jobs=1)
    assert "searches" in results.about


def test_experiments_take_functions_as_metrics_and_know_their_code(tmp_path):
    def run(metric, **changes):
        described = spec(methods={"own": "mean_label"}, metrics=(metric, "ap"), decide=metric, **changes)
        return rw.lab.reproduce(described, tmp_path / "results", jobs=1)

    first = run(top)
    assert first.metrics == ["top", "ap"]
    assert (first.spec["decide"], first.spec["metrics"]) == ("top", ["top", "ap"])
    assert rw.lab.Results.read(tmp_path / "results").metrics == ["top", "ap"]
    kept = sorted(path.name for path in (tmp_path / "results" / "trials").glob("*.parquet"))
    run(top)
    assert sorted(path.name for path in (tmp_path / "results" / "trials").glob("*.parquet")) == kept

    def edited(scores, labels, offsets):
        return [2.0 * value for value in top(scores, labels, offsets)]

    edited.__name__ = "top"
    twice = run(edited)
    np.testing.assert_allclose(twice.queries["top"], 2.0 * first.queries["top"])


def test_functions_that_other_processes_cannot_be_sent_are_refused(tmp_path):
    def local(scores, labels, offsets):
        return top(scores, labels, offsets)

    described = spec(methods={"own": "mean_label"}, metrics=(local,), decide=local, trials=2)
    with refusal(what="the experiment cannot be sent to other processes", hint="…set jobs=1"):
        rw.lab.reproduce(described, tmp_path / "results", jobs=2)


def test_it_is_not_exported_nor_explained(data, tmp_path):
    model = MeanLabel().fit(data)
    refuses(lambda: rw.export(model, tmp_path / "x.onnx", format="onnx"), got="MeanLabel")
    with refusal(what="a MeanLabel cannot explain its scores by features"):
        rw.explain(model, data, query=data.qids()[0])


def test_scikit_learn_searches_it(data):
    import sklearn
    from sklearn.model_selection import GridSearchCV, GroupKFold

    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(MeanLabel(), {"alpha": [0.0, 5.0]}, cv=GroupKFold(3))
        search.fit(data.features, data.labels, qid=data.qids(), groups=data.qids())
    assert search.best_params_ == {"alpha": 0.0}


SCRIPT = """
import sys
import numpy as np
import rankwise as rw

@rw.register("users_ranker")
class Users(rw.Ranker):
    def __init__(self, sign=1.0):
        self.sign = sign
    def _fit(self, train, valid):
        self.weights_ = self.sign * train.features.T @ (train.labels - train.labels.mean())
    def _predict(self, features, offsets):
        return features @ self.weights_

@rw.register("users_loss", kind="objective")
def users_loss(scores, labels, offsets):
    gap = scores - labels
    return np.add.reduceat(gap**2, offsets[:-1]), 2 * gap, np.full_like(gap, 2.0)

@rw.register("users_metric", kind="metric")
def users_metric(scores, labels, offsets):
    return [labels[a:b][np.argmax(scores[a:b])] for a, b in zip(offsets[:-1], offsets[1:])]
"""


@pytest.mark.slow
def test_other_processes_know_names_and_train_it(tmp_path):
    """Slow: five processes import the libraries."""
    program = SCRIPT + textwrap.dedent(
        f"""
        if __name__ == "__main__":
            data = rw.synthetic(n_queries=20, n_features=6, n_docs=8, seed=1)
            ranker = rw.LightGBMRanker("0.5*users_loss + xendcg", rounds=3, threads=1)
            here, there = (rw.bagged(ranker, folds=2, processes=count).fit(data).predict(data) for count in (1, 2))
            spec = rw.lab.Spec(
                name="mine", data=({DATA!r},), methods={{"own": "users_ranker(sign=2)"}}, trials=2,
                metrics=("users_metric", "ap"), decide="ap",
            )
            results = [rw.lab.reproduce(spec, f"{{sys.argv[1]}}/{{jobs}}", jobs=jobs) for jobs in (1, 2)]
            equal = results[0].queries.sort("trial", "query").equals(results[1].queries.sort("trial", "query"))
            print(np.array_equal(here, there), equal)
        """
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr


def test_a_cluster_trains_it(data):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0
    ) as cluster:
        there = rw.bagged(MeanLabel(alpha=0.1), folds=2, dask=cluster.scheduler_address).fit(data)
    here = rw.bagged(MeanLabel(alpha=0.1), folds=2).fit(data)
    np.testing.assert_array_equal(there.predict(data), here.predict(data))


class Nameless(MeanLabel):
    """Is not registered."""

    name = ""


@pytest.mark.parametrize(
    "trained",
    [
        lambda train, valid: Nameless().fit(train),
        lambda train, valid: rw.bagged(Nameless(), folds=2).fit(train),
        lambda train, valid: rw.blended([Nameless(), 0], folds=2).fit(train),
        lambda train, valid: rw.blended([rw.bagged(Nameless(), folds=2), 0], folds=2).fit(train),
        lambda train, valid: rw.calibrate(Nameless().fit(train), valid),
        lambda train, valid: rw.calibrate(rw.bagged(Nameless(), folds=2).fit(train), valid),
        lambda train, valid: rw.AutoRanker(None, recipes=[Nameless()], folds=2, progress=False).fit(train),
        lambda train, valid: Holder().fit(train),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(trained, parts, tmp_path):
    with refusal(what="a file cannot name a ranker without a name", got="Nameless", hint="register it…"):
        trained(*parts).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


class Holder(MeanLabel):
    """Is registered, and keeps a ranker that is not."""

    def _fit(self, train, valid):
        super()._fit(train, valid)
        self.inner_ = Nameless().fit(train)


@pytest.mark.parametrize("name", ["nested", "recipe", "description", "saved", "read_model"])
def test_a_parameter_that_hides_a_method_is_refused(name, data):
    class Hiding(rw.Ranker):
        def _fit(self, train, valid):
            self.value_ = 1.0

        @classmethod
        def own_parameters(cls):
            return {name: None}

    ranker = Hiding()
    setattr(ranker, name, "words")
    with pytest.raises(ValueError, match=f"must not hide a method that all rankers have: got {name}. Hint: call it"):
        ranker.fit(data)
