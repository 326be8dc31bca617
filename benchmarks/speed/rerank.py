"""What a training step of a reranker takes in time and memory, beside sentence-transformers' listwise losses.

    python -m benchmarks.speed.rerank [--json rerank.json] [--device cpu --small]

``benchmarks.pages.rerank`` puts the figures into docs/benchmarks/rerank.md.

A BERT of 6 layers, 384 wide, with random weights, and its WordPiece tokenizer are made on the spot; pairs have up to
128 tokens. A step tokenizes all pairs, computes the loss, and its gradient by every weight, in bf16 autocast with
dropout; the optimizer is left out, being the same for all. Contestants have one model and take turns; times are
medians, and memory is what torch had allocated at most, weights and gradients included. The unit of memory is a step of
32 of the longest pairs, scored at once with a graph, by torch alone.

Mini-batches are 32 pairs for everyone first. A larger one costs sentence-transformers no memory, since it keeps the
graph of every pair in any case, so that it has one of 256 pairs beside our budget of as many tokens. The longest lists
come first, and shorter ones are left out when the time is up (``--seconds``).
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import heading
from benchmarks.pages import rerank as rerank_page

BUDGET = 256  # pairs of the longest kind in a large mini-batch
TARGETS = {"memory": 1.15, "saving": 30.0, "speed": 4.0, "loss": 0.01}
SIZES = ((16, 30), (16, 100), (8, 300), (2, 1000))


class Setting:
    """How large everything is."""

    def __init__(self, small: bool) -> None:
        self.longest = 24 if small else 128
        self.words = 300 if small else 30_000
        self.sizes = ((2, 5), (2, 9)) if small else SIZES
        self.batch = 4 if small else 32
        self.large = 8 if small else BUDGET
        self.rounds = 1 if small else 3
        layers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        full = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
        self.layers = layers if small else full


def words(count: int) -> list[str]:
    """Different words of three and more syllables."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    random = np.random.default_rng(0)
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(random.choice(syllables, 3 + len(found) % 2))] = None
    return list(found)


def cross_encoder(setting: Setting, device: str, folder: Path) -> Any:
    """A CrossEncoder with random weights, by way of a folder, as sentence-transformers wants it."""
    from sentence_transformers import CrossEncoder
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    pieces = {piece: number for number, piece in enumerate((*names, *words(setting.words)))}
    backend = Tokenizer(models.WordPiece(pieces, unk_token=names[1]))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(name, pieces[name]) for name in names[2:4]]
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=special)
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=setting.longest,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), names, strict=True)),
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(pieces), max_position_embeddings=setting.longest, num_labels=1, **setting.layers)
    BertForSequenceClassification(config).save_pretrained(folder)
    return CrossEncoder(str(folder), device=device, local_files_only=True).train()


class Batch:
    """Lists of random words with graded labels; the first list is the longest, the others have a quarter of it on."""

    def __init__(self, n_queries: int, longest: int, setting: Setting) -> None:
        random = np.random.default_rng(longest)
        known = np.array(words(setting.words))
        sizes = random.integers(max(longest // 4, 1), longest + 1, n_queries)
        sizes[0] = longest

        def text(least: int, most: int) -> str:
            return " ".join(random.choice(known, random.integers(least, most + 1)))

        part = setting.longest // 8
        self.name = f"{n_queries} × {longest:,} ({sizes.sum():,})"
        self.queries = [text(1, part) for _ in sizes]
        self.documents = [[text(part, setting.longest) for _ in range(size)] for size in sizes]
        self.labels = [torch.from_numpy(random.integers(0, 4, size)) for size in sizes]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.n_docs = int(sizes.sum())

    def pairs(self) -> list[tuple[str, str]]:
        both = zip(self.queries, self.documents, strict=True)
        return [(query, document) for query, documents in both for document in documents]


class Bench:
    """Steps of contestants that take turns on one model."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.setting = Setting(options.small)
        self.device, self.cuda = torch.device(options.device), options.device.startswith("cuda")
        self.model = cross_encoder(self.setting, options.device, folder)
        self.rounds = options.rounds or self.setting.rounds

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def step(self, value: Callable[[], torch.Tensor]) -> None:
        self.model.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = value()
        loss.backward()

    def once(self, call: Callable[[], Any]) -> tuple[float, float]:
        """Milliseconds and gigabytes of a call."""
        self.wait()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        call()
        self.wait()
        taken = 1e3 * (time.perf_counter() - start)
        return taken, torch.cuda.max_memory_allocated() / 1e9 if self.cuda else float("nan")

    def turns(self, calls: dict[str, Callable[[], Any]]) -> dict[str, dict[str, float]]:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for number in range(-1, self.rounds):
            for name, call in calls.items():
                measured = self.once(call)
                if number >= 0:
                    found[name].append(measured)
        return {
            name: {"ms": statistics.median(ms for ms, _ in each), "GB": max(gb for _, gb in each)}
            for name, each in found.items()
        }

    def compare(self, batch: Batch) -> dict[str, Any]:
        """All contestants on one batch, and the parts of our step."""
        from sentence_transformers.cross_encoder import losses

        import rankwise as rw
        from rankwise.wings.rerank.scoring import features_of

        small, large, model = self.setting.batch, self.setting.large, self.model
        inputs, labels = [batch.queries, batch.documents], [row.to(self.device) for row in batch.labels]
        made = {
            f"LambdaLoss, {small}": losses.LambdaLoss(model, mini_batch_size=small),
            f"ListNetLoss, {small}": losses.ListNetLoss(model, mini_batch_size=small),
            f"LambdaLoss, {large}": losses.LambdaLoss(model, mini_batch_size=large),
            f"rankwise, {small}": rw.rerank.Loss(model, "lambdarank", mini_batch_size=small),
            f"rankwise, {large}": rw.rerank.Loss(model, "lambdarank", token_budget=large * self.setting.longest),
        }

        def stepping(loss: torch.nn.Module) -> Callable[[], None]:
            return lambda: self.step(lambda: loss([*inputs], [*labels]))

        found = self.turns({name: stepping(loss) for name, loss in made.items()})
        pairs = batch.pairs()
        parts = self.turns({"tokens": lambda: features_of(model, pairs), "loss": self.loss_alone(batch)})
        row = {"name": batch.name, "n_docs": batch.n_docs, "contestants": found}
        return row | {f"{name} ms": part["ms"] for name, part in parts.items()}

    def loss_alone(self, batch: Batch) -> Callable[[], None]:
        """The loss and its gradient from scores of the device to gradients there."""
        import rankwise as rw

        loss, labels = rw.torch_loss("lambdarank"), torch.cat(batch.labels)
        scores = torch.randn(batch.n_docs, device=self.device)

        def run() -> None:
            wanted = scores.clone().requires_grad_()
            torch.autograd.grad(loss(wanted.cpu(), labels, batch.offsets), wanted)

        return run

    def unit(self) -> dict[str, float]:
        """A step of one small mini-batch of the longest pairs, with a graph, by torch alone."""
        texts = [(" ".join(words(self.setting.words)[: self.setting.longest]), "")] * self.setting.batch

        def value() -> torch.Tensor:
            features = {name: part.to(self.device) for name, part in self.model.preprocess(texts).items()
                        if isinstance(part, torch.Tensor)}  # fmt: skip
            scores: torch.Tensor = self.model(features)["scores"].float().flatten()
            return -scores.log_softmax(0)[0]

        return self.turns({"unit": lambda: self.step(value)})["unit"]


def targets(rows: list[dict[str, Any]], unit: dict[str, float]) -> list[dict[str, Any]]:
    """What was promised for the longest lists, and what was found there."""
    row = rows[-1]
    theirs, _, _, ours, large = row["contestants"].values()
    found = [
        ("peak memory over that of one mini-batch", "at most", "memory", ours["GB"] / unit["GB"]),
        ("memory of LambdaLoss over ours", "at least", "saving", theirs["GB"] / ours["GB"]),
        ("time of LambdaLoss over ours with a large budget", "at least", "speed", theirs["ms"] / large["ms"]),
        ("share of the loss in a step", "at most", "loss", row["loss ms"] / large["ms"]),
    ]
    return [
        {"what": what, "bound": bound, "wanted": TARGETS[name], "found": value,
         "met": value <= TARGETS[name] if bound == "at most" else value >= TARGETS[name]}
        for what, bound, name, value in found
    ]  # fmt: skip


def main() -> None:
    begun = time.perf_counter()
    parser = argparse.ArgumentParser(description="Time and memory of training steps of rerankers.")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu")
    parser.add_argument("--small", action="store_true", help="a tiny model and short lists, to see that it runs")
    parser.add_argument("--rounds", type=int, help="how often each contestant is timed")
    parser.add_argument("--seconds", type=float, default=78.0, help="time after which shorter lists are left out")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("No CUDA device, nothing to measure. --device cpu --small shows that it runs.")
        return
    import sentence_transformers

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
    device = torch.cuda.get_device_name(bench.device) if bench.cuda else "CPU"
    versions = {"torch": torch.__version__, "sentence-transformers": sentence_transformers.__version__}
    print(device, versions)
    print(f"ready after {time.perf_counter() - begun:.0f} s", flush=True)
    unit = bench.unit()
    print(f"one mini-batch of {bench.setting.batch} pairs: {unit['ms']:.0f} ms, {unit['GB']:.3f} GB", flush=True)
    rows: list[dict[str, Any]] = []
    for n_queries, longest in reversed(bench.setting.sizes):  # what targets are about comes first
        taken = time.perf_counter() - begun
        if rows and taken > options.seconds:
            print(f"{n_queries} × {longest}: left out, the time is up", flush=True)
            continue
        rows.insert(0, bench.compare(Batch(n_queries, longest, bench.setting)))
        parts = f"tokenizing {rows[0]['tokens ms']:.1f} ms, the loss {rows[0]['loss ms']:.2f} ms"
        print(f"{rows[0]['name']}: {parts} ({time.perf_counter() - begun:.0f} s)")
        for name, one in rows[0]["contestants"].items():
            print(f"  {name:<20}{one['ms']:9,.0f} ms {one['GB']:8.2f} GB", flush=True)
        reached = targets(rows, unit)
        figures = {"device": device, "versions": versions, "unit": unit, "rows": rows, "targets": reached}
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1) + "\n")
    heading("Time and peak memory of a step")
    print(rerank_page.steps(figures))
    heading("Targets, for the longest lists")
    for line in reached:
        verdict = "met   " if line["met"] else "MISSED"
        print(f"{verdict} {line['what']}: {line['found']:.3g}, {line['bound']} {line['wanted']:g}")


if __name__ == "__main__":
    main()
