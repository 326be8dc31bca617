"""Training on a Dask cluster: ``rw.dask.fit(ranker, data, client=client)``.

Workers hold whole queries and grow the same trees together, through the library's own network; gradients are ours, and
keyed by query id, so that they do not depend on where a query lies. Training goes in blocks of ``checkpoint_every``
rounds, each of which continues the model of the one before. Between blocks the client has the model: it measures the
validation data, writes the checkpoint, and stops.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.dask.learner import ClusterLearner, measured_goals
from rankwise.dask.partitions import spread
from rankwise.dask.workers import Client, Workers
from rankwise.data import leakage
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import inputs
from rankwise.rankers.schema import Schema
from rankwise.rankers.trees.ranker import TreeRanker

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwise.rankers.training.loop import History

Tree = TypeVar("Tree", bound=TreeRanker)


def fit(
    ranker: Tree,
    data: Any,
    *,
    client: Client | None = None,
    valid: Any = None,
    init_model: Any = None,
    resume: bool = False,
    timeout: float = 300.0,
    watch: "Callable[[int, History], None] | None" = None,
    **columns: Any,
) -> Tree:
    """Train a LightGBMRanker or XGBoostRanker on the workers of a Dask cluster, and return it trained.

    Args:
        ranker: With any objective. ``checkpoint_every`` says how many rounds are a block: after each the validation
            data are measured and the ``checkpoint``, if there is one, is written. ``threads`` are those of each worker;
            by default as many as Dask gave it.
        data: A Parquet file or folder that every worker can read, or a Dask DataFrame. Queries may lie across files
            or partitions: they are put together, and a warning says how many were.
        client: The ``distributed.Client``; by default the current one.
        valid: Validation data, which the client holds: a RankingDataset, a Parquet file or folder, or a Dask
            DataFrame.
        init_model: As in ``fit`` of the ranker, which continues that model.
        resume: Resume from the ranker's ``checkpoint``, if there is one; the number of workers may be another.
        timeout: Seconds for workers to find each other, and to wait for one, or for the scheduler, that no longer
            answers (5 at least). A worker that dies is noticed within seconds. Either is a ``LostWorkerError``.
        watch: Called after every round, block by block, with its number and the history so far.
        **columns: Which column is what, as in :meth:`RankingDataset.from_frame`: ``query="qid", label="label",
            features=…, weight=…`` ….

    ``ranker.partitions_`` says where the data were and what was moved. Everything else is as after ``ranker.fit``.
    """
    check.optional("distributed", "dask")
    if ranker.name not in ("lightgbm", "xgboost"):
        hint = "use LightGBMRanker or XGBoostRanker"
        raise check.error("only LightGBM and XGBoost train on a cluster", got=ranker.name, hint=hint)
    check.number("timeout", timeout, least=0.0, open_ends=True)
    workers = Workers(_client(client), timeout=timeout)
    held_out = _validation(workers, valid, columns)
    older = None if init_model is None else ranker._older(init_model)
    schema = None if older is None else older._schema
    with workers.alone():
        parts = spread(workers, data, columns, schema)
        if parts.partitions.moved_queries:
            warnings.warn(
                f"{parts.partitions}. Write whole queries to each partition to spare this", UserWarning, stacklevel=2
            )
        with leakage.checked():  # features stay on the workers; ids are known here
            sample, held_out = inputs.parts(parts.sample, held_out, valid=None, older=schema)
        if held_out is not None:
            seen, unseen = (leakage.unless_numbers(ids) for ids in (parts.query_ids, held_out.query_ids))
            leakage.warn_shared([leakage.Queries(seen, None)], leakage.Queries(unseen, None), "validation")
        if sample.feature_names != parts.sample.feature_names:
            got, hint = "the same columns in another order", "name them in the older model's order with features=[…]"
            raise check.error("a model is continued on its own columns", got=got, hint=hint)

        def learner(settled: Tree) -> ClusterLearner:
            settings, objective = settled._settings(Schema.of(sample), older, stopping=held_out is not None)
            if objective is not None and objective.couples_queries:
                hint = "train it on one machine"
                raise check.error(f"{objective!r} needs all queries at once, and a worker has some", hint=hint)
            for part in (sample, held_out):
                if part is not None:
                    Schema.of(part).check_codes(part.features, settled._least_code)
            if refusal := settled.library.refusal(settings, stopping=True, checkpoints=True):
                raise check.error(f"{type(settled).__name__} cannot be trained so on a cluster", got=refusal.reason)
            settled._documents(sample, objective)
            return ClusterLearner(
                library=settled.library,
                settings=settings,
                held_out=() if held_out is None else (held_out,),
                start=None if older is None else older.model_.content(),
                before=0 if older is None else older.model_.n_trees,
                ranker=settled,
                parts=parts,
                rounds=check.integer("rounds", settled.rounds, least=1),
                block=check.integer("checkpoint_every", settled.checkpoint_every, least=1),
            )

        ranker._train(
            sample,
            held_out,
            learner=learner,
            older=older,
            resume=resume,
            watch=watch,
            digest=parts.digest,
            documents=parts.partitions.documents,
            totals=lambda objective: measured_goals(parts, ranker, objective),
        )
    ranker.partitions_ = parts.partitions
    return ranker


def _client(client: Client | None) -> Client:
    import distributed

    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise check.error(
                "there is no Dask cluster", hint="make a client: client = distributed.Client(address)"
            ) from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        got = type(client).__name__ + (" that is asynchronous" if isinstance(client, distributed.Client) else "")
        raise check.error("client must be a distributed.Client", got=got)
    return client


def _validation(workers: Workers, valid: Any, columns: Keywords) -> RankingDataset | None:
    if isinstance(valid, str | Path):
        from rankwise.data.tables.parquet import read_parquet

        return read_parquet(valid, **columns)
    if hasattr(valid, "to_delayed"):
        doing = "reading the validation data"
        with workers.connected(doing):
            future = workers.client.compute(valid, workers=workers.names)
        return RankingDataset.from_frame(workers.results(doing, [future])[0], sort=True, **columns).without_rows()
    return inputs.validation(valid)
