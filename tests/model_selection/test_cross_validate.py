"""Cross-validation: who is trained, stopped and tested on what, and what is kept of it."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker
from tests import shared
from tests.refusals import refusal, refuses


class Spy:
    """Scores by the first feature and remembers what it was trained on."""

    def __init__(self, patience: int | None = None) -> None:
        self.patience = patience

    def fit(self, train: rw.RankingDataset, valid: rw.RankingDataset | None = None) -> Self:
        self.train, self.valid = train, valid
        return self

    def predict(self, data: rw.RankingDataset) -> Any:
        return data.features[:, 0].astype(np.float64)


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    return rw.synthetic(n_queries=31, n_docs=8, seed=2)


def quick(**more: Any) -> LightGBMRanker:
    return LightGBMRanker("xendcg", **{"rounds": 4, "leaves": 4, "min_documents": 2, "threads": 1, **more})


def test_every_query_is_tested_once_by_a_model_that_has_not_seen_it(data: rw.RankingDataset):
    found = rw.cross_validate(Spy(patience=5), data, folds=4, metrics=["ndcg@5", "ap"], seed=3)
    assert found.query_ids.tolist() == list(range(31))
    assert sorted(np.bincount(found.fold)[1:].tolist()) == [7, 8, 8, 8]
    tests: list[Any] = [test.query_ids for *_, test in rw.folds(data, 4, seed=3)]
    for number, (model, test) in enumerate(zip(found.models, tests, strict=True), 1):
        tested = set(found.query_ids[found.fold == number].tolist())
        assert tested == set(test.tolist())
        trained, stopped = set(model.train.query_ids.tolist()), set(model.valid.query_ids.tolist())
        assert not tested & (trained | stopped)
        assert not trained & stopped
        assert len(trained | stopped) == 31 - len(tested)
        assert len(stopped) == round(0.2 * (31 - len(tested)))
    whole = rw.evaluate(data.features[:, 0], data, ["ndcg@5", "ap"])
    np.testing.assert_array_equal(found["ap"], whole["ap"])
    np.testing.assert_array_equal(found.scores, data.features[:, 0])


def test_only_rankers_that_stop_early_hold_queries_out(data: rw.RankingDataset):
    assert all(model.valid is None for model in rw.cross_validate(Spy(), data, folds=2).models)
    assert all(model.valid is None for model in rw.cross_validate(Spy(patience=5), data, folds=2, valid=0).models)


def test_folds_depend_on_ids_and_seed_alone(data: rw.RankingDataset):
    one = rw.cross_validate(Spy(), data, seed=1)
    shuffled = data.take(np.random.default_rng(0).permutation(31))
    other = rw.cross_validate(Spy(patience=9), shuffled, seed=1)
    assert dict(zip(one.query_ids, one.fold, strict=True)) == dict(zip(other.query_ids, other.fold, strict=True))
    assert (rw.cross_validate(Spy(), data, seed=2).fold != one.fold).any()


def test_results_are_compared_by_query_without_the_data(data: rw.RankingDataset):
    found = {name: rw.cross_validate(quick(learning_rate=rate), data, folds=3) for name, rate in (("a", 0.1), ("b", 1))}
    by_query = rw.compare(found)
    assert by_query.paired.unit == "query"
    assert by_query.paired.ids.size == 31
    again = rw.cross_validate(quick(learning_rate=0.1), data, folds=3)
    np.testing.assert_array_equal(found["a"].scores, again.scores)
    assert "over 3 folds" in repr(again)
    assert again.to_frame().columns == ["query", "weight", "fold", "ndcg@10"]
    means = [np.nanmean(again["ndcg@10"][again.fold == k]) for k in (1, 2, 3)]
    np.testing.assert_allclose(again.fold_means["ndcg@10"], means)
    assert again.spread["ndcg@10"] == pytest.approx(np.std(means, ddof=1))
    assert again.summary()["folds_sd"].to_list() == list(again.spread.values())


def test_progress_is_shown_on_standard_error(data: rw.RankingDataset, capsys: pytest.CaptureFixture[str]):
    found = rw.cross_validate(quick(progress=True), data, folds=2, progress=True)
    assert "fold 2 of 2" in capsys.readouterr().err
    assert all(model.progress for model in found.models)
    rw.cross_validate(quick(), data, folds=2)
    assert not capsys.readouterr().err


def test_the_ranker_itself_stays_untrained_and_fold_models_predict_their_fold(data: rw.RankingDataset):
    ranker = quick()
    found = rw.cross_validate(ranker, data, folds=3)
    assert not hasattr(ranker, "model_")
    for number, model in enumerate(found.models, 1):
        part = data.take(found.fold == number)
        rows = np.isin(data.qids(), part.qids())
        np.testing.assert_array_equal(model.predict(part), found.scores[rows])


def test_weights_count(data: rw.RankingDataset):
    weights = np.arange(1.0, 32.0)
    found = rw.cross_validate(Spy(), data.with_(weights=weights), folds=3)
    plain = rw.evaluate(data.features[:, 0], data.with_(weights=weights))
    assert found.mean == plain.mean


def test_explicit_folds_by_number_may_leave_queries_out(data: rw.RankingDataset):
    folds = [(range(10, 31), [5, 0]), (np.arange(31) >= 20, [1])]
    found = rw.cross_validate(Spy(), data, folds=folds)
    assert found.query_ids.tolist() == [0, 1, 5]
    assert found.fold.tolist() == [1, 2, 1]
    tested = np.isin(data.qids(), [0, 1, 5])
    assert np.isnan(found.scores[~tested]).all()
    np.testing.assert_array_equal(found.scores[tested], data.features[tested, 0])


def test_prepared_folds_keep_their_own_validation_part(data: rw.RankingDataset):
    prepared = list(rw.folds(data, 3))
    found = rw.cross_validate(Spy(patience=3), folds=prepared)
    assert [model.valid is fold[1] for model, fold in zip(found.models, prepared, strict=True)] == [True] * 3
    assert found.query_ids.tolist() == np.concatenate([test.query_ids for *_, test in prepared]).tolist()
    assert rw.compare({"a": found, "b": rw.cross_validate(Spy(), data, folds=4)}).paired.ids.size == 31


@pytest.mark.parametrize(
    ("folds", "fields"),
    [
        (1, {"what": "n, the number of folds, must be a whole number of at least 2"}),
        ("5", {"what": "folds must be a number, or a list of (train, test) or (train, valid, test)"}),
        ([(range(5), range(5, 8))], {"what": "cross-validation needs at least two folds"}),
        (
            [(range(5), [5]), (range(5), [4])],
            {"what": "a query is both trained or stopped on and tested", "got": "4", "where": "fold 2"},
        ),
        (
            [(range(5), [5]), (range(5), [5])],
            {"what": "a query is tested in an earlier fold, too", "got": "5", "where": "fold 2"},
        ),
        (
            [(range(5), [4], [6]), (range(5), [5], [7])],
            {"what": "a query is both trained and stopped on", "got": "4", "where": "fold 1"},
        ),
        ([(range(5), []), (range(5), [5])], {"what": "every part of a fold needs at least one query"}),
        ([(range(5), [99]), (range(5), [5])], {"what": "queries must be a slice, a mask or numbers of the 31 queries"}),
        ([range(5), range(5)], {"what": "folds must be a number, or a list of (train, test) or (train, valid, test)"}),
    ],
)
def test_folds_that_make_no_sense_are_refused(data: rw.RankingDataset, folds: Any, fields: dict[str, str]):
    refuses(lambda: rw.cross_validate(Spy(), data, folds=folds), **fields)


def test_prepared_folds_that_share_queries_are_refused(data: rw.RankingDataset):
    one, two, three = (data.take(slice(k, k + 10)) for k in (0, 10, 15))
    with refusal(what="a query is tested in an earlier fold, too"):
        rw.cross_validate(Spy(), folds=[(one, two), (one, three)])
    with refusal(what="a query is both trained or stopped on and tested"):
        rw.cross_validate(Spy(), folds=[(two, three), (one, two)])
    with refusal(what="prepared folds must be data sets with query ids"):
        rw.cross_validate(Spy(), folds=[(one.with_(query_ids=None), two), (one, three)])
    with refusal(what="folds that are data sets need no data beside them"):
        rw.cross_validate(Spy(), data, folds=[(one, two), (two, one)])


def test_an_interrupted_run_resumes_with_the_finished_folds(
    data: rw.RankingDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = rw.cross_validate(quick(), data, folds=3)
    fit, trained = LightGBMRanker.fit, []

    def failing(self: Any, *arguments: Any, **more: Any) -> Any:
        trained.append(1)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return fit(self, *arguments, **more)

    monkeypatch.setattr(LightGBMRanker, "fit", failing)
    with refusal(KeyboardInterrupt, what="…in fold 2 of 3: …kept in …cv", hint="set resume=True"):
        rw.cross_validate(quick(), data, folds=3, checkpoint=tmp_path / "cv")
    with refusal(FileExistsError, hint="…resume=True…"):
        rw.cross_validate(quick(), data, folds=3, checkpoint=tmp_path / "cv")
    with refusal(what="the folder holds another cross-validation (parameters: leaves differs)"):
        rw.cross_validate(quick(leaves=5), data, folds=3, checkpoint=tmp_path / "cv", resume=True)
    with refusal(what="the folder holds another cross-validation (folds differs)"):
        rw.cross_validate(quick(), data, folds=3, seed=1, checkpoint=tmp_path / "cv", resume=True)
    again = rw.cross_validate(quick(), data, folds=3, checkpoint=tmp_path / "cv", resume=True)
    assert len(trained) == 4  # the first, the one that was interrupted, and the two that were left
    np.testing.assert_array_equal(again.scores, whole.scores)


def test_an_evaluation_comes_back_from_its_file(data: rw.RankingDataset, tmp_path: Path):
    found = rw.cross_validate(Spy(), data, folds=3, metrics=["ndcg@5", "rr"])
    read = rw.results.read_evaluation(rw.results.write_evaluation(found, tmp_path / "a.parquet"))
    assert read.metrics == ("ndcg@5", "rr")
    np.testing.assert_array_equal(read["rr"], found["rr"])
    np.testing.assert_array_equal(read.query_ids, found.query_ids)
    assert read.weights is None
    rw.write_data(data, tmp_path / "data.parquet")
    refuses(lambda: rw.results.read_evaluation(tmp_path / "data.parquet"), what="not the values of queries")


@pytest.mark.slow
def test_the_five_folds_of_mq2008():
    folder = shared.data("mq2008")
    folds = [rw.load_dataset("mq2008", fold, folder, cache=False) for fold in range(1, 6)]
    found = rw.cross_validate(quick(rounds=20), folds=folds, metrics="ndcg@10")
    assert found.query_ids.size == 784
    assert 0.6 < found.mean["ndcg@10"] < 0.8


@pytest.mark.filterwarnings("ignore:.*were judged")
@pytest.mark.parametrize("prepared", [False, True])
def test_what_nobody_judged_is_known_of_all_folds(data: rw.RankingDataset, prepared: bool):
    judged = (np.random.default_rng(0).random(data.n_docs) < 0.7).astype(int)
    thin = data.with_(labels=data.labels * judged, judged=judged)
    folds: Any = 3
    if prepared:
        thirds = [np.arange(start, 31, 3) for start in range(3)]
        folds = [(thin.take(np.setdiff1d(np.arange(31), part)), thin.take(part)) for part in thirds]
    found = rw.cross_validate(Spy(), None if prepared else thin, folds, metrics="ndcg@5")
    whole = rw.evaluate(data.features[:, 0].astype(np.float64), thin, "ndcg@5")
    assert found.judged is not None
    assert found.judged.mean == pytest.approx(whole.judged.mean)  # type: ignore[union-attr]
    assert "judged@5" in found.to_text()
    pair = rw.compare({"one": found, "other": rw.cross_validate(Second(), thin, 3, metrics="ndcg@5")}).pairs[0]
    assert (
        pair.filled_difference is None
    ) is prepared  # where queries are in another order, ids of documents are needed


class Second(Spy):
    """Scores by the second feature."""

    def predict(self, data: rw.RankingDataset) -> Any:
        return data.features[:, 1].astype(np.float64)
