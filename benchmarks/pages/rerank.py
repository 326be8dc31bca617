"""Put the figures of ``rerank.py`` into docs/benchmarks/rerank.md.

    python -m benchmarks.speed.rerank --json rerank.json; python -m benchmarks.pages.rerank rerank.json

Replaces what stands between ``<!-- rerank:begin -->`` and ``<!-- rerank:end -->``.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.pages.gpu import table, targets

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "rerank.md"
BLOCK = re.compile(r"<!-- rerank:begin -->.*?<!-- rerank:end -->", re.DOTALL)


def steps(found: dict[str, Any]) -> str:
    """Time and peak memory of each contestant."""
    names = list(found["rows"][0]["contestants"])
    lines = [
        [row["name"], *(f"{one['ms']:,.0f} ms, {one['GB']:.2f} GB" for one in row["contestants"].values())]
        for row in found["rows"]
    ]
    return table(["queries × longest list (pairs)", *names], lines)


def block(found: dict[str, Any]) -> str:
    versions, unit, last = found["versions"], found["unit"], found["rows"][-1]
    machine = (
        f"{found['device']}, torch {versions['torch']}, sentence-transformers {versions['sentence-transformers']}; "
        "a BERT of 6 layers, 384 wide, with random weights, in bf16, pairs of up to 128 tokens, tokenizing included. "
        "Numbers behind names are pairs of a mini-batch, or tokens for as many of the longest pairs. One mini-batch of "
        f"the smaller size takes {unit['GB']:.2f} GB at its peak, and of the longest lists tokenizing takes "
        f"{last['tokens ms']:.0f} ms and the loss {last['loss ms']:.1f} ms."
    )
    return "\n\n".join([steps(found), machine, targets(found, "for the longest lists")])


def main() -> None:
    parser = argparse.ArgumentParser(description="Put the figures of rerank.py into docs/benchmarks/rerank.md.")
    parser.add_argument("json", type=Path, help="what rerank.py --json wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    filled = block(json.loads(options.json.read_text()))
    page = options.page.read_text(encoding="utf-8")
    options.page.write_text(
        BLOCK.sub(lambda _: f"<!-- rerank:begin -->\n\n{filled}\n\n<!-- rerank:end -->", page), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
