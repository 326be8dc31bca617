"""A whole training step of the 2020 paper's net, ragged and padded: time, memory, and the share of the loss."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rankwise as rw
from benchmarks.harness import heading
from benchmarks.speed.gpu.bench import Bench, captured
from benchmarks.speed.gpu.padded import Batch, approx_ndcg

WIDTHS = (136, 1024, 512, 256, 1)


class Step:
    """Features, a net, a loss and fused Adam; a call is one step."""

    def __init__(
        self, features: Tensor, loss: Callable[[Tensor], Tensor], half: bool, capturable: bool = False
    ) -> None:
        torch.manual_seed(0)
        layers: list[torch.nn.Module] = []
        for wide, narrow in itertools.pairwise((features.shape[-1], *WIDTHS[1:])):
            layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
        self.features, self.loss = features, loss
        self.device, self.half = features.device.type, half
        self.net = torch.nn.Sequential(*layers[:-1]).to(features.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), fused=True, capturable=capturable)

    def scores(self) -> Tensor:
        with torch.autocast(self.device, torch.bfloat16) if self.half else contextlib.nullcontext():
            scores: Tensor = self.net(self.features)
        return scores.squeeze(-1).float()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.scores()).backward()
        self.optimizer.step()

    def loss_alone(self, scores: Tensor) -> Callable[[], None]:
        leaf = scores.detach().requires_grad_(True)

        def run() -> None:
            leaf.grad = None
            self.loss(leaf).backward()

        return run


def training_steps(bench: Bench) -> None:
    """Ragged beside padded, in bf16 autocast and in single precision, both sides alike."""
    scores, labels, offsets = bench.make(1_024)
    sizes = np.diff(offsets)
    net, places = "-".join(str(width) for width in WIDTHS), sizes.size * sizes.max()
    heading(
        f"A training step, net of {net}, ApproxNDCG, fused Adam, {sizes.size:,} lists ({scores.size:,} documents, "
        f"{places:,} padded): milliseconds"
    )
    clocks = ("idle", "steady", "device")
    print(f"{'':<8}{'ragged':>24}{'padded':>24}{'times':>15}{'MB':>8}{'padded':>9}{'share':>8}{'loss':>8}{'of it':>8}")
    generator = torch.Generator(bench.device).manual_seed(0)
    features = torch.randn(scores.size, WIDTHS[0], generator=generator, device=bench.device)
    found: dict[str, Any] = {}
    for precision in ("bf16",) if bench.small else ("bf16", "tf32"):
        torch.set_float32_matmul_precision("high")

        def ragged(half: bool = precision == "bf16") -> Step:
            return Step(features.clone(), rw.torch_loss("approx_ndcg").prepare(labels, offsets), half)

        def padded(half: bool = precision == "bf16") -> Step:
            batch = Batch.of(labels, sizes, bench.device)
            filled = torch.zeros(*batch.inside.shape, WIDTHS[0], device=bench.device)
            filled[batch.inside] = features
            return Step(filled, lambda scores: approx_ndcg(scores, batch).mean(), half)

        ours, our_peak = with_peak(bench, ragged)
        theirs, their_peak = with_peak(bench, padded)
        times = bench.measure({"ragged": ours, "padded": theirs, "loss": ours.loss_alone(ours.scores())})
        row: dict[str, Any] = {**times, "MB": our_peak, "padded MB": their_peak}
        memory, share = our_peak / their_peak, times["loss"]["device"] / times["ragged"]["device"]
        cells = [f"{'/'.join(f'{times[name][clock]:.3f}' for clock in clocks):>24}" for name in ("ragged", "padded")]
        ratios = "/".join(f"{times['padded'][clock] / times['ragged'][clock]:.1f}" for clock in clocks)
        print(
            f"{precision:<8}{''.join(cells)}{ratios:>15}{our_peak:8,.0f}{their_peak:9,.0f}{memory:8.1%}"
            f"{times['loss']['device']:8.3f}{share:8.1%}",
            flush=True,
        )
        for clock in ("steady", "device"):
            what = f"training step ({precision}), padded eager over ragged"
            bench.ratio(what, times["padded"], times["ragged"], clock, 15.0)
        bench.target(f"training step ({precision}), memory over padded", memory, 0.1, most=True)
        bench.target(f"training step ({precision}), share of the loss, device", share, 0.05, most=True)
        del theirs
        bench.clock.forget()
        found[precision] = row
    bench.more["step"] = found


def step_in_graph(bench: Bench) -> float:
    """Our step, bf16, in a CUDA graph."""
    scores, labels, offsets = bench.make(1_024)
    features = torch.randn(scores.size, WIDTHS[0], device=bench.device)
    step = Step(features, rw.torch_loss("approx_ndcg").prepare(labels, offsets), half=True, capturable=True)
    graph = captured(step)
    taken = bench.clock.idle({"graph": graph.replay}, 20, 1.0)["graph"]
    print(f"{'the whole training step':<30}{taken:9.3f}", flush=True)
    return taken


def with_peak(bench: Bench, make: Callable[[], Step]) -> tuple[Step, float]:
    """A step, and its megabytes at the peak: features, net, optimiser and all between."""
    if not bench.clock.cuda:
        return make(), float("nan")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    step = make()
    step()
    bench.clock.wait()
    torch.cuda.reset_peak_memory_stats()
    step()
    bench.clock.wait()
    return step, (torch.cuda.max_memory_allocated() - before) / 1e6
