"""How long nets train with ragged lists, beside padded ones in plain torch, and what long lists cost.

    python -m benchmarks.speed.neural [--quick] [--only epoch] [--threads 2]

An epoch is everything that a training step does: a net of 136-64-32-1 forwards, ApproxNDCG, backwards, a step of Adam,
over batches of 64 MSLR-like lists that lie ready in memory. Ours takes flat lists; the padded ones are written as one
writes them in torch, with autograd and single precision: each batch filled up to its longest list, batches drawn at
random, or (bucketed) of lists that are sorted by length before, which costs the shuffling. Everyone computes the same
loss, which is checked, with the same number of threads. Contestants take turns; medians are compared.

Small is a batch of eight lists of 100 documents, where it counts what a call costs by itself: softmax cross entropy and
ApproxNDCG, forwards alone and with the gradient. By length, one loss and its gradient for a batch of eight lists are
timed, and the memory that they take at the peak.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

import rankwise as rw
from benchmarks.harness import OWN_PAGES, Call, Times, Verdicts, heading, measures_memory, peak_memory
from benchmarks.speed.objectives import of_length
from benchmarks.speed.peers import TorchSmooth

SECTIONS = ("epoch", "small", "growth")
FEATURES = 136
BATCH = 64  # lists
ETA = 10.0
LENGTHS = (100, 300, 1_000, 3_000, 10_000)
TOGETHER = 8  # lists of one length
ENOUGH = 4e9  # bytes: more is not asked of the padded loss
MATRICES = 5.0  # of length × length that it holds at its peak, in single precision

Batches = list[tuple[torch.Tensor, ...]]


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = (FEATURES, 64, 32, 1)
    layers: list[torch.nn.Module] = []
    for wide, narrow in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def ragged(data: rw.RankingDataset) -> tuple[Batches, Callable[..., torch.Tensor]]:
    """Batches of flat lists, and their loss."""
    loss = rw.torch_loss("approx_ndcg")
    batches: Batches = []
    for part in parts(data):
        columns = (part.features, part.labels, part.offsets)
        batches.append(tuple(torch.tensor(column) for column in columns))
    return batches, lambda scores, labels, offsets: loss(scores, labels, offsets)


def padded(data: rw.RankingDataset, threads: int) -> tuple[Batches, Callable[..., torch.Tensor]]:
    """Batches filled up to their longest list, and their loss."""
    smooth = TorchSmooth("approx_ndcg", ETA, (np.zeros(data.n_docs), data.labels, data.offsets), BATCH, threads)
    batches: Batches = []
    for part, (_, worths, inside, ideal) in zip(parts(data), smooth.batches, strict=True):
        features = torch.zeros(*inside.shape, FEATURES)
        features[inside] = torch.tensor(part.features)
        batches.append((features, worths, inside, ideal))
    return batches, lambda *batch: smooth.loss(*batch).mean()


def parts(data: rw.RankingDataset) -> Iterator[rw.RankingDataset]:
    for first in range(0, data.n_queries, BATCH):
        yield data.take(np.arange(first, min(first + BATCH, data.n_queries)))


def training(batches: Batches, loss: Callable[..., torch.Tensor]) -> Callable[[], float]:
    """One epoch, from the same start; it gives the loss before the first step."""

    def run() -> float:
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        first = np.nan
        for features, *columns in batches:
            optimizer.zero_grad()
            value = loss(model(features).squeeze(-1), *columns)
            value.backward()
            optimizer.step()
            first = value.item() if np.isnan(first) else first
        return first

    return run


def epoch(options: argparse.Namespace, verdicts: Verdicts) -> None:
    data = rw.synthetic(n_queries=384 if options.quick else 1_024, n_features=FEATURES, seed=0)
    features = np.log1p(np.abs(data.features))  # of heavy tails, as nets need it
    data = rw.RankingDataset(features / features.std(0).clip(1e-6), data.labels, data.offsets)
    by_size = data.take(np.argsort(data.sizes, kind="stable"))
    heading(f"An epoch of {data.n_docs:,} documents in {data.n_queries:,} lists, in batches of {BATCH}: seconds")
    made = {
        "ragged": ragged(data),
        "padded": padded(data, options.threads),
        "bucketed": padded(by_size, options.threads),
    }
    runs = {name: training(*batches) for name, batches in made.items()}
    np.testing.assert_allclose(runs["padded"](), runs["ragged"](), rtol=1e-4)
    np.testing.assert_allclose(runs["bucketed"](), training(*ragged(by_size))(), rtol=1e-4)
    times = Times({**runs}, 1 if options.quick else 3, warm=0)
    wanted = {"padded": 4.0, "bucketed": 1.0}
    print(f"{'':<12}{'seconds':>9}{'places':>12}{'medians':>10}{'quickest':>10}{'CPU':>10}")
    for name, (batches, _) in made.items():
        places = sum(batch[0][..., 0].numel() for batch in batches)
        print(f"{name:<12}{times.median[name]:9.2f}{places:12,}", end="")
        if name in wanted:
            ratios = times.ratios(name, "ragged")
            verdict = verdicts.least(f"an epoch, {name} over ragged", ratios[0], wanted[name])
            print("".join(f"{one:9.1f}x" for one in ratios) + f"   {verdict}", end="")
        print(flush=True)


def small(options: argparse.Namespace, _: Verdicts) -> None:
    length = LENGTHS[0]
    heading(f"{TOGETHER} lists of {length} documents: microseconds")
    print(f"{'':<28}{'ours':>11}{'torch':>11}{'times':>11}")
    lists = of_length(length, TOGETHER * length)
    smooth = TorchSmooth("approx_ndcg", ETA, lists, TOGETHER, options.threads)
    flat = torch.tensor(lists[0], dtype=torch.float32, requires_grad=True)
    (scores, worths, inside, ideal), labels = smooth.batches[0], torch.tensor(lists[1]).float().reshape(TOGETHER, -1)
    scores.requires_grad_(True)
    peers: dict[str, Callable[[], torch.Tensor]] = {
        "softmax_ce": lambda: softmax_ce(scores, labels).sum(),
        "approx_ndcg": lambda: smooth.loss(scores, worths, inside, ideal).sum(),
    }
    for text, theirs in peers.items():
        loss = rw.torch_loss(text, "sum")

        def ours(loss: Callable[..., torch.Tensor] = loss) -> torch.Tensor:
            return loss(flat, *lists[1:])

        torch.testing.assert_close(ours(), theirs(), rtol=1e-4, atol=1e-4)
        for kind, backwards in (("forwards", False), ("with gradient", True)):
            both = {"ours": step(ours, flat, backwards), "peer": step(theirs, scores, backwards)}
            times = Times(both, 15 if options.quick else 101)
            print(f"{text + ', ' + kind:<28}" + pair({name: 1e6 * taken for name, taken in times.median.items()}))


def step(loss: Callable[[], torch.Tensor], scores: torch.Tensor, backwards: bool) -> Call:
    """A loss, and its gradient where that is wanted."""

    def run() -> None:
        scores.grad = None
        value = loss()
        if backwards:
            value.backward()

    return run


def softmax_ce(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy with the labels over their sum, as one writes it."""
    shares = labels / labels.sum(1, keepdim=True).clamp(min=1e-9)
    return -(shares * torch.log_softmax(scores, 1)).sum(1)


def calls(length: int, threads: int) -> dict[str, Call]:
    """The loss of lists of one length with its gradient: ours, and the padded one where memory allows."""
    lists = of_length(length, TOGETHER * length)
    loss = rw.torch_loss("approx_ndcg", "sum")
    scores = torch.tensor(lists[0], dtype=torch.float32, requires_grad=True)

    def ours() -> None:
        scores.grad = None
        loss(scores, *lists[1:]).backward()

    fits = MATRICES * 4.0 * TOGETHER * length**2 < ENOUGH
    return {"ours": ours} | ({"peer": TorchSmooth("approx_ndcg", ETA, lists, TOGETHER, threads)} if fits else {})


def growth(options: argparse.Namespace, _: Verdicts) -> None:
    heading(f"ApproxNDCG and its gradient, {TOGETHER} lists at once, by their length")
    found: dict[str, dict[str, float]] = {}
    if measures_memory():
        environment = os.environ | OWN_PAGES | {"RANKWISE_THREADS": str(options.threads)}
        command = [sys.executable, "-m", "benchmarks.speed.neural", "--peaks", "--threads", str(options.threads)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
    titles = ("ours ms", "torch ms", "times", "ours MB", "torch MB", "times")
    print(f"{'documents':>9}" + "".join(f"{title:>11}" for title in titles))
    for length in LENGTHS:
        times = Times(calls(length, options.threads), 2 if options.quick else 5)
        cells = pair({name: 1e3 * taken for name, taken in times.median.items()})
        print(f"{length:>9,}" + cells + pair(found.get(str(length), {})), flush=True)
    print("MB: beyond the input, at the peak. A dash: more than 4 GB, or no system that tells.")


def pair(both: dict[str, float]) -> str:
    """Ours, theirs, and how many times ours theirs is; a dash for what is not known."""
    ours, peer = both.get("ours"), both.get("peer")
    cells = [f"{number:11,.1f}" if number is not None else f"{'-':>11}" for number in (ours, peer)]
    return "".join(cells) + (f"{peer / ours:10,.1f}x" if ours and peer else f"{'-':>11}")


def peaks(threads: int) -> dict[int, dict[str, float]]:
    """Megabytes at the peak, by length and contestant."""
    for call in calls(LENGTHS[0], threads).values():
        call()  # compiled, or loaded, and threads started
    return {
        length: {name: peak_memory(call) / 1e6 for name, call in calls(length, threads).items()} for length in LENGTHS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time nets on ragged lists beside padded ones.")
    parser.add_argument("--quick", action="store_true", help="fewer lists and rounds: under 40 seconds")
    parser.add_argument("--only", choices=SECTIONS, help="one section alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peaks", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peaks:
        print(json.dumps(peaks(options.threads)))
        return
    start, verdicts = time.perf_counter(), Verdicts()
    print(f"torch {torch.__version__}, {options.threads} threads")
    with rw.use_threads(options.threads):
        for section in SECTIONS:
            if options.only in (None, section):
                globals()[section](options, verdicts)
    heading(f"{verdicts.met} targets met, {len(verdicts.missed)} missed, in {time.perf_counter() - start:.0f} s")
    print("\n".join(verdicts.missed))


if __name__ == "__main__":
    main()
