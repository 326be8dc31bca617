"""Metrics of other libraries: the options that make ours agree with theirs, and their names for metrics.

Names of trec_eval and ir_measures are read with trec_eval's conventions; each differs from ours at least in its
capitals. Metrics print under our names only, with every option that differs from our defaults.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.metrics.base import RankMetric
from rankwise.metrics.dcg import NDCG, RBP
from rankwise.metrics.err import ERR
from rankwise.metrics.judged import Bpref, Judged, NumQ, NumRel, NumRelRet, NumRet
from rankwise.metrics.precision import AP, RR, Hit, Precision, Recall, RPrecision

OWN, TREC_EVAL = "rankwise", "trec_eval"
_EVERY = ""
_CONVENTIONS: dict[str, dict[str, Keywords]] = {
    # For each library: the options of every metric that has them, then differences of single metrics.
    OWN: {},
    "lightgbm": {_EVERY: {"gain": "exponential", "ties": "row", "empty": 1}, "ap": {"divide": "cutoff"}},
    "xgboost": {
        _EVERY: {"gain": "exponential", "ties": "row", "empty": 1},
        "ap": {"divide": "cutoff"},
        "precision": {"empty": 0, "divide": "retrieved"},
    },
    "catboost": {
        _EVERY: {"gain": "linear", "ties": "worst", "empty": 1},
        "ap": {"empty": 0, "divide": "cutoff"},
        "dcg": {"empty": 0},
        "precision": {"empty": 0, "divide": "retrieved"},
        "rr": {"empty": 0},
    },
    "sklearn": {_EVERY: {"gain": "linear", "ties": "average", "empty": 0}},
    # Its evaluation tool, Eval-Score-4.0.pl: AP and precision@k differ in nothing else.
    "letor": {
        _EVERY: {"gain": "exponential", "discount": "jarvelin", "ties": "row", "empty": 0},
        "ndcg": {"short": "zero"},
    },
    # Ties go by document id, descending: judge puts tied rows in that order.
    TREC_EVAL: {_EVERY: {"gain": "linear", "ties": "row", "empty": 0}},
}


_CUT: dict[str, type[RankMetric]] = {"P": Precision, "map_cut": AP, "ndcg_cut": NDCG, "recall": Recall, "success": Hit}
"""Measures of trec_eval whose cutoff is part of the name: P_10, or P.10 as its option -m has it."""
_OURS: dict[str, type[RankMetric]] = {
    # trec_eval; names that are the same in both (ndcg, bpref, num_q, …) are ours
    **{name: kind for name, kind in _CUT.items() if name != "recall"},
    "map": AP,
    "recip_rank": RR,
    "Rprec": RPrecision,
    "set_P": Precision,
    "set_recall": Recall,
    # ir_measures, which has most of our classes' names
    **{kind.__name__: kind for kind in (AP, RR, RBP, ERR, NDCG, Precision, Recall, Bpref, Judged)},
    **{kind.__name__: kind for kind in (NumQ, NumRet, NumRel, NumRelRet)},
    "MAP": AP,
    "BPref": Bpref,
    "nDCG": NDCG,
    "R": Recall,
    "RPrec": RPrecision,
    "MRR": RR,
    "SetP": Precision,
    "SetR": Recall,
    "Success": Hit,
}
_NAMES: Mapping[str, type[RankMetric]] = hooks.ByName("metric of others", _OURS)
_NEED_CUTOFF = ("P", "P_IA", "StRecall", "Precision", "R", "Recall", "Success", "success", "map_cut", "ndcg_cut")
_ARGUMENTS = {"rel": "relevant", "dcg": "gain"}
"""Our names for arguments of ir_measures."""
_DCG = {"log2": "linear", "exp-log2": "exponential"}


def conventions(library: str) -> Keywords:
    """Return the options with which ``ndcg`` computes what ``library`` does by default.

    ``library`` is lightgbm, xgboost, catboost, sklearn, letor or trec_eval, or rankwise, which changes nothing. For
    other metrics ``rw.metric("ap@10", conventions=library)`` sets those of the options that the metric has. letor is
    LETOR's evaluation tool. trec_eval orders documents with equal scores by their id, descending; metrics see no ids,
    so the rows must be in that order, as :func:`rankwise.trec.join` puts them.

    >>> from rankwise.metrics import metric
    >>> metric("ndcg@10", **conventions("catboost"))
    ndcg(gain=linear, ties=worst, empty=1)@10
    >>> metric("ndcg@10", conventions="letor"), metric("mean_ndcg", conventions="letor")
    (ndcg(discount=jarvelin, short=zero, ties=row, empty=0)@10, mean_ndcg(discount=jarvelin, ties=row, empty=0))
    """
    return options_of(library, NDCG)


def options_of(library: str, kind: type[RankMetric]) -> Keywords:
    """Return the options that a convention sets for a class of metrics; options that it does not have are left out.

    >>> from rankwise.metrics import AP
    >>> options_of("lightgbm", AP)
    {'ties': 'row', 'empty': 1, 'divide': 'cutoff'}
    """
    convention = _CONVENTIONS[check.choice("library", library, _CONVENTIONS)]
    options = convention.get(_EVERY, {}) | convention.get(kind.name, {})
    available = {field.name for field in fields(kind)} - {*kind.fixed, *(["empty"] if kind.of_every_query else [])}
    return {name: value for name, value in options.items() if name in available}


def normalized_name(expression: object) -> Any:
    """Rewrite a cutoff that is part of a name of trec_eval: ``P_10`` becomes ``P@10``.

    >>> normalized_name("ndcg_cut_10"), normalized_name("P.5"), normalized_name("num_rel")
    ('ndcg_cut@10', 'P@5', 'num_rel')
    >>> normalized_name("recall_100")
    'Recall@100'
    """
    parts = re.fullmatch(r"\s*([A-Za-z_]+?)[_.](\d+)\s*", expression) if isinstance(expression, str) else None
    if parts is None or parts[1] not in _CUT:
        return expression
    return f"{'Recall' if parts[1] == 'recall' else parts[1]}@{parts[2]}"


def convention_of(expression: str) -> str:
    """Return the library whose conventions a metric has by its name alone.

    >>> convention_of("ndcg@10"), convention_of("ndcg_cut_10"), convention_of("nDCG(rel=2)@10")
    ('rankwise', 'trec_eval', 'trec_eval')
    """
    name = re.match(r"\s*(\w*)", normalized_name(expression))
    return TREC_EVAL if name is not None and name[1] in _NAMES else OWN


def require_cutoff(expression: str, parsed: RankMetric) -> RankMetric:
    """Raise where another library's name has no meaning without a cutoff."""
    name = re.match(r"\s*(\w*)", expression)
    if parsed.cutoff is None and name is not None and name[1] in _NEED_CUTOFF:
        raise check.error(f"{name[1]} needs a cutoff", got=repr(expression), hint=f"write {name[1]}@10")
    return parsed


class PeerMetric:
    """Builds the metric that has a name in another library, from that library's arguments or ours."""

    def __init__(self, kind: type[RankMetric], options: Mapping[str, object]) -> None:
        self.kind, self.options = kind, options
        ours = {field.name for field in fields(NumRelRet if kind is NumRet else kind)}
        names = [*(theirs for theirs, name in _ARGUMENTS.items() if name in ours), *sorted(ours)]
        words = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        self.__signature__ = inspect.Signature(words)  # unknown arguments are detected by it

    def __call__(self, **arguments: Any) -> RankMetric:
        """Build the metric."""
        if "dcg" in arguments:
            arguments["dcg"] = _DCG[check.choice("form of DCG (dcg)", arguments["dcg"], _DCG)]
        kind = NumRelRet if self.kind is NumRet and "rel" in arguments else self.kind  # as ir_measures writes it
        named = {_ARGUMENTS.get(name, name): value for name, value in arguments.items()}
        return kind(**{**self.options, **named})


def peers(library: str) -> dict[str, PeerMetric]:
    """Return the builders of metrics under other libraries' names, with the conventions of a library."""
    return {name: PeerMetric(kind, options_of(library, kind)) for name, kind in _NAMES.items()}
