"""The laboratory: experiments and their reports, the papers, the thesis's bounds, the demonstration."""

from rankwise.base import hooks

hooks.register("report", "Leaderboard", f"{__name__}.report.leaderboard", "write_leaderboard")
hooks.register("report", "Comparison", f"{__name__}.report.comparison", "write_comparison")
hooks.register("wrapper", "bounded", f"{__name__}.bounding.bounded", "bounded")
hooks.register("gamma", "tight", f"{__name__}.bounding.tight", "tight")
hooks.register("commands", "lab", f"{__name__}.commands", "add")
