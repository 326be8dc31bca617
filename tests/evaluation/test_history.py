"""Comparisons that are kept in a folder, and the lines of systems over time."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.cli.running import refused, run
from tests.refusals import refusal

DATA = rw.synthetic(n_queries=20, n_docs=8, n_features=3, seed=1)
OLD, NEW = DATA.features[:, 0], DATA.features[:, 1]


def append(folder, data=DATA, metrics="ndcg@10", **systems):
    systems = systems or {"old": OLD, "new": NEW}
    return rw.results.append_history(rw.compare(systems, data, metrics), folder)


def test_a_line_for_each_system(tmp_path):
    folder = tmp_path / "new" / "nightly"
    append(folder)
    path = append(folder, old=OLD, new=2 * NEW)  # the same ranking by other scores
    assert max(folder.iterdir()) == path
    history = rw.results.read_history(folder)
    assert history.sentence.startswith("2 comparisons of 2 systems since 20")
    lines = history.lines()
    assert {system: len(line) for (system, _), line in lines.items()} == {"old": 2, "new": 2}
    assert len(history.data) == 1
    one = lines[next(key for key in lines if key[0] == "old")][0]
    evaluation = rw.evaluate(OLD, DATA)
    assert (one.mean, (one.low, one.high)) == (evaluation.mean["ndcg@10"], evaluation.interval["ndcg@10"])
    assert one.queries == 20
    assert [row[0] for row in history.table().rows] == ["new", "new", "old", "old"]
    assert [row[-1] for row in history.table().rows] == ["", "", "", "as before"]
    assert set(history.to_frame().columns) >= {"time", "system", "mean", "data", "scores"}


def changed(name):
    """The data with something else."""
    match name:
        case "labels":
            labels = DATA.labels.copy()
            labels[np.argmax(labels)] += 1
            return DATA.with_(labels=labels), OLD, NEW
        case "weights":
            return DATA.with_(weights=np.arange(1.0, 21.0)), OLD, NEW
        case "queries":
            part = rw.synthetic(n_queries=20, n_docs=8, n_features=3, seed=2)
            return part, part.features[:, 0], part.features[:, 1]
        case _:  # a list has one more document, which is not relevant
            features = np.vstack([DATA.features, DATA.features[:1]])
            offsets = np.r_[DATA.offsets[:-1], DATA.n_docs + 1]
            labels = np.r_[DATA.labels, 0.0]
            return (
                rw.RankingDataset(features, labels, offsets, query_ids=DATA.query_ids), features[:, 0], features[:, 1]
            )  # fmt: skip


@pytest.mark.parametrize("name", ["labels", "weights", "queries", "documents"])
def test_other_data_are_other_lines(tmp_path, name):
    append(tmp_path)
    data, old, new = changed(name)
    append(tmp_path, data, old=old, new=new)
    history = rw.results.read_history(tmp_path)
    assert list(history.data.values()) == ["a", "b"]
    assert all(len(line) == 1 for line in history.lines().values())
    assert "b" in {row[-2] for row in history.table().rows}
    assert any("not to be compared" in note for note in history.table().notes)
    containers: Any = history.figure().axes[0].containers
    assert len(containers) == 4
    assert all(len(bars.lines[0].get_xdata()) == 1 for bars in containers)


def test_the_order_of_queries_does_not_matter(tmp_path):
    append(tmp_path)
    queries = np.arange(20)[::-1]
    turned = DATA.take(queries)
    append(tmp_path, turned, old=turned.features[:, 0], new=turned.features[:, 1])
    assert len(rw.results.read_history(tmp_path).data) == 1


def test_values_without_documents(tmp_path):
    made = {name: rw.Evaluation({"ap": [0.1, 0.5, value]}, ["a", "b", "c"]) for name, value in (("x", 0.2), ("y", 0.3))}
    rw.results.append_history(rw.compare(made), tmp_path)
    assert rw.results.read_history(tmp_path).metrics == ("ap",)


def test_several_at_once(tmp_path):
    comparison = rw.compare({"old": OLD, "new": NEW}, DATA)
    work = [threading.Thread(target=rw.results.append_history, args=(comparison, tmp_path)) for _ in range(8)]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert len(rw.results.read_history(tmp_path).points) == 16
    assert len(list(tmp_path.iterdir())) == 8  # nothing unfinished is left


def test_damaged_and_foreign_files_are_named(tmp_path):
    path = append(tmp_path)
    whole = path.read_text(encoding="utf-8")
    document = json.loads(whole)
    first, last = document["comparison"]["mean"]["ndcg@10"]
    damaged = {
        "half.json": whole[: len(whole) // 2],
        "list.json": "[]",
        "number.json": "1",
        "deep.json": "[" * 100_000,
        "other.json": json.dumps(document | {"format": "rankwise comparison 9"}),
        "time.json": json.dumps(document | {"time": "yesterday"}),
        "late.json": json.dumps(document | {"time": "9999-12-31T23:59:59-10:00"}),
        "digest.json": json.dumps(document | {"data": {}}),
        "notes.txt": "hello",
    }
    for name, system, value in (("text", first, "high"), ("nan", first, float("nan")), ("second", last, "low")):
        wrong = json.loads(whole)
        wrong["comparison"]["mean"]["ndcg@10"][system] = value
        damaged[f"{name}.json"] = json.dumps(wrong)
    damaged["units.json"] = json.dumps(document | {"comparison": document["comparison"] | {"units": 10**400}})
    for name, text in damaged.items():
        Path(tmp_path, name).write_text(text, encoding="utf-8")
    Path(tmp_path, "bytes.json").write_bytes(b"\xff\xfe\x00")
    Path(tmp_path, "folder.json").mkdir()
    Path(tmp_path, ".hidden").write_text("")
    history = rw.results.read_history(tmp_path)
    assert len(history.to_frame()) == 2
    assert set(history.skipped) == {*damaged, "bytes.json", "folder.json"}
    assert "notes.txt" in history.to_text()
    path.unlink()
    with refusal(what="there are no comparisons in …", got="15 other files"):
        rw.results.read_history(tmp_path)


def test_names_are_escaped(tmp_path):
    append(tmp_path, **{"<b>old": OLD, "new": NEW})
    assert "<b>old" not in rw.results.read_history(tmp_path).to_html()


def test_refusals(tmp_path):
    trials = rw.compare({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.5]}, metrics="ap")
    with refusal(what="a history is of comparisons by query", got="one by trial"):
        rw.results.append_history(trials, tmp_path)
    with refusal(FileNotFoundError, what="there is no folder …"):
        rw.results.read_history(tmp_path / "nowhere")
    append(tmp_path)
    with refusal(what="unknown metric", got="'ap'"):
        rw.results.read_history(tmp_path).table(metric="ap")


def test_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rw.data.write_letor(DATA, "test.txt")
    for name, scores in {"old": OLD, "new": NEW}.items():
        np.savetxt(f"{name}.txt", scores)
    words = ("compare", "test.txt", "old.txt", "new.txt", "--alike", "--history", "nightly", "-m", "ndcg@10")
    shown = run(*words).stdout
    assert "tau_ap" in shown
    assert "1 comparison of 2 systems." in shown
    document = json.loads(run(*words, "--json").stdout)
    assert set(document["alike"]["old / new"]["metrics"]) == {"rbo", "overlap@10", "tau", "tau_ap"}
    assert len(json.loads(run("history", "nightly", "--plot", "h.png", "--json").stdout)["rows"]) == 4
    assert Path("h.png").stat().st_size > 1000
    Path("file").write_text("")
    assert "file" in refused(*words[:-4], "--history", "file")
