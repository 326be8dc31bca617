"""The doctor for data: real data are not blamed, with exact counts; each fault planted in real data is found."""

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse, stats

import rankwise as rw
from rankwise.quality import leakage, parts
from rankwise.quality.examine import DataCheck
from rankwise.quality.features import missing_by_label, ndcg_by_feature, warn_of_training_data
from rankwise.quality.labels import NdcgRange
from tests import shared
from tests.refusals import refuses

Data = rw.RankingDataset


def mq2008(part: str = "train", fold: int = 1) -> Data:
    return rw.read_letor(shared.data(f"mq2008/Fold{fold}/{part}.txt.gz"))


@pytest.fixture(scope="module")
def train() -> Data:
    return mq2008("train")


@pytest.fixture(scope="module")
def test() -> Data:
    return mq2008("test")


def sizes(page: DataCheck, part: str = "train") -> dict[str, float]:
    """Topic -> size, of one part."""
    return {one.topic: one.size for one in page.findings if one.part == part}


def severities(page: DataCheck, part: str = "train") -> dict[str, str]:
    return {one.topic: one.severity for one in page.findings if one.part == part}


def faults(page: DataCheck) -> set[tuple[str, str, str]]:
    """What is not a note."""
    return {(one.severity, one.part, one.topic) for one in page.findings if one.severity != "note"}


def warned(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in messages]


# --- real data as they are -------------------------------------------------------------------------------------------


def counted(data: Data) -> dict[str, int]:
    """What is true of data, by the extremes of queries and by sets of rows."""
    first = data.offsets[:-1]
    constant = np.ptp(data.features, axis=0) == 0
    flat = (np.maximum.reduceat(data.features, first) == np.minimum.reduceat(data.features, first)).all(0)
    rows = zip(np.repeat(first, data.sizes).tolist(), [row.tobytes() for row in data.features], strict=True)
    return {
        "one document": (data.sizes == 1).sum(),
        "no relevant document": (np.add.reduceat(data.labels, first) == 0).sum(),
        "constant": constant.sum(),
        "constant in every query": (flat & ~constant).sum(),
        "doubled features": data.n_docs - len(set(rows)) if data.n_features else 0,
    }


def movielens() -> tuple[Data, Data]:
    ratings = rw.recommend.Interactions.read(shared.data("ml-latest-small"))
    first, second = next(ratings.folds(5, seed=1))
    return first.dataset(), second.dataset()


@pytest.mark.parametrize(
    ("read", "n_parts"),
    [
        (lambda: [mq2008(part, 2) for part in ("train", "vali", "test")], 3),
        (lambda: [rw.read_letor(shared.data("mq2007-partial/mq2007.partial.txt.gz"))], 1),
        (
            lambda: [
                rw.read_letor(shared.data(f"mslr-sample/web10k.fold1.{one}.5k.txt.gz")) for one in ("train", "test")
            ],
            2,
        ),
        (movielens, 2),
        (lambda: rw.split(rw.synthetic(seed=3), (0.6, 0.2, 0.2), seed=1), 3),
        (lambda: [rw.synthetic(n_queries=60, n_docs=5, noise=0.0, seed=4)], 1),
    ],
    ids=["mq2008", "mq2007", "mslr", "movielens", "synthetic", "small"],
)
def test_real_data_raise_notes_with_exact_counts(read: Callable[[], Any], n_parts: int):
    names = ("train", "valid", "test") if n_parts == 3 else ("train", "test")[:n_parts]
    data = dict(zip(names, read(), strict=True))
    page = rw.examine(**data)
    assert not faults(page)
    assert not page.failed(strict=True)
    for name, one in data.items():
        noted = sizes(page, name)
        assert {topic: noted.get(topic, 0) for topic in counted(one)} == counted(one)
        assert 0.1 < noted["random order"] < 0.85
    assert not warned(lambda: warn_of_training_data(data["train"]))


def test_users_are_queries_of_every_part_with_other_documents():
    first, second = movielens()
    page = rw.examine(first, test=second)
    (finding,) = (one for one in page.findings if one.part == "train, test")
    assert (finding.severity, finding.topic, finding.size) == ("note", "shared ids", second.n_queries)
    (finding,) = parts.shared({"train": first, "test": first.take(slice(100, 110))})
    assert (finding.severity, finding.size) == ("error", 10)
    assert f"with {first.offsets[110] - first.offsets[100]:,} documents in common" in finding.sentence


# --- faults planted in real data -------------------------------------------------------------------------------------


def with_feature(data: Data, values: Any, column: int = 3, **changes: Any) -> Data:
    features = data.features.copy()
    features[:, column] = values
    return data.with_(features=features, **changes)


def in_order(data: Data, rows: Any, offsets: Any = None) -> Data:
    """The documents of other rows."""
    offsets = data.offsets if offsets is None else offsets
    return Data(data.features[rows], data.labels[rows], offsets)


def by_label(data: Data, sign: int) -> Data:
    return in_order(data, np.lexsort((sign * data.labels, np.repeat(np.arange(data.n_queries), data.sizes))))


def noisy(data: Data, spread: float) -> Any:
    return data.labels + spread * np.random.default_rng(0).normal(size=data.n_docs)


def with_empty(data: Data, n_more: int) -> Data:
    relevant = np.flatnonzero(np.maximum.reduceat(data.labels, data.offsets[:-1]) > 0)[:n_more]
    return data.with_(
        labels=np.where(np.isin(np.repeat(np.arange(data.n_queries), data.sizes), relevant), 0, data.labels)
    )


def carried(data: Data, share: float, grade: float = 2.0) -> Any:
    """Whether a document is among this share of a grade."""
    return (data.labels >= grade) & (np.random.default_rng(1).random(data.n_docs) < share)


FAULTS: dict[str, tuple[Callable[[Data], Data], str, str]] = {
    "a copy": (lambda data: with_feature(data, data.labels), "error", "copy of the label"),
    "a coded copy": (
        lambda data: with_feature(data, (data.labels + 1) % 3, categorical=[3]),
        "error",
        "copy of the label",
    ),
    "a leak": (lambda data: with_feature(data, noisy(data, 0.1)), "error", "best feature"),
    "a falling leak": (lambda data: with_feature(data, -noisy(data, 0.1)), "error", "best feature"),
    "a weak leak": (lambda data: with_feature(data, noisy(data, 0.45)), "warning", "best feature"),
    "a leak with gaps": (
        lambda data: with_feature(data, np.where(data.labels > 0, noisy(data, 0.1) - 9, np.nan)),
        "error",
        "best feature",
    ),
    "a mark of the top grade": (lambda data: with_feature(data, carried(data, 0.7)), "error", "mark of a label"),
    "a mark by low values": (lambda data: with_feature(data, -1.0 * carried(data, 0.7)), "error", "mark of a label"),
    "a mark of few": (lambda data: with_feature(data, carried(data, 0.3)), "warning", "mark of a label"),
    "a mark of the relevant": (lambda data: with_feature(data, carried(data, 0.7, 1.0)), "error", "mark of a label"),
    "a mark among values": (
        lambda data: with_feature(data, np.where(carried(data, 0.7), 9.0, data.features[:, 3])),
        "error",
        "mark of a label",
    ),
    "a category as a mark": (
        lambda data: with_feature(
            data, np.where(carried(data, 0.7), 1, np.arange(data.n_docs) % 3 * 2), categorical=[3]
        ),
        "error",
        "mark of a label",
    ),
    "a value for some of the top grade": (
        lambda data: with_feature(data, np.where(carried(data, 0.7), np.arange(data.n_docs), np.nan)),
        "error",
        "mark of a label",
    ),
    "no value for some of the top grade": (
        lambda data: with_feature(data, np.where(carried(data, 0.7), np.nan, data.features[:, 3])),
        "error",
        "mark of a label",
    ),
    "missing where nothing is relevant": (
        lambda data: with_feature(data, np.where(data.labels == 0, np.nan, data.features[:, 4])),
        "error",
        "missing by label",
    ),
    "missing more often there": (
        lambda data: with_feature(
            data, np.where((data.labels == 0) & (np.arange(data.n_docs) % 2 == 0), np.nan, data.features[:, 4])
        ),
        "warning",
        "missing by label",
    ),
    "sorted rows": (lambda data: by_label(data, -1), "warning", "order of rows"),
    "rows sorted up": (lambda data: by_label(data, 1), "warning", "order of rows"),
    "no negatives": (lambda data: data.with_(labels=data.labels + 1), "warning", "all positive"),
    "one grade": (lambda data: data.with_(labels=0 * data.labels + 1), "error", "one grade"),
    "high labels": (lambda data: data.with_(labels=20 * data.labels), "warning", "high labels"),
    "amounts": (lambda data: data.with_(labels=3.3 * data.labels), "warning", "high labels"),
    "named amounts": (lambda data: data.with_(more_labels={"margin": 3.3 * data.labels}), "warning", "high labels"),
    "high named labels": (lambda data: data.with_(more_labels={"margin": 20 * data.labels}), "warning", "high labels"),
    "a named grade": (lambda data: data.with_(more_labels={"buy": 0 * data.labels}), "warning", "one grade"),
    "rows as queries": (
        lambda data: Data(data.features, data.labels, np.arange(data.n_docs + 1)),
        "warning",
        "one document",
    ),
    "hardly any relevant": (lambda data: with_empty(data, 310), "warning", "no relevant document"),
    "hardly any negative": (lambda data: data.with_(labels=np.where(data.labels > 0, 0, 1)), "warning", "random order"),
    "constant lists": (
        lambda data: data.with_(features=np.repeat(data.features[data.offsets[:-1]], data.sizes, 0)),
        "error",
        "constant in every query",
    ),
    "doubled ids": (
        lambda data: data.with_(document_ids=[0, *range(data.n_docs - 1)]),
        "warning",
        "doubled id",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_planted_in_real_data_is_found(train: Data, name: str):
    plant, severity, topic = FAULTS[name]
    page = rw.examine(plant(train))
    assert severities(page)[topic] == severity
    assert page.failed(strict=True)
    assert page.failed() == any(one.severity == "error" for one in page.findings)
    finding = next(one for one in page.findings if one.topic == topic)
    assert finding.hint
    assert finding.sentence in " ".join(repr(page).split())
    ranks = [one.rank for one in page.findings]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("objective", "settings", "said"),
    [
        ("on(margin, xendcg)", {}, "labels of margin not whole, up to 6.6, as amounts are"),
        ("on(margin, listnet)", {}, "labels of margin"),
        ("softmax_ce + 0.5*on(margin, stochastic(lambdarank))", {}, "labels of margin"),
        ("xendcg", {"constraints": {"ndcg(gain=linear, label=margin)@10": 0.1}}, "labels of margin"),
        ("on(margin, lambdarank(gain=linear))", {}, ""),  # the hint
        ("on(margin, softmax_ce)", {}, ""),
        ("on(margin, ranknet)", {}, ""),
        ("on(margin, lambdarank(metric=map))", {}, ""),
        ("xendcg", {}, ""),  # these labels are not trained on
    ],
)
@pytest.mark.parametrize("bag", [False, True])
def test_training_warns_of_amounts_that_count_by_powers_of_two(train: Data, objective, settings, said, bag):
    few = train.take(slice(0, 60)).with_(more_labels={"margin": 3.3 * train.take(slice(0, 60)).labels})
    ranker = rw.LightGBMRanker(objective, rounds=1, leaves=2, min_documents=1, threads=1, progress=False, **settings)
    texts = warned(lambda: rw.bagged(ranker, 2).fit(few) if bag else ranker.fit(few, few.with_(features=-few.features)))
    found = [text for text in texts if "gains of 2^y − 1 are for grades" in text]
    assert len(found) == bool(said)
    assert all(said in text and "on(margin, lambdarank(gain=linear))" in text for text in found)


def test_sizes_of_planted_faults_are_exact(train: Data):
    before = sizes(rw.examine(train))
    rows = np.insert(np.arange(train.n_docs), 3, [2, 2])  # a document of the first query, twice more
    offsets = train.offsets + np.where(train.offsets > 0, 2, 0)
    page = sizes(rw.examine(in_order(train, rows, offsets)))
    assert page["doubled features"] == before["doubled features"] + 2

    apart = Data([[1.0], [2.0], [2.0], [3.0]], [0, 1, 0, 1], [0, 2, 4], document_ids=[7, 8, 8, 9])
    assert not any(topic.startswith("doubled") for topic in sizes(rw.examine(apart)))

    first = in_order(train, np.arange(train.n_docs), np.insert(train.offsets, 1, 1))  # a list of one document more
    assert sizes(rw.examine(first))["one document"] == 1
    assert sizes(rw.examine(with_empty(train, 7)))["no relevant document"] == before["no relevant document"] + 7
    assert sizes(rw.examine(train.with_(labels=20 * train.labels)))["high labels"] == (train.labels == 2).sum()

    each = np.repeat(np.arange(train.n_queries), train.sizes)
    page = sizes(rw.examine(with_feature(with_feature(train, 7.0, 3), each, 4)))
    assert (page["constant"], page["constant in every query"]) == (before["constant"] + 1, 1)
    assert severities(rw.examine(with_feature(train, np.nan)))["constant"] == "note"


def compared(check: Callable[..., Any], **data: Data) -> set[tuple[str, str, str, float]]:
    return {(one.severity, one.part, one.topic, one.size) for one in check(data)}


def test_queries_of_several_parts_are_found_by_id_and_by_features(train: Data, test: Data):
    both = rw.concatenate([test, train.take([5, 6, 7])])
    pair = "train, test"
    expected = {("error", pair, "shared queries", 3), ("error", pair, "shared ids", 3)}
    assert compared(parts.shared, train=train, test=both) == expected
    shuffled = in_order(both, np.lexsort((both.labels, np.repeat(np.arange(both.n_queries), both.sizes))))
    renamed = shuffled.with_(query_ids=[f"new {number}" for number in range(both.n_queries)])
    assert compared(parts.shared, train=train, valid=renamed) == {("error", "train, valid", "shared queries", 3)}
    moved = both.with_(features=both.features + 1, document_ids=None)  # the same ids, computed in another way
    assert compared(parts.shared, train=train, valid=test, test=moved) == {
        ("warning", pair, "shared ids", 3),
        ("warning", "valid, test", "shared ids", test.n_queries),
    }


def test_features_that_a_market_lacks_are_no_leak():
    rich, chance = np.repeat(np.arange(100) % 2, 20), np.random.default_rng(0).random((2, 2000))
    labels = chance[0] < np.where(rich, 0.6, 0.05)  # one market has more relevant documents, and no feature
    values = np.where(rich, np.nan, chance[1])[:, None]
    assert not [*missing_by_label(rw.RankingDataset.from_sizes(values, labels, [20] * 100), "train")]
    values[labels & (chance[1] < 0.8)], values[~labels] = 1.0, np.nan
    (found,) = missing_by_label(rw.RankingDataset.from_sizes(values, labels, [20] * 100), "train")
    assert found.topic == "missing by label"


def test_missing_values_and_categories_that_differ_between_parts_are_found(train: Data, test: Data):
    chance = np.random.default_rng(1).random(test.n_docs)

    def holes(data: Data, where: Any) -> Data:
        return with_feature(data, np.where(where, np.nan, data.features[:, 3]))

    (finding,) = parts.missing({"train": train, "test": holes(test, chance < 0.5)})
    assert (finding.severity, finding.part, finding.size) == ("warning", "test", 1)
    assert f"number 4 (up to 0% in train, {(chance < 0.5).mean():.0%} in test)" in finding.sentence
    assert not compared(parts.missing, train=train, test=holes(test, chance < 0.05))
    halves = holes(train, np.repeat(np.arange(train.n_queries) % 2 == 0, train.sizes))  # all or none of a query
    assert not compared(parts.missing, train=halves, test=holes(test.take([0, 1]), where=True))
    assert compared(parts.missing, train=halves, test=holes(test, where=True))

    coded = with_feature(train, np.arange(train.n_docs) % 5, categorical=[3])
    for new, severity in ((chance < 0.2, "warning"), (np.arange(test.n_docs) == 3, "note")):
        held_out = with_feature(test, np.where(new, 5, 1), categorical=[3])
        expected = {(severity, "test", "new categories", new.sum())}
        assert compared(parts.categories, train=coded, test=held_out) == expected


def test_categories_are_compared_by_their_values():
    def table(shops: list[str]) -> pl.DataFrame:
        rows = {"qid": [0, 0, 1, 1], "label": [0, 1, 1, 0], "shop": shops, "price": [1.0, 2.0, 3.0, 4.0]}
        return pl.DataFrame(rows, schema_overrides={"shop": pl.Categorical})

    page = rw.examine(table(["a", "b", "a", "b"]), test=table(["b", "a", "c", "c"]).with_columns(pl.col("qid") + 7))
    assert sizes(page, "test")["new categories"] == 2


# --- how it is computed ----------------------------------------------------------------------------------------------


def test_ndcg_of_random_order_is_the_mean_over_all_orders():
    labels = [2, 0, 1, 0, 0, 3, 1]
    data = Data(np.zeros((7, 1)), labels, [0, 4, 7])
    metric = rw.metric("ndcg@10")
    means = []
    for first, last in ((0, 4), (4, 7)):
        orders = [
            metric(order, labels[first:last], [0, last - first])
            for order in itertools.permutations(range(last - first))
        ]
        means.append(np.mean(orders))
    assert math.isclose(NdcgRange(data).random, np.mean(means), rel_tol=1e-12)
    long = rw.synthetic(n_queries=1, n_docs=60, seed=2)  # longer than the cutoff
    gains, discounts = 2.0**long.labels - 1, 1 / np.log2(np.arange(2, 12))
    ideal = np.sort(gains)[::-1][:10] @ discounts
    assert math.isclose(NdcgRange(long).random, gains.mean() * discounts.sum() / ideal, rel_tol=1e-12)


def test_the_smallest_difference_is_shown_in_four_of_five_cases(train: Data, test: Data):
    (size,) = (one.size for one in rw.examine(train, test=test).findings if one.topic == "smallest difference")
    values = []
    for loss in ("xendcg", "lambdarank"):
        ranker = rw.LightGBMRanker(loss, rounds=50, progress=False).fit(
            Data(train.features, train.labels, train.offsets)
        )
        values.append(rw.metric("ndcg@10")(ranker.predict(test.features), test.labels, test.offsets))
    differences = values[0] - values[1]
    differences = differences[~np.isnan(differences)]
    error, freedom = stats.sem(differences), differences.size - 1
    power = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, size / error)
    assert abs(power - 0.8) < 0.005


def test_sparse_data_are_examined_as_dense_ones(test: Data):
    page = rw.examine(test.with_(features=sparse.csr_array(test.features)))
    assert page.findings == rw.examine(test).findings


def test_of_many_features_those_that_go_with_the_labels_are_measured():
    draw = np.random.default_rng(0)
    labels, features = draw.integers(0, 3, 1200), draw.normal(size=(1200, 400))
    features[:, 333] = -np.exp(3.0 * labels)
    for matrix in (features, sparse.csr_array(features)):
        finding = rw.examine(Data(matrix, labels, np.arange(0, 1201, 20))).findings[0]
        assert (finding.severity, finding.topic) == ("error", "copy of the label")
        values = ndcg_by_feature(NdcgRange(Data(matrix, labels, np.arange(0, 1201, 20))))
        assert (values[333], np.isnan(values).sum()) == (1.0, 100)


def test_an_examination_prints_draws_and_becomes_a_frame(tmp_path, train: Data):
    page = rw.examine(with_feature(train, train.labels))
    frame = page.to_frame()
    assert frame.columns == ["severity", "part", "topic", "size", "sentence", "hint"]
    assert frame.height == len(page.findings)
    assert repr(page).startswith("train: 471 queries, 9,630 documents, 46 features, labels 0 to 2\n\n✗ train: ")
    assert page.ndcg["train"]["feature 4"] == 1.0
    assert page.plot(tmp_path / "check.png").stat().st_size > 0
    assert rw.examine(*movielens()[:1]).plot(tmp_path / "lists.png").stat().st_size > 0
    flat = rw.examine(train.with_(labels=0 * train.labels))
    refuses(lambda: flat.plot(tmp_path / "flat.png"), what="there is nothing to draw")


def test_data_without_documents_are_refused_and_few_queries_are_not_compared():
    data = rw.synthetic(n_queries=5, n_docs=6, seed=1)
    refuses(lambda: rw.examine(data, test=data.take([])), what="data must have documents", got="none", where="test")
    page = rw.examine(with_feature(data, data.labels), test=data)
    assert "best feature" not in severities(page)  # in five queries it may be chance
    assert "is not known: " in repr(page)
    few = rw.examine(rw.synthetic(n_queries=60, n_docs=10, seed=1), test=data.with_(feature_names=None))
    assert "is not known: two quick rankers must differ on some queries: got 5 queries." in few.findings[-1].sentence


# --- fit -------------------------------------------------------------------------------------------------------------


def test_a_learning_curve_is_one_more_finding_where_it_is_wanted():
    train, test = rw.split(rw.synthetic(n_queries=200, n_docs=20, n_features=6, seed=3), (0.6, 0.4), seed=0)
    page = rw.examine(train, test=test, curve=True)
    curve = rw.learning_curve(train, test)
    (finding,) = (one for one in page.findings if one.topic == "learning curve")
    assert (finding.severity, finding.sentence, finding.size) == ("note", curve.sentence, curve.gain)
    few = rw.examine(train.take(slice(0, 20)), test=test, curve=True).findings
    assert "needs at least 40 queries" in next(one.sentence for one in few if one.topic == "learning curve")
    refuses(lambda: rw.examine(train, curve=True), what="a learning curve needs held-out queries")


def test_infinite_features_are_the_rankers_affair():
    data = rw.synthetic(n_queries=60, n_docs=15, n_features=6, seed=1)
    features = np.where(data.features > 1.0, np.inf, np.where(data.features < -1.0, -np.inf, data.features))
    rw.LightGBMRanker(rounds=2, leaves=2, threads=1).fit(data.with_(features=features))
    leak = np.where(data.labels == data.labels.max(), np.inf, data.labels)
    with pytest.warns(UserWarning, match="it ranks as the labels do"):
        rw.LightGBMRanker(rounds=2, leaves=2, threads=1).fit(
            data.with_(features=np.column_stack([features[:, :5], leak]))
        )


def test_fit_warns_once_of_a_leak(train: Data):
    leaky = with_feature(by_label(train, -1), by_label(train, -1).labels)
    quick = rw.LightGBMRanker("xendcg", rounds=1, progress=False, threads=1)
    rankers = [
        rw.AutoRanker(None, recipes=[quick], folds=2, threads=1, progress=False),
        rw.bagged(quick, folds=2),
        rw.blended([quick, rw.LightGBMRanker("lambdarank", rounds=1, progress=False)], folds=2),
        quick,
    ]
    for ranker in rankers:
        (message,) = warned(functools.partial(ranker.fit, leaky))
        assert "it ranks as the labels do" in message
        assert "rows are sorted by label" in message
        assert "rw.examine(train, valid, test)" in message
    with leakage.checked():
        assert not warned(lambda: quick.fit(leaky))
    assert not warned(lambda: quick.fit(leaky.take(slice(0, 49))))
    clicks = leaky.with_(positions=1 + np.arange(leaky.n_docs) - np.repeat(leaky.offsets[:-1], leaky.sizes))
    assert not warned(lambda: quick.fit(clicks))


def test_categories_that_do_not_come_again_are_warned_of():
    data = rw.synthetic(n_queries=60, n_docs=8, n_features=2, seed=1)
    features = np.column_stack([data.features, np.arange(data.n_docs), np.arange(data.n_docs) % 9])
    coded = data.with_(features=features, feature_names=("a", "b", "sku", "shop"), categorical=(2, 3))
    found = [one for one in rw.examine(coded).findings if one.topic == "values that do not come again"]
    assert [(one.severity, one.size) for one in found] == [("warning", 1)]
    assert f"sku ({data.n_docs:,} values in {data.n_docs:,} documents)" in found[0].sentence
    with pytest.warns(UserWarning, match="1 categorical feature with nearly as many values as documents: sku"):
        rw.LightGBMRanker(rounds=2, threads=1, progress=False).fit(coded)
