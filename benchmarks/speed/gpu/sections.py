"""The sections of the GPU benchmark, in the order of their importance."""

import functools
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Call, heading
from benchmarks.speed.gpu.bench import Bench, Ours, captured, one_list, work_of
from benchmarks.speed.gpu.padded import PEERS, PaddedLists, Peer
from benchmarks.speed.gpu.step import step_in_graph, training_steps
from benchmarks.speed.peers import Lists

PLRANK = "plrank(samples=32, cutoff=10)"
OBJECTIVES = (
    "approx_ndcg", "softmax_ce", "xendcg", PLRANK, "lambdarank", "ranknet", "listmle",
    "approx_ndcg(kernel=laplace)", "yeti", "stochastic(approx_ndcg)",
)  # fmt: skip
TINY = ("approx_ndcg", "softmax_ce", "xendcg", "plrank(samples=2, cutoff=3)", "lambdarank")
SAMPLED = tuple(name for name in OBJECTIVES if "stochastic" not in name)
BUCKET = 128
KINDS = ("eager", "bucketed", "compiled")
CLOCKS = ("idle", "steady", "device")
WANTED = {
    "approx_ndcg": (("eager", "steady", 40.0), ("eager", "device", 150.0), ("compiled", "device", 30.0)),
    "softmax_ce": (("eager", "steady", 1.0), ("eager", "device", 1.0)),
    "xendcg": (("eager", "steady", 1.0), ("eager", "device", 1.0)),
    PLRANK: (("eager", "steady", 4.0), ("eager", "device", 10.0)),
}


def lists(bench: Bench) -> None:
    made, names = bench.make(1_024), TINY if bench.small else OBJECTIVES
    rows = compare(bench, "1,024 MSLR-like lists", made, names=names, peers=names, kinds=KINDS)
    for row in rows:
        for kind, clock, least in WANTED.get(row["name"], ()):
            if kind in row:
                bench.ratio(f"{row['name']}, padded {kind} over ours", row[kind], row["loss"], clock, least)
    worst = max(rows, key=lambda row: float(row["fresh"]["steady"] / row["loss"]["steady"]))
    ratio = worst["fresh"]["steady"] / worst["loss"]["steady"]
    bench.target("not prepared over prepared, the worst, steady", ratio, 1.5, most=True, note=worst["name"])
    copies = max(row["copies"] for row in rows)
    bench.target("copies to the host in a step that is not prepared", copies, 0, most=True)


def boosting(bench: Bench) -> None:
    made = bench.make(31_000)
    heading(
        f"LambdaRank's gradient and Hessian for {made[0].size:,} documents, as boosted trees want them: milliseconds"
    )
    ours = Ours("lambdarank", made, bench.device)
    taken = bench.measure({"kernel": ours.with_hessian})["kernel"]
    row: dict[str, Any] = {"lists": f"{made[0].size:,} documents", "name": "lambdarank with Hessian", "kernel": taken}
    row |= {"n_docs": int(made[0].size), "n_lists": int(made[2].size - 1)}
    print(f"{taken['idle']:.3f} from idle, {taken['steady']:.3f} in a steady loop, {taken['device']:.3f} of the device")
    bench.more["boosting"] = row
    bench.pending.append((row, ours.with_hessian, work_of("lambdarank", made) | {"bytes": 16.0 * made[0].size}))
    for clock in ("steady", "device"):
        what = f"lambdarank's gradient and Hessian, {made[0].size:,} documents, ms, {clock}"
        bench.target(what, taken[clock], 1.0, most=True)


def step(bench: Bench) -> None:
    training_steps(bench)


def few(bench: Bench) -> None:
    names = TINY[:1] if bench.small else OBJECTIVES
    compare(bench, "128 MSLR-like lists", bench.make(128), names=names, peers=names)


def many(bench: Bench) -> None:
    names = TINY[:1] if bench.small else OBJECTIVES
    compare(bench, "8,192 MSLR-like lists", bench.make(8_192), names=names, peers=SAMPLED)


def single(bench: Bench) -> None:
    names = TINY[:1] if bench.small else OBJECTIVES
    for length in (20_000, 100_000):
        made = one_list(20 if bench.small else length)
        rows = compare(bench, f"one list of {length:,} documents", made, names=names, peers=SAMPLED)
    for row in rows:
        if row["name"] in ("xendcg", "listmle", PLRANK) and "eager" in row:
            for clock in ("steady", "device"):
                bench.ratio(f"{row['name']}, one list, plain torch over ours", row["eager"], row["loss"], clock, 1.0)


def graphs(bench: Bench) -> None:
    """Whether the loss can be captured in a CUDA graph, which launches all kernels at once."""
    heading("Loss, forwards and backwards, 1,024 lists, in a CUDA graph: milliseconds")
    if not bench.clock.cuda:
        print("needs a GPU, left out")
        return
    try:
        bench.more["step in a graph"] = step_in_graph(bench)
    except Exception as error:
        print(f"the whole training step cannot be captured: {not_captured(error)}")
    made, found = bench.make(1_024), {}
    for name in OBJECTIVES:
        ours = Ours(name, made, bench.device)
        expected = ours.leaf.grad
        try:
            graph = captured(ours.loss)
            taken = bench.clock.idle({name: graph.replay}, 20, 1.0)[name]
            bench.clock.wait()
        except Exception as error:  # of CUDA or torch: what cannot be captured says so in many ways
            print(f"{name:<30} cannot be captured: {not_captured(error)}", flush=True)
            continue
        same = expected is not None and ours.leaf.grad is not None and torch.equal(expected, ours.leaf.grad)
        random = name in ("xendcg", "yeti") or name.startswith(("plrank", "stochastic"))
        found[name] = {"ms": taken, "same": same}
        said = "one draw, again and again" if random else "the same gradient" if same else "ANOTHER GRADIENT"
        print(f"{name:<30}{taken:9.3f}   {said}", flush=True)
    bench.more["graphs"] = found


def not_captured(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def compare(
    bench: Bench, title: str, made: Lists, *, names: tuple[str, ...], peers: tuple[str, ...],
    kinds: tuple[str, ...] = ("eager",),
) -> list[dict[str, Any]]:  # fmt: skip
    """One table: each objective on these lists, beside padded torch where that has a peer and memory does."""
    sizes = np.diff(made[2])
    heading(f"{title}: {made[0].size:,} documents, the longest list {sizes.max():,}. Milliseconds {'/'.join(CLOCKS)}")
    titles = ("loss", "fresh", "kernel", *KINDS)
    print(
        f"{'':<30}" + "".join(f"{one:>19}" for one in titles) + f"{'times, steady/device':>36}{'MB':>8}{'eager MB':>9}"
    )
    padded = functools.cache(functools.partial(PaddedLists, made, bench.device))
    rows = []
    for name in names:
        ours = Ours(name, made, bench.device)
        calls: dict[str, Call] = {"loss": ours.loss, "fresh": ours.fresh, "kernel": ours.kernel}
        row: dict[str, Any] = {"lists": title, "n_lists": int(sizes.size), "n_docs": int(made[0].size), "name": name}
        row |= {"prepare": ours.preparing, "notes": []}
        peer = PEERS.get("plrank" if name.startswith("plrank") else name)
        if peer is not None and name in peers and not bench.late():
            batch = fitting(bench, peer, sizes)
            if batch == 0:
                row["notes"].append(f"padded: {peer.cubes * 4e-9 * float(sizes.max()) ** 2:,.0f} GB, left out")
            else:
                add_peers(bench, calls, peer, batch, padded, kinds, row)
                if not peer.draws:
                    row["difference"] = difference(ours.kernel(), padded(batch).results(peer))
        row |= bench.measure(calls)
        row["copies"] = sum(count for what, (count, _) in bench.clock.launches(ours.fresh)[1].items() if "DtoH" in what)
        row |= {f"{kind} MB": bench.clock.peak(call) for kind, call in calls.items() if kind != "kernel"}
        bench.pending.append((row, ours.kernel, work_of(name, made)))
        rows.append(row)
        print(table_line(row), flush=True)
        del calls
        bench.clock.forget()
    bench.rows += rows
    return rows


def fitting(bench: Bench, peer: Peer, sizes: np.ndarray) -> int:
    """How many padded lists fit into memory at once."""
    longest = float(sizes.max())
    each = 4.0 * (peer.cubes * longest**2 + 5 * 32.0 * longest)
    return min(int(0.6 * bench.memory / each), int(sizes.size))


def add_peers(
    bench: Bench, calls: dict[str, Call], peer: Peer, batch: int, padded: Any, kinds: tuple[str, ...],
    row: dict[str, Any],
) -> None:  # fmt: skip
    calls["eager"] = padded(batch).call(peer)
    if batch < row["n_lists"]:
        row["notes"].append(f"padded in batches of {batch:,}")
    if "bucketed" in kinds:
        calls["bucketed"] = padded(BUCKET, True).call(peer)
    if "compiled" in kinds and bench.clock.cuda and not bench.late(0.6):
        call = padded(batch).call(peer, compiled=True)
        try:
            call()
        except Exception as error:  # a compiler has many
            row["notes"].append(f"compiled: {type(error).__name__}")
        else:
            calls["compiled"] = call


def difference(ours: Any, theirs: tuple[np.ndarray, np.ndarray]) -> float:
    """The largest difference of values and gradients, in units of the largest of each."""
    found = [column.cpu().numpy() for column in (ours.value, ours.gradient)]
    parts = zip(found, theirs, strict=True)
    return max(float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)) for one, other in parts)


def table_line(row: dict[str, Any]) -> str:
    cells = f"{row['name']:<30}"
    for kind in ("loss", "fresh", "kernel", *KINDS):
        cells += f"{'/'.join(f'{row[kind][clock]:.3g}' for clock in CLOCKS) if kind in row else '–':>19}"
    for kind in KINDS:
        ratios = [f"{row[kind][clock] / row['loss'][clock]:.1f}" for clock in CLOCKS[1:]] if kind in row else ["–"]
        cells += f"{'/'.join(ratios):>12}"
    cells += f"{row['loss MB']:8.0f}" + (f"{row['eager MB']:9,.0f}" if "eager" in row else f"{'–':>9}")
    notes = [f"differs by {row['difference']:.0e}"] if "difference" in row else []
    return cells + "  " + "; ".join((*notes, *row["notes"]))


def beside_limits(bench: Bench) -> None:
    """What limits each kernel, last of all: a profiler counts the launches, and may slow down what comes after it."""
    heading("Beside the limits: milliseconds of the device, launches, and the unit that allows least")
    for row, call, work in bench.pending:
        row |= bench.beside_limit(work, bench.clock.launches(call)[0], row["kernel"]["device"])
        print(
            f"{row['lists']:<32}{row['name']:<30}{row['kernel']['device']:9.3f}{row['kernels']:5d}   "
            f"{row['rate']:9.3g} {row['unit']}/s, {row['share']:.0%} of the limit",
            flush=True,
        )


def profile(bench: Bench, name: str) -> None:
    """The kernels of one objective, by time."""
    made = bench.make(1_024)
    ours = Ours(name, made, bench.device)
    for title, call in (("loss, forwards and backwards", ours.loss), ("with Hessian", ours.with_hessian)):
        for _ in range(3):
            call()
        total, found = bench.clock.launches(call)
        heading(
            f"{name}, {title}: {total} kernels and copies for {made[0].size:,} documents in {made[2].size - 1:,} lists"
        )
        for each, (count, spent) in sorted(found.items(), key=lambda item: -item[1][1]):
            print(f"{spent:9.1f} µs {count:5d}   {each[:100]}")
