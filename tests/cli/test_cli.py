"""The command line: what it prints, what it writes, what it refuses, and with which exit codes."""

import errno
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer

import rankwise as rw
from rankwise.check import optional
from rankwise.cli.app import app
from rankwise.data.io.reading import read_parts
from tests import shared, tiers
from tests.cli.running import refused, run
from tests.processes import HANG, environment

ANSI = re.compile(r"\x1b\[")
DATA = """\
1 qid:a 1:1 #docid = A1
0 qid:a 1:2 #docid = A2
2 qid:b 1:9 #docid = B1
0 qid:b 1:5 #docid = B2
1 qid:b 1:7 #docid = B3
"""
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq1 0 d3 2\nq2 0 d1 1\nq2 0 d4 0\n"
RUN_A = "q1 Q0 d3 1 9.0 a\nq1 Q0 d1 2 8.0 a\nq1 Q0 d2 3 7.0 a\nq2 Q0 d1 1 5.0 a\nq2 Q0 d4 2 4.0 a\n"
RUN_B = "q1 Q0 d2 1 9.0 b\nq1 Q0 d1 2 8.0 b\nq1 Q0 d3 3 7.0 b\nq2 Q0 d4 1 5.0 b\nq2 Q0 d1 2 4.0 b\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder of its own that holds small files to work on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    # Query a: relevant document ranked second of two by up.txt. Query b: the better of three ranked first.
    Path("data.txt").write_text(DATA)
    Path("up.txt").write_text("1\n2\n9\n5\n7\n")
    Path("down.txt").write_text("-1\n-2\n-9\n-5\n-7\n")
    Path("qrels.txt").write_text(QRELS)
    Path("a.run").write_text(RUN_A)
    Path("b.run").write_text(RUN_B)
    return tmp_path


def shell(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rankwise", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


# What it says about itself


def test_version():
    assert run("--version").stdout == f"rankwise {rw.__version__}\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("line", ["objectives", "train --help"])
def test_letters_that_a_terminal_lacks_are_replaced(line: str, encoding: str):
    done = shell(*line.split(), env=environment(PYTHONIOENCODING=encoding), encoding=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_help_names_the_commands_and_the_exit_codes():
    text = run("--help").stdout
    for word in ("demo", "evaluate", "compare", "data", "Exit codes", "130", "--json", "--force"):
        assert word in text


COMMANDS = [
    "demo",
    "evaluate",
    "compare",
    "explain",
    "interleave",
    "export",
    *(f"data {name}" for name in ("info", "check", "convert", "split", "noise", "thin", "clicks")),
    *(f"rerank {name}" for name in ("train", "score", "evaluate")),
    "judge plan",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str):
    text = run(*command.split(), "--help").stdout
    assert re.search(rf"^  rankwise {command}\b", text, re.MULTILINE), text
    assert "[cyan]" not in text


def test_help_names_no_types_beside_switches_and_arguments():
    pages = [run("--help").stdout, run("data", "--help").stdout]
    pages += [run(*path, "--help").stdout for path, _ in _commands(typer.main.get_command(app))]
    for page in pages:
        assert not re.search(r"<(bool|str|path|int|float|list.*)>", page), page


def test_options_have_one_name_in_every_command():
    commands = {" ".join(path): command for path, command in _commands(typer.main.get_command(app))}
    names = {name: [word for option in command.params for word in option.opts] for name, command in commands.items()}
    # These only print, or draw.
    silent = {"objectives", "data info", "data check", "data list", "data skew", "clicks info", "clicks compare"}
    silent |= {"interleave", "serve", "text search", "versions"}
    assert {name for name, words in names.items() if "--output" not in words} == silent
    assert all(("--output" in words) == ("-o" in words) for words in names.values())
    used = {word for words in names.values() for word in words}
    assert not used & {"--out", "--folder", "--into", "--every"}
    for name in (
        "demo",
        "train",
        "predict",
        "auto",
        "tune",
        "evaluate",
        "compare",
        "explain",
        "recommend",
        "reproduce",
        "report",
        "rerank train",
        "rerank score",
        "rerank evaluate",
    ):
        assert "--progress" in names[name]


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_progress_is_shown_on_request():
    assert run("evaluate", "data.txt", "up.txt").stderr == ""
    assert "Evaluating up.txt" in run("evaluate", "data.txt", "up.txt", "--progress").stderr


def test_help_costs_no_heavy_import():
    code = "import sys; from rankwise.cli.app import app; app(['evaluate', '--help'], standalone_mode=False)\n"
    code += "print('loaded', *{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rsplit("loaded", 1)[1].split())
    assert not loaded & {"numba", "lightgbm", "polars", "matplotlib", "scipy"}


# evaluate

NDCG_UP = (1 / np.log2(3) + 1) / 2
NDCG_DOWN_B = (1 / np.log2(3) + 3 / 2) / (3 + 1 / np.log2(3))


def means(*words: str) -> dict[str, dict[str, float]]:
    document = json.loads(run(*words, "--json").stdout)
    return {
        name: {metric: one["mean"] for metric, one in found["metrics"].items()}
        for name, found in document["rankings"].items()
    }


def test_evaluate_prints_a_plain_table_into_a_pipe():
    result = run("evaluate", "data.txt", "up.txt", "--metrics", "ndcg@10,rr")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["metric", "mean", "95%", "interval", "scored", "skipped"]
    assert lines[1].split()[:2] == ["ndcg@10", f"{NDCG_UP:.4f}"]
    assert lines[2].split()[:2] == ["rr", "0.7500"]
    assert not ANSI.search(result.output)


def test_evaluate_reads_scores_in_every_form():
    scores = np.array([1.0, 2.0, 9.0, 5.0, 7.0])
    np.save("up.npy", scores)
    Path("up2.txt.gz").write_bytes(gzip.compress(b"1\r\n2\r\n9e0\r\n5\r\n7\r\n\r\n"))
    Path("up3.run").write_text("b Q0 B1 1 9 t\na Q0 A2 1 2 t\na Q0 A1 2 1 t\nb Q0 B3 2 7 t\nb Q0 B2 3 5 t\n")
    found = means("evaluate", "data.txt", "first=up.txt", "up.npy", "up2.txt.gz", "up3.run", "-m", "ndcg@10")
    assert list(found) == ["first", "up", "up2", "up3"]
    assert [one["ndcg@10"] for one in found.values()] == pytest.approx([NDCG_UP] * 4)


def test_evaluate_a_run_that_missed_a_query_counts_it():
    Path("half.run").write_text("b Q0 B1 1 9 t\nb Q0 B3 2 7 t\nb Q0 B2 3 5 t\n")
    assert means("evaluate", "data.txt", "half.run", "-m", "ndcg@10")["half"]["ndcg@10"] == pytest.approx(0.5)


def test_evaluate_takes_metrics_with_arguments_and_commas_in_brackets():
    linear = (1 / np.log2(3) + 2 / 2) / (2 + 1 / np.log2(3))
    found = means("evaluate", "data.txt", "down.txt", "-m", "ndcg(gain=linear, ties=worst)@10, ap", "-m", "rr")["down"]
    assert list(found.values()) == pytest.approx([(1 + linear) / 2, (1 + (1 / 2 + 2 / 3) / 2) / 2, 0.75])


def test_evaluate_by_another_librarys_conventions():
    Path("more.txt").write_text(Path("data.txt").read_text() + "0 qid:c 1:1 #docid = C1\n")
    Path("up.txt").write_text("1\n2\n9\n5\n7\n3\n")
    assert means("evaluate", "more.txt", "up.txt", "-m", "ndcg@10")["up"].popitem()[1] == pytest.approx(NDCG_UP)
    found = means("evaluate", "more.txt", "up.txt", "-m", "ndcg@10", "--conventions", "lightgbm")
    assert found["up"].popitem()[1] == pytest.approx((2 * NDCG_UP + 1) / 3)  # a query without relevant documents is 1


@pytest.mark.parametrize("library", ["rankwise", "lightgbm", "xgboost", "catboost", "sklearn", "trec_eval"])
def test_every_convention_goes_with_the_default_metrics(library: str):
    found = means("evaluate", "data.txt", "up.txt", "--conventions", library)["up"]
    assert list(found.values())[1:] == pytest.approx([(1 / np.log2(3) + 1) / 2, (0.5 + 1) / 2, (0.5 + 1) / 2])
    assert run("compare", "data.txt", "up.txt", "down.txt", "--conventions", library).exit_code == 0


def test_evaluate_a_policy_gives_expectations_over_drawn_rankings():
    # Query a: its relevant document, of score 1 beside 2, comes first with probability 1 / (1 + e).
    Path("one.txt").write_text("1 qid:a 1:1\n0 qid:a 1:2\n")
    Path("s.txt").write_text("1\n2\n")
    words = ("one.txt", "s.txt", "-m", "rr", "--policy", "plackett_luce", "--samples", "20000", "--seed", "3")
    first = 1 / (1 + np.exp(1))
    assert means("evaluate", *words)["s"]["rr"] == pytest.approx(first + (1 - first) / 2, abs=0.01)
    assert "policy" in run("evaluate", *words, "--json").stdout
    assert "rr" in run("compare", "data.txt", "x=up.txt", "y=down.txt", *words[2:]).stdout


def test_evaluate_runs_against_qrels():
    words = ("evaluate", "--qrels", "qrels.txt", "a.run", "b.run", "-m", "ndcg@10,ap", "--conventions", "rankwise")
    found = means(*words)
    assert list(found["a"].values()) == pytest.approx([1.0, 1.0])
    assert list(found["b"].values()) == pytest.approx(
        [(NDCG_DOWN_B + 1 / np.log2(3)) / 2, ((1 / 2 + 2 / 3) / 2 + 0.5) / 2]
    )


def test_metrics_of_runs_have_the_conventions_of_their_names_unless_told_otherwise():
    words = ("evaluate", "--qrels", "qrels.txt", "b.run", "-m", "ndcg@10,ndcg_cut_10,map")
    linear = (1 / np.log2(3) + 2 / 2) / (2 + 1 / np.log2(3))
    theirs, ours = (f"{(one + 1 / np.log2(3)) / 2:.4f}" for one in (linear, NDCG_DOWN_B))
    text = run(*words).stdout
    assert re.search(rf"^ndcg@10 +{ours} .*\nndcg_cut_10 +{theirs} .*\nmap ", text, re.MULTILINE)
    notes = " ".join(text.split())
    assert "Conventions of rankwise: ndcg@10. Gains are 2^y − 1, ties are averaged" in notes
    assert "Conventions of trec_eval: ndcg(gain=linear, ties=row, empty=0)@10, ap(ties=row, empty=0)." in notes
    document = json.loads(run(*words, "--json").stdout)
    assert document["conventions"] == "rankwise, trec_eval"
    by_python = rw.evaluate("b.run", "qrels.txt", ["ndcg@10", "ndcg_cut_10", "map"])
    assert {name: one["mean"] for name, one in document["rankings"]["b"]["metrics"].items()} == by_python.mean
    asked = run(*words[:-1], "ndcg@10,map", "--conventions", "trec_eval").stdout
    assert re.search(rf"^ndcg@10 +{theirs} ", asked, re.MULTILINE)
    assert "Conventions of rankwise: ndcg@10, ap." in run(*words, "--conventions", "rankwise").stdout
    assert "Conventions" not in run("evaluate", "data.txt", "up.txt").stdout
    compared = run("compare", "--qrels", "qrels.txt", "a.run", "b.run", "--format", "latex").stdout
    assert compared.count("Conventions of rankwise") == 1
    assert " & system & ndcg@5 & ndcg@10 & ap & rr & judged@5 \\\\" in compared


def test_counts_of_runs_have_totals():
    text = run("evaluate", "--qrels", "qrels.txt", "a.run", "-m", "num_q,num_ret,num_rel_ret,bpref,judged@1").stdout
    assert "In all: num_q 2, num_ret 5, num_rel_ret 3." in text
    Path("half.run").write_text(RUN_A[: RUN_A.index("q2")])
    text = run("evaluate", "--qrels", "qrels.txt", "a.run", "half.run", "-m", "num_ret").stdout
    assert "a: In all: num_ret 5." in text
    assert "half: In all: num_ret 3." in text


def test_columns_have_titles():
    words = ("compare", "--qrels", "qrels.txt", "a.run", "b.run", "-m", "ndcg@10,map", "--titles", "nDCG@10, M_A_P")
    assert " & system & nDCG@10 & M\\_A\\_P & judged@10 \\\\" in run(*words, "--format", "latex").stdout
    assert re.search(r"system +nDCG@10 +M_A_P +judged@10\n", run(*words).stdout)
    assert re.search(r"^M_A_P +b +a ", run(*words).stdout, re.MULTILINE)
    run(*words, "-o", "table.tex")
    assert "nDCG@10 & M\\_A\\_P" in Path("table.tex").read_text()
    assert re.search(
        r"^NDCG +0\.", run("evaluate", "data.txt", "up.txt", "-m", "ndcg@10", "--titles", "NDCG").stdout, re.MULTILINE
    )
    message = refused("evaluate", "data.txt", "up.txt", "-m", "ndcg@10,ap", "--titles", "NDCG")
    assert "give one title for each metric: got 1 titles for ndcg@10, ap" in message


def test_runs_of_equal_file_names_are_called_by_their_tags():
    for folder, text in (("one", RUN_A), ("two", RUN_B)):
        Path(folder).mkdir()
        Path(folder, "x.run").write_text(text)
    words = ("compare", "--qrels", "qrels.txt", "one/x.run", "two/x.run")
    assert json.loads(run(*words, "--json").stdout)["systems"] == ["a", "b"]
    assert json.loads(run(*words, "a.run", "mine=b.run", "--baseline", "mine", "--json", code=2).stdout or "{}") == {}
    systems = json.loads(run(*words[:3], "one/x.run", "x=two/x.run", "b.run", "--json").stdout)["systems"]
    assert systems == ["a", "x", "b"]
    Path("two/x.run").write_text(RUN_A)
    message = refused(*words)
    assert "two rankings have the same name: got 'a' for one/x.run and two/x.run. Hint: give each a name" in message


def test_evaluate_runs_by_diversity_qrels():
    Path("diversity.qrels").write_text("1 1 d1 1\n1 2 d1 0\n1 2 d2 1\n")
    Path("diverse.run").write_text("1 Q0 d1 1 2.0 ours\n1 Q0 d2 2 1.0 ours\n")
    found = means("evaluate", "--qrels", "diversity.qrels", "diverse.run", "-m", "alpha_nDCG@20,StRecall@1")
    assert list(*(one.values() for one in found.values())) == pytest.approx([1.0, 0.5])


@pytest.mark.skipif(os.name == "nt", reason="a shell with process substitution")
def test_runs_and_qrels_may_be_pipes():
    """Slow: each line starts the command."""
    Path("a.run.gz").write_bytes(gzip.compress(RUN_A.encode()))
    tool = f"{sys.executable} -m rankwise"
    lines = {
        f"{tool} compare --json --qrels <(cat qrels.txt) <(zcat a.run.gz) <(cat b.run)": ["a", "b"],
        f"{tool} compare --json --qrels <(gzip -c qrels.txt) <(cat a.run.gz) mine=<(cat b.run)": ["a", "mine"],
        f"cat b.run | {tool} compare --json --qrels qrels.txt a.run -": ["a", "b"],
        f"cat qrels.txt | {tool} compare --json --qrels - a.run.gz b.run": ["a", "b"],
    }
    for line, systems in tiers.some([*lines.items()][::-1], 2):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=HANG)
        assert (done.returncode, done.stderr) == (0, ""), line
        assert json.loads(done.stdout)["systems"] == systems
        assert json.loads(done.stdout)["mean"]["ap"][systems[0]] == 1.0
    for broken, source, sentence in (
        (
            "q1 Q0 d1 1 much t",
            "<(cat broken.run)",
            "with a finite score: got 'q1 Q0 d1 1 much t' at line 6 of /dev/fd/",
        ),
        (
            "q1 Q0 d1 1 0.5 t",
            "- < broken.run",
            "a document may stand only once under a query: got 'q1 Q0 d1 1 0.5 t' at line 6 of standard input",
        ),
    ):
        Path("broken.run").write_text(RUN_A + broken + "\n")
        line = f"{tool} evaluate --qrels qrels.txt {source}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=HANG)
        assert done.returncode == 2
        assert sentence in done.stderr


def test_standard_input_is_read_once():
    message = refused("evaluate", "--qrels", "-", "-")
    assert "standard input can be read only once: got - 2 times" in message


def test_evaluate_all_topics_counts_those_that_the_run_lacks():
    Path("half.run").write_text(RUN_A[: RUN_A.index("q2")])
    words = ("evaluate", "--qrels", "qrels.txt", "half.run", "-m", "ap")
    assert means(*words)["half"]["ap"] == pytest.approx(1.0)
    assert means(*words, "--all-topics")["half"]["ap"] == pytest.approx(0.5)


def test_evaluate_writes_the_value_of_every_query():
    for name in ("values.csv", "values.parquet"):
        run("evaluate", "data.txt", "up.txt", "down.txt", "-m", "rr", "--per-query", name)
    for frame in (pl.read_csv("values.csv"), pl.read_parquet("values.parquet")):
        assert [name for name in frame.columns if name != "digest of labels"] == ["ranking", "query", "weight", "rr"]
        assert frame["ranking"].to_list() == ["up", "up", "down", "down"]
        assert frame["rr"].to_list() == pytest.approx([0.5, 1.0, 1.0, 0.5])


def test_files_of_values_keep_how_many_documents_were_judged():
    Path("holes.run").write_text("".join(f"q{n} Q0 new{d} {d} {9 - d} x\n" for n in (1, 2) for d in range(5)))
    for name in ("a", "holes"):
        words = ("evaluate", "--qrels", "qrels.txt", f"{name}.run", "-m", "ndcg@5")
        run(*words, "--per-query", f"{name}.parquet")
        by_run = rw.evaluate(f"{name}.run", "qrels.txt", "ndcg@5").judged
        assert by_run is not None
        assert rw.results.read_evaluation(f"{name}.parquet").judged == by_run
    with pytest.warns(UserWarning, match="were judged, but 0% of holes's"):
        rw.compare({name: rw.results.read_evaluation(f"{name}.parquet") for name in ("a", "holes")})


def test_text_of_others_is_no_formula_in_csv_and_no_command_to_the_terminal():
    """Ids come from data files: spreadsheets would compute some, and terminals obey others."""
    Path("ids.txt").write_text(
        "".join(f"1 qid:{query} 1:1\n0 qid:{query} 1:2\n" for query in ('=HYPERLINK("x")', "-7"))
    )
    Path("four.txt").write_text("1\n2\n3\n4\n")
    run("evaluate", "ids.txt", "four.txt", "-m", "rr", "--per-query", "values.csv")
    assert [line.split(",")[1] for line in Path("values.csv").read_text().split()[1:]] == [
        '"\'=HYPERLINK(""x"")"',
        "-7",
    ]
    Path("wild.txt").write_bytes(b"1 qid:1 1:1\n1 qid:1 \x1b]0;owned\x07:2\n")
    said = refused("data", "info", "wild.txt")
    assert r"\x1b]0;owned\x07:2" in said
    assert "\x1b" not in said
    Path("esc.toml").write_text('train = "\\u001b[2J"\ntest = "t"\n')
    assert r"\x1b[2J" in refused("data", "info", "esc.toml")


def test_evaluate_writes_its_summary_in_the_format_that_the_ending_names():
    for ending in ("json", "csv", "md", "tex", "txt"):
        result = run("evaluate", "data.txt", "up.txt", "-m", "rr", "-o", f"summary.{ending}")
        assert f"wrote summary.{ending}" in result.stderr
    assert json.loads(Path("summary.json").read_text())["rankings"]["up"]["metrics"]["rr"]["mean"] == 0.75
    assert pl.read_csv("summary.csv")["mean"].to_list() == [0.75]
    assert Path("summary.md").read_text().startswith("| metric |")
    assert r"\begin{tabular}" in Path("summary.tex").read_text()
    assert Path("summary.txt").read_text() == run("evaluate", "data.txt", "up.txt", "-m", "rr").stdout


def test_evaluate_a_set_that_a_toml_file_describes():
    Path("mine.toml").write_text('train = "other.txt"\ntest = "data.txt"\n')
    Path("other.txt").write_text("1 qid:z 1:1\n")
    assert means("evaluate", "mine.toml", "up.txt", "-m", "ndcg@10")["up"]["ndcg@10"] == pytest.approx(NDCG_UP)
    document = json.loads(run("data", "info", "mine.toml", "--part", "train", "--json").stdout)
    assert document["queries"] == 1


def sets_of_two_folds():
    """A set whose parts are told by their number of queries: train 10 × fold + 3, valid + 2, test + 1."""
    Path("mine.toml").write_text("".join(f'{name} = "{name}-{{fold}}.txt"\n' for name in PARTS) + "folds = 2\n")
    for fold in (1, 2):
        for more, name in enumerate(PARTS[::-1]):
            rw.data.write_letor(rw.synthetic(10 * fold + 1 + more, 3, n_docs=4.0), f"{name}-{fold}.txt")


PARTS = ["train", "valid", "test"]
PERTURB = [
    "data convert mine.toml -o out.parquet",
    "data noise mine.toml -o out.parquet --flips 0",
    "data thin mine.toml -o out.parquet --negatives 1",
    "data clicks mine.toml -o out.parquet --impressions 1 --keep-empty",
    "data split mine.toml -o out.parquet --proportions 1",
]


@pytest.mark.parametrize("line", PERTURB)
@pytest.mark.parametrize("fold", [1, 2])
def test_commands_on_data_take_the_training_part_of_a_set_unless_told_otherwise(line: str, fold: int):
    sets_of_two_folds()
    told = run(*line.split(), "--fold", str(fold)).stderr
    assert "reading the training part of mine.toml; --part names another" in told
    assert rw.read_parquet("out.parquet").n_queries == 10 * fold + 3
    for more, part in ((2, "valid"), (1, "test")):
        told = run(*line.split(), "--fold", str(fold), "--part", part, "--force").stderr
        assert "reading" not in told
        assert rw.read_parquet("out.parquet").n_queries == 10 * fold + more


def test_data_info_takes_the_training_part_and_scoring_commands_the_test_part():
    sets_of_two_folds()
    assert json.loads(run("data", "info", "mine.toml", "--json").stdout)["queries"] == 13
    np.save("scores.npy", rw.read_letor("test-2.txt").features[:, 0])
    found = json.loads(run("evaluate", "mine.toml", "scores.npy", "--fold", "2", "--json").stdout)
    metric = found["rankings"]["scores"]["metrics"]["rr"]
    assert metric["scored"] + metric["skipped"] == 21


def test_validation_data_of_a_set_are_of_the_fold_that_is_asked_for():
    sets_of_two_folds()
    for data in ("mine.toml", "train-1.txt"):
        train, valid = read_parts(data, "mine.toml", 2)
        assert train.n_queries == (23 if data == "mine.toml" else 13)
        assert valid is not None
        assert valid.n_queries == 22
    with pytest.raises(ValueError, match="only sets of the catalog and .toml files have a fold"):
        read_parts("train-1.txt", "valid-1.txt", 2)


@pytest.mark.slow
def test_evaluate_a_catalog_set_by_name(monkeypatch: pytest.MonkeyPatch):
    folder = shared.data("mq2008")
    monkeypatch.setenv("RANKWISE_DATA", str(folder.parent))
    test = rw.read_letor(folder / "Fold2" / "test.txt.gz")
    np.save("scores.npy", test.features[:, 24])
    found = means("evaluate", "mq2008", "scores.npy", "--fold", "2", "-m", "ndcg@10")
    assert found["scores"]["ndcg@10"] == pytest.approx(
        rw.evaluate(test.features[:, 24], test, "ndcg@10").mean["ndcg@10"]
    )


# compare


def test_compare_says_who_is_better():
    text = run("compare", "data.txt", "old=up.txt", "new=down.txt", "-m", "ndcg@10,rr").stdout
    assert re.search(rf"^a  old +{NDCG_UP:.4f}", text, re.MULTILINE)
    assert re.search(rf"^b  new +{(1 + NDCG_DOWN_B) / 2:.4f}", text, re.MULTILINE)
    assert "Fisher's randomization test" in text
    assert "Every pair" in text
    assert "Every pair" not in run("compare", "data.txt", "old=up.txt", "new=down.txt", "--no-pairs").stdout


def test_compare_as_json_with_a_baseline():
    text = run(
        "compare", "data.txt", "up.txt", "down.txt", "third=up.txt", "-m", "rr", "--baseline", "up", "--json"
    ).stdout
    document = json.loads(text)
    assert document["systems"] == ["up", "down", "third"]
    assert [(one["system"], one["against"]) for one in document["pairs"]] == [("down", "up"), ("third", "up")]
    assert document["mean"]["rr"]["down"] == 0.75


def test_compare_writes_markdown_and_latex():
    words = ("compare", "data.txt", "up.txt", "down.txt", "-m", "rr")
    assert "| :-- |" in run(*words, "--format", "markdown").stdout
    assert r"\toprule" in run(*words, "--format", "latex", "--no-pairs").stdout
    run(*words, "-o", "table.md")
    assert Path("table.md").read_text() == run(*words, "--format", "markdown").stdout
    run(*words, "-o", "pairs.csv")
    assert pl.read_csv("pairs.csv").select("system", "against").rows() == [("down", "up")]


def test_compare_draws_a_picture_and_keeps_it():
    words = ("compare", "data.txt", "up.txt", "down.txt", "-m", "rr", "--plot", "differences.png")
    run(*words)
    assert Path("differences.png").read_bytes().startswith(b"\x89PNG")
    assert "differences.png exists already and is kept" in refused(*words)
    run(*words, "--force")


def test_compare_runs():
    document = json.loads(run("compare", "--qrels", "qrels.txt", "a.run", "b.run", "-m", "ap", "--json").stdout)
    assert document["mean"]["ap"]["a"] == 1.0


# data


def test_data_info():
    facts = json.loads(run("data", "info", "data.txt", "--json").stdout)
    assert (facts["queries"], facts["documents"], facts["labels"]) == (2, 5, {"0": 2, "1": 2, "2": 1})
    text = run("data", "info", "data.txt").stdout
    assert re.search(r"^documents +5$", text, re.MULTILINE)
    assert re.search(r"^labels +0: 2, 1: 2, 2: 1$", text, re.MULTILINE)


def test_data_convert_there_and_back():
    assert (
        "wrote data.parquet: RankingDataset(2 queries"
        in run("data", "convert", "data.txt", "-o", "data.parquet").stderr
    )
    run("data", "convert", "data.parquet", "-o", "again.txt.gz")
    first, again = rw.read_letor("data.txt"), rw.read_letor("again.txt.gz")
    assert first.query_ids is not None
    assert again.query_ids is not None
    assert again.query_ids.tolist() == first.query_ids.tolist()
    np.testing.assert_array_equal(again.features, first.features)
    np.testing.assert_array_equal(again.labels, first.labels)


def test_data_split_is_the_librarys_split():
    rw.data.write_letor(rw.synthetic(10, 3, n_docs=5.0), "ten.txt")
    run("data", "split", "ten.txt", "-o", "x.txt,y.txt", "--proportions", ".7,.3", "--seed", "4")
    for name, part in zip(("x.txt", "y.txt"), rw.split(rw.read_letor("ten.txt"), (0.7, 0.3), seed=4), strict=True):
        np.testing.assert_array_equal(rw.read_letor(name).features, part.features)


def test_data_noise():
    run("data", "noise", "data.txt", "-o", "longer.txt", "--negatives", "1", "--seed", "1")
    assert rw.read_letor("longer.txt").sizes.tolist() == [4, 6]
    run("data", "noise", "data.txt", "-o", "flipped.txt", "--flips", "1", "--seed", "1")
    expected = rw.data.flip_labels(rw.read_letor("data.txt"), 1.0, seed=1).labels
    np.testing.assert_array_equal(rw.read_letor("flipped.txt").labels, expected)


def test_data_thin_reads_shares_and_numbers():
    rw.data.write_letor(rw.synthetic(20, 3, n_docs=12.0, seed=1), "all.txt")
    run("data", "thin", "all.txt", "-o", "few.parquet", "--queries", ".25", "--negatives", "2", "--seed", "3")
    few, same = (
        rw.read_parquet("few.parquet"),
        rw.data.thin(rw.read_letor("all.txt"), queries=0.25, negatives=2, seed=3),
    )
    for name in ("features", "labels", "weights", "document_weights"):
        np.testing.assert_array_equal(getattr(few, name), getattr(same, name))


def test_data_clicks_keeps_positions_in_parquet():
    words = ("--probabilities", "0,1,1", "--impressions", "3", "--seed", "2")
    assert "impressions dropped" in run("data", "clicks", "data.txt", "-o", "clicks.parquet", *words).stderr
    log = rw.read_parquet("clicks.parquet")
    assert log.n_queries == 6
    assert log.positions is not None
    np.testing.assert_array_equal(
        log.labels, (np.diff(np.append(log.positions, 1)) < 1).astype(float)
    )  # the last is clicked
    assert "LETOR text cannot hold positions" in refused("data", "clicks", "data.txt", "-o", "clicks.txt", *words)
    run("data", "clicks", "data.txt", "-o", "clicks.txt", *words, "--lossy")
    np.testing.assert_array_equal(rw.read_letor("clicks.txt").labels, log.labels)


def test_data_clicks_shows_lists_in_the_order_of_a_ranker():
    words = (
        "--click-model",
        "position",
        "--eta",
        "0",
        "--probabilities",
        "0,1,1",
        "--scores",
        "up.txt",
        "--cutoff",
        "2",
    )
    run("data", "clicks", "data.txt", "-o", "clicks.parquet", "--impressions", "1", *words)
    log = rw.read_parquet("clicks.parquet")
    assert log.document_ids is not None
    assert log.document_ids.tolist() == ["A2", "A1", "B1", "B3"]
    assert log.labels.tolist() == [0, 1, 1, 1]


def test_data_list():
    assert re.search(r"^mq2008 +784 +15,211 +46", run("data", "list").stdout, re.MULTILINE)
    assert {"mq2008", "istella"} <= {entry["name"] for entry in json.loads(run("data", "list", "--json").stdout)}


# What it refuses

REFUSALS = [
    ("evaluate data.txt", "evaluating needs DATA and at least one file of SCORES"),
    ("evaluate data.txt nowhere.txt", "there is no file nowhere.txt"),
    ("evaluate dta.txt up.txt", "there is no file dta.txt. Did you mean data.txt?"),
    ("evaluate mq2009 up.txt", "unknown data set: got 'mq2009'. Hint: did you mean 'mq2008'"),
    ("evaluate data.txt up.txt -m ndgc@10", "did you mean 'ndcg'"),
    ("evaluate data.txt up.txt --samples 9", "samples belong to a policy: got samples=9"),
    ("evaluate data.txt up.txt --policy plackett_luse", "did you mean 'plackett_luce'"),
    ("evaluate data.txt up.txt --conventions lightgmb", "did you mean 'lightgbm'"),
    ("evaluate data.txt up.txt --part test", "only sets of the catalog and .toml files have a"),
    ("evaluate data.txt up.txt up.txt", "two rankings have the same name: got 'up' for up.txt and up.txt"),
    ("evaluate data.txt x=", "rankings are given as name=FILE: got 'x='"),
    ("evaluate data.txt up.txt -o data.txt", "data.txt exists already and is kept"),
    (
        "evaluate data.txt up.txt -o summary.docx",
        "a file's ending says its format: got summary.docx. Hint: end it with .json",
    ),
    (
        "evaluate data.txt up.txt --per-query no/x.csv",
        "there is no folder no to write x.csv into. Hint: create it first: mkdir -p no",
    ),
    ("evaluate data.txt short.txt", "short.txt: scores must be one number per document"),
    (
        "evaluate data.txt words.txt",
        "one number per line: got 'two' at line 2 of words.txt. Hint: write one number per document",
    ),
    ("evaluate data.txt nan.txt", "nan.txt: scores must be finite: got nan at row 1 (query 'a')"),
    ("evaluate data.txt broken.npy", "cannot read a .npy file: got the magic string is not correct"),
    ("evaluate data.txt matrix.npy", "a file of scores holds one number per document: got shape (2, 2) of float64"),
    ("evaluate plain.txt a.run", "a TREC run needs data with document ids: got a.run and data without"),
    ("evaluate --qrels qrels.txt up.txt", "query Q0 document rank score tag"),
    ("evaluate --qrels nowhere.txt a.run", "there is no file nowhere.txt"),
    ("compare data.txt up.txt", "a comparison needs two rankings: got up. Hint: name another: NAME=SCORES"),
    ("compare data.txt up.txt down.txt --baseline pu", "unknown baseline: got 'pu'. Hint: choose one of up, down"),
    ("compare data.txt up.txt down.txt --format html", "unknown format: got 'html'"),
    ("compare data.txt up.txt down.txt --paired-test z", "unknown test: got 'z'"),
    ("data info broken.txt", "broken.txt"),
    ("data convert data.txt -o data.csv", "cannot tell the format of a data file from its name: got 'data.csv'"),
    ("data convert data.txt -o up.txt", "up.txt exists already and is kept"),
    ("data split data.txt -o x.txt,y.txt", "one file for each proportion: got 2 different files for 3 proportions"),
    ("data split data.txt -o x.txt,x.txt --proportions .5,.5", "got 1 different files for 2 proportions"),
    (
        "data split data.txt -o x.txt,y.txt --proportions .5,half",
        "proportions must be numbers between commas: got '.5,half'",
    ),
    ("data split data.txt -o x.txt,y.txt --proportions .5,.6", "must add up to 1"),
    ("data noise data.txt -o x.txt", "noise is one of --negatives SHARE and --flips SHARE: got neither"),
    ("data noise data.txt -o x.txt --negatives .1 --flips .1", "--flips SHARE: got both"),
    ("data noise data.txt -o x.txt --negatives .1 --flips 0", "--flips SHARE: got both"),
    ("data noise data.txt -o x.txt --flips 2", "fraction must be a number in [0, 1]: got 2.0"),
    ("data thin data.txt -o x.parquet", "there is nothing to thin. Hint: use --queries 0.1, --negatives 20, or both."),
    ("data thin data.txt -o x.parquet --queries few", "queries, a share, must be a number in"),
    ("data thin data.txt -o x.txt --queries .5", "weights"),
    (
        "data clicks data.txt -o x.parquet --click-model cascad",
        "unknown click model: got 'cascad'. Hint: did you mean 'cascade'",
    ),
    ("evaluate", "Missing argument"),
    ("evaluate data.txt up.txt --metric ap", "No such option: --metric"),
    ("evalute data.txt", "No such command 'evalute'"),
]


@pytest.mark.parametrize(("line", "sentence"), REFUSALS, ids=[line for line, _ in REFUSALS])
def test_bad_input_gets_its_sentence(line: str, sentence: str):
    Path("short.txt").write_text("1\n2\n")
    Path("words.txt").write_text("1\ntwo\n3\n4\n5\n")
    Path("nan.txt").write_text("1\nnan\n3\n4\n5\n")
    Path("broken.npy").write_bytes(b"not an array")
    np.save("matrix.npy", np.zeros((2, 2)))
    Path("plain.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    Path("broken.txt").write_text("1 qid:1 1:1\nnonsense\n")
    message = refused(*line.split())
    assert sentence in re.sub(r"[│╭╮╰╯─ ]+", " ", message)


def test_nothing_is_computed_before_outputs_are_known_to_be_free(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rankwise.data.io.reading.read", lambda *_, **__: pytest.fail("read the data first"))
    refused("evaluate", "data.txt", "up.txt", "--output", "up.txt")
    refused("compare", "data.txt", "up.txt", "down.txt", "--plot", "up.png", "--output", "down.txt")
    refused("data", "convert", "data.txt", "-o", "up.txt")
    refused("data", "split", "data.txt", "-o", "x.txt,y.txt,up.txt")
    assert not Path("x.txt").exists()


OUTPUTS = [
    "train missing.txt -o OUT/m",
    "train missing.txt -o m --checkpoint OUT/c",
    "train missing.txt --valid missing.txt -o m --plot OUT/p.png",
    "predict missing missing.txt -o OUT/s.txt",
    "tune missing.txt --valid missing.txt -o OUT/best.toml",
    "tune missing.txt --valid missing.txt -o best.toml --checkpoint OUT/s.db",
    "tune missing.txt --valid missing.txt -o best.toml --plot OUT/p.png",
    "evaluate missing.txt up.txt -o OUT/s.json",
    "evaluate missing.txt up.txt --per-query OUT/q.csv",
    "compare missing.txt up.txt down.txt -o OUT/t.md",
    "compare missing.txt up.txt down.txt --plot OUT/p.png",
    "recommend missing.csv -o OUT/t.csv",
    "recommend missing.csv --save OUT/m",
    "export missing -o OUT/m.onnx --format onnx",
    "data convert missing.txt -o OUT/x.parquet",
    "data split missing.txt -o x.txt,y.txt,OUT/z.txt",
    "data noise missing.txt -o OUT/x.parquet --flips 0.1",
    "data thin missing.txt -o OUT/x.parquet --queries .5",
    "data clicks missing.txt -o OUT/x.parquet",
]
FOLDERS = ["report missing -o OUT/r", "reproduce absent.toml -o OUT/r", "demo -o OUT/d"]


@pytest.mark.parametrize("line", [*OUTPUTS, *FOLDERS])
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(
    line: str, here: Path, monkeypatch: pytest.MonkeyPatch
):
    """The inputs do not exist, which nobody must have noticed by then."""
    Path("absent.toml").write_text('data = ["missing.txt"]\n[methods]\nx = "lightgbm(xendcg)"\n')
    before = {path.name for path in here.iterdir()}
    for place, words in (("up.txt", "up.txt is no folder"), ("nowhere", "there is no folder nowhere to write")):
        if place == "up.txt" or line not in FOLDERS:
            assert words in refused(*line.replace("OUT", place).split())

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "touch", read_only)
    message = refused(*line.replace("OUT", ".").split())
    assert re.search("cannot be written into the folder .*: read-only file system. Hint: choose another", message)
    assert {path.name for path in here.iterdir()} == before


def test_other_outputs_that_cannot_be():
    assert "end it in .parquet" in refused("data", "convert", "missing.txt", "-o", "out.csv")
    assert "two outputs cannot go to the same file" in refused(
        "evaluate", "missing.txt", "up.txt", "-o", "all.csv", "--per-query", "./all.csv"
    )
    assert "the study needs a file of its own" in refused("tune", "x.txt", "-o", "b.toml", "--checkpoint", "b.toml")
    Path("model").mkdir()
    assert "model is not a model of rankwise and is kept" in refused("train", "x.txt", "-o", "model", "--force")
    Path("c").mkdir()
    Path("s.db").touch()
    for name, line in (("c", "train x.txt -o m --checkpoint c"), ("s.db", "tune x.txt -o b.toml --checkpoint s.db")):
        assert re.search(f"{name} exists already and is kept. Hint: resume", refused(*line.split()))


def test_force_replaces():
    run("data", "convert", "data.txt", "-o", "up.txt", "--force")
    assert rw.read_letor("up.txt").n_docs == 5


# Exit codes and streams


def test_a_defect_exits_with_1_and_shows_its_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise TypeError("no such luck")

    monkeypatch.setattr("rankwise.data.io.reading.read", broken)
    plain = run("data", "info", "data.txt", code=1)
    assert plain.stderr.startswith("error: unexpected TypeError: no such luck. This is a bug in rankwise; run it again")
    assert "Traceback" not in plain.stderr
    for words in (("--debug", "data", "info", "data.txt"), ("data", "info", "data.txt", "--debug")):
        assert "in broken" in run(*words, code=1).stderr


def test_a_missing_extra_is_no_defect(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rankwise.data.io.reading.read", lambda *_, **__: optional("no_such_library", "torch"))
    assert "pip install 'rankwise[torch]'" in refused("data", "info", "data.txt")


def test_bad_input_shows_its_traceback_when_asked():
    result = run("data", "info", "nowhere.txt", "--debug", code=2)
    assert "Traceback" in result.stderr
    assert "error: there is no file nowhere.txt" in result.stderr


def test_interruption_exits_with_130(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rankwise.data.io.reading.read", interrupted)
    assert run("data", "info", "data.txt", code=130).stderr == "error: interrupted\n"


def test_exit_codes_and_streams_of_the_real_thing():
    fine = shell("data", "list", "--json")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert len(json.loads(fine.stdout)) == len(rw.data.datasets())
    bad = shell("data", "info", "nowhere.txt", "--json")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r"error: there is no file nowhere\.txt\.[^\n]*\n", bad.stderr)


def test_a_reader_who_goes_away_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "rankwise", "data", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


SLOW = """
import signal, sys, time
from rankwise.cli import main
from rankwise.data.io import reading

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may have been started with it ignored

def read(*_, **__):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(600)

reading.read = read
sys.argv = ["rankwise", "data", "info", "data.txt"]
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c():
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=HANG)
    assert (process.returncode, out, error) == (130, "", "error: interrupted\n")


def on_terminal(*words: str, **environment: str) -> str:
    """Run a command whose standard output is a terminal; give what it wrote there."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    settings = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    settings |= {"TERM": "xterm-256color", "COLUMNS": "100", **environment}
    subprocess.run([sys.executable, "-m", "rankwise", *words], stdout=theirs, stderr=theirs, env=settings, check=True)
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed and everything is read
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    return written.decode()


def test_colour_on_a_terminal_unless_told_not_to():
    words = ("data", "list")
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
    assert colour.search(on_terminal(*words))
    assert not colour.search(on_terminal(*words, NO_COLOR="1"))
    assert not ANSI.search(shell(*words).stdout)
