"""Do rerankers learn as much from our objectives as from the losses of sentence-transformers, step by step?

Tiny cross-encoders with random weights, made on the spot, learn from texts whose relevance is known: synthetic ones,
and the tags and titles of MovieLens. Every method has the same initial weights, batches, optimizer and number of steps;
the NDCG@10 of queries that were not trained on is compared in pairs, over seeds that decide weights, batches and split.
Each method's learning rate is the better of two by the validation queries of another seed. Nothing looks at test
queries before the end.

    python -m benchmarks.quality.rerank --movielens FOLDER --seeds 6 --out learning.csv
    python -m benchmarks.quality.rerank --table learning.csv --page docs/benchmarks/rerank.md
"""

import argparse
import csv
import functools
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import losses
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import rankwise as rw
from rankwise.base.pools import processes as pool_of
from rankwise.statistics.significance import t_test

THEIRS: dict[str, Callable[[Any], torch.nn.Module]] = {
    name: functools.partial(getattr(losses, name), mini_batch_size=-1)
    for name in ("LambdaLoss", "ListNetLoss", "RankNetLoss")
}
TWINS = {
    "lambdarank(weights='ndcg2++', norm=False, truncation=None)": "LambdaLoss",
    "listnet": "ListNetLoss",
    "ranknet": "RankNetLoss",
}
"""Ours that have the same formula as theirs, or nearly."""
OURS = (*TWINS, "lambdarank", "xendcg", "softmax_ce")
BASELINE = "LambdaLoss"  # the one that sentence-transformers recommends
RATES = (2e-3, 5e-3)
TUNING_SEED = 1_000
STEPS = {"synthetic": 300, "movielens": 200}
OVERLAP = {
    "synthetic": 0.0,
    "movielens": 0.2 / 0.6,
}  # test queries for one to train on, where seeds split the same data
TITLES = {"synthetic": "Synthetic texts", "movielens": "Tags and titles of MovieLens"}
MARKS = re.compile(r"(<!-- rerank_learning:begin -->).*(<!-- rerank_learning:end -->)", re.DOTALL)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
LENGTH = 32  # tokens of a pair
LISTS = 8  # of a batch
TAGS = 4  # of a query


class Job(NamedTuple):
    """One training, and the part of the data that it is judged by."""

    data: str
    method: str
    seed: int
    rate: float
    steps: int
    part: str
    folder: str


def synthetic(seed: int, n: int = 1_000, topics: int = 8, words: int = 6) -> rw.rerank.Lists:
    """Queries of two words of a topic; the label of a document says how many of its words are of that topic.

    A document has six words, of which 0 to 4 are of the query's topic, and the others of any; the label is 0 to 3 by
    that number, and lists have 5 to 20 documents, most of them with label 0.
    """
    numbers = np.random.default_rng(seed)
    queries, documents, labels = [], [], []
    for _ in range(n):
        topic = numbers.integers(topics)
        queries.append(_text(topic, numbers.integers(words, size=2)))
        size = numbers.integers(5, 21)
        on_topic = numbers.choice(5, size=size, p=(0.4, 0.25, 0.15, 0.12, 0.08))
        others = [np.delete(np.arange(topics), topic)[numbers.integers(topics - 1, size=6)] for _ in range(size)]
        of_topics = [
            np.where(np.arange(6) < count, topic, other) for count, other in zip(on_topic, others, strict=True)
        ]
        documents.append([_text(numbers.permutation(one), numbers.integers(words, size=6)) for one in of_topics])
        labels.append(np.maximum(on_topic - 1, 0).tolist())
    return rw.rerank.Lists.from_lists(queries, documents, labels)


def _text(topic: Any, word: Any) -> str:
    return " ".join(f"t{one}w{other}" for one, other in np.broadcast(topic, word))


def movielens(folder: Path, seed: int, relevant: int = 6, others: int = 12) -> rw.rerank.Lists:
    """A query is up to four tags of a movie; documents are titles with genres, and labels count common tags, to 3.

    On a list are the movie itself, up to five others that have a tag in common, and twelve that have none, all drawn.
    """
    numbers = np.random.default_rng(seed)
    movies = pl.read_csv(folder / "movies.csv.gz")
    tags = pl.read_csv(folder / "tags.csv.gz").select("movieId", pl.col("tag").str.to_lowercase()).unique()
    tags = tags.filter(pl.col("tag") != "in netflix queue").sort("movieId", "tag")
    columns = movies.select("movieId", "title", "genres").iter_rows()
    texts = {number: f"{title} {genres.replace('|', ' ')}" for number, title, genres in columns}
    by_movie: dict[int, list[str]] = defaultdict(list)
    by_tag: dict[str, list[int]] = defaultdict(list)
    for movie, tag in tags.iter_rows():
        by_movie[movie].append(tag)
        by_tag[tag].append(movie)
    everything = np.array(sorted(by_movie))
    queries, documents, labels, ids = [], [], [], []
    for movie, all_names in by_movie.items():
        names = numbers.permutation(all_names)[:TAGS].tolist()
        common: dict[int, int] = defaultdict(int)
        for name in names:
            for other in by_tag[name]:
                common[other] += 1
        if len(common) < 2:
            continue
        near = numbers.permutation([one for one in common if one != movie])[: relevant - 1]
        far = numbers.choice(everything[~np.isin(everything, list(common))], size=others, replace=False)
        chosen = numbers.permutation([movie, *near, *far])
        queries.append(" ".join(names))
        documents.append([texts[one] for one in chosen.tolist()])
        labels.append([min(common.get(one, 0), 3) for one in chosen.tolist()])
        ids.append(movie)
    return rw.rerank.Lists.from_lists(queries, documents, labels, query_ids=ids)


def cross_encoder(words: list[str], seed: int) -> CrossEncoder:
    """A BERT of random weights and a tokenizer of whole words, made on the spot."""
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate((*SPECIAL, *words))}, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=LENGTH,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True)),
    )
    config = BertConfig(
        vocab_size=len(words) + len(SPECIAL),
        max_position_embeddings=LENGTH,
        num_labels=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
        **SIZES,
    )
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        BertForSequenceClassification(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return CrossEncoder(folder, device="cpu", local_files_only=True)


def words_of(lists: rw.rerank.Lists, least: int = 2) -> list[str]:
    """The words that training texts have more than once."""
    counts: dict[str, int] = defaultdict(int)
    split = pre_tokenizers.Whitespace().pre_tokenize_str
    for text in (*lists.queries, *lists.documents):
        for word, _ in split(text.lower()):
            counts[word] += 1
    return [word for word, count in counts.items() if count >= least]


def batches(lists: rw.rerank.Lists, steps: int, seed: int) -> Iterator[rw.rerank.Lists]:
    """Give lists drawn without repetition until all have been, and again."""
    numbers = np.random.default_rng(seed)
    order: list[int] = []
    for _ in range(steps):
        if len(order) < LISTS:
            order = numbers.permutation(len(lists)).tolist()
        yield lists.take(order[:LISTS])
        del order[:LISTS]


def loss_of(method: str, model: CrossEncoder, seed: int) -> torch.nn.Module:
    """The loss of a method: a name of sentence-transformers', or an expression of ours."""
    return THEIRS[method](model) if method in THEIRS else rw.rerank.Loss(model, method, seed=seed)


def train(model: CrossEncoder, loss: torch.nn.Module, lists: rw.rerank.Lists, job: Job) -> None:
    """The same loop for all: AdamW, whose steps do not depend on the scale of a loss, and a rate that falls to 0."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, job.steps)
    model.train()
    for batch in batches(lists, job.steps, job.seed):
        labels = [torch.tensor(one) for one in batch.nested(batch.labels)]
        loss([list(batch.queries), batch.nested(batch.documents)], labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def quality(model: CrossEncoder, lists: rw.rerank.Lists) -> float:
    """The mean NDCG@10."""
    model.eval()
    scores = model.predict(list(lists.pairs()), batch_size=256, show_progress_bar=False)
    return float(rw.evaluate(scores, lists.data, ["ndcg@10"]).mean["ndcg@10"])


def measure(job: Job) -> float:
    """Train once; gives the quality on validation or test queries."""
    lists = synthetic(job.seed) if job.data == "synthetic" else movielens(Path(job.folder), job.seed)
    training, valid, test = rw.split(lists, (0.6, 0.2, 0.2), seed=job.seed)
    model = cross_encoder(words_of(training), job.seed)
    if job.method != "untrained":
        train(model, loss_of(job.method, model, job.seed), training, job)
    return quality(model, valid if job.part == "valid" else test)


def trained(jobs: Sequence[Job], processes: int, out: Path) -> Iterator[tuple[Job, float]]:
    """Give what each job measures; a line of ``out`` is written as soon as it is known, and not measured again."""
    known = {line[:-1]: float(line[-1]) for line in read(out)} if out.exists() else {}
    left = [job for job in jobs if tuple(map(str, job[:-1])) not in known]
    yield from ((job, known[key]) for job in jobs if (key := tuple(map(str, job[:-1]))) in known)
    with out.open("a", newline="") as file, pool_of(processes) as pool:
        writer = csv.writer(file)
        for job, value in zip(left, pool.map(measure, left), strict=True):
            writer.writerow([*job[:-1], value])
            file.flush()
            yield job, value


def read(path: Path) -> list[tuple[str, ...]]:
    """The lines of a file of results."""
    with path.open(newline="") as file:
        return [tuple(line) for line in csv.reader(file)]


def best_rates(found: Iterable[tuple[Job, float]]) -> dict[tuple[str, str], float]:
    """The rate of each method on each data set that validation queries prefer."""
    values: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for job, value in found:
        values[job.data, job.method][job.rate] = value
    return {key: max(by_rate, key=by_rate.__getitem__) for key, by_rate in values.items()}


def table(path: Path, wanted: Collection[str] = (*THEIRS, *OURS)) -> str:
    """A table for each data set: means over seeds, and paired differences with intervals of 95% over seeds.

    Seeds that only some methods were trained with are left out. Intervals are corrected where seeds share data.
    """
    found: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    rates: dict[tuple[str, str], str] = {}
    for data, method, seed, rate, _, part, value in read(path):
        if part == "test" and method in ("untrained", *wanted):
            found[data][method][int(seed)] = float(value)
            rates[data, method] = "" if method == "untrained" else f"{float(rate):g}"
    tables = []
    for data, by_method in found.items():
        seeds = sorted(set.intersection(*(set(values) for values in by_method.values())))
        rows = [["loss", "learning rate", f"NDCG@10, {len(seeds)} seeds", f"− {BASELINE}", "− same formula"]]
        for method in (name for name in ("untrained", *wanted) if name in by_method):
            mine, *others = (
                [by_method[name][seed] for seed in seeds] if name in by_method else []
                for name in (method, None if method == BASELINE else BASELINE, TWINS.get(method))
            )
            shown = [difference(mine, other, OVERLAP[data]) if other else "" for other in others]
            name = f"`{method}`" if method in wanted else method
            rows.append([name, rates[data, method], f"{np.mean(mine):.4f}", *shown])
        lines = [f"| {' | '.join(row)} |" for row in rows]
        tables.append("\n".join([f"{TITLES[data]}:", "", lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]]))
    return "\n\n".join(tables)


def difference(mine: Sequence[float], other: Sequence[float], overlap: float) -> str:
    """The mean difference over seeds and its interval."""
    gaps = np.subtract(mine, other)
    if gaps.size < 2 or not gaps.any():
        return f"{gaps.mean():+.4f}"
    low, high = t_test(gaps, overlap=overlap).interval()
    return f"{gaps.mean():+.4f} ({low:+.4f} to {high:+.4f})"


def main() -> None:
    """Train all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--movielens", type=Path, help="the folder with tags.csv.gz and movies.csv.gz; else only synthetic"
    )
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, help="of every training, instead of those of the data set")
    parser.add_argument("--methods", nargs="+", default=[*THEIRS, *OURS])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("rerank_learning.csv"), help="results; what is there is kept")
    parser.add_argument("--table", type=Path, help="only print the table of results that are there")
    parser.add_argument("--page", type=Path, help="with --table: the page whose block is replaced by it")
    options = parser.parse_args()
    if options.table:
        found = table(options.table, options.methods)
        print(found)
        if options.page:
            page = options.page.read_text(encoding="utf-8")
            options.page.write_text(
                MARKS.sub(lambda mark: f"{mark[1]}\n\n{found}\n\n{mark[2]}", page), encoding="utf-8"
            )
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # one core for each process
    sets = ["synthetic", *(["movielens"] if options.movielens else [])]
    start = time.process_time()

    def job(data: str, method: str, seed: int, rate: float, part: str) -> Job:
        return Job(data, method, seed, rate, options.steps or STEPS[data], part, str(options.movielens))

    tuning = [
        job(data, name, TUNING_SEED, rate, "valid") for data in sets for name in options.methods for rate in RATES
    ]
    rates = best_rates(trained(tuning, options.processes, options.out))
    seeds = range(options.seeds)
    rates |= {(data, "untrained"): 0.0 for data in sets}
    jobs = [job(*key, seed, rate, "test") for seed in seeds for key, rate in rates.items()]
    for done, value in trained(jobs, options.processes, options.out):
        print(f"{done.data} {done.method} {done.seed} {done.rate:g} {value:.4f}", flush=True)
    print(table(options.out, options.methods))
    print(f"{time.process_time() - start:.0f} s of CPU time in this process")


if __name__ == "__main__":
    main()
