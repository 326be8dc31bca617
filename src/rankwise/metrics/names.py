"""The names that trec_eval and ir_measures have for metrics: they are read, and mean what they do there.

Every such name differs from ours at least in its capitals, and comes with trec_eval's conventions. Metrics print under
our names only, with all that is different from our defaults.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rankwise import check
from rankwise.metrics.base import RankMetric
from rankwise.metrics.conventions import options_of
from rankwise.metrics.counts import NumQ, NumRel, NumRelRet, NumRet
from rankwise.metrics.dcg import NDCG
from rankwise.metrics.err import ERR
from rankwise.metrics.judged import Bpref, InfAP, Judged
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall, RPrecision
from rankwise.metrics.rbp import RBP

_CUT: dict[str, type[RankMetric]] = {"P": Precision, "map_cut": AP, "ndcg_cut": NDCG, "recall": Recall, "success": Hit}
"""Measures of trec_eval whose cutoff is part of the name: P_10, or P.10 as its option -m has it."""
_NAMES: dict[str, type[RankMetric]] = {
    # trec_eval; names that are the same here (ndcg, bpref, num_q, …) are ours
    **{name: kind for name, kind in _CUT.items() if name != "recall"},
    "map": AP,
    "recip_rank": RR,
    "Rprec": RPrecision,
    "infAP": InfAP,
    "set_P": Precision,
    "set_recall": Recall,
    # ir_measures
    "AP": AP,
    "MAP": AP,
    "Bpref": Bpref,
    "BPref": Bpref,
    "ERR": ERR,
    "Judged": Judged,
    "nDCG": NDCG,
    "NDCG": NDCG,
    "NumQ": NumQ,
    "NumRel": NumRel,
    "NumRelRet": NumRelRet,
    "NumRet": NumRet,
    "Precision": Precision,
    "R": Recall,
    "Recall": Recall,
    "RBP": RBP,
    "RPrec": RPrecision,
    "RR": RR,
    "MRR": RR,
    "SetP": Precision,
    "SetR": Recall,
    "Success": Hit,
}
_NEED_CUTOFF = ("P", "Precision", "R", "Recall", "Success", "success", "map_cut", "ndcg_cut")
_ARGUMENTS = {"rel": "relevant", "dcg": "gain"}
"""What arguments of ir_measures are called here."""
_DCG = {"log2": "linear", "exp-log2": "exponential"}


def spelled(expression: object) -> Any:
    """Write a cutoff that is part of a name of trec_eval as ours are written.

    >>> spelled("ndcg_cut_10"), spelled("P.5"), spelled("num_rel")
    ('ndcg_cut@10', 'P@5', 'num_rel')
    >>> spelled("recall_100")
    'Recall@100'
    """
    parts = re.fullmatch(r"\s*([A-Za-z_]+?)[_.](\d+)\s*", expression) if isinstance(expression, str) else None
    if parts is None or parts[1] not in _CUT:
        return expression
    return f"{'Recall' if parts[1] == 'recall' else parts[1]}@{parts[2]}"


def with_cutoff(expression: str, parsed: RankMetric) -> RankMetric:
    """Refuse a peer's name that has no meaning without a cutoff, or several."""
    name = re.match(r"\s*(\w*)", expression)
    if parsed.cutoff is None and name is not None and name[1] in _NEED_CUTOFF:
        raise check.error(f"{name[1]} needs a cutoff", got=repr(expression), hint=f"write {name[1]}@10")
    return parsed


class Peer:
    """Makes the metric that a peer's name stands for, from the peer's own arguments or ours."""

    def __init__(self, kind: type[RankMetric], options: Mapping[str, object]) -> None:
        self.kind, self.options = kind, options
        ours = {field.name for field in fields(NumRelRet if kind is NumRet else kind)}
        names = [*(theirs for theirs, name in _ARGUMENTS.items() if name in ours), *sorted(ours)]
        words = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        self.__signature__ = inspect.Signature(words)  # by which an unknown argument is noticed

    def __call__(self, **arguments: Any) -> RankMetric:
        """Make the metric."""
        if "dcg" in arguments:
            arguments["dcg"] = _DCG[check.choice("form of DCG (dcg)", arguments["dcg"], _DCG)]
        kind = NumRelRet if self.kind is NumRet and "rel" in arguments else self.kind  # which ir_measures writes so
        named = {_ARGUMENTS.get(name, name): value for name, value in arguments.items()}
        return kind(**{**self.options, **named})


def peers(library: str) -> dict[str, Peer]:
    """Give what makes the metrics of other names, with the conventions of a library."""
    return {name: Peer(kind, options_of(library, kind)) for name, kind in _NAMES.items()}
