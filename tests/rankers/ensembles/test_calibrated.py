"""Calibrated rankers: probabilities in the order of scores, by segment, on disk, exported, on the command line."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest
from scipy.special import logit

import rankwise as rw
from rankwise.models import storage
from rankwise.statistics.calibration import fitted, sigmoid
from tests.cli.running import refused, run
from tests.refusals import refusal, refuses


def lists(seed: int, n_queries: int = 300) -> rw.RankingDataset:
    """Labels drawn with log odds 2 x − 1, and 2 more in the market "b"; the market and x are features."""
    rng = np.random.default_rng(seed)
    x, market = rng.normal(size=(n_queries, 10)), rng.integers(0, 2, n_queries)
    chances = sigmoid(2.0 * x - 1.0 + 2.0 * market[:, None])
    features = np.column_stack([x.ravel(), np.repeat(market, 10), rng.normal(size=x.size)])
    return rw.RankingDataset(
        features,
        rng.random(x.size) < chances.ravel(),
        np.arange(0, x.size + 1, 10),
        feature_names=["x", "market", "noise"],
        categorical=(1,),
        categories={1: ("a", "b")},
    )


@pytest.fixture(scope="module")
def fresh() -> rw.RankingDataset:
    return lists(1)


@pytest.fixture(scope="module")
def model() -> Any:
    return rw.LightGBMRanker("lambdarank", rounds=20, leaves=7, threads=1).fit(lists(0))


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_probabilities_keep_the_order_of_scores(method, model, fresh):
    calibrated = rw.calibrate(model, fresh, method)
    test = lists(2)
    scores, p = model.predict(test), calibrated.predict(test)
    assert ((p > 0) & (p < 1)).all()
    order = np.argsort(scores)
    assert ((np.diff(p[order]) > 0) == (np.diff(scores[order]) > 0)).all()
    np.testing.assert_array_equal(rw.evaluate(calibrated, test)["ndcg@10"], rw.evaluate(model, test)["ndcg@10"])
    assert rw.evaluate(calibrated, test).reliability().error < 0.08
    np.testing.assert_array_equal(calibrated.predict(test.features), p)
    np.testing.assert_array_equal(calibrated.scorer()(test.features[:10]), p[:10])


def test_segments_have_curves_of_their_own(model, fresh):
    test = lists(2)
    plain, by_market = rw.calibrate(model, fresh, "platt"), rw.calibrate(model, fresh, "platt", segment="market")
    assert by_market.curves_.keys() == {"", "a", "b"}
    for code in (0, 1):
        part = test.take(np.flatnonzero(test.features[test.offsets[:-1], 1] == code))
        apart = [rw.evaluate(one, part).reliability().error for one in (plain, by_market)]
        assert apart[1] < 0.5 * apart[0]
        # Alone, a market has the same curve.
        both = fresh.take(np.flatnonzero(fresh.features[fresh.offsets[:-1], 1] == code))
        alone = rw.calibrate(model, both, "platt")
        np.testing.assert_allclose(by_market.predict(part), alone.predict(part), atol=1e-6)
    unseen = test.features[:10].copy()
    unseen[:, 1] = np.nan
    np.testing.assert_array_equal(by_market.predict(unseen), plain.predict(unseen))
    np.testing.assert_array_equal(by_market.scorer()(test.features[:10]), by_market.predict(test.features[:10]))


def test_queries_of_several_segments_keep_their_order(model, fresh):
    calibrated = rw.calibrate(model, fresh, "platt", segment="market")
    features = fresh.features.copy()
    features[::3, 1] = np.nan
    mixed = fresh.with_(features=features)
    p = calibrated.predict(mixed)
    np.testing.assert_array_equal(p, rw.calibrate(model, fresh, "platt").predict(mixed))
    scorer = calibrated.scorer()
    np.testing.assert_array_equal(scorer(features[:10], np.array([0, 10])), p[:10])
    np.testing.assert_array_equal(scorer(mixed), p)
    with refusal(what="…several segments…", got="'missing' and …of 'market'", hint="…offsets…"):
        scorer(features[:10])


def test_few_documents_have_the_curve_of_all(model, fresh):
    codes = fresh.features[fresh.offsets[:-1], 1]
    few = np.sort(np.append(np.flatnonzero(codes == 0), np.flatnonzero(codes == 1)[:1]))
    assert rw.calibrate(model, fresh.take(few), segment=1).curves_.keys() == {"", "a"}


def test_labels_and_weights_count(model, fresh):
    graded = fresh.with_(labels=3 * fresh.labels)
    np.testing.assert_array_equal(
        rw.calibrate(model, graded, relevant=2.5).predict(fresh), rw.calibrate(model, fresh).predict(fresh)
    )
    first = fresh.take(np.arange(150)).with_(query_ids=np.arange(1000, 1150))
    twice = rw.concatenate([fresh.with_(query_ids=np.arange(300)), first])
    weighted = fresh.with_(weights=np.repeat([2.0, 1.0], 150))
    one, other = (rw.calibrate(model, each, "platt").predict(fresh) for each in (twice, weighted))
    np.testing.assert_allclose(one, other, atol=1e-3)  # as many documents, but for Platt's targets
    averaging_1 = fresh.with_(weights=np.repeat([2.0, 0.0], 150))
    twice = rw.concatenate([fresh.take(np.arange(150)).with_(query_ids=np.arange(150)), first])
    for method in ("isotonic", "platt"):
        one, other = (rw.calibrate(model, each, method).predict(fresh) for each in (twice, averaging_1))
        np.testing.assert_allclose(one, other, rtol=1e-6)
        tiny = rw.calibrate(model, fresh.with_(weights=weighted.weights * 1e-6), method)
        np.testing.assert_allclose(tiny.predict(fresh), rw.calibrate(model, weighted, method).predict(fresh), rtol=1e-6)


def test_models_that_score_log_odds_need_no_curve(fresh):
    model = rw.LightGBMRanker("calibrated", rounds=60, leaves=7, threads=1).fit(lists(0))
    calibrated = rw.calibrate(model, method="sigmoid")
    np.testing.assert_allclose(calibrated.predict(fresh), sigmoid(model.predict(fresh)), rtol=1e-14)
    assert rw.evaluate(calibrated, fresh).reliability().error < 0.08


def test_the_level_of_log_odds_goes_by_weights(fresh):
    model = rw.LightGBMRanker("calibrated", rounds=60, leaves=7, threads=1).fit(lists(0))
    wrong = fresh.labels.copy()
    wrong[: fresh.offsets[150]] = 1.0
    data = fresh.with_(labels=wrong)
    with pytest.warns(UserWarning, match="where 1.0000 are observed"):
        rw.calibrate(model, data.with_(weights=np.repeat([1.0, 0.0], 150)), method="sigmoid")
    rw.calibrate(model, data.with_(weights=np.repeat([0.0, 1.0], 150)), method="sigmoid")


def test_a_saved_one_scores_the_same_in_a_new_process(model, fresh, tmp_path):
    calibrated = rw.calibrate(model, fresh, segment="market")
    calibrated.save(tmp_path / "model")
    np.save(tmp_path / "features.npy", fresh.features)
    code = """
import sys, numpy as np, rankwise as rw
model = rw.load(sys.argv[1] + "/model")
np.save(sys.argv[1] + "/scores.npy", model.predict(np.load(sys.argv[1] + "/features.npy")))
print(model)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), calibrated.predict(fresh))
    assert done.stdout.strip() == repr(calibrated)
    other = lists(3)
    again = rw.calibrate(rw.load(tmp_path / "model"), other, "platt")  # of a folder, and of a calibrated one
    assert rw.evaluate(again, lists(2)).reliability().error < 0.08
    assert rw.calibrate(tmp_path / "model", other, "platt").predict(fresh).tolist() == again.predict(fresh).tolist()


def test_curves_of_a_file_must_rise(model, fresh, tmp_path):
    calibrated = rw.calibrate(model, fresh, "platt")
    calibrated.curves_ = {"": [[0.0, 1.0], [1.0, 0.0], [1.0]]}
    refuses(lambda: rw.load(calibrated.save(tmp_path / "model")), what="the log odds of a curve must increase")


def test_an_expression_is_trained_and_calibrated_on_validation_data(fresh):
    text = "calibrate(lightgbm(xendcg, rounds=20, leaves=7, threads=1), method=platt)"
    ranker = rw.ranker(text)
    assert repr(ranker) == text
    ranker.set_params(ranker__rounds=15).fit(lists(0), fresh)
    assert repr(ranker.ranker_) == "lightgbm(xendcg, rounds=15, leaves=7, threads=1)"
    expected = rw.calibrate(ranker.ranker_, fresh, "platt").predict(fresh)
    np.testing.assert_array_equal(ranker.predict(fresh), expected)
    with refusal(what="a curve is fitted to queries that the ranker was not trained on", hint="…validation…"):
        rw.ranker(text).fit(lists(0))


def goals(seed: int, n_queries: int = 300) -> rw.RankingDataset:
    """Rare purchases beside the labels, with log odds 2 noise + x − 5."""
    data = lists(seed, n_queries)
    rng = np.random.default_rng(seed + 100)
    bought = rng.random(data.n_docs) < sigmoid(2.0 * data.features[:, 2] + data.features[:, 0] - 5.0)
    return data.with_(more_labels={"purchase": bought.astype(float), "click": data.labels})


def test_the_label_that_the_objective_names_is_calibrated(tmp_path):
    train, valid, test = (goals(seed) for seed in range(3))
    ranker = rw.ranker("calibrate(lightgbm(on(purchase, calibrated), rounds=20, leaves=7, threads=1), method=platt)")
    calibrated = ranker.fit(train, valid)
    rate = float(test.labels_of("purchase").mean())
    assert calibrated.predict(test).mean() == pytest.approx(rate, abs=0.02)
    assert float(test.labels.mean()) > 0.3  # what it would be otherwise
    calibrated.save(tmp_path / "model")
    for model in (calibrated, rw.load(tmp_path / "model"), rw.calibrate(calibrated.ranker_, method="sigmoid")):
        reliability = rw.evaluate(model, test).reliability()
        assert reliability.event == ("purchase", 1.0)
        assert float(np.average(reliability.observed, weights=reliability.documents)) == pytest.approx(rate)
    assert reliability.predicts == ("purchase", 1.0)
    assert "probabilities of another event: purchase" in repr(rw.evaluate(model, test).reliability(label="labels"))
    rw.write_data(test, tmp_path / "test.parquet")
    words = ("evaluate", tmp_path / "test.parquet", tmp_path / "model", "--label", "purchase=purchase", "--calibration")
    ((_, shown),) = json.loads(run(*words, "--json").stdout)["calibration"].items()
    assert shown["label"] == "purchase"
    assert shown["error"] == pytest.approx(rw.evaluate(calibrated, test).reliability().error)
    assert "no labels called 'sale'" in refused(*words, "--calibration-label", "sale")
    assert "--calibration-label is of --calibration" in refused(*words[:-1], "--calibration-label", "purchase")


def test_a_level_that_training_did_not_reach_is_a_warning():
    train, fresh = goals(0), goals(1)
    model = rw.LightGBMRanker("on(purchase, calibrated)", rounds=5, leaves=7, threads=1)
    graded = train.with_(more_labels={"purchase": (train.labels > 0.0).astype(float)})
    rw.calibrate(model.fit(train), fresh, "sigmoid")  # no warning, which would be an error here
    with pytest.warns(
        UserWarning, match=r"mean probability of purchase.* is 0\.[2-4].* where 0\.0.* observed: scores.*platt"
    ):
        rw.calibrate(model.fit(graded), fresh, "sigmoid")


@pytest.mark.parametrize(("method", "learns"), [("sigmoid", False), ("platt", True), ("isotonic", True)])
def test_queries_that_a_curve_was_fitted_to_were_seen(method, learns):
    model = rw.LightGBMRanker("on(purchase, calibrated)", rounds=5, leaves=7, threads=1).fit(goals(0))
    calibrated: Any = rw.calibrate(model, goals(1), method)
    assert calibrated.seen_in_training(goals(0)).all()
    assert calibrated.seen_in_training(goals(1)).all() == learns


LIGHT = "rounds=2, leaves=4, threads=1"


@pytest.mark.parametrize(
    ("expression", "label"),
    [
        (f"calibrate(lightgbm({LIGHT}))", "labels"),
        (f"calibrate(lightgbm(native:lambdarank, {LIGHT}))", "labels"),
        (f"calibrate(lightgbm(stochastic(on(purchase, xendcg)), {LIGHT}))", "purchase"),
        (f"calibrate(lightgbm(on(purchase, xendcg), {LIGHT}), label=click)", "click"),
        (f"calibrate(lightgbm(on(purchase, xendcg), {LIGHT}), label=labels)", "labels"),
        (f"calibrate(bagged(lightgbm(on(purchase, xendcg), {LIGHT}), folds=2))", "purchase"),
        (f"calibrate(blended(lightgbm(on(purchase, xendcg), {LIGHT}), column(2), folds=2))", "purchase"),
        (f"calibrate(distilled(lightgbm(on(purchase, xendcg), {LIGHT}), lightgbm({LIGHT})))", "purchase"),
    ],
)
def test_which_label_is_calibrated(expression, label):
    ranker = rw.ranker(expression)
    assert repr(rw.ranker(repr(ranker))) == repr(ranker)
    assert ranker.fit(goals(0), goals(1)).predicts_ == (label, 1.0)


def test_a_calibrated_ranker_is_calibrated_anew_for_its_label(tmp_path):
    ranker = rw.ranker(f"calibrate(lightgbm({LIGHT}), label=purchase)").fit(goals(0), goals(1))
    for model in (ranker, rw.load(ranker.save(tmp_path / "model"))):
        assert rw.calibrate(model, goals(2)).label_ == "purchase"
        assert rw.calibrate(model, goals(2), label="click").label_ == "click"


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        (
            "calibrate(lightgbm(xendcg + on(purchase, xendcg)))",
            {"what": "…several labels…", "got": "labels, purchase", "hint": "…label='purchase'"},
        ),
        ("calibrate(blended(lightgbm(on(click, xendcg)), lightgbm(on(purchase, xendcg))))", {"got": "click, purchase"}),
        ("calibrate(lightgbm(on(purchase, xendcg)), label=purchas)", {"what": "…no labels called 'purchas'"}),
    ],
)
def test_which_label_is_not_known(expression, fields):
    refuses(lambda: rw.ranker(expression).fit(goals(0), goals(1)), **fields)


BAG = "bagged(lightgbm(lambdarank, rounds=60, leaves=31, min_documents=2, threads=1), folds=3)"


@pytest.mark.parametrize("ensemble", [BAG, f"blended({BAG}, column(0), folds=3)"])
def test_ensembles_are_calibrated_on_scores_of_members_that_did_not_see_the_query(ensemble, tmp_path):
    train, valid, test = lists(0, 60), lists(1, 30), lists(2)
    everything = rw.concatenate([train, valid])
    calibrated = rw.ranker(f"calibrate({ensemble}, method=platt)").fit(train, valid)
    assert rw.evaluate(calibrated, test).reliability().error < 0.07
    bag = calibrated.ranker_
    assert bag.oof_scores_.mean() == pytest.approx(bag.predict(everything).mean(), abs=0.1)  # of the same level
    expected = fitted("platt", bag.oof_scores_, everything.labels, np.ones(everything.n_docs))
    assert expected is not None
    np.testing.assert_allclose(calibrated.predict(test), expected(bag.predict(test)))
    # All training queries of a trained ensemble are recognised, also of one that was loaded; a part of them is not.
    bag.save(tmp_path / "bag")
    for model in (bag, rw.load(tmp_path / "bag")):
        again = rw.calibrate(model, everything, "platt")
        np.testing.assert_array_equal(again.predict(test), calibrated.predict(test))
    with pytest.warns(
        UserWarning, match=r"60 of the 60 queries .* have the features of training queries.*Hint: pass queries"
    ):
        seen = rw.calibrate(bag, train, "platt")
    assert np.abs(logit(seen.predict(test))).mean() > np.abs(logit(calibrated.predict(test))).mean()  # too sure
    # It needs no validation data.
    alone = rw.ranker(f"calibrate({ensemble}, method=platt)").fit(everything)
    np.testing.assert_array_equal(alone.predict(test), calibrated.predict(test))


def test_an_auto_ranker_is_calibrated_out_of_fold(tmp_path):
    train, valid, test = goals(0, 60), goals(1, 30), goals(2)
    recipe = f"lightgbm(on(purchase, xendcg), {LIGHT})"
    auto = rw.AutoRanker(None, "ndcg(label=purchase)@10", recipes=[recipe], folds=2, threads=1, progress=False)
    calibrated = rw.CalibratedRanker(auto, method="platt").fit(train, valid)
    assert calibrated.predicts_ == ("purchase", 1.0)
    again = rw.calibrate(calibrated.ranker_, rw.concatenate([train, valid]), "platt")
    for model in (again, rw.load(again.save(tmp_path / "model"))):
        np.testing.assert_array_equal(model.predict(test), calibrated.predict(test))
    assert "Scores are probabilities: purchase of at least 1." in again.card()


def test_queries_of_the_training_data_are_a_warning(model, fresh):
    mixed = rw.concatenate([lists(0).take(np.arange(100, 200)), fresh.take(np.arange(100))])
    with pytest.warns(UserWarning, match="100 of the 200 queries .* have the features of training queries"):
        rw.calibrate(model, mixed)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_onnx_has_the_curve(method, model, fresh, tmp_path):
    calibrated = rw.calibrate(model, fresh, method)
    path = rw.export(calibrated, tmp_path / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": fresh.features.astype(np.float32)})
    np.testing.assert_allclose(scores, calibrated.predict(fresh), rtol=1e-12)
    np.testing.assert_array_equal(calibrated.curve(model.predict(fresh)), calibrated.predict(fresh))


def test_other_formats_and_segments_are_refused(model, fresh, tmp_path):
    for form in ("treelite", "elasticsearch", "vespa", "solr"):
        with pytest.raises(ValueError, match=f"{form} has no place for the curve.*export model.ranker_"):
            rw.export(rw.calibrate(model, fresh), tmp_path / "model", form)
    with refusal(what="the curves of segments cannot be exported", got="segment='market'"):
        rw.export(rw.calibrate(model, fresh, segment="market"), tmp_path / "model", "onnx")
    with refusal(what="a ranker that was calibrated twice has no one curve"):
        rw.export(rw.calibrate(rw.calibrate(model, fresh), lists(3)), tmp_path / "model", "onnx")


def test_what_makes_no_sense_is_refused(model, fresh):
    with refusal(what="…same for all documents of a query…", got="…of 'noise'", where="…query number 0…"):
        rw.calibrate(model, fresh, segment="noise")
    for arguments, message in (
        ({"method": "beta"}, "unknown method: got 'beta'"),
        ({"segment": "markt"}, "unknown segment: got 'markt'. Hint: did you mean 'market'"),
        ({"method": "sigmoid", "segment": 1}, "the same in every segment"),
        ({"relevant": 5}, "relevance does not rise with scores: got 0 relevant of 3,000"),
    ):
        with pytest.raises(ValueError, match=message):
            rw.calibrate(model, fresh, **arguments)
    with refusal(what="relevance does not rise with scores"):
        rw.calibrate(model, fresh.with_(labels=1 - fresh.labels))
    refuses(lambda: rw.calibrate(model), what="a curve is fitted to data")
    refuses(lambda: rw.calibrate(3, fresh), what="only trained rankers can be calibrated", got="int")
    with refusal(what="contributions add up to scores, and not to probabilities", hint="explain model.ranker_"):
        rw.calibrate(model, fresh).explain(fresh)


def test_the_command_line_trains_shows_and_draws(fresh, tmp_path):
    rw.write_data(lists(2), tmp_path / "test.parquet")
    rw.write_data(fresh, tmp_path / "fresh.parquet")
    ranker = "calibrate(lightgbm(xendcg, rounds=20, patience=2), method=platt)"
    data = (tmp_path / "test.parquet", "--valid", tmp_path / "fresh.parquet", "--threads", 1)
    printed = run("train", *data, "--ranker", ranker, "-o", tmp_path / "model").stdout
    assert "no better round for 2 rounds" in printed or "all rounds done" in printed
    words = ("evaluate", tmp_path / "test.parquet", tmp_path / "model", "--calibration")
    printed = run(*words, "--plot", tmp_path / "curve.png").stdout
    assert "Reliability" in printed
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    document = json.loads(run(*words, "--json").stdout)
    expected = rw.evaluate(rw.load(tmp_path / "model"), lists(2)).reliability()
    (shown,) = document["calibration"].values()
    assert shown["error"] == pytest.approx(expected.error)
    assert "--plot draws the curve of --calibration" in refused(*words[:-1], "--plot", tmp_path / "other.png")


# Models that were forged, with right checksums.


def forged(change, saved, folder):
    """Load a saved model after ``change(description, learned)``."""
    description, files = storage.read(saved)
    learned = json.loads(files["learned.json"])
    change(description, learned["values"])
    files["learned.json"] = json.dumps(learned).encode()
    about = {name: value for name, value in description.items() if name not in ("files", "format")}
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / storage.DESCRIPTION).write_bytes(storage.text(about, files, {name: name for name in files}))
    return rw.load(folder)


def replaced(*path):
    """Set what is at the end of a path through a description, or through what was learned."""

    def change(description, learned):
        *places, last, value = path[1:]
        holder = {"description": description, "learned": learned}[path[0]]
        for place in places:
            holder = holder[place]
        holder[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced("learned", "curves_", "", 1, 0, float("nan")), "log odds of a curve must increase"),
        (replaced("learned", "curves_", "", 0, 0, 1e9), "scores of a curve must increase"),
        (replaced("learned", "curves_", "", 0, [0.0, 1.0, 2.0]), "as many scores as log odds"),
        (replaced("learned", "curves_", "", [[-1e308, 1e308], [-1e308, 1e308], [1.0]]), "slopes .* must be finite"),
        (replaced("learned", "curves_", "", 2, 0, -5.0), "slope beyond the knots"),
        (replaced("learned", "curves_", "", 2, 0, float("nan")), "slope beyond the knots"),
        (replaced("learned", "curves_", "", 2, 0, "x"), "slope beyond the knots"),
        (replaced("learned", "curves_", {}), "damaged: got curves of"),
        (replaced("learned", "curves_", "d", [[0.0, 1.0], [0.0, 1.0], [1.0]]), "damaged: got curves of .*'d'"),
        (replaced("learned", "curves_", "", None), "malformed"),
        (replaced("learned", "label_", 3), "damaged: got labels called 3"),
        (replaced("description", "parameters", "method", "beta"), "unknown method: got 'beta'"),
        (replaced("description", "parameters", "relevant", "x"), "relevant must be a number"),
        (replaced("description", "parameters", "segment", "nowhere"), "unknown segment"),
        (replaced("description", "parameters", "segment", None), "damaged: got curves of"),
        (replaced("description", "features", "names", ["x", "market", "other"]), "not those of its ranker"),
    ],
)
def test_forged_models_are_refused(change, message, model, fresh, tmp_path):
    saved = rw.calibrate(model, fresh, "platt", segment="market").save(tmp_path / "model")
    with pytest.raises(ValueError, match=f"forged.*{message}|{message}.*forged"):
        forged(change, saved, tmp_path / "forged")


@pytest.mark.parametrize("weight", [1e30, 1e-300])
def test_the_unit_of_weights_does_not_matter_however_large(weight, model, fresh):
    weighted = rw.calibrate(model, fresh.with_(weights=np.full(fresh.n_queries, weight)))
    np.testing.assert_allclose(weighted.predict(fresh), rw.calibrate(model, fresh).predict(fresh), rtol=1e-9)


@pytest.mark.parametrize(
    ("categories", "values", "names"),
    [
        (("missing", "b"), [0, 1, np.nan], {"missing", "b", "(missing)"}),
        (("missing", "(missing)"), [0, 1, np.nan], {"missing", "(missing)", "((missing))"}),
        (("", "empty"), [0, 1, np.nan], {"(empty)", "empty", "missing"}),
        (None, [12345678.0, 12345679.0, np.nan], {"12345678", "12345679", "missing"}),
        (None, [0.1, 0.2, -0.0], {"0.1", "0.2", "0"}),
    ],
)
def test_segments_of_different_values_have_different_curves(categories, values, names):
    listed: Any = {} if categories is None else {"categorical": [1], "categories": {1: categories}}
    parts = []
    for data in (lists(0), lists(1)):
        features = data.features.copy()
        features[:, 1] = np.repeat(np.array(values)[np.arange(data.n_queries) % 3], data.sizes)
        parts.append(rw.RankingDataset(features, data.labels, data.offsets, **listed))
    calibrated = rw.calibrate(Feature().fit(parts[0]), parts[1], segment=1)
    assert set(calibrated.curves_) == {"", *names}


class Feature(rw.Ranker):
    """Scores by the first feature, times ``factor``; where that is above ``most``, by a far larger number."""

    def __init__(self, factor: float = 1.0, most: float = np.inf) -> None:
        self.factor, self.most = factor, most

    def _fit(self, train, valid):
        self.nothing_ = 0

    def _predict(self, features, offsets):
        return np.where(features[:, 0] > self.most, 1e18, self.factor * features[:, 0])


@pytest.mark.parametrize(("ranker", "method"), [(Feature(100.0), "sigmoid"), (Feature(most=2.5), "isotonic")])
def test_scores_that_a_curve_ties_are_a_warning(ranker, method):
    train, fresh = lists(0), lists(1)
    with pytest.warns(UserWarning, match=r"different probabilities of [\d,]+ different scores.*order is lost.*ranker_"):
        rw.calibrate(ranker.fit(train), fresh, method)


@pytest.mark.parametrize(
    "recommender",
    [rw.recommend.EASE, rw.recommend.Popularity, lambda: rw.recommend.FactorizationRanker(epochs=1, threads=1)],
)
def test_recommenders_are_refused(recommender):
    ratings = rw.recommend.synthetic_ratings(n_users=12, n_items=20, n_ratings=9.0, seed=1)
    for calibrated in (
        lambda: rw.CalibratedRanker(recommender()),
        lambda: rw.calibrate(recommender().fit(ratings), ratings.dataset(1, seed=0)),
    ):
        with refusal(what="only rankers that score features can be calibrated", got="a recommender…"):
            calibrated()
