"""Results in one file: the same tables as from their folder, the same bytes each time, nothing of a damaged file."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.verdicts import verdicts
from tests.refusals import refusal
from tests.wings.lab import synthetic_results

SMALL: dict[str, Any] = {"quick": True, "jobs": 1, "trials": 2, "queries": 40, "data": ["synthetic(n_docs=15)"]}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results") / "2021-table1"
    settings = {"rounds": 5, "leaves": 4, "min_documents": 5, "threads": 1}
    rw.lab.reproduce("2021-table1", folder, settings=settings, **SMALL)
    return Results.read(folder)


def replaced(path: Path, name: str, content: bytes) -> None:
    """Put something else in the place of a part, with a checksum that is right."""
    with zipfile.ZipFile(path) as archive:
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for part, old in parts.items():
            archive.writestr(part, content if part == name else old)


@pytest.mark.parametrize("documents", [False, True])
def test_a_pack_gives_the_same_tables_as_the_folder(found, tmp_path, documents):
    packed = Results.read(found.pack(tmp_path / "all.zip", documents=documents))
    assert packed.to_text() == found.to_text()
    assert packed.to_markdown() == found.to_markdown()
    assert packed.to_dict() == found.to_dict()
    assert verdicts(packed) == verdicts(found)
    assert packed.about == found.about
    assert_frame_equal(packed.queries, found.queries)
    assert_frame_equal(packed.published, found.published)
    assert_frame_equal(packed.curves, found.curves, rel_tol=1e-6)
    if documents:
        assert_frame_equal(packed.documents.drop("id"), found.documents.drop("id"))
    assert (packed.documents.height > 0) is documents
    assert not packed.features.height
    assert not packed.contributions.height


@pytest.mark.parametrize("protocol", ["runs", "trials", "folds", "ratings"])
def test_means_and_tests_are_the_same_whatever_trials_are_paired_by(tmp_path, protocol):
    found = synthetic_results.results(levels=(0.0, 0.5), protocol=protocol, split=[0.6, 0.2, 0.2], alpha=0.05)
    assert Results.read(found.pack(tmp_path / "all.zip")).to_dict() == found.to_dict()


def test_the_same_results_make_the_same_bytes_also_once_read(found, tmp_path):
    first, second = found.pack(tmp_path / "a.zip").read_bytes(), found.pack(tmp_path / "b.zip").read_bytes()
    assert first == second
    assert Results.read(tmp_path / "a.zip").pack(tmp_path / "a.zip").read_bytes() == first
    assert len(first) < 100_000


def test_results_without_trials_are_not_packed(found, tmp_path):
    with refusal(what="there are no trials to pack", got="2021-table1", hint="run the experiment…"):
        replace(found, queries=found.queries.head(0)).pack(tmp_path / "all.zip")
    assert not list(tmp_path.iterdir())


def test_a_report_is_made_of_a_pack_beside_it(found, tmp_path):
    found.pack(tmp_path / "2021-table1.zip", documents=True)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "2021-table1.zip")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "2021-table1" / "report.html").read_text(encoding="utf-8")
    assert 'id="curve-valid-ndcg-5"' in page
    assert 'id="cutoffs"' in page


def test_a_flipped_bit_is_found_and_the_file_named(found, tmp_path):
    path = found.pack(tmp_path / "all.zip")
    with zipfile.ZipFile(path) as archive:
        places = [part.header_offset + 30 + len(part.filename) for part in archive.infolist()]
        ends = [place + part.compress_size for place, part in zip(places, archive.infolist(), strict=True)]
    whole = path.read_bytes()
    for at in (*[last - 9 for last in ends], *[(first + last) // 2 for first, last in zip(places, ends, strict=True)]):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=rf"a file of results: got .* at .*{path.name}. Hint: get the file again"):
            Results.read(path)


@pytest.mark.parametrize("content", [b"", b"half", b"PK\x05\x06" + b"\0" * 18], ids=["empty", "other", "no parts"])
def test_what_is_no_pack_is_refused(tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with refusal(what="cannot read a file of results", where="…x.zip", hint="get the file…"):
        Results.read(tmp_path / "x.zip")


def test_parts_with_other_content_are_refused(found, tmp_path):
    def parquet(frame: pl.DataFrame) -> bytes:
        file = io.BytesIO()
        frame.write_parquet(file)
        return file.getvalue()

    spec = json.dumps({"spec": {"name": 3}, "about": {}}).encode()
    wrong = [
        *[("experiment.json", content) for content in (b"{", b"[]", b"{}", spec, b"[" * 100_000, b"\xff")],
        *[("queries.parquet", content) for content in (b"", b"PAR1" * 5)],
        ("queries.parquet", parquet(found.queries.head(0))),
        ("queries.parquet", parquet(found.queries.drop("weight"))),
        ("queries.parquet", parquet(found.queries.with_columns(trial=pl.lit("first")))),
        ("queries.parquet", parquet(found.queries.with_columns(pl.lit("high").alias("ndcg@5")))),
        ("curves.parquet", parquet(found.queries)),
    ]
    for name, content in wrong:
        path = found.pack(tmp_path / "all.zip")
        replaced(path, name, content)
        with refusal(what="cannot read a file of results", where="…all.zip", hint="get the…"):
            Results.read(path)
