"""Training on a Dask cluster: ``rw.cluster.dask.fit(ranker, data, client=client)``."""

from typing import Any

from rankwise import check, moved
from rankwise.rankers.training import Callback
from rankwise.wings.cluster.dask.workers import Client, Workers
from rankwise.wings.cluster.fit import Tree, check_ranker, train


@moved.renamed("rw.cluster.dask.fit")
def fit(
    ranker: Tree,
    data: Any,
    *,
    client: Client | None = None,
    valid: Any = None,
    init_model: Any = None,
    resume: bool = False,
    timeout: float = 300.0,
    callback: Callback | None = None,
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
        callback: Called after every round, block by block, with its number and the history so far.
        **columns: Which column is what, as in :meth:`RankingDataset.from_frame`: ``query="qid", label="label",
            features=…, weight=…`` ….

    ``ranker.partitions_`` says where the data were and what was moved. Everything else is as after ``ranker.fit``.
    """
    check.optional("distributed", "dask")
    check_ranker(ranker, timeout)
    crew = Workers(_client(client), timeout=timeout)
    return train(
        crew, ranker, data, valid=valid, init_model=init_model, resume=resume, callback=callback, columns=columns
    )


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
