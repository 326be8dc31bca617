"""Which settings tree rankers should have where nobody sets any: candidates compared by validation, then tested once.

    python -m benchmarks.quality.defaults FOLDER [--sets mq2008 mq2007 mslr synthetic-300] [--libraries lightgbm]
        [--processes N] [--out results/defaults.csv]
    python -m benchmarks.quality.defaults --tables results/defaults.csv

FOLDER holds the data: MQ2008 as its archive unpacks, ``mq2007.partial.txt``, samples ``web10k.fold1.*`` of MSLR-WEB10K.
``synthetic-300`` is made of 300 queries by rw.synthetic.

A third of the queries of every set is put aside for the test. The others are split once more for each seed: a model
learns on 60%, the curve of 20% stops it, and it is judged on the last 20%, by the mean of NDCG@5 and NDCG@10 of each
query. Candidates are compared with the usual settings ("today's": ``USUAL`` of ``rankers/trees/protocol.py``, before
there was a rule for small data) on the same queries and seeds, each query alike, whatever its set. After each rung
(``--seeds 2 6 16``: two seeds, then six, then sixteen) the best third goes on. Every model is trained until the last
of the rules that stop would stop it, so that each rule costs little; a candidate counts with the mean over all rules.
Seeds shuffle documents too.

In the end what was chosen, settings and rule, and today's settings are trained on three quarters of the other queries,
stopped by the rest of them, and tested on the queries put aside. These choose nothing. Each line of ``--out`` is a
model under a rule, with its value for every query; a benchmark that was interrupted is resumed from it.
"""

import argparse
import csv
import functools
import itertools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rankwise as rw
from benchmarks.harness import shuffled, whole
from rankwise.base.arrays import Array
from rankwise.base.pools import processes as pool_of
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training import run as training
from rankwise.rankers.training.settings import TrainingData, TrainingSettings
from rankwise.rankers.training.stopping import Stopping

METRICS = ("ndcg@5", "ndcg@10")
OBJECTIVES = ("lambdarank", "xendcg")
SETS = ("mq2008", "mq2007", "mslr", "synthetic-300")
TODAY: dict[str, dict[str, Any]] = {
    "lightgbm": {"learning_rate": 0.05, "leaves": 31, "min_documents": 20},
    "xgboost": {"learning_rate": 0.05, "leaves": 31, "min_documents": 20},
    "catboost": {"learning_rate": 0.05, "leaves": 32},
}
_DRAWN = {"feature_fraction": 0.5, "bagging_fraction": 0.7, "bagging_freq": 1}
_EXTRA = {"extra_trees": True}
_SAMPLED = {"subsample": 0.7, "colsample_bynode": 0.5}
OTHERS: dict[str, Sequence[dict[str, Any]]] = {
    "lightgbm": (
        {"leaves": 15, "min_documents": 50} | _EXTRA,
        {"leaves": 7, "min_documents": 50} | _EXTRA,
        {"leaves": 31, "min_documents": 50} | _EXTRA,
        {"leaves": 31, "min_documents": 20} | _EXTRA,
        {"leaves": 15, "min_documents": 50},
        {"leaves": 15, "min_documents": 50} | _DRAWN,
        {"leaves": 15, "min_documents": 50} | _EXTRA | _DRAWN,
        {"leaves": 15, "min_documents": 50, "learning_rate": 0.03} | _EXTRA,
    ),
    "xgboost": (
        {"leaves": 15, "min_documents": 50} | _SAMPLED,
        {"leaves": 15, "min_documents": 50},
        {"leaves": 7, "min_documents": 50} | _SAMPLED,
        {"leaves": 7, "min_documents": 50},
        {"leaves": 31, "min_documents": 50} | _SAMPLED,
        {"leaves": 31, "min_documents": 20} | _SAMPLED,
    ),
    "catboost": (
        {"leaves": 16, "rsm": 0.5},
        {"leaves": 16},
        {"leaves": 32, "rsm": 0.5},
        {"leaves": 16, "rsm": 0.5, "subsample": 0.7},
        {"leaves": 8},
    ),
}
"""What is compared with today's settings: other trees, and what a library may draw while it grows them."""
RULES: dict[str, dict[str, Any]] = {
    "patience 50": {"patience": 50},
    "patience 50, smoothing 5": {"patience": 50, "smoothing": 5},
    "patience 50, smoothing 10": {"patience": 50, "smoothing": 10},
    "patience 50, smoothing 25": {"patience": 50, "smoothing": 25},
}
USUAL = "patience 50"
ASIDE = 1  # the seed of the split; the queries of 0 were looked at while this was written
COLUMNS = ("set", "stage", "seed", "library", "objective", "settings", "rounds", "rule", "kept", "seconds", "values")


class Job(NamedTuple):
    """One model."""

    folder: str
    data: str
    stage: str
    """``judge``, on queries by which settings are chosen, or ``test``."""
    seed: int
    library: str
    objective: str
    settings: str
    rounds: int

    def key(self) -> tuple[str, ...]:
        """What tells the model from others in the file."""
        return (self.data, self.stage, str(self.seed), self.library, self.objective, self.settings, str(self.rounds))


def written(settings: dict[str, Any]) -> str:
    """Settings as one text."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def read(text: str) -> dict[str, Any]:
    words: Iterable[list[str]] = (part.split("=") for part in text.split(", "))
    return {name: json.loads(value.lower()) for name, value in words}


def candidates(library: str) -> list[str]:
    """Today's settings first, then all others."""
    return [written(TODAY[library]), *(written({"learning_rate": 0.05} | one) for one in OTHERS[library])]


@functools.cache
def queries(folder: str, name: str) -> tuple[rw.RankingDataset, rw.RankingDataset]:
    """The queries to choose by, and those put aside."""
    if name == "mq2008":
        found = rw.concatenate([part for part in rw.load_dataset(name, fold=1, folder=folder, cache=False) if part])
    elif name == "mq2007":
        found = whole(folder)
    elif name == "mslr":
        paths = sorted(Path(folder).rglob("web10k.fold1.*"))
        if not paths:
            raise FileNotFoundError(f"no web10k.fold1.* below {folder}")
        found = rw.concatenate([rw.read_letor(path) for path in paths])
    else:
        found = rw.synthetic(n_queries=int(name.removeprefix("synthetic-")), seed=0)
    chosen_by, aside = rw.split(found, (2 / 3, 1 / 3), seed=ASIDE)
    return chosen_by, aside


def parts(job: Job) -> tuple[rw.RankingDataset, ...]:
    """What the model learns on, what stops it, and what it is measured on."""
    chosen_by, aside = queries(job.folder, job.data)
    if job.stage == "test":
        train, valid = rw.split(chosen_by, (0.75, 0.25), seed=job.seed)
        return shuffled(train, job.seed), valid, aside
    train, valid, judged = rw.split(chosen_by, (0.6, 0.2, 0.2), seed=job.seed)
    return shuffled(train, job.seed), valid, judged


def measure(job: Job) -> list[list[str]]:
    """Train a model, and judge it as each rule would have stopped it."""
    train, valid, judged = parts(job)
    about = {"rounds": job.rounds, "seed": job.seed, "threads": 1, "progress": False}
    ranker: Any = ranker_class(job.library)(job.objective, **about, **TODAY[job.library] | read(job.settings))
    latest = Latest(
        rounds=job.rounds, rules=[Stopping(rounds=job.rounds, metrics=METRICS[1:], **one) for one in RULES.values()]
    )
    start = time.process_time()
    train_by(latest, ranker, train, valid)
    seconds, whole_model = time.process_time() - start, ranker.model_
    lines = []
    for number, rule in enumerate(RULES):
        ranker.model_ = whole_model.cut(latest.kept[number])
        evaluation = rw.evaluate(ranker, judged, METRICS)
        values = np.mean([evaluation[metric] for metric in METRICS], axis=0)
        shown = " ".join(f"{value:.4f}" for value in values[~np.isnan(values)])
        lines.append([*job.key(), rule, str(ranker.model_.n_trees), f"{seconds:.2f}", shown])
    return lines


def train_by(rule: Stopping, ranker: Any, train: rw.RankingDataset, valid: rw.RankingDataset) -> None:
    """Train a ranker that stops by a rule that is not its own."""
    settings = WatchedSettings(**vars(TrainingSettings.of(ranker)), latest=rule)
    training.train(ranker, TrainingData(train=train, valid=valid), settings)


@dataclass(frozen=True, kw_only=True)
class WatchedSettings(TrainingSettings):
    """Settings that stop by a rule of their own."""

    latest: Stopping

    def stopping(self, names: Sequence[str] = ()) -> Stopping:
        """Return that rule, whatever the metrics are called."""
        return self.latest


@dataclass(frozen=True, kw_only=True)
class Latest(Stopping):
    """Train until every rule has stopped, and keep all rounds."""

    rules: Sequence[Stopping]
    kept: dict[int, int] = field(default_factory=dict)
    """The best round of each rule so far."""
    over: set[int] = field(default_factory=set)
    """Rules that have stopped."""

    def improved(self, history: Mapping[str, Sequence[float]], done: int, best: int) -> bool:
        """Look at the round as every rule does that has not stopped; keep it, whatever they say."""
        for number, rule in enumerate(self.rules):
            if number not in self.over:
                if rule.improved(history, done, self.kept.get(number, 0)):
                    self.kept[number] = done
                if rule.finished(done, self.kept[number]):
                    self.over.add(number)
        return True

    def finished(self, done: int, best: int) -> str:
        """Say whether all rules have stopped, or all rounds are trained."""
        return "patience" if len(self.over) == len(self.rules) else super().finished(done, best)


class Results:
    """What is in the file: for each model and rule the value of every query."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[tuple[str, ...], dict[str, Array]] = defaultdict(dict)
        self.seconds: dict[tuple[str, ...], float] = {}
        text = path.read_bytes().decode() if path.exists() else ""
        self.length = text.rfind("\n") + 1  # the last line may be cut
        for line in itertools.islice(csv.reader(text[: self.length].splitlines()), 1, None):
            self.add(line)

    def add(self, line: list[str]) -> None:
        *key, rule, _, seconds, values = line
        self.values[tuple(key)][rule] = np.array(values.split(), float)
        self.seconds[tuple(key)] = float(seconds)

    def train(self, wanted: Sequence[Job], processes: int) -> None:
        """Train the models that are not there yet."""
        missing = [job for job in wanted if len(self.values.get(job.key(), ())) < len(RULES)]
        say(f"{len(wanted)} models, {len(wanted) - len(missing)} of them trained before")
        if not missing:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        with self.path.open("a", newline="") as file, pool_of(processes) as pool:
            file.truncate(self.length)
            writer = csv.writer(file, lineterminator="\n")
            if not self.length:
                writer.writerow(COLUMNS)
            running = [pool.submit(measure, job) for job in missing]
            for done, future in enumerate(as_completed(running), 1):
                for line in future.result():
                    writer.writerow(line)
                    self.add(line)
                file.flush()
                self.length = file.tell()
                if done % 50 == 0 or done == len(missing):
                    left = (time.perf_counter() - start) / done * (len(missing) - done)
                    say(f"{done} of {len(missing)} models; about {left:.0f} s left")

    def gaps(
        self, stage: str, library: str, settings: str, rule: str | None, against: str | None, seeds: int | None = None
    ) -> dict[str, Array]:
        """Of every set: how much better than today's settings, query by query.

        The queries put aside are the same for every seed and objective, and those are no new queries: their mean is
        taken first. ``rule`` None is the mean over all rules, ``against`` the rule of today's settings, None for the
        same; ``seeds`` leaves out what later rungs have added.
        """
        today, found = written(TODAY[library]), defaultdict(list)
        for key, by_rule in self.values.items():
            data, at, seed, of, objective, text, most = key
            other = self.values.get((data, at, seed, of, objective, today, most), {})
            wanted = (at, of, text) == (stage, library, settings) and (seeds is None or int(seed) < seeds)
            if not wanted or other.keys() != by_rule.keys():
                continue
            rules = list(by_rule) if rule is None else [rule]
            found[data].append(np.mean([by_rule[one] - other[against or one] for one in rules], axis=0))
        return {
            data: np.concatenate(gaps) if stage == "judge" else np.asarray(np.stack(gaps).mean(axis=0))
            for data, gaps in sorted(found.items())
        }

    def candidates(self, stage: str, library: str) -> list[str]:
        return list(dict.fromkeys(key[5] for key in self.values if (key[1], key[3]) == (stage, library)))


def better(gaps: dict[str, Array]) -> float:
    """The mean over all queries."""
    return float(np.concatenate(list(gaps.values())).mean()) if gaps else 0.0


def choose(results: Results, library: str, among: Iterable[str], seeds: int | None = None) -> list[str]:
    """Candidates, the best first."""
    return sorted(among, key=lambda text: -better(results.gaps("judge", library, text, None, None, seeds)))


def best_rule(results: Results, library: str, settings: str) -> str:
    return max(RULES, key=lambda rule: better(results.gaps("judge", library, settings, rule, USUAL)))


def run(options: argparse.Namespace) -> Results:
    """Halve the candidates of each library, then test what is left."""
    results = Results(options.out)
    places = list(itertools.product(options.sets, options.objectives))

    def jobs(stage: str, library: str, seeds: int, texts: Iterable[str]) -> Iterator[Job]:
        for seed, text, (data, objective) in itertools.product(range(seeds), texts, places):
            yield Job(options.folder, data, stage, seed, library, objective, text, options.rounds)

    for library in options.libraries:
        today = written(TODAY[library])
        named = [written(read(text)) for text in options.candidates or ()]
        left = list(dict.fromkeys([today, *named])) if named else candidates(library)
        for seeds in options.seeds:
            say(f"{library}: {len(left)} candidates, {seeds} seeds")
            results.train(list(jobs("judge", library, seeds, left)), options.processes)
            ordered = choose(results, library, left, seeds)
            left = list(dict.fromkeys([*ordered[: max(1, -(-len(left) // options.keep))], today]))
        results.train(list(jobs("test", library, options.test_seeds, {left[0], today})), options.processes)
    return results


def tables(results: Results, under: str | None = None) -> None:
    """Print what was found: by validation, and on the queries put aside.

    ``under`` is the rule under which candidates are shown, beside today's settings with the usual one; None shows the
    mean over rules, each beside today's settings with the same.
    """
    for library in sorted({key[3] for key in results.values}):
        models = [results.seconds[key] for key in results.seconds if key[3] == library]
        sets = ", ".join(sorted({key[0] for key in results.values if key[3] == library}))
        print(f"\n### {library}: {sets}; {len(models)} models, {sum(models) / 60:.0f} core-minutes\n")
        by_seeds = defaultdict(list)
        for text in results.candidates("judge", library):
            gaps = results.gaps("judge", library, text, None, None)
            by_seeds[sum(gap.size for gap in gaps.values())].append(text)
        head = f"better than today by | {sets.replace(', ', ' | ')} |\n{'|---' * (3 + sets.count(',') + 1)}|"
        print(f"| settings | values compared | {head}")
        for size in sorted(by_seeds, reverse=True):
            for text in choose(results, library, by_seeds[size]):
                gaps = results.gaps("judge", library, text, under, None if under is None else USUAL)
                every = (np.concatenate(list(gaps.values())), *gaps.values())
                print(f"| {text} | {size} | {' | '.join(map(interval, every))} |")
        today, tested = written(TODAY[library]), results.candidates("test", library)
        last = choose(results, library, by_seeds[max(by_seeds)])
        chosen = next((text for text in last if text in tested and text != today), last[0])
        print("\n| rule | chosen settings | today's settings |\n|---|---|---|")
        for rule in RULES:
            cells = (1000 * better(results.gaps("judge", library, text, rule, USUAL)) for text in (chosen, today))
            print(f"| {rule} | {' | '.join(f'{value:+.1f}' for value in cells)} |")
        rule = under or best_rule(results, library, chosen)
        print(f"\nOn the queries put aside:\n\n| settings | rule | {head}")
        for text, one in dict.fromkeys([(chosen, rule), (chosen, USUAL), (today, rule)]):
            if gaps := results.gaps("test", library, text, one, USUAL):
                every = (np.concatenate(list(gaps.values())), *gaps.values())
                print(f"| {text} | {one} | {' | '.join(interval(gap) for gap in every)} |")
    print("\nDifferences in thousandths of the mean of NDCG@5 and NDCG@10; today: its settings with", USUAL, end="; ")
    print("±: 95%, by query\n")


def interval(gaps: Array) -> str:
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(gaps.size) if gaps.size > 1 else np.nan
    return f"{1000 * gaps.mean():+.1f} ± {1000 * half:.1f}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", help="where the data are; sets called synthetic-N need none")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--libraries", nargs="+", choices=tuple(TODAY), default=tuple(TODAY))
    parser.add_argument("--objectives", nargs="+", default=OBJECTIVES)
    parser.add_argument("--seeds", nargs="+", type=int, default=(2, 6, 16), help="of each rung of the halving")
    parser.add_argument("--keep", type=int, default=3, help="one candidate in so many goes on to the next rung")
    parser.add_argument("--test-seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument(
        "--candidates", nargs="+", metavar="TEXT", help="in place of the grid: 'leaves=15, min_documents=50' …"
    )
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, default=Path("results/defaults.csv"))
    parser.add_argument("--tables", type=Path, metavar="CSV", help="print the tables of results, and train nothing")
    parser.add_argument("--rule", choices=tuple(RULES), help="show candidates under this rule, not the mean over all")
    options = parser.parse_args()
    tables(Results(options.tables) if options.tables else run(options), options.rule)
    return 0


if __name__ == "__main__":
    sys.exit(main())
