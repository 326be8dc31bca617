"""Few labels: evaluation with a judge, plans, agreement, interleaving."""

from rankwise.base import hooks

hooks.register("evaluation", "judge", f"{__name__}.evaluation", "evaluate_judged")
