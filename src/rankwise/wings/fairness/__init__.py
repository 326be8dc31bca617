"""Fair exposure and diversity: who is seen in rankings, and what their first ranks cover."""

from rankwise.base import hooks

_METRICS = {  # names of ours and of ir_measures
    "alpha_dcg": ("AlphaDCG", "alpha_DCG"),
    "alpha_ndcg": ("AlphaNDCG", "alpha_nDCG"),
    "err_ia": ("ERRIA", "ERR_IA"),
    "nerr_ia": ("NERRIA", "nERR_IA"),
    "nrbp_ia": ("NoveltyRBP", "NRBP"),
    "nnrbp_ia": ("NoveltyNRBP", "nNRBP"),
    "ap_ia": ("APIA", "AP_IA", "MAP_IA"),
    "precision_ia": ("PrecisionIA", "P_IA"),
    "strec": ("SubtopicRecall", "StRecall"),
}
for _name, (_class, *_peers) in _METRICS.items():
    hooks.register("metric", _name, f"{__name__}.diversity", _class)
    for _peer in _peers:
        hooks.register("metric of others", _peer, f"{__name__}.diversity", _class)
hooks.register("wrapper", "fair", f"{__name__}.fair", "fair")
hooks.register("evaluation", "policy", f"{__name__}.policy", "evaluate_policy")
