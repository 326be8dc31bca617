"""Writes saved models, one of each kind, and what they score: ``python -m tests.rankers.saved.make`` in a checkout.

Run it for a release, with the version that is released, and commit the archive: rankwise 0.1.0 wrote ``0.1.0.tar.xz``.
What users keep beside models is written by ``tests/release/keep.py``; a release has 200 kB for all archives together.
An archive is never written again: it holds what that version saved, and later versions must load it. Kinds that were
added since get an archive beside it, ``0.1.0-KIND.tar.xz``. Cards of rankers (``README.md``) are left out, since they
are not read.

In an archive, ``KIND/`` are the folders that ``save`` wrote, ``documents.npz`` the documents to score, ``numbers.npz``
the scores of each kind, of its scorer, and contributions, and ``facts.json`` everything else that a loaded model tells.
"""

import io
import json
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw

HERE = Path(__file__).parent
NAMES = ("bm25", "age", "price", "shop", "market")
SHOPS, MARKETS = tuple(f"shop {number}" for number in range(9)), ("north", "south")
TREES: dict[str, Any] = {"rounds": 3, "leaves": 3, "min_documents": 3, "learning_rate": 0.3, "threads": 1}
GROUPS: dict[str, Any] = {"min_data_per_group": 2, "cat_smooth": 1.0}  # for LightGBM to split by a category
NET: dict[str, Any] = {
    "epochs": 6,
    "hidden": (3,),
    "learning_rate": 0.05,
    "batch_queries": 4,
    "threads": 1,
    "device": "cpu",
}
WORDS = ("good", "great", "town", "river", "dog")

KINDS: dict[str, tuple[str, Callable[[], Any]]] = {}
"""Kind -> (what it scores, what trains it)."""


def kind(scored: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(train: Callable[[], Any]) -> Callable[[], Any]:
        KINDS[train.__name__] = (scored, train)
        return train

    return add


class Own(rw.Ranker):
    """A user's ranker with attributes of every type that files hold."""

    name = "saved_own"

    def __init__(self, power: float = 1.0) -> None:
        self.power = power

    def _fit(self, train, valid):
        features = np.nan_to_num(train.features)
        self.centre_ = np.average(features, axis=0, weights=train.labels**self.power + 1e-3)
        self.counts_ = np.bincount(train.labels.astype(int))
        self.mask_ = self.centre_ > 0
        self.about_ = {"queries": train.n_queries, "shares": [0.1, None, True], "word": "ä"}
        self.floor_, self.steps_, self.word_, self.nothing_ = 0.1, 7, "text", None
        self.inner_ = rw.LightGBMRanker("xendcg", **TREES).fit(train)

    def _predict(self, features, offsets):
        return self.inner_.predict(features) - self.floor_ * np.abs(np.nan_to_num(features) - self.centre_).sum(axis=1)


class OwnOfLists(rw.Ranker):
    """A user's ranker that looks at whole lists."""

    name = "saved_own_of_lists"
    needs_lists = True

    def _fit(self, train, valid):
        self.column_ = 1

    def _predict(self, features, offsets):
        column = features[:, self.column_]
        return column - np.repeat(np.maximum.reduceat(column, offsets[:-1]), np.diff(offsets))


OWN = ("centre_", "counts_", "mask_", "about_", "floor_", "steps_", "word_", "nothing_", "column_")


def register() -> None:
    """Make files know the users' rankers."""
    for one in (Own, OwnOfLists):
        rw.register(one.name, one)


def features_of(seed: int, n_queries: int) -> dict[str, np.ndarray]:
    """Documents with two columns of categories, whose codes are places in ``SHOPS`` and ``MARKETS``."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(5, 11, n_queries)
    total = int(sizes.sum())
    numbers = draw.normal(size=(total, 3)).astype(np.float32)
    shop, market = draw.integers(0, len(SHOPS), total), np.repeat(draw.integers(0, 2, n_queries), sizes)
    utility = (
        numbers[:, 0] + 0.5 * numbers[:, 1] * (market - 0.5) + 2.0 * np.sin(2.0 * shop) + draw.normal(size=total) * 0.3
    )
    numbers[draw.random(total) < 0.15, 2] = np.nan
    return {
        "features": np.column_stack([numbers, shop, market]).astype(np.float32),
        "labels": np.clip(np.round(utility + 0.7), 0, 3),
        "offsets": np.concatenate([[0], np.cumsum(sizes)]),
        "init_scores": draw.normal(size=total),
        "buy": (draw.random(total) < 0.3).astype(np.float64),
    }


def numbers(documents: Mapping[str, np.ndarray]) -> rw.RankingDataset:
    """The columns of numbers, without names."""
    more = {"buy": documents["buy"]}
    return rw.RankingDataset(documents["features"][:, :3], documents["labels"], documents["offsets"], more_labels=more)


def named(documents: Mapping[str, np.ndarray], *, turned: bool = False) -> rw.RankingDataset:
    """All columns, with names; ``turned``: columns and categories in another order, to be found by name and value."""
    features, names = documents["features"].copy(), list(NAMES)
    listed = {3: SHOPS, 4: MARKETS}
    if turned:
        for column, values in listed.items():
            features[:, column] = len(values) - 1 - features[:, column]
        features, names = np.ascontiguousarray(features[:, ::-1]), names[::-1]
        listed = {4 - column: values[::-1] for column, values in listed.items()}
    return rw.RankingDataset(
        features,
        documents["labels"],
        documents["offsets"],
        feature_names=names,
        categorical=tuple(sorted(listed)),
        categories=listed,
    )


def started(documents: Mapping[str, np.ndarray]) -> rw.RankingDataset:
    return numbers(documents).with_(init_scores=documents["init_scores"])


def ratings() -> rw.recommend.Interactions:
    return rw.recommend.synthetic_ratings(10, 14, n_ratings=6, seed=1)


def rated(documents: Mapping[str, np.ndarray]) -> rw.RankingDataset:
    """Lists of users and items."""
    users, items = documents["users"], documents["items"]
    total = users.size * items.size
    offsets = np.arange(0, total + 1, items.size)
    ids: dict[str, Any] = {"query_ids": users, "document_ids": np.tile(items, users.size)}
    return rw.RankingDataset(np.zeros((total, 1), np.float32), np.zeros(total), offsets, **ids)


PAIRS = [(query, text) for query in ("dog", "town river") for text in ("good dog", "great river town", "town", "good")]
TRAIN, VALID = features_of(1, 16), features_of(2, 10)


# Trees.


@kind("numbers")
def lightgbm():
    return rw.LightGBMRanker("lambdarank", **TREES).fit(numbers(TRAIN), numbers(VALID))


@kind("named")
def lightgbm_categories():
    return rw.LightGBMRanker("xendcg", metrics=("ndcg@5", "err"), **TREES, **GROUPS).fit(named(TRAIN), named(VALID))


@kind("started")
def lightgbm_init_scores():
    return rw.LightGBMRanker("softmax_ce", **TREES).fit(started(TRAIN), started(VALID))


@kind("numbers")
def lightgbm_native():
    return rw.LightGBMRanker("native:rank_xendcg", **TREES).fit(numbers(TRAIN), numbers(VALID))


@kind("named")
def lightgbm_query():
    return rw.LightGBMRanker("xendcg", transform="raw+query", **TREES, **GROUPS).fit(named(TRAIN))


@kind("numbers")
def lightgbm_linear():
    return rw.LightGBMRanker("xendcg", linear_tree=True, **TREES).fit(numbers(TRAIN))


@kind("numbers")
def lightgbm_continued():
    return rw.LightGBMRanker("lambdarank", **TREES).fit(numbers(TRAIN), numbers(VALID), init_model=lightgbm())


@kind("numbers")
def lightgbm_goals():
    return rw.LightGBMRanker("lambdarank + 0.3*on(buy, approx_ndcg)", **TREES).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def lightgbm_constraints():
    settings = TREES | {"metrics": ("ndcg(label=buy)@5",), "constraints": {"ndcg@5": 0.1}}
    return rw.LightGBMRanker("on(buy, xendcg)", **settings).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def xgboost():
    return rw.XGBoostRanker("stochastic(xendcg, samples=2)", **TREES).fit(numbers(TRAIN), numbers(VALID))


@kind("named")
def xgboost_categories():
    return rw.XGBoostRanker("lambdarank", **TREES).fit(named(TRAIN), named(VALID))


@kind("numbers")
def xgboost_native():
    return rw.XGBoostRanker("native:rank:ndcg", **TREES).fit(numbers(TRAIN))


@kind("numbers")
def catboost():
    return rw.CatBoostRanker("lambdarank", **TREES).fit(numbers(TRAIN), numbers(VALID))


@kind("named")
def catboost_categories():
    """Shops become statistics of labels."""
    return rw.CatBoostRanker("xendcg", **TREES).fit(named(TRAIN))


@kind("numbers")
def catboost_native():
    return rw.CatBoostRanker("native:YetiRank", **TREES).fit(numbers(TRAIN))


@kind("numbers")
def wrapped_lightgbm():
    import lightgbm as library

    data = numbers(TRAIN)
    settings: dict[str, Any] = {"n_estimators": 3, "num_leaves": 3, "min_child_samples": 3, "n_jobs": 1, "verbose": -1}
    return rw.wrap(library.LGBMRanker(**settings).fit(data.features, data.labels, group=data.sizes))


@kind("numbers")
def wrapped_xgboost():
    import xgboost as library

    data = numbers(TRAIN)
    return rw.wrap(
        library.XGBRanker(n_estimators=3, max_depth=2, n_jobs=1).fit(data.features, data.labels, qid=data.qids())
    )


@kind("numbers")
def wrapped_catboost():
    import catboost as library

    data = numbers(TRAIN)
    settings: dict[str, Any] = {"iterations": 3, "depth": 2, "thread_count": 1, "verbose": 0}
    model = library.CatBoostRanker(**settings, allow_writing_files=False)
    return rw.wrap(model.fit(data.features, data.labels, group_id=data.qids()))


# Nets.


@kind("numbers")
def neural():
    return rw.NeuralRanker("xendcg", **NET).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def neural_attention():
    settings = NET | {"hidden": (4,), "attention": 1}
    return rw.NeuralRanker("softmax_ce", **settings).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def neural_transforms():
    settings = NET | {"transform": "log1p+standardize+query", "batch_norm": True, "averaging": 0.9}
    return rw.NeuralRanker("lambdarank", **settings).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def neural_members():
    return rw.NeuralRanker("lambdarank", transform="quantile", members=2, **NET).fit(numbers(TRAIN), numbers(VALID))


# Linear models.


@kind("numbers")
def linear():
    return rw.LinearRanker("softmax_ce", l2=0.1, threads=1).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def linear_standard():
    return rw.LinearRanker("calibrated", transform="standard", l1=0.05, threads=1).fit(numbers(TRAIN))


@kind("numbers")
def bagged_linear():
    return rw.bagged(rw.LinearRanker("xendcg", transform="quantile", threads=1), folds=2).fit(numbers(TRAIN))


# Rankers made of rankers.


@kind("named")
def bagged_trees():
    return rw.bagged(rw.LightGBMRanker("xendcg", **TREES, **GROUPS), folds=2).fit(named(TRAIN))


@kind("numbers")
def bagged_xgboost():
    return rw.bagged(rw.XGBoostRanker("xendcg", **TREES), folds=2).fit(numbers(TRAIN))


@kind("named")
def bagged_catboost():
    """Trees with statistics of categories are no one forest."""
    return rw.bagged(rw.CatBoostRanker("xendcg", **TREES), folds=2).fit(named(TRAIN))


@kind("numbers")
def bagged_nets():
    return rw.bagged(rw.NeuralRanker("xendcg", **NET), folds=2).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def bagged_own():
    return rw.bagged(Own(power=2.0), folds=2).fit(numbers(TRAIN))


@kind("numbers")
def blended_forest():
    rankers = [rw.LightGBMRanker(name, **TREES) for name in ("xendcg", "softmax_ce")]
    return rw.blended(rankers, folds=2).fit(numbers(TRAIN))


@kind("numbers")
def blended_mixed():
    trees, net = rw.LightGBMRanker("lambdarank", **TREES), rw.NeuralRanker("xendcg", **NET)
    return rw.blended([trees, net, 0], folds=2).fit(numbers(TRAIN))


@kind("named")
def blended_categories():
    rankers: list[Any] = [rw.XGBoostRanker("xendcg", **TREES), rw.CatBoostRanker("xendcg", **TREES), "bm25", "price"]
    return rw.blended(rankers, folds=2).fit(named(TRAIN))


@kind("named")
def feature():
    return rw.ranker("feature('age')").fit(named(TRAIN))


@kind("named")
def calibrated_isotonic():
    return rw.calibrate(lightgbm_categories(), named(features_of(3, 40)), segment="market")


@kind("numbers")
def calibrated_platt():
    return rw.calibrate(lightgbm(), numbers(VALID), "platt", relevant=2.0)


@kind("numbers")
def calibrated_sigmoid():
    return rw.CalibratedRanker(rw.LightGBMRanker("calibrated", **TREES), method="sigmoid", label="buy").fit(
        numbers(TRAIN)
    )


@kind("named")
def calibrated_bag():
    ranker = rw.bagged(rw.LightGBMRanker("xendcg", **TREES), folds=2)
    return rw.CalibratedRanker(ranker, method="platt").fit(named(TRAIN), named(VALID))


@kind("numbers")
def distilled():
    student = rw.LightGBMRanker("lambdarank", **TREES)
    return rw.distilled(xgboost(), student, weight=0.5).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def auto():
    recipes = [rw.LightGBMRanker("xendcg", **TREES), rw.XGBoostRanker("lambdarank", **TREES)]
    return rw.AutoRanker(minutes=None, recipes=recipes, folds=2, threads=1, progress=False).fit(numbers(TRAIN))


@kind("numbers")
def own():
    return Own(power=0.5).fit(numbers(TRAIN), numbers(VALID))


@kind("numbers")
def own_of_lists():
    return OwnOfLists().fit(numbers(TRAIN))


# Users, items and texts.


@kind("ratings")
def factorization():
    settings: dict[str, Any] = {"factors": 2, "epochs": 2, "item_bias": True, "threads": 1, "device": "cpu"}
    return rw.recommend.FactorizationRanker("softmax_ce", **settings).fit(ratings())


@kind("ratings")
def als():
    return rw.recommend.ALS(factors=2, iterations=2).fit(ratings())


@kind("ratings")
def ease():
    return rw.recommend.EASE(regularization=3.0).fit(ratings())


@kind("ratings")
def knn():
    return rw.recommend.ItemKNN(neighbours=3).fit(ratings())


@kind("ratings")
def popularity():
    return rw.recommend.Popularity().fit(ratings())


@kind("texts")
def reranker():
    from rankwise.wings.rerank.data.lists import Lists
    from tests.wings.rerank import tiny

    words = tiny.tokenizer(WORDS, max_length=16)
    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4}
    documents, labels = [["good dog", "town"], ["river great", "dog town", "good"]], [[1, 0], [2, 0, 1]]
    lists = Lists.from_lists(["dog", "river"], documents, labels, query_ids=["a", "b"])
    with tempfile.TemporaryDirectory() as folder:
        tiny.bert(len(words), seed=1, **sizes).save_pretrained(folder)
        words.save_pretrained(folder)
        settings: dict[str, Any] = {"learning_rate": 1e-2, "threads": 1, "device": "cpu", "progress": False}
        return rw.rerank.Reranker(folder, "xendcg", **settings).fit(lists, lists)


# What a model tells.


def load(scored: str, folder: Path) -> Any:
    return rw.rerank.Reranker.load(folder, device="cpu") if scored == "texts" else rw.load(folder)


def view(scored: str, documents: Mapping[str, np.ndarray]) -> Any:
    """What models of a kind score: the documents, or users and items."""
    return {"numbers": numbers, "named": named, "started": started, "ratings": rated}[scored](documents)


def scores(scored: str, model: Any, documents: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(model.predict(PAIRS if scored == "texts" else view(scored, documents)))


def more_numbers(scored: str, model: Any, documents: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Scores of the scorer and contributions to the first score, where the model has them."""
    if scored in ("ratings", "texts"):
        return {}
    found, data = {}, view(scored, documents)
    if (scorer := _or_none(model.scorer)) is not None:
        queries = (data.take([query]).features for query in range(data.n_queries))
        found["scorer"] = np.concatenate([scorer(features) for features in queries])
    if (parts := _or_none(lambda: model.explain(data.take([0])))) is not None:
        found["contributions"] = parts[0]
    return found


def facts(scored: str, model: Any, documents: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What else a model tells, as JSON holds it."""
    names = ["best_round_", "stopped_", "history_"]
    told: dict[str, Any] = {
        "repr": repr(model),
        "type": type(model).__name__,
        "objective": str(getattr(model, "objective", None)),
    }
    if scored == "texts":  # its repr is its folder
        told = {"objective": str(model.objective), "epochs": model.epochs_}
    elif scored == "ratings":
        told["best"] = model.recommend(documents["users"], cutoff=2).to_dict(as_series=False)["item"]
    else:
        names += [
            "n_features_in_",
            "categories_",
            "needs_lists",
            "scales_",
            "feature_importances_",
            "curves_",
            "label_",
        ]
        seen = model.seen_in_training(view(scored, documents))
        told["seen"] = None if seen is None else seen.tolist()
        told["members"] = _or_none(lambda: len(model.members_))
        told["out_of_fold"] = _or_none(lambda: dict(model.out_of_fold_.mean))
        told["weights"] = _or_none(lambda: list(model.weights_.values))
        told["trees"] = _or_none(lambda: model.model_.n_trees)
        told["inner"] = _or_none(lambda: repr(model.ranker_))
        told["digest"] = model.trained_on_.get("digest")
        names += [name for name in OWN if hasattr(model, name)]
    told |= {name: getattr(model, name, None) for name in names}
    return dict(json.loads(json.dumps(told, default=_plain)))


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (AttributeError, ValueError):
        return None


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value.tolist()


# The archive.


def documents_to_score() -> dict[str, np.ndarray]:
    """Documents of new queries after those of one that models were trained on."""
    first = int(TRAIN["offsets"][1])
    fresh = features_of(9, 3)
    both = {name: np.concatenate([TRAIN[name][:first], fresh[name]]) for name in fresh if name != "offsets"}
    known = ratings()
    return both | {
        "offsets": np.concatenate([[0], fresh["offsets"] + first]),
        "users": known.users[:4],
        "items": known.catalogue[:9],
    }


def archived(version: str) -> set[str]:
    """The kinds in the archives of a version."""
    kinds: set[str] = set()
    for path in HERE.glob(f"{version}*.tar.xz"):
        with tarfile.open(path) as packed:
            kinds |= {name.partition("/")[0] for name in packed.getnames() if "/" in name}
    return kinds


def main() -> None:
    kinds, archive = KINDS, HERE / f"{rw.__version__}.tar.xz"
    if archive.exists():
        kinds = {name: KINDS[name] for name in KINDS if name not in archived(rw.__version__)}
        archive = HERE / f"{rw.__version__}-{'-'.join(kinds)}.tar.xz"
    if not kinds:
        sys.exit(f"{rw.__version__} has saved every kind, and what it saved is kept")
    register()
    documents = documents_to_score()
    told, arrays = {}, {}
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=content, mode="w:xz", preset=9) as packed:
        for name, (scored, train) in kinds.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trained = train()
            path = trained.save(Path(folder, name))
            model = load(scored, path)
            arrays[f"{name} scores"] = scores(scored, model, documents)
            np.testing.assert_array_equal(arrays[f"{name} scores"], scores(scored, trained, documents))
            arrays |= {f"{name} {key}": array for key, array in more_numbers(scored, model, documents).items()}
            told[name] = {"scored": scored, **facts(scored, model, documents)}
            for file in sorted(path.rglob("*")):
                if file.is_file() and (file.name != "README.md" or scored == "texts"):
                    add(packed, file.relative_to(folder).as_posix(), file.read_bytes())
        for title, table in (("documents.npz", documents), ("numbers.npz", arrays)):
            buffer = io.BytesIO()
            np.savez(buffer, **table)  # type: ignore[arg-type]  # names are not among its options
            add(packed, title, buffer.getvalue())
        add(packed, "facts.json", json.dumps(told, indent=1, ensure_ascii=False).encode())
    archive.write_bytes(content.getvalue())
    print(f"{len(told)} models in {archive.stat().st_size:,} bytes")


def add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file without the time and the user of this machine."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    packed.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
