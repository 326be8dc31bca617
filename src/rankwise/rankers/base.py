"""The base class of rankers: parameters, data in every form, scores, rankings, files."""

from abc import ABC
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Never, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Floats, Json, Keywords, Offsets
from rankwise.data.categories import Values
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import with_labels
from rankwise.models import attributes, model_card, storage
from rankwise.models.schema import Documents, Schema, in_from_frame, is_frame
from rankwise.rankers import expressions, inputs, table
from rankwise.rankers.at_once import TrainedAtOnce, trains_at_once

if TYPE_CHECKING:
    import polars as pl

    from rankwise.models.contributions import Contributions
    from rankwise.models.scoring.scorer import Scorer

_TUPLES = ("metrics", "hidden")  # parameters that are lists in files


class Ranker(TrainedAtOnce, ABC):
    """A model that scores documents, and the base class of a ranker of one's own.

    A subclass keeps every argument of ``__init__`` under its own name, as estimators of scikit-learn do, and defines
    two methods:

    - ``_fit(train, valid)`` learns from a :class:`RankingDataset`, and keeps what it learned in attributes whose names
      end in ``_``. ``valid`` is another one, or None.
    - ``_predict(features, offsets)`` returns one score per document. ``features`` is a matrix with the columns of
      training, and query q has the rows ``offsets[q]`` to ``offsets[q + 1]``. Where only features are known,
      ``offsets`` is None, unless the class sets ``needs_lists = True``: then that is an error before.

    It has ``fit``, ``predict``, ``rank``, ``save`` and the rest from here, and works wherever a ranker does. With a
    name from :func:`rankwise.register` it is known to expressions, files and :func:`rankwise.load`. ``search_space``
    holds the ranges that :func:`rankwise.tune` searches by default.

    >>> import numpy as np, rankwise as rw
    >>> @rw.register("centroid")
    ... class Centroid(rw.Ranker):
    ...     search_space = {"power": "uniform(0, 2)"}
    ...
    ...     def __init__(self, power=1.0):
    ...         self.power = power
    ...
    ...     def _fit(self, train, valid):
    ...         self.centre_ = np.average(train.features, axis=0, weights=train.labels**self.power)
    ...
    ...     def _predict(self, features, offsets):
    ...         return -((features - self.centre_) ** 2).sum(axis=1)
    >>> data = rw.synthetic(n_queries=30, n_docs=10, seed=1)
    >>> bag = rw.bagged(Centroid(power=2.0), folds=3).fit(data)
    >>> len(bag.members_), bag.members_[0]
    (3, centroid(power=2.0))
    """

    _least_code: float = 0.0
    """The smallest code of a category that it takes."""

    @property
    def n_features_in_(self) -> int:
        """How many features it was trained on."""
        return self._schema.count

    def columns_to_score(self) -> Keywords:
        """Arguments of ``rw.read_csv`` and ``rw.read_parquet`` for a table that is to be scored.

        They name the features of training, with their categories; the table need not have labels.
        """
        return self._schema.columns_to_score()

    @property
    def categories_(self) -> dict[str | int, Values]:
        """The categories of each categorical feature, by its name or number: a code is a place in these.

        Features whose codes were all that training knew are not among them.
        """
        names = self._schema.names
        return {
            column if names is None else names[column]: listed for column, listed in self._schema.categories.items()
        }

    def __repr__(self) -> str:
        return expressions.written(self)

    # Scores and what they are good for.

    def predict(self, data: Documents, **others: Never) -> Array:
        """Return one score per document, the higher the better; scores compare within a query.

        ``data`` is a RankingDataset, a matrix or a table of features. A model that was trained from ``init_scores``
        needs a RankingDataset that has them, and returns the sums. Categories of tables and data sets are found by
        their values, and those that training did not see are missing; a matrix holds their codes: see ``categories_``.
        Rankers that look at whole lists need a RankingDataset, or a table with a column ``qid``.

        Scores have the order of ``data``: of the rows of a table or matrix, which need not be sorted by query, or of
        the documents of a data set, which :meth:`RankingDataset.unsorted` puts into that of its table.
        """
        self._reject("predict", others)
        if isinstance(data, RankingDataset):
            data.warn_of_order()
            return self._score_lists(self._features(data), data.offsets) + self._schema.started(data)
        if self.needs_lists and is_frame(data):
            lists = self._lists(data, None, None)
            return lists.unsorted(self._predict_lists(data, lists))
        return self._score_lists(self._features(data), None)

    def score(
        self,
        X: Documents,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean of the ranker's first metric over the queries that it scores."""
        self._check_fitted()
        data = inputs.dataset(X, y, qid=qid, group=group, sample_weight=sample_weight, schema=self._schema)
        metric, labels = with_labels(self._metrics(data)[0], data)
        return inputs.mean(metric, self.predict(data), labels, data.offsets, data.weights, data.document_rewards)

    def rank(
        self,
        data: Documents,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        cutoff: int | None = None,
    ) -> "pl.DataFrame":
        """Return the documents of every query in order, best first, as a table.

        Its columns are ``query``, ``rank`` (from 1), ``document`` (its id, or its number within the query from 0),
        ``row`` (from 0, of the table or matrix that was passed, or that the data set was built from) and ``score``.
        Equal scores keep the order of rows; the rows of a query need not lie together.
        """
        import polars as pl

        lists = self._lists(data, qid, group)
        scores = self._predict_lists(data, lists)
        queries = np.repeat(np.arange(lists.n_queries), lists.sizes)
        order = np.lexsort((-scores, queries))
        starts = np.repeat(lists.offsets[:-1], lists.sizes)
        ranks = np.arange(lists.n_docs) - starts + 1
        if cutoff is not None:
            top = ranks <= check.integer("cutoff", cutoff, least=1)
            order, ranks = order[top], ranks[top]
        documents = order - starts[order] if lists.document_ids is None else lists.document_ids[order]
        return pl.DataFrame(
            {
                "query": lists.qids()[order],
                "rank": ranks,
                "document": documents,
                "row": order if lists.rows is None else lists.rows[order],
                "score": scores[order],
            }
        )

    def sample_rankings(
        self,
        data: Documents,
        n: int,
        seed: int = 0,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        cutoff: int | None = None,
        scale: float = 1.0,
        noise: str = "gumbel",
    ) -> NDArray[np.int64]:
        """Draw ``n`` rankings of every query: Plackett-Luce's, each next document by the softmax of the scores left.

        Scores are divided by ``scale`` first: a small one stays close to the order of the scores, a large one makes all
        orders alike. That is to sort scores with Gumbel noise of this scale; ``noise`` may be of another kind
        (:func:`rankwise.sample_rankings` does the same for any scores).

        Rows are documents' numbers within their query, best first; the columns of a query follow those of the query
        before it (as many as it has documents, or ``cutoff`` if that is fewer).
        """
        from rankwise.objectives.noise import sample_rankings

        lists = self._lists(data, qid, group)
        stream = lists.stream(check.integer("seed", seed, least=0)).child("rankings")
        scores = self._predict_lists(data, lists)
        return sample_rankings(scores, lists.offsets, stream, n, cutoff, scale=scale, noise=noise)

    def explain(self, data: Documents) -> Array:
        """Return what each feature adds to each document's score, (n_docs, n_features + 1).

        The last column is where contributions start from, the same for every document; rows add up to the scores. They
        are SHAP values of trees and integrated gradients of nets: see :meth:`contributions`, and :func:`rw.explain
        <rankwise.evaluation.explanation.explain>` for tables of one query with names and values.
        """
        if isinstance(data, RankingDataset):
            data.warn_of_order()
        return self.contributions(data).parts

    def contributions(self, data: Documents) -> "Contributions":
        """Return what :meth:`explain` returns, with its method and what that left over."""
        self._check_fitted()
        raise check.error(f"a {type(self).__name__} cannot explain its scores by features")

    def scorer(self) -> "Scorer":
        """Return what scores one query's documents in the least time, for serving: ``scorer(features)``."""
        from rankwise.models.scoring.scorer import Scorer

        return Scorer(self)

    # On disk.

    def card(self, evaluation: model_card.Evaluations = None) -> str:
        """Return the model card as Markdown: training data, objective, settings, versions, and quality with intervals.

        ``evaluation`` is what :func:`rankwise.evaluate` returned, or several by the names of their data. Bags and
        blends add their out-of-fold evaluation, and :class:`rankwise.AutoRanker` its leaderboard.
        """
        self._check_fitted()
        return model_card.model_card(self, evaluation)

    def save(self, path: str | Path, *, evaluation: model_card.Evaluations = None, force: bool = False) -> Path:
        """Write the model to the folder ``path``: the library's own file, ``rankwise.json`` and the card ``README.md``.

        The card is that of :meth:`card` with this ``evaluation``. A ranker that training turned into another, such as
        the choice of an AutoRanker, is saved as that one. The folder appears only once it is complete. One that exists
        is replaced only with ``force``, and stays as it was if anything goes wrong.
        """
        return self._save(path, self.card(evaluation), force=force)

    def _save(self, path: str | Path, card: str, *, force: bool) -> Path:
        if trains_at_once(self):
            attributes.check_parameters(self)
        self._check_named()
        contents = self._files() | storage.training_queries(self.trained_queries_)
        return storage.write(path, self._description(), contents, card=card, force=force)

    def _check_named(self) -> None:
        """Raise if a file could not name this ranker, or one that it is made of."""
        if self.name not in (*table.ranker_names(), *table.ENSEMBLES, *table.RECOMMENDERS):
            hint = f'register it: @rw.register("…") before class {type(self).__name__}'
            raise check.error("a file cannot name a ranker without a name", got=type(self).__name__, hint=hint)

    def _description(self) -> Json:
        return {
            "ranker": self.name,
            "objective": self._objective_expression(),
            "parameters": self._parameters(),
            "features": self._schema.written(),
            "best_round": self.best_round_,
            "stopped": self.stopped_,
            "history": self.history_,
            **({"scales": dict(self.scales_)} if self.scales_ else {}),
            "data": dict(self.trained_on_),
        }

    def _parameters(self, without: Collection[str] = ()) -> Json:
        """Return the parameters as files hold them, but for the objective and those that are left out."""
        return {
            name: storage.plain(value)
            for name, value in self.get_params().items()
            if name != "objective" and name not in without
        }

    def _objective_expression(self) -> str:
        """Return the objective as files hold it; empty for a ranker without one."""
        return expressions.objective_expression(getattr(self, "objective", ""))

    def _title(self, *settings: str) -> str:
        """Return its title in tables and leaderboards: its name, with its objective and these settings."""
        inside = ", ".join(filter(None, (self._objective_expression(), *settings)))
        name = self.name or type(self).__name__
        return f"{name}({inside})" if inside else name

    @classmethod
    def _untrained(cls, description: Json) -> Self:
        """Return the ranker of a description, untrained."""
        parameters = {
            name: tuple(value) if name in _TUPLES and isinstance(value, list) else value
            for name, value in description["parameters"].items()
        }
        if "objective" in cls.own_parameters():
            parameters["objective"] = description["objective"]
        return cls(**parameters)

    @classmethod
    def _from_description(cls, description: Json, files: dict[str, bytes]) -> Self:
        ranker = cls._untrained(description)
        ranker._schema = Schema.read(description["features"])
        ranker.history_ = {name: [float(value) for value in column] for name, column in description["history"].items()}
        ranker.scales_ = {name: float(scale) for name, scale in description.get("scales", {}).items()}
        ranker.best_round_ = int(description["best_round"])
        ranker.stopped_ = str(description["stopped"])
        ranker.trained_on_ = model_card.trained_on(description)
        ranker.trained_queries_ = storage.read_training_queries(files)
        ranker._restore(description, files)
        return ranker

    # For subclasses.

    def _features(self, data: Documents) -> Floats:
        self._check_fitted()
        features = self._schema.matrix(data)
        self._schema.check_codes(features, self._least_code)
        return features

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return False

    def _predict_lists(self, data: Documents, lists: RankingDataset) -> Array:
        """Return the scores of documents whose queries are known, in the order of ``lists``."""
        if isinstance(data, RankingDataset):
            return self.predict(data.without_rows())
        features = self._features(data)
        return self._score_lists(features if lists.rows is None else features[lists.rows], lists.offsets)

    def _lists(self, data: Documents, qid: ArrayLike | None, group: ArrayLike | None) -> RankingDataset:
        if isinstance(data, RankingDataset):
            return data
        if qid is None and group is None and is_frame(data):
            with in_from_frame():
                return RankingDataset.from_frame(data, features=(), to_score=True)
        features = self._features(data)
        return inputs.dataset(features, np.zeros(features.shape[0]), qid=qid, group=group, to_score=True)

    def _predict(self, features: Floats, offsets: Offsets | None) -> ArrayLike:
        """Score documents: the part of :meth:`predict` that a ranker of one's own defines; here, one by one."""
        return self._score(features)

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        """Score documents of these queries."""
        if self.needs_lists and offsets is None:
            what = f"a {type(self).__name__} looks at whole lists, and must know which documents belong together"
            raise check.error(what, hint="pass a RankingDataset, or a table with a column qid")
        scores = np.asarray(self._predict(features, offsets), np.float64)
        if scores.shape != (features.shape[0],) or np.isnan(scores).any():
            got = f"shape {scores.shape}" if scores.shape != (features.shape[0],) else "NaN"
            what = f"a {type(self).__name__} must give each of {features.shape[0]} documents one number"
            raise check.error(what, got=got, hint="let _predict return one score per row of features")
        return scores

    def _score(self, features: Floats) -> Array:
        """Score documents one by one."""
        raise NotImplementedError(f"{type(self).__name__} defines no _predict(features, offsets)")
