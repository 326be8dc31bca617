"""Data at a URL: a server on this machine that breaks off, and fsspec's files in memory."""

import json
import sys
import traceback
from pathlib import Path

import pytest

import rankwise as rw
from rankwise.cluster import partitions
from rankwise.cluster import rows as rows_of_workers
from rankwise.data import remote
from tests.data.serving import serving
from tests.data.small_files import isolate, rows, same

fsspec = pytest.importorskip("fsspec")
TEXT = rows(1, 1) + rows(2, 2)


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def store():
    memory = fsspec.filesystem("memory")
    yield memory
    memory.rm("/", recursive=True)


@pytest.fixture
def data():
    return rw.synthetic(n_queries=60, n_docs=10, seed=1).with_(query_ids=[f"q{n}" for n in range(60)])


@pytest.fixture
def parquet(data, tmp_path):
    return rw.write_parquet(data, tmp_path / "rows.parquet").read_bytes()


def copies(tmp_path):
    return sorted(path.name for path in (tmp_path / "user-cache").rglob("*") if path.is_file())


@pytest.mark.parametrize("read", [rw.read_parquet, rw.read_data, rw.open_data])
def test_a_file_is_downloaded_once_and_resumed_after_a_break(read, data, parquet, tmp_path):
    with serving(parquet, "rows.parquet") as server:
        server.etag, server.stop_after, server.stop_at = '"one"', 1000, 2
        opened = read(server.url)
        assert server.asked == [None, None, "bytes=1000-", None]  # version, start, rest, version again
        again = read(server.url)
        assert server.asked[4:] == [None]
    for one in (opened, again):
        same(rw.RankingDataset(**vars(one)), data)
    assert ("features on disk" in repr(opened)) == (read is rw.open_data)


def test_a_call_that_failed_is_resumed_by_the_next(data, parquet):
    with serving(parquet, "rows.parquet") as server:
        server.etag, server.ranges, server.stop_after = '"one"', False, 1000
        with pytest.raises(ConnectionError, match=r"rows.parquet: it broke off after 1,000 of .* Hint: try again"):
            rw.read_parquet(server.url)
        server.asked.clear()
        server.ranges, server.stop_after = True, None
        same(rw.read_parquet(server.url), data)
        assert server.asked == [None, "bytes=1000-", None]


def test_a_file_that_has_changed_is_downloaded_again(tmp_path):
    with serving(rows(1, 1).encode(), "rows.txt") as server:
        server.etag = '"one"'
        assert rw.read_letor(server.url).labels.tolist() == [1, 0]
        server.content, server.etag = rows(2, 1).encode(), '"two"'
        assert rw.read_letor(server.url).labels.tolist() == [2, 0]
        server.content, server.etag = rows(3, 1).encode(), None  # a server that names no version
        assert rw.read_letor(server.url).labels.tolist() == [3, 0]
        server.content = rows(4, 1).encode()
        assert rw.read_letor(server.url).labels.tolist() == [4, 0]
    assert copies(tmp_path) == ["rows.txt"] * 3


def test_a_file_that_changes_meanwhile_is_not_read(monkeypatch):
    with serving(TEXT.encode(), "rows.txt") as server:
        server.etag = '"one"'
        answer = server.answer

        def changing(handler):
            answer(handler)
            server.etag = f'"{len(server.asked)}"'

        monkeypatch.setattr(server, "answer", changing)
        with pytest.raises(ValueError, match="changed while they were downloaded: http.*rows.txt.*read them again"):
            rw.read_letor(server.url)


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (404, FileNotFoundError, "there is no file http.*rows.txt[.]$"),
        (403, PermissionError, "rows.txt may not be read: .*403.*credentials"),
        (500, ConnectionError, "cannot download http.*rows.txt: .*500"),
    ],
)
def test_what_a_server_refuses(status, error, text):
    with serving(b"", "rows.txt") as server:
        server.status = status
        with pytest.raises(error, match=text):
            rw.read_data(server.url + "?signature=secret")


@pytest.mark.parametrize("status", [403, 404])
def test_errors_of_workers_hold_no_signature(status):
    """Polars, which reads there, names the whole URL."""
    with serving(b"", "rows.parquet") as server:
        server.status = status
        url = server.url + "?signature=secret"
        for read in (lambda: rows_of_workers.find_runs(url, {}), lambda: partitions.spread(None, url, {})):  # type: ignore[arg-type]
            with pytest.raises((OSError, ValueError), match=r"http://127.*/rows.parquet") as raised:
                read()
            assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_an_address_that_cannot_be_opened_is_not_quoted():
    for url in ("http://127.0.0.1:9/rows.txt?signature=secret with-a-space", "http://me:secret@127.0.0.1:9/rows.txt"):
        with pytest.raises(ConnectionError, match="cannot download http://127.0.0.1:9/rows.txt") as raised:
            rw.read_data(url)
        assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_a_store_that_remembers_its_listings_is_asked_anew(store, monkeypatch):
    """As those of S3 and of Google do."""
    listed: dict = {}
    info = type(store).info
    monkeypatch.setattr(type(store), "info", lambda self, path, **_: listed.setdefault(path, info(self, path)))
    monkeypatch.setattr(type(store), "invalidate_cache", lambda *_: listed.clear())
    for label in (1, 2):
        store.pipe("/rows.txt", rows(label, 1).encode())
        assert rw.read_letor("memory://rows.txt").labels.tolist() == [label, 0]


def test_nobody_answers():
    with serving(b"", "rows.txt") as server:
        gone = server.url
    with pytest.raises(ConnectionError, match="cannot download http.*rows.txt.*Hint: try again"):
        rw.read_data(gone)


def test_errors_about_the_data_name_the_url(store):
    store.pipe("/rows.txt", b"1 qid:1 1:0.5\n1 qid:1 1:x\n")
    with pytest.raises(ValueError, match=r"at memory://rows.txt, line 2"):
        rw.read_letor("memory://rows.txt")


def test_every_reader_reads_from_a_store(store, data, parquet, tmp_path):
    store.pipe({"/here/rows.txt": TEXT.encode(), "/here/rows.csv": b"qid,label,f\na,1,2\na,0,3\n"})
    assert rw.read_letor("memory://here/rows.txt").labels.tolist() == [1, 0, 2, 0]
    assert rw.read_data("memory://here/rows.txt").n_queries == 2
    assert rw.read_csv("memory://here/rows.csv").labels.tolist() == [1, 0]
    assert rw.open_data("memory://here/rows.txt", folder=tmp_path / "copies").n_queries == 2
    first = rw.write_parquet(data.take(slice(0, 20)), tmp_path / "first.parquet").read_bytes()
    rest = rw.write_parquet(data.take(slice(20, 60)), tmp_path / "rest.parquet").read_bytes()
    store.pipe({"/folder/1.parquet": rest, "/folder/0.parquet": first, "/folder/_SUCCESS": b""})
    for read in (rw.read_parquet, rw.read_data, rw.open_data):
        for url in ("memory://folder", "memory://folder/"):
            same(rw.RankingDataset(**vars(read(url))), data)
    assert remote.parquet_urls("memory://folder") == ["memory:///folder/0.parquet", "memory:///folder/1.parquet"]
    store.pipe("/folder/1.parquet", parquet)
    store.rm("/folder/0.parquet")
    same(rw.read_parquet("memory://folder"), data)


def test_a_store_that_breaks_off(store, monkeypatch):
    store.pipe("/rows.txt", TEXT.encode())
    opened = type(store).open
    reads = []

    def breaking(self, path, mode):
        file = opened(self, path, mode)
        read = file.read

        def part(size):
            reads.append(file.tell())
            if len(reads) == 2:
                raise OSError("the connection is gone")
            return read(20 if len(reads) == 1 else size)

        file.read = part
        return file

    monkeypatch.setattr(type(store), "open", breaking)
    assert rw.read_letor("memory://rows.txt").labels.tolist() == [1, 0, 2, 0]
    assert reads[:3] == [0, 20, 20]


def test_what_is_missing_says_so(store, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no file memory://absent.txt"):
        rw.read_data("memory://absent.txt")
    store.pipe("/folder/rows.txt", b"")
    with pytest.raises(ValueError, match="no .parquet files in the folder: got memory://folder"):
        rw.read_data("memory://folder")
    with pytest.raises(ValueError, match="nothing reads this kind of URL: got ssss://rows.txt.*use s3://"):
        rw.read_data("ssss://rows.txt")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ImportError, match="s3:// needs a package that is not installed: pip install s3fs"):
        rw.open_data("s3://bucket/rows.parquet")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"pip install 'rankwise\[remote\]'"):
        rw.open_data("s3://bucket/rows.parquet")


def test_where_no_copy_can_be_kept_it_lasts_as_long_as_the_process(store, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "taken"))
    store.pipe("/rows.txt", TEXT.encode())
    with pytest.warns(UserWarning, match="no copy of a URL can be kept"):
        assert rw.read_letor("memory://rows.txt").n_queries == 2


def test_the_command_line_takes_urls(store):
    from typer.testing import CliRunner

    from rankwise.cli.app import app

    store.pipe("/rows.txt", TEXT.encode())
    result = CliRunner().invoke(app, ["data", "info", "memory://rows.txt", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["queries"] == 2


def test_workers_read_a_url_with_a_signature():
    from rankwise.cli.train.train import _held_out

    assert _held_out("https://host/rows.parquet?signature=secret", None, None) == (None, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"workers of a cluster read Parquet: got https://host/rows.txt\."):
        _held_out("https://host/rows.txt?signature=secret", None, None)  # type: ignore[arg-type]
