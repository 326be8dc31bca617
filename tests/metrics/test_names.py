"""Names of trec_eval and ir_measures are read, and print as ours."""

import re

import pytest

import rankwise as rw
from rankwise.metrics import METRICS

READ = {
    # trec_eval
    "map": "ap(ties=row, empty=0)",
    "map_cut_10": "ap(ties=row, empty=0)@10",
    "P_10": "precision(ties=row, empty=0)@10",
    "P.5": "precision(ties=row, empty=0)@5",
    "recall_100": "recall(ties=row, empty=0)@100",
    "ndcg_cut_10": "ndcg(gain=linear, ties=row, empty=0)@10",
    " ndcg_cut.20 ": "ndcg(gain=linear, ties=row, empty=0)@20",
    "recip_rank": "rr(ties=row, empty=0)",
    "success_5": "hit(ties=row, empty=0)@5",
    "success@5": "hit(ties=row, empty=0)@5",
    "Rprec": "rprec(ties=row, empty=0)",
    "infAP": "infap(ties=row, empty=0)",
    "set_P": "precision(ties=row, empty=0)",
    # ir_measures
    "nDCG@20": "ndcg(gain=linear, ties=row, empty=0)@20",
    "nDCG(dcg='exp-log2')@10": "ndcg(ties=row, empty=0)@10",
    "P@10": "precision(ties=row, empty=0)@10",
    "P(rel=2)@10": "precision(relevant=2, ties=row, empty=0)@10",
    "RR@10": "rr(ties=row, empty=0)@10",
    "AP": "ap(ties=row, empty=0)",
    "AP(rel=3)@20": "ap(relevant=3, ties=row, empty=0)@20",
    "Bpref": "bpref(ties=row, empty=0)",
    "Judged@10": "judged(ties=row)@10",
    "R@100": "recall(ties=row, empty=0)@100",
    "RBP(p=0.8)": "rbp(ties=row, empty=0)",
    "RBP(p=0.5, rel=2)@10": "rbp(relevant=2, p=0.5, ties=row, empty=0)@10",
    "ERR@20": "err(ties=row, empty=0)@20",
    "Success@5": "hit(ties=row, empty=0)@5",
    "NumRelRet": "num_rel_ret(ties=row)",
    "NumRet(rel=2)": "num_rel_ret(relevant=2, ties=row)",
    "NumRet": "num_ret(ties=row)",
    # the same word in both, or one that is only ours: our defaults
    "ndcg": "ndcg",
    "bpref": "bpref",
    "num_ret": "num_ret",
    "rprec": "rprec",
}


@pytest.mark.parametrize(("text", "canonical"), READ.items())
def test_a_peers_name_means_what_it_means_there(text: str, canonical: str) -> None:
    one = rw.metric(text)
    assert str(one) == canonical
    assert rw.metric(repr(one)) == one


def test_a_convention_that_is_asked_for_goes_before_the_names() -> None:
    assert str(rw.metric("nDCG@10", conventions="rankwise")) == "ndcg@10"
    assert str(rw.metric("ndcg_cut_10", conventions="lightgbm")) == "ndcg(ties=row, empty=1)@10"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nDGC@10", "unknown metric: got 'nDGC' at character 1 of 'nDGC@10'. Hint: did you mean 'nDCG'"),
        ("ndcg_cu_10", "unknown metric: got 'ndcg_cu_10' .* did you mean 'ndcg_cut'"),
        ("Bprev", "did you mean 'Bpref', 'rprec' or 'bpref'"),
        ("gm_map", "unknown metric: got 'gm_map' .* did you mean 'map'"),
        ("11pt_avg", "cannot read the metric expression"),
        ("AP(rell=2)", "unknown argument of AP: got 'rell' .* did you mean 'rel'"),
        ("ERR(rel=2)", "unknown argument of ERR: got 'rel'"),
        ("nDCG(dcg=exp)", "unknown form of DCG .dcg.: got 'exp'. Hint: choose one of log2, exp-log2"),
        ("P", "P needs a cutoff: got 'P'. Hint: write P@10"),
        ("ndcg_cut", "ndcg_cut needs a cutoff: got 'ndcg_cut'. Hint: write ndcg_cut@10"),
        ("P_0", "cutoff must be a whole number of at least 1: got 0"),
    ],
)
def test_names_that_nobody_has(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rw.metric(text)


def test_our_own_names_are_lower_case() -> None:
    assert all(re.fullmatch("[a-z_]+", name) for name in METRICS)
