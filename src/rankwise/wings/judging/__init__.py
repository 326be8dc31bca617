"""Few labels: evaluation with a judge, plans, agreement."""

from rankwise.base import hooks

hooks.register("evaluation", "judge", f"{__name__}.evaluation", "evaluate_judged")
hooks.register("qrels", "csv", f"{__name__}.evaluation", "table_of")
hooks.register("commands", "judging", f"{__name__}.commands", "add")
for _class, _peer in {"InfAP": "infAP", "XInfAP": "xinfAP", "InfNDCG": "infNDCG"}.items():
    hooks.register("metric", _peer.lower(), f"{__name__}.inferred", _class)
    hooks.register("metric of others", _peer, f"{__name__}.inferred", _class)
