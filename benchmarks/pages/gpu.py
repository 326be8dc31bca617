"""Put the figures of ``gpu.py`` into docs/gpu.md.

    python -m benchmarks.speed.gpu --json gpu.json; python -m benchmarks.pages.gpu gpu.json

Replaces what stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``, for each NAME of ``BLOCKS``.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
CLOCKS = ("steady", "device")
BLOCK = re.compile(r"<!-- (?P<name>\w+):begin -->.*?<!-- (?P=name):end -->", re.DOTALL)
UNITS = {"sigmoids": "sigmoids", "double exps": "exponentials in double precision", "uniforms": "uniforms",
         "bytes": "bytes", "kernels": "launches"}  # fmt: skip


def table(titles: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["--:"] * (len(titles) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in (titles, rule, *lines))


def times(row: dict[str, Any], kind: str) -> str:
    """Milliseconds in a steady loop and of the device, and how many times ours they are."""
    if kind not in row:
        return "–"
    ratios = " / ".join(f"{row[kind][clock] / row['loss'][clock]:,.1f}" for clock in CLOCKS)
    return f"{both(row[kind])} ({ratios} times)"


def both(taken: dict[str, float]) -> str:
    return (
        " / ".join(f"{taken[clock]:.3f}" if taken[clock] < 1.0 else f"{taken[clock]:.3g}" for clock in CLOCKS) + " ms"
    )


def machine(found: dict[str, Any]) -> str:
    versions = found["versions"]
    return (
        f"{found['device']}, torch {versions['torch']}, Triton {versions['triton']}; "
        f"one run of {found['seconds']:.0f} seconds."
    )


def limits(found: dict[str, Any]) -> str:
    known = found["limits"]
    lines = [[UNITS[unit], f"{known[unit]:.2g} a second"] for unit in ("sigmoids", "double exps", "uniforms", "bytes")]
    lines.append(["launches", f"{known['gap µs']:.1f} µs on the device, {known['launch µs']:.1f} µs on the host"])
    return table(["unit", "at most"], lines)


def losses(found: dict[str, Any]) -> str:
    """One table for each set of lists."""
    parts = []
    for title in dict.fromkeys(row["lists"] for row in found["rows"]):
        rows = [row for row in found["rows"] if row["lists"] == title]
        kinds = [kind for kind in ("eager", "bucketed", "compiled") if any(kind in row for row in rows)]
        lines = [
            [
                f"`{row['name']}`",
                *(both(row[kind]) for kind in ("loss", "fresh", "kernel")),
                *(times(row, kind) for kind in kinds),
                *(f"{row[f'{kind} MB']:,.0f} MB" if kind in row else "–" for kind in ("loss", "eager")),
                f"{row['rate']:.2g} {UNITS[row['unit']]}/s, {row['share']:.0%}",
            ]
            for row in rows
        ]
        names = ["objective", "loss", "not prepared", "kernel", *(f"padded, {kind}" for kind in kinds)]
        names += ["memory", "padded", "of the limit"]
        heading = f"### {title[0].upper()}{title[1:]}, {rows[0]['n_docs']:,} documents in all"
        parts += [
            heading.replace(f", {rows[0]['n_docs']:,} documents in all", "") if rows[0]["n_lists"] == 1 else heading
        ]
        parts += [table(names, lines)]
        notes = [f"`{row['name']}`: {note}." for row in rows for note in row["notes"]]
        parts += [" ".join(notes)] if notes else []
    return "\n\n".join(parts)


def step(found: dict[str, Any]) -> str:
    lines = []
    for precision, row in found["step"].items():
        share = f"{row['loss']['device'] / row['ragged']['device']:.1%}"
        padded = times(row | {"loss": row["ragged"]}, "padded")
        lines.append(
            [precision, both(row["ragged"]), padded, *(f"{row[n]:,.0f} MB" for n in ("MB", "padded MB")), share]
        )
    return table(["precision", "ragged", "padded, eager", "memory", "padded", "loss of the step"], lines)


def boosting(found: dict[str, Any]) -> str:
    row = found["boosting"]
    return (
        f"LambdaRank's gradient and Hessian of {row['n_docs']:,} documents in {row['n_lists']:,} lists take "
        f"{row['kernel']['steady']:.2f} ms in a steady loop, {row['kernel']['device']:.2f} ms of the device: "
        f"{row['rate']:.2g} {UNITS[row['unit']]} a second, {row['share']:.0%} of the limit."
    )


def graphs(found: dict[str, Any]) -> str:
    lines = [[f"`{name}`", f"{row['ms']:.3f} ms"] for name, row in found["graphs"].items()]
    if "step in a graph" in found:
        lines.insert(0, ["the whole training step, bf16", f"{found['step in a graph']:.3f} ms"])
    return table(["objective", "1,024 lists, forwards and backwards"], lines)


def targets(found: dict[str, Any], what: str = "target") -> str:
    lines = [
        [
            line["what"],
            f"{line['found']:.3g}",
            f"{line['bound']} {line['wanted']:g}",
            "met" if line["met"] else "missed",
        ]
        for line in found["targets"]
    ]
    return table([what, "found", "wanted", ""], lines)


BLOCKS = {"machine": machine, "limits": limits, "losses": losses, "step": step, "boosting": boosting, "graphs": graphs,
          "targets": targets}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Put the figures of gpu.py into docs/gpu.md.")
    parser.add_argument("json", type=Path, help="what gpu.py --json wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    found = json.loads(options.json.read_text())

    def filled(block: re.Match[str]) -> str:
        name = block["name"]
        if name not in found and name in ("step", "boosting", "graphs"):
            return block[0]
        return f"<!-- {name}:begin -->\n\n{BLOCKS[name](found)}\n\n<!-- {name}:end -->"

    options.page.write_text(BLOCK.sub(filled, options.page.read_text()))


if __name__ == "__main__":
    main()
