"""The command ``objectives``."""

from rankwise.cli import options, screen


def objectives(json: options.Json = False) -> None:
    """List every objective and wrapper: its paper, its arguments with their defaults, whether its Hessian is exact.

    An objective is written as in Python: a name, with arguments where they differ from their defaults. A wrapper goes
    around one, and objectives can be added up.

    [cyan]rankwise objectives[/cyan]
    [cyan]rankwise objectives --json[/cyan]
    """
    from dataclasses import asdict

    from rankwise.objectives.listing import entries, registered
    from rankwise.statistics.tables import Table

    every = [*entries(), *registered()]
    if json:
        screen.document([asdict(entry) for entry in every])
        return
    rows = tuple((e.name, e.description, e.paper, e.hessian(), e.defaults()) for e in every)
    header = ("name", "what it is", "paper", "Hessian", "arguments")
    notes = (
        "Wrappers go around any objective, bounded around metrics: stochastic(xendcg, samples=8, scale=0.25).",
        "Sums: 0.7*xendcg + 0.3*approx_ndcg.",
    )
    screen.table(Table(header=header, rows=rows, align="lllll", notes=notes))
