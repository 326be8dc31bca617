"""How fast losses are on a GPU, beside padded torch, and how near they come to what the device can do.

    python -m benchmarks.speed.gpu [--json gpu.json] [--only lists] [--lists gamma] [--profile approx_ndcg]

Lists are ragged here and padded to the longest there (``padded.py``, written with care): eager as they come, eager
in batches of 128 after sorting by length (bucketed), and compiled as they come. Everyone gives value and gradient in
single precision. Every set of MSLR-like lists has one of 1,251 documents, as many as MSLR's longest.

- *loss* is what a training loop calls: ``rw.torch_loss(name).prepare(labels, offsets)``, forwards and backwards;
  *fresh* is the same without ``prepare``, ``rw.torch_loss(name)(scores, labels, offsets)`` of tensors on the device;
  *kernel* is the device kernel without autograd.
- Everyone is timed by three clocks: from an idle device; in a steady loop, back to back, as in training; and on the
  device alone, when the host has launched ahead. Verdicts compare steady with steady, and device with device.
- The limit is that of the unit that allows least, measured in the same run: sigmoids, exponentials in double precision
  and Philox uniforms in registers, bytes of a copy, and kernels that do nothing, one after the other.

Contestants take turns; medians of CUDA events. The most important comes first, and peers are left out when the time is
up (``--seconds``). Without a GPU, ``--device cpu --small`` runs the same program in Triton's interpreter
(``TRITON_INTERPRET=1``), to see that it runs.
"""

import argparse
import json
import os
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness import heading

SECTIONS = ("lists", "boosting", "step", "few", "many", "single", "graphs")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time losses on a GPU beside padded torch.")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu with TRITON_INTERPRET=1")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=SECTIONS, help="some sections alone")
    parser.add_argument("--lists", choices=("lognormal", "gamma"), default="lognormal", help="lengths of lists")
    parser.add_argument("--seconds", type=float, default=160.0, help="time after which peers are left out")
    parser.add_argument("--small", action="store_true", help="tiny lists, to see that it runs")
    parser.add_argument("--profile", metavar="NAME", help="print the kernels of one objective instead")
    options = parser.parse_args()
    missing = not_here(options.device)
    if missing:
        print(missing)
        return
    # torch and Triton, which are not everywhere
    from benchmarks.speed.gpu import sections
    from benchmarks.speed.gpu.bench import Bench

    bench = Bench(options)
    print(f"{bench.name}, torch {bench.versions['torch']}, Triton {bench.versions['triton']}")
    if options.profile:
        sections.profile(bench, options.profile)
        return
    heading("Limits, measured")
    print("\n".join(bench.limits.lines()))
    for section in SECTIONS:
        if section in options.only:
            if bench.late(1.2):
                print(f"\n{section}: left out, the time is up")
                continue
            getattr(sections, section)(bench)
            print(f"({bench.elapsed:.0f} s)")
    sections.beside_limits(bench)
    heading("Targets")
    for line in bench.targets:
        verdict, wanted = "met   " if line["met"] else "MISSED", f"{line['bound']} {line['wanted']:g}"
        print(f"{verdict} {line['what']}: {line['found']:.3g}, {wanted}. {line['note']}")
    print(f"{sum(line['met'] for line in bench.targets)} of {len(bench.targets)} met, in {bench.elapsed:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(bench.figures(), indent=1) + "\n")


def not_here(device: str) -> str:
    """Why device kernels cannot run there, or nothing; the CPU is for Triton's interpreter."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return "Device kernels are written in Triton: pip install torch triton. Nothing to measure."
    import torch

    from rankwise.objectives.prepared import KERNEL_DEVICES

    if device.startswith("cuda") and not torch.cuda.is_available():
        return "No CUDA device, nothing to measure. TRITON_INTERPRET=1 with --device cpu --small shows that it runs."
    if device == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":
            return "On a CPU device kernels run in Triton's interpreter: set TRITON_INTERPRET=1."
        KERNEL_DEVICES.add("cpu")
    return ""


if __name__ == "__main__":
    main()
