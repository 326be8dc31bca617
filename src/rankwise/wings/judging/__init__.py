"""Few labels: evaluation with a judge, plans, agreement."""

from rankwise.base import hooks

hooks.register("evaluation", "judge", f"{__name__}.evaluation", "evaluate_judged")
hooks.register("qrels", "csv", f"{__name__}.evaluation", "table_of")
hooks.register("commands", "judging", f"{__name__}.commands", "add")
