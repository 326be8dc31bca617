"""Findings on ranking data: sentences with a severity, of which training warns; queries that several parts share."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import comparable
from rankwise.base.tables import count
from rankwise.data.dataset import RankingDataset
from rankwise.quality import leakage
from rankwise.statistics.diagnostics import Diagnostic

Parts = Mapping[str, RankingDataset]
"""Name -> data: training data first; all with the same columns and categories."""
_HINT = "leave them out of one of the two: what is measured on them says little about new queries"


@dataclass(frozen=True)
class DataFinding(Diagnostic):
    """A sentence about ranking data, with its size and what to do."""

    part: str
    """``"train"``, ``"valid"``, ``"test"``, or two of them."""
    size: float
    """The number of queries, documents or features, or a value of NDCG@10."""
    hint: str = ""
    label: str | None = None
    """The labels that it is about, by name; None for ``labels``."""


def warn(findings: Iterable[DataFinding], before: str = "", hint: str = "") -> None:
    """Warn once of findings that are errors or warnings; ``hint`` follows theirs."""
    if severe := [finding for finding in findings if finding.rank < 2]:
        hints = "; ".join(dict.fromkeys(finding.hint for finding in severe)) + hint
        sentence = " ".join(finding.sentence for finding in severe)
        check.warn(f"{before}{sentence.removesuffix('.')}", hint=hints, stacklevel=3)


def shared_queries(
    queries: Mapping[str, leakage.Queries], what: str = "features", parts: Parts | None = None
) -> Iterator[DataFinding]:
    """Iterate over findings on queries of several parts that have the same id, or the same contents: ``what``."""
    for (seen, before), (held_out, later) in itertools.combinations(queries.items(), 2):
        masks: list[NDArray[np.bool_] | None] = []
        for mine, theirs in zip(later, before, strict=True):
            pair = () if mine is None or theirs is None else comparable(mine, theirs)
            masks.append(np.isin(pair[0], pair[1]) if pair else None)
        by_id, by_contents = masks
        others = "training queries" if seen == "train" else f"queries of {seen}"
        both = f"{seen}, {held_out}"
        if by_contents is not None:
            by_contents &= later.contents != 0
        if by_contents is not None and (number := int(by_contents.sum())):
            sentence = f"{_of(by_contents, held_out)} have the {what} of {others}"
            renamed = 0 if by_id is None else int((by_contents & ~by_id).sum())
            sentence += f", {renamed:,} of these with other ids." if renamed else "."
            yield DataFinding("error", "shared queries", sentence, both, number, _HINT)
        if by_id is not None and (number := int(by_id.sum())):
            common = None if parts is None else _documents_in_common(parts[seen], parts[held_out])
            sentence = f"{_of(by_id, held_out)} have ids of {others}"
            if common is not None:
                sentence += f", with {count(common, 'document')} in common"
            elif by_contents is not None:
                sentence += f", {int((by_id & by_contents).sum()):,} of these with the same {what}"
            if common == 0:  # as in recommending, where a user is a query of every part
                yield DataFinding("note", "shared ids", f"{sentence}.", both, number)
            else:
                yield DataFinding("error" if common else "warning", "shared ids", f"{sentence}.", both, number, _HINT)


def _of(chosen: NDArray[np.bool_], part: str) -> str:
    return f"{int(chosen.sum()):,} of {count(chosen.size, 'query', 'queries')} of {part}"


def _documents_in_common(first: RankingDataset, second: RankingDataset) -> int | None:
    """Return how many documents two parts share in queries of the same id; None without ids of documents."""
    keys = document_keys(first, second)
    return None if keys is None else int(np.intersect1d(*keys).size)


def document_keys(first: RankingDataset, second: RankingDataset) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return a number for each document of two data sets, by the ids of query and document; None without ids."""
    if first.document_ids is None or second.document_ids is None:
        return None
    pairs = (first.qids(), second.qids()), (first.document_ids, second.document_ids)
    queries, documents = (np.unique(np.concatenate(comparable(*ids)), return_inverse=True)[1] for ids in pairs)
    keys = queries * (documents.max() + 1) + documents
    return keys[: first.n_docs], keys[first.n_docs :]
