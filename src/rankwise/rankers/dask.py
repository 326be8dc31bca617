"""Training on a Dask cluster: ``rw.dask.fit(ranker, data, client=client)``.

Workers hold whole queries and grow the same trees together, through the library's own network; gradients are ours, and
keyed by query id, so that they do not depend on where a query lies. Training goes in blocks of ``every`` rounds, each
of which continues the model of the one before. Between blocks the client has the model: it measures the validation
data, writes the checkpoint, and stops.
"""

import secrets
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import blocks, course, inputs, trees
from rankwise.rankers.boosted import TreeRanker
from rankwise.rankers.network import connect, supported
from rankwise.rankers.partitions import Parts, spread
from rankwise.rankers.workers import Workers, quietly

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwise.rankers.course import History

Tree = TypeVar("Tree", bound=TreeRanker)


def fit(
    ranker: Tree,
    data: Any,
    *,
    client: Any = None,
    valid: Any = None,
    init_model: Any = None,
    resume: bool = False,
    timeout: float = 300.0,
    watch: "Callable[[int, History], None] | None" = None,
    **columns: Any,
) -> Tree:
    """Train a LightGBMRanker or XGBoostRanker on the workers of a Dask cluster, and give it back trained.

    Args:
        ranker: With any objective. ``every`` says how many rounds are a block: after each the validation data are
            measured and the ``checkpoint``, if there is one, is written. ``threads`` are those of each worker; by
            default as many as Dask gave it.
        data: A Parquet file or folder that every worker can read, or a Dask DataFrame. Queries may lie across files
            or partitions: they are put together, and a warning says how many were.
        client: The ``distributed.Client``; by default the current one.
        valid: Validation data, which the client holds: a RankingDataset, a Parquet file or folder, or a Dask
            DataFrame.
        init_model: As in ``fit`` of the ranker, which continues that model.
        resume: Go on from the ranker's ``checkpoint``, if there is one; the number of workers may be another.
        timeout: Seconds for workers to find each other, and to wait for one, or for the scheduler, that no longer
            answers (5 at least). A worker that dies is noticed within seconds. Either is a ``LostWorkerError``.
        watch: Called after every round, block by block, with its number and the history so far.
        **columns: Which column is what, as in :meth:`RankingDataset.from_frame`: ``query="qid", label="label",
            features=…, weight=…`` ….

    ``ranker.partitions_`` says where the data were and what was moved. Everything else is as after ``ranker.fit``.
    """
    check.extra("distributed", "dask")  # noqa: S610 (not a query of Django)
    supported(ranker.library.name)
    check.number("timeout", timeout, least=0.0, open_ends=True)
    workers = Workers(_client(client), timeout=timeout)
    held_out = _validation(workers, valid, columns)
    older = None if init_model is None else ranker._older(init_model)
    known = None if older is None else older._schema
    with workers.alone():
        parts = spread(workers, data, columns, known)
        if parts.about.moved_queries:
            warnings.warn(
                f"{parts.about}. Write whole queries to each partition to spare this", UserWarning, stacklevel=2
            )
        sample, held_out = inputs.parts(parts.sample, held_out, valid=None, older=known)
        if sample.feature_names != parts.sample.feature_names:
            got, cure = "the same columns in another order", "name them in the older model's order with features=[…]"
            raise check.error("a model is continued on its own columns", got=got, cure=cure)
        training = secrets.token_hex(8)

        def learn(plan: trees.Plan, state: trees.State) -> trees.State:
            return _learn(ranker, plan, state, parts, training)

        try:
            ranker._train(sample, held_out, older=older, resume=resume, watch=watch, learn=learn, digest=parts.digest)
        finally:
            quietly(workers.client.run, blocks.forget, training, workers=parts.workers.names, on_error="ignore")
    ranker.partitions_ = parts.about  # type: ignore[attr-defined]
    return ranker


def _client(client: Any) -> Any:
    from distributed import Client, get_client

    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise check.error(
                "there is no Dask cluster", cure="make a client: client = distributed.Client(address)"
            ) from None
    if not isinstance(client, Client) or client.asynchronous:
        got = type(client).__name__ + (" that is asynchronous" if isinstance(client, Client) else "")
        raise check.error("client must be a distributed.Client", got=got)
    return client


def _validation(workers: Workers, valid: Any, columns: dict[str, Any]) -> RankingDataset | None:
    if isinstance(valid, str | Path):
        from rankwise.data.tables.parquet import read_parquet

        return read_parquet(valid, **columns)
    if hasattr(valid, "to_delayed"):
        doing = "reading the validation data"
        with workers.connected(doing):
            future = workers.client.compute(valid, workers=workers.names)
        return RankingDataset.from_frame(workers.results(doing, [future])[0], sort=True, **columns)
    return inputs.validation(valid)


def _learn(ranker: TreeRanker, plan: trees.Plan, state: trees.State, parts: Parts, training: str) -> trees.State:
    """Train block by block."""
    if why := plan.library.refusal(plan.settings, stopping=True, checkpoints=True):
        raise check.error(f"{type(ranker).__name__} cannot be trained so on a cluster", got=why)
    workers, fresh = parts.workers, True
    scores = _Scores(plan, state.content)
    stop = ""
    try:
        while not stop and not (stop := plan.finished(state)):
            rounds = min(plan.rounds, state.done - state.done % plan.every + plan.every)
            doing = f"growing trees {state.done + 1} to {rounds}"
            network = connect(ranker.library.name, workers)
            job = blocks.Job(training, ranker, network, state.before, state.done, rounds, fresh)
            grown = _block(workers, doing, job, state.content, parts.futures)
            fresh = False
            state.content = grown[0].content
            stop = _record(plan, state, grown, scores)
            if not stop and grown[0].trees < rounds - job.done:
                stop = "no split"
            if plan.checkpoint is not None and state.done % plan.every == 0:
                plan.checkpoint(state)
    except KeyboardInterrupt:
        state.settle()
        if not state.done:
            raise
        stop = "interrupted"
    if not state.done:
        raise _nothing_learned(plan, parts, grown)
    forest = plan.library.forest(state.content or b"")
    state.content = forest.cut(state.total).content()
    state.stopped = stop
    return state


def _block(workers: Workers, doing: str, job: blocks.Job, model: bytes | None, parts: list[Any]) -> list[blocks.Grown]:
    count = len(workers.names)
    # Sent once and not inside every task: a model may be large.
    scatter = workers.client.scatter
    shared = workers.call(doing, scatter, [job, model], workers=workers.names, broadcast=True, hash=False)
    return workers.all(doing, blocks.grow, [shared[0]] * count, [shared[1]] * count, range(count), parts)


def _record(plan: trees.Plan, state: trees.State, grown: list[blocks.Grown], scores: "_Scores") -> str:
    """Take note of every round of a block; says why training ends with one of them, or nothing."""
    weights = np.array([one.weight for one in grown])
    for number in range(grown[0].trees):
        found = {}
        if grown[0].losses:
            losses = np.array([one.losses[number] for one in grown])
            kept = weights > 0
            found["loss"] = float(np.average(losses[kept], weights=weights[kept]))
        if plan.valid is not None:
            found |= plan.measure(scores.after(state.content or b"", state.total))
        state.record(found)
        if plan.report is not None:
            plan.report(state, plan.best(state))
        if stop := plan.finished(state):
            return stop
    return ""


class _Scores:
    """Scores of the validation documents, brought up to date tree by tree."""

    def __init__(self, plan: trees.Plan, content: bytes | None) -> None:
        self.plan, self.content = plan, content
        self.forest: Any = None
        self.scores: Any = None
        if plan.valid is not None:
            features = plan.valid.features
            self.scores = np.zeros(len(features)) if content is None else plan.library.forest(content).predict(features)

    def after(self, content: bytes, tree: int) -> Any:
        """Give the scores with one more tree, number ``tree`` of the model ``content``."""
        if content is not self.content or self.forest is None:
            self.content, self.forest = content, self.plan.library.forest(content)
        valid: Any = self.plan.valid
        self.scores = self.scores + self.forest.tree(valid.features, tree)
        return self.scores


def _nothing_learned(plan: trees.Plan, parts: Parts, grown: list[blocks.Grown]) -> ValueError:
    if all(one.flat for one in grown):
        got, cure = f"a gradient of 0 for every document from {plan.objective}", "check the labels and the query ids"
    else:
        got, cure = trees.no_split(parts.about.documents, plan.settings)
    return course.nothing_learned(parts.about.queries, got, cure)
