"""What a trained ranker is good for: scores, rankings and explanations of ``model_``, what was learned."""

import contextlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Keywords
from rankwise.base.threads import use_threads
from rankwise.data.categories import Values
from rankwise.data.dataset import RankingDataset
from rankwise.models.model import Model
from rankwise.models.schema import ModelInput, is_frame, queries_of
from rankwise.quality import leakage
from rankwise.rankers import fit_arguments
from rankwise.rankers.sklearn import Estimator, check_fitted, reject
from rankwise.rankers.training.settings import metrics_of, trains_at_once

if TYPE_CHECKING:
    import polars as pl

    from rankwise.models.model import Contributions
    from rankwise.models.scoring.scorer import Scorer


class TrainedRanker(Estimator):
    """A ranker once it is trained: what training left, and the methods that delegate to its ``model_``."""

    model_: Model
    """What was learned."""
    settings_: Keywords
    """Values of parameters that are not set and depend on the data, see :meth:`settings_for`."""
    history_: dict[str, list[float]]
    """``loss``: of the training queries before each round, or during each epoch; that of LambdaRank and its like does
    not compare between rounds (see ``loss_compares``). A metric: of the validation queries after it."""
    scales_: Mapping[str, float] = MappingProxyType({})
    """The scale of each term of an objective with several goals: see :class:`rankwise.objectives.on`."""
    best_round_: int
    """After how many rounds of this fit the first metric was best; the model holds these rounds."""
    stopped_: str
    """Why training ended: ``rounds`` or ``epochs``, ``patience``, ``no split``, ``converged`` or ``interrupted``."""
    trained_on_: Mapping[str, Any] = MappingProxyType({})
    """Facts about the training data: ``queries``, ``documents``, ``features``, ``digest``, the ``command`` of rankwise;
    of a model that was loaded, the ``versions`` that it was trained with."""
    trained_queries_: NDArray[np.uint64] | None = None
    """Sorted 64-bit hashes of the training queries, which its folder holds too: see :meth:`seen_in_training`."""

    @property
    def n_features_in_(self) -> int:
        """How many features it was trained on."""
        return self.model_.schema.count

    def columns_to_score(self) -> Keywords:
        """Arguments of ``rw.read_csv`` and ``rw.read_parquet`` for a table that is to be scored.

        They name the features of training, with their categories; the table need not have labels.
        """
        return self.model_.schema.columns_to_score()

    @property
    def categories_(self) -> dict[str | int, Values]:
        """The categories of each categorical feature, by its name or number: a code is a place in these.

        Features whose codes were all that training knew are not among them.
        """
        names = self.model_.schema.names
        return {
            column if names is None else names[column]: listed
            for column, listed in self.model_.schema.categories.items()
        }

    def seen_in_training(self, queries: RankingDataset | ArrayLike) -> NDArray[np.bool_] | None:
        """Return which queries the model was trained on, also by its members, its teacher, and what it continues.

        Queries of a data set are compared by the features of their documents; ids of queries of a click log with those
        of the targets (:func:`rankwise.clicks.targets`) that it was trained on. Validation data are not training data,
        unless a bag pooled them. None where that is unknown: models of other libraries or older versions, checkpoints,
        and training data on disk or on a cluster.
        """
        if isinstance(queries, RankingDataset):
            queries = self.model_.schema.align(queries)
        return leakage.seen(self.trained_queries_, queries)

    def predict(self, data: ModelInput, **others: Never) -> Array:
        """Return one score per document, the higher the better; scores compare within a query.

        ``data`` is a RankingDataset, a matrix or a table of features. A model that was trained from ``init_scores``
        needs a RankingDataset that has them, and returns the sums. Categories of tables and data sets are found by
        their values, and those that training did not see are missing; a matrix holds their codes: see ``categories_``.
        Rankers that look at whole lists need a RankingDataset, or a table with a column ``qid``.

        Scores have the order of ``data``: of the rows of a table or matrix, which need not be sorted by query, or of
        the documents of a data set, which :meth:`RankingDataset.unsorted` puts into that of its table.
        """
        reject(self, "predict", others)
        check_fitted(self)
        if isinstance(data, RankingDataset):
            data.warn_of_order()
            return self._scores(data, data.offsets) + self.model_.schema.started(data)
        if self.model_.needs_lists and is_frame(data):
            lists, scores = self._scored(data, None, None)
            return lists.unsorted(scores)
        return self._scores(data, None)

    def _scores(self, data: ModelInput, offsets: Any, order: Any = None) -> Array:
        """Return the scores of data, whose rows are put into an ``order``."""
        features = self.model_.matrix(data)
        with _own_threads(self):
            return self.model_.scores(features if order is None else features[order], offsets)

    def _scored(self, data: ModelInput, qid: ArrayLike | None, group: ArrayLike | None) -> tuple[RankingDataset, Array]:
        """Return the lists of documents whose queries are known, and their scores in this order."""
        check_fitted(self)
        if isinstance(data, RankingDataset):
            return data, self.predict(data.without_rows())
        if qid is None and group is None and is_frame(data):
            lists = queries_of(data)
        else:
            features = self.model_.matrix(data)
            lists = fit_arguments.dataset(features, np.zeros(features.shape[0]), qid=qid, group=group, to_score=True)
        return lists, self._scores(data, lists.offsets, lists.rows)

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return not trains_at_once(self) and self.__sklearn_is_fitted__() and bool(self.model_.needs_lists)

    def score(
        self,
        X: ModelInput,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean of the ranker's first metric over the queries that it scores."""
        check_fitted(self)
        data = fit_arguments.dataset(X, y, qid=qid, group=group, sample_weight=sample_weight, schema=self.model_.schema)
        metric = metrics_of(self, data)[0]
        return fit_arguments.mean(metric, metric.of(self.predict(data), data), data.weights)

    def rank(
        self,
        data: ModelInput,
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

        lists, scores = self._scored(data, qid, group)
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
        data: ModelInput,
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
        (:func:`rankwise.objectives.sample_rankings` does the same for any scores).

        Rows are documents' numbers within their query, best first; the columns of a query follow those of the query
        before it (as many as it has documents, or ``cutoff`` if that is fewer).
        """
        from rankwise.objectives.noise import sample_rankings

        lists, scores = self._scored(data, qid, group)
        stream = lists.stream(check.integer("seed", seed, least=0)).child("rankings")
        return sample_rankings(scores, lists.offsets, stream, n, cutoff, scale=scale, noise=noise)

    def explain(self, data: ModelInput) -> Array:
        """Return what each feature adds to each document's score, (n_docs, n_features + 1).

        The last column is where contributions start from, the same for every document; rows add up to the scores. They
        are SHAP values of trees and integrated gradients of nets: see :meth:`contributions`, and :func:`rw.explain
        <rankwise.wings.explain.explanation.explain>` for tables of one query with names and values.
        """
        if isinstance(data, RankingDataset):
            data.warn_of_order()
        return self.contributions(data).parts

    def contributions(self, data: ModelInput) -> "Contributions":
        """Return what :meth:`explain` returns, with its method and what that left over."""
        check_fitted(self)
        features = self.model_.matrix(data)
        self.model_.schema.reject_start("contributions")
        check.explainable(features)
        with _own_threads(self):
            return self.model_.contributions(features, data.offsets if isinstance(data, RankingDataset) else None)

    def scorer(self) -> "Scorer":
        """Return what scores one query's documents in the least time, for serving: ``scorer(features)``."""
        from rankwise.models.scoring.scorer import Scorer

        check_fitted(self)
        return Scorer(self.model_)


def _own_threads(ranker: Any) -> contextlib.AbstractContextManager[None]:
    """Use the threads that a ranker, or the first that it is made of, has as its parameter."""
    rankers = [ranker, *(ranker.nested() or {}).values()]
    counts = (None if trains_at_once(one) else vars(one).get("threads") for one in rankers)
    threads = next((count for count in counts if count is not None), None)
    return contextlib.nullcontext() if threads is None else use_threads(threads)
