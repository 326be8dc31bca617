"""Rewrite the tables of objectives in docs/objectives.md, from the objectives themselves.

    python -m benchmarks.pages.objectives [--page docs/objectives.md]

Replaces what stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``, for each NAME of ``BLOCKS``.
"""

import argparse
import re
from pathlib import Path

from benchmarks.harness import markdown, write
from rankwise.objectives.listing import entries

BLOCK = re.compile(r"<!-- (?P<name>objectives|arguments):begin -->.*?<!-- (?P=name):end -->", re.DOTALL)
PAGE = Path("docs/objectives.md")


def objectives() -> str:
    """Return a line for each objective and wrapper."""
    rows = [(f"`{e.name}`", e.description.replace("|", r"\|"), e.paper or "–", e.hessian()) for e in entries()]
    return markdown(("name", "what it is", "paper", "Hessian"), rows)


def arguments() -> str:
    """Return their arguments and defaults."""
    words: dict[bool | str, bool | str] = {True: "yes", False: "no"}
    rows = [
        (f"`{e.name}`", f"`{e.class_name}`", f"`{e.defaults()}`" if e.defaults() else "–",
         words.get(e.estimator, e.estimator))
        for e in entries()
    ]  # fmt: skip
    return markdown(("name", "class", "arguments and defaults", "estimator"), rows)


BLOCKS = {"objectives": objectives, "arguments": arguments}


def filled(text: str) -> str:
    """Return a page with its tables rewritten."""
    return BLOCK.sub(lambda block: f"<!-- {block['name']}:begin -->\n\n{BLOCKS[block['name']]()}\n\n"
                                   f"<!-- {block['name']}:end -->", text)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Rewrite the tables of objectives.")
    parser.add_argument("--page", type=Path, default=PAGE)
    page = parser.parse_args().page
    write(page, filled(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
