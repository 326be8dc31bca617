"""A whole training step of the 2020 paper's net, ragged and padded: time, memory, and the share of the loss."""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rankwise as rw
from gpu_bench import Bench, captured
from gpu_padded import Batch, approx_ndcg
from objectives import heading

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
        self.loss(self.scores()).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def loss_alone(self, scores: Tensor) -> Callable[[], None]:
        leaf = scores.detach().requires_grad_(True)

        def run() -> None:
            leaf.grad = None
            self.loss(leaf).backward()  # type: ignore[no-untyped-call]

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
    titles = ("ragged", "busy", "padded", "times", "MB", "padded MB", "share", "loss", "of it")
    print(f"{'':<8}" + "".join(f"{title:>10}" for title in titles))
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
        times = bench.medians({"ragged": ours, "padded": theirs})
        loss = ours.loss_alone(ours.scores())
        busy = bench.busy({"ragged": ours, "loss": loss}, {"ragged": times["ragged"], "loss": times["ragged"]})
        row: dict[str, Any] = {**times, "busy": busy["ragged"], "loss": busy["loss"]}
        row |= {"MB": our_peak, "padded MB": their_peak}
        ratio, memory, share = times["padded"] / times["ragged"], our_peak / their_peak, busy["loss"] / busy["ragged"]
        print(
            f"{precision:<8}{row['ragged']:10.3f}{row['busy']:10.3f}{row['padded']:10.2f}{ratio:9.1f}x{our_peak:10,.0f}"
            f"{their_peak:10,.0f}{memory:10.1%}{row['loss']:10.3f}{share:10.1%}",
            flush=True,
        )
        note = f"{row['padded']:.1f} ms over {row['ragged']:.2f} ms; busy {row['busy']:.2f} ms"
        bench.target(f"training step ({precision}), padded eager over ragged", ratio, 15.0, note=note)
        bench.target(f"training step ({precision}), memory over padded", memory, 0.1, most=True)
        bench.target(f"training step ({precision}), share of the loss", share, 0.05, most=True)
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
    taken = bench.medians({"graph": graph.replay})["graph"]
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
