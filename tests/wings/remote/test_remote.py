"""Data at a URL: a server on this machine that breaks off, and fsspec's files in memory."""

import base64
import gzip
import hashlib
import json
import sys
import traceback
from pathlib import Path

import pytest

import rankwise as rw
from rankwise import check
from rankwise.wings.cluster import partitions
from rankwise.wings.cluster import row_plan as rows_of_workers
from rankwise.wings.remote import download, remote_files
from tests.data.serving import scripted, serving
from tests.data.small_files import isolate, rows, same
from tests.refusals import refusal, refuses

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
    return rw.data.write_parquet(data, tmp_path / "rows.parquet").read_bytes()


def chained(raised: BaseException | None) -> str:
    """All that an error and those that it comes from could show."""
    text = ""
    while raised is not None:
        text += "".join(traceback.format_exception(raised)) + repr(raised) + repr(vars(raised))
        raised = raised.__cause__ or raised.__context__
    return text


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
        with refusal(ConnectionError, what="…rows.parquet: it broke off after 1,000 of…", hint="try again…"):
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
        with refusal(what="the data changed while they were downloaded", where="http…rows.txt", hint="read them again"):
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
        for read in (lambda: rows_of_workers.find_runs(url, {}), lambda: partitions.distribute(None, url, {})):  # type: ignore[arg-type]
            with pytest.raises((OSError, ValueError), match=r"http://127.*/rows.parquet") as raised:
                read()
            assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_an_address_that_cannot_be_opened_is_not_quoted():
    url = "http://127.0.0.1:9/rows.txt?signature=secret with-a-space"
    with pytest.raises(ValueError, match=r"not a URL: got http://127.0.0.1:9/rows.txt\. Hint: write.*%20") as raised:
        rw.read_data(url)
    assert "with-a-space" not in chained(raised.value)


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
    refuses(lambda: rw.read_data(gone), ConnectionError, what="cannot download http…rows.txt…", hint="try again")


def test_errors_about_the_data_name_the_url(store):
    store.pipe("/rows.txt", b"1 qid:1 1:0.5\n1 qid:1 1:x\n")
    refuses(lambda: rw.read_letor("memory://rows.txt"), where="memory://rows.txt, line 2, near '1 qid:1 1:x'")


def test_every_reader_reads_from_a_store(store, data, parquet, tmp_path):
    store.pipe({"/here/rows.txt": TEXT.encode(), "/here/rows.csv": b"qid,label,f\na,1,2\na,0,3\n"})
    assert rw.read_letor("memory://here/rows.txt").labels.tolist() == [1, 0, 2, 0]
    assert rw.read_data("memory://here/rows.txt").n_queries == 2
    assert rw.read_csv("memory://here/rows.csv").labels.tolist() == [1, 0]
    assert rw.open_data("memory://here/rows.txt", folder=tmp_path / "copies").n_queries == 2
    first = rw.data.write_parquet(data.take(slice(0, 20)), tmp_path / "first.parquet").read_bytes()
    rest = rw.data.write_parquet(data.take(slice(20, 60)), tmp_path / "rest.parquet").read_bytes()
    store.pipe({"/folder/1.parquet": rest, "/folder/0.parquet": first, "/folder/_SUCCESS": b""})
    for read in (rw.read_parquet, rw.read_data, rw.open_data):
        for url in ("memory://folder", "memory://folder/"):
            same(rw.RankingDataset(**vars(read(url))), data)
    assert remote_files.parquet_urls("memory://folder") == ["memory:///folder/0.parquet", "memory:///folder/1.parquet"]
    store.pipe("/folder/1.parquet", parquet)
    store.rm("/folder/0.parquet")
    same(rw.read_parquet("memory://folder"), data)


LARGE = b"".join(number.to_bytes(4, "big") for number in range(20_000))


@pytest.mark.parametrize(
    ("most", "every", "calls"),
    [(30_000, 0, 10), (0, 30_000, 13), (1000, 0, None)],
    ids=["of a request", "of a connection", "never as much as a block"],
)
def test_a_store_that_breaks_off(store, monkeypatch, most, every, calls):
    """Blocks that arrived are kept; those that are too large for the link get smaller."""
    store.pipe("/rows.bin", LARGE)
    monkeypatch.setattr(remote_files, "_BLOCKS", (65_536 if most else 8192, 4096))
    whole, asked = type(store).cat_file, []
    arrived: list[int] = []

    def breaking(self, path, start, end):
        asked.append(start)
        if (most and end - start > most) or (every and sum(arrived) + end - start > every):
            arrived.clear()
            raise RuntimeError("the connection is gone")  # of a type of the store's own
        arrived.append(end - start)
        return whole(self, path, start, end)

    monkeypatch.setattr(type(store), "cat_file", breaking)
    if calls is None:
        with refusal(ConnectionError, what="cannot download memory://rows.bin: the connection is gone"):
            download.fetch("memory://rows.bin")
        assert asked == [0] * 5
    else:
        assert download.fetch("memory://rows.bin").read_bytes() == LARGE
        assert len(asked) == calls
        assert asked == sorted(asked)


def test_a_store_that_reads_ahead(monkeypatch):
    """By default, as s3fs does, more than the link carries before it breaks."""
    sent, ahead = [0], 100_000

    class File(fsspec.spec.AbstractBufferedFile):  # type: ignore[name-defined]
        def _fetch_range(self, start, end):
            sent.append(min(end, len(LARGE)) - start)
            if sum(sent) > 30_000:
                sent.clear()
                raise OSError("the connection is gone")
            return LARGE[start:end]

    class Store(fsspec.spec.AbstractFileSystem):  # type: ignore[name-defined]
        def info(self, path, **_):
            return {"name": path, "size": len(LARGE), "type": "file", "ETag": "1"}

        def isdir(self, _):
            return False

        def _open(self, path, mode="rb", block_size=None, **_):
            return File(self, path, mode, block_size or ahead)

    monkeypatch.setattr(remote_files, "_store", lambda url: (Store(), url))
    monkeypatch.setattr(remote_files, "_BLOCKS", (8192, 1024))
    assert download.fetch("breaking://rows.bin").read_bytes() == LARGE


def test_what_a_store_sent_is_kept_for_the_next_call(store, monkeypatch):
    store.pipe("/rows.bin", LARGE)
    monkeypatch.setattr(remote_files, "_BLOCKS", (8192, 8192))
    whole, asked = type(store).cat_file, []

    def breaking(self, path, start, end):
        asked.append(start)
        if len(asked) in (4, 5):
            raise OSError("the connection is gone")
        return whole(self, path, start, end)

    monkeypatch.setattr(type(store), "cat_file", breaking)
    with refusal(ConnectionError, what="…the connection is gone", hint="try again, which resumes…"):
        download.fetch("memory://rows.bin")
    assert download.fetch("memory://rows.bin").read_bytes() == LARGE
    assert asked[:6] == [0, 8192, 16384, 24576, 24576, 24576]


@pytest.mark.parametrize("keys", [("name", "size", "type", "created"), ("name", "size", "type")])
def test_a_store_whose_file_changes_meanwhile(store, monkeypatch, keys):
    """Its version tells; where it names none, what arrived before a break is not used."""
    store.pipe("/rows.bin", b"1" * 400)
    monkeypatch.setattr(remote_files, "_BLOCKS", (100, 100))
    memory, whole, asked = type(store), type(store).cat_file, []
    info = memory.info
    monkeypatch.setattr(memory, "info", lambda self, path, **_: {key: info(self, path)[key] for key in keys})

    def changing(self, path, start, end):
        asked.append(start)
        if len(asked) == 3:
            self.pipe("/rows.bin", b"2" * 400)
            raise OSError("the connection is gone")
        return whole(self, path, start, end)

    monkeypatch.setattr(memory, "cat_file", changing)
    assert download.fetch("memory://rows.bin").read_bytes() == b"2" * 400


def test_what_is_missing_says_so(store, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no file memory://absent.txt"):
        rw.read_data("memory://absent.txt")
    store.pipe("/folder/rows.txt", b"")
    with refusal(what="there are no .parquet files in the folder", got="memory://folder"):
        rw.read_data("memory://folder")
    with refusal(what="nothing reads this kind of URL", got="ssss://rows.txt", hint="use s3://…"):
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
    with refusal(what="the workers of a cluster read Parquet", got="https://host/rows.txt"):
        _held_out("https://host/rows.txt?signature=secret", None, None)  # type: ignore[arg-type]


ONE, TWO = b"1" * 400, b"2" * 400
STRONG, OTHER, WEAK = {"ETag": '"1"'}, {"ETag": '"2"'}, {"ETag": 'W/"1"'}
OLD = {"Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}
JUST = {"Last-Modified": "Fri, 01 Jan 2038 00:00:00 GMT"}
PACKED = gzip.compress(ONE)
SIZE = len(PACKED)


def digest(content):
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def whole(content=ONE, headers=STRONG, *, cut=None, length=None, status=200):
    """An answer with a file, which may break off."""
    body = content if cut is None else content[:cut]
    return status, {"Content-Length": str(len(content)) if length is None else length} | headers, body


def part(first, last=400, content=ONE, headers=STRONG, *, total=400, cut=None, **changes):
    """An answer with a part of a file."""
    status, named, body = whole(content[first:last], headers, cut=cut, status=206)
    named = named | {"Content-Range": f"bytes {first}-{last - 1}/{total}"} | changes
    return status, {name: value for name, value in named.items() if value}, body


def chunked(*bodies, headers=STRONG, end=True):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body), body) for body in bodies)
    return 200, {"Transfer-Encoding": "chunked"} | headers, chunks + b"0\r\n\r\n" * end


# What a server answers, request by request (the first is for the version, and so is one after the last byte; the last
# answer is repeated), and the file that must come out, or an error.
SECOND = part(200, content=TWO, headers=OTHER)  # of another version
GZ = STRONG | {"Content-Encoding": "gzip"}
BROKEN = [whole(), whole(cut=200)]
ANSWERS = {
    "resumed": ([*BROKEN, part(200), whole()], ONE),
    "resumed twice": ([*BROKEN, part(200, cut=100), part(300), whole()], ONE),
    "resumed by time": ([whole(headers=OLD), whole(headers=OLD, cut=9), part(9, headers=OLD), whole(headers=OLD)], ONE),
    "changed, the whole sent": ([*BROKEN, whole(TWO, OTHER)], TWO),
    "changed, a part sent": ([*BROKEN, SECOND, whole(TWO, OTHER)], TWO),
    "changed, a part sent without version": ([*BROKEN, part(200, content=TWO, headers={}), whole(TWO, OTHER)], TWO),
    "changed before the first byte": ([whole(), whole(TWO, OTHER)], TWO),
    "changed in length alone": ([whole(), whole(TWO + TWO)], TWO + TWO),
    "changed in length, resumed": ([*BROKEN, part(200, 800, TWO + TWO, total=800), whole(TWO)], TWO),
    **{
        f"changed, {name}": (
            [
                whole(headers=kind),
                whole(headers=kind, cut=200),
                (part(200, content=TWO, headers=kind), whole(TWO, kind)),
            ],
            TWO,
        )
        for name, kind in {
            "weak version": WEAK,
            "weak version and time": WEAK | OLD,
            "no version": {},
            "just": JUST,
        }.items()
    },
    "ranges ignored": ([*BROKEN, whole()], ONE),
    "no version, always broken": ([whole(headers={}, cut=200)], r"after 200 of 400 bytes\. Hint: .* begins anew"),
    "another range": ([*BROKEN, part(100)], "another part: got bytes 100-399/400 with 300 bytes instead of bytes"),
    "an earlier range": ([*BROKEN, (part(0), whole(cut=200))], "another part: got bytes 0-399/400"),
    "a range beyond the end": ([*BROKEN, part(200, total=300)], "another part: got bytes 200-399/300"),
    "a part that does not say which": ([*BROKEN, part(200, **{"Content-Range": ""})], "part: got no Content-Range"),
    "a part of unknown size": ([*BROKEN, part(200, total="*")], r"another part: got bytes 200-399/\*"),
    "a part of another length": ([*BROKEN, part(200, **{"Content-Length": "150"})], "with 150 bytes instead of"),
    "small parts": ([whole(), part(0, 150), part(150, 300), part(300), whole()], ONE),
    "a part unasked, no version": ([part(0, 31, headers={})], "broke off after 31 of 400 bytes"),
    "a whole that is a part": ([(200, *part(0, 31)[1:])], "another part: got bytes 0-30/400"),
    "no length": ([(200, STRONG, ONE[:232])], "does not say how long it is"),
    "a length that is none": ([whole(length="4e2")], "says that it has '4e2' bytes"),
    "too long a length": ([whole(length="500")], "broke off after 400 of 500 bytes, which are kept"),
    "too short a length": ([whole(), whole(length="300")], ONE[:300]),
    "chunks": ([chunked(ONE[:100], ONE[100:])], ONE),
    "chunks without an end": ([chunked(ONE[:100], end=False)], "cannot download"),
    "chunks, resumed": ([chunked(ONE), chunked(ONE[:100], end=False), part(100), chunked(ONE)], ONE),
    "packed": ([whole(PACKED, GZ)], ONE),
    "packed and resumed": (
        [whole(PACKED, GZ), whole(PACKED, GZ, cut=9), part(9, SIZE, PACKED, GZ, total=SIZE), whole(PACKED, GZ)],
        ONE,
    ),
    "packed the second time": ([whole(), whole(PACKED, GZ)], ONE),
    "not packed as said": ([whole(ONE, GZ)], "Content-Encoding is not gzip"),
    "packed otherwise": ([whole(ONE, STRONG | {"Content-Encoding": "br"})], "Content-Encoding 'br'"),
    "the right digest": ([whole(headers=STRONG | {"Repr-Digest": digest(ONE)})], ONE),
    "another digest": ([whole(headers=STRONG | {"Repr-Digest": digest(TWO)})], "not have the digest.* instead of"),
    "no file": ([(204, STRONG, b"")], "204 No Content instead of a file"),
    "nothing beyond": ([*BROKEN, (416, {"Content-Length": "0"}, b""), whole()], ONE),
    "an empty file": ([whole(b"")], b""),
}


@pytest.mark.parametrize(("answers", "comes_out"), ANSWERS.values(), ids=ANSWERS)
def test_what_comes_out_is_one_version_whole_or_an_error(answers, comes_out):
    answers = list(answers)
    with scripted(answers) as server:
        for _ in range(2):  # neither the first call nor what it leaves behind for the next
            if isinstance(comes_out, bytes):
                assert download.fetch(server.url).read_bytes() == comes_out
            else:
                with pytest.raises((ConnectionError, ValueError), match=comes_out) as raised:
                    download.fetch(server.url)
                assert "/rows.txt" in str(raised.value)
            answers[:-1] = []
    for wanted, unless in zip(server.asked, server.conditions, strict=True):
        assert wanted is None or unless in (STRONG["ETag"], OLD["Last-Modified"])  # never without a condition


NAME, PASSWORD = "m%40e", "p%2Fass%3Aword"
ALLOWED = f"Basic {base64.b64encode(b'm@e:p/ass:word').decode()}"


def test_a_name_and_a_password_are_sent_to_their_server_and_to_no_other(monkeypatch):
    """Nor to one that theirs redirects to."""
    with serving(TEXT.encode(), "rows.txt") as server, serving(TEXT.encode(), "rows.txt") as other:
        server.etag, server.allowed, other.etag = '"1"', ALLOWED, '"3"'
        url = server.url.replace("//", f"//{NAME}:{PASSWORD}@")
        assert rw.read_letor(url).n_queries == 2
        with refusal(PermissionError, what="http://127…/rows.txt may not be read: …401…", hint="…credentials…"):
            rw.read_letor(url.replace("word@", "@"))
        answer = server.answer
        moved = lambda handler: (answer if handler.path == "/moved.txt" else to("/moved.txt"))(handler)  # noqa: E731
        monkeypatch.setattr(server, "answer", moved)
        server.asked.clear()
        assert rw.read_letor(url).n_queries == 2
        assert server.asked == [None]  # for the version, which is that of the copy
        monkeypatch.setattr(server, "answer", to(other.url))
        other.allowed = ALLOWED
        refuses(lambda: rw.read_letor(url), PermissionError, what="…401…")
        other.allowed = None
        assert rw.read_letor(url).n_queries == 2
        answer_of_other = other.answer  # which redirects within itself
        moved = lambda handler: (answer_of_other if handler.path == "/moved.txt" else to("/moved.txt"))(handler)  # noqa: E731
        monkeypatch.setattr(other, "answer", moved)
        other.etag = '"4"'
        assert rw.read_letor(url).n_queries == 2


def hang_up(handler):
    handler.connection.close()


def to(location):
    def answer(handler):
        handler.send_response(302)
        handler.send_header("Location", location)
        handler.end_headers()

    return answer


WAYS_TO_FAIL = {
    "nobody answers": None,
    "hangs up": hang_up,
    "no HTTP": lambda handler: handler.wfile.write(b"hello\r\n"),
    "a long line": lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n"),
    "redirects in a circle": lambda handler: to(handler.path)(handler),
    "redirects to a file": to("file:///etc/passwd?token=SECRET"),
    "redirects to a password": to("http://me:SECRET@127.0.0.1:9/rows.txt?token=SECRET"),
    "redirects to a blank": to("http://127.0.0.1:9/rows.txt?token=not SECRET"),
    "redirects to no host": to("http://a..b/rows.txt?token=SECRET"),
    "echoes the request": lambda handler: handler.send_error(400, f"cannot serve {handler.path}"),
    **{
        f"status {status}": lambda handler, status=status: handler.send_error(status) for status in (401, 403, 404, 500)
    },
    **{name: answers for name, (answers, out) in ANSWERS.items() if isinstance(out, str)},
    "data that cannot be read": [whole(b"1 qid:1 1:x\n")],
}
ADDRESSES = {
    "password": "http://me:SECRET@{host}/rows.txt",
    "token": "http://SECRET@{host}/rows.txt",
    "signature": "http://{host}/rows.txt?X-Amz-Signature=SECRET&more=SECRET",
    "fragment": "http://{host}/rows.txt#SECRET",
    "unescaped": "http://me:a/?SECRET@{host}/rows.txt",
    "blank": "http://me:a SECRET@{host}/rows.txt?token=a SECRET",
}


@pytest.mark.parametrize("kind", ADDRESSES)
@pytest.mark.parametrize("way", WAYS_TO_FAIL)
def test_no_failure_tells_a_secret(way, kind, tmp_path, capfd, caplog, recwarn):
    behaviour = WAYS_TO_FAIL[way]
    with scripted(list(behaviour)) if isinstance(behaviour, list) else serving(b"", "rows.txt") as server:
        if callable(behaviour):
            server.answer = behaviour  # type: ignore[method-assign]
        host = server.url.split("/")[2] if behaviour else "127.0.0.1:9"
        url = ADDRESSES[kind].format(host=host)
        with pytest.raises((OSError, ValueError), match=rf"http://{host}/rows\.txt") as raised:
            rw.read_letor(url)
    told = chained(raised.value) + "".join(capfd.readouterr()) + caplog.text + "".join(map(str, recwarn))
    told += "".join(str(path) for path in tmp_path.rglob("*"))
    assert "SECRET" not in told
    assert type(raised.value) in (check.InputError, ConnectionError, FileNotFoundError, PermissionError)


COMMANDS = [
    "train URL -o model --set rounds=2 --progress",
    "predict model URL --json --progress",
    "explain model URL --id q0 --json --progress",
    "explain model URL --query q0",
    "evaluate URL model --json --progress",
    "data info URL --json",
    "data info URL --fold 1",
    "train URL -o other --download",
    "train absent.txt --valid URL -o other",
    "predict URL URL",
    "serve URL",
    "recommend URL",
    "clicks info URL",
    "reproduce mine.toml --data URL --jobs 1 -o results",
]


def test_no_command_tells_a_secret_nor_keeps_it(parquet, tmp_path, monkeypatch):
    """Neither on the terminal nor in models, cards, results and caches."""
    from typer.testing import CliRunner

    from rankwise.cli.app import app

    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text('name = "mine"\ntrials = 1\nmethods = {a = "lightgbm(xendcg, rounds=2)"}\n')
    with serving(parquet, "rows.parquet") as server:
        server.etag = '"1"'
        url = server.url.replace("//", "//me:SECRET@") + "?key=SECRET&more=SECRET"
        for line in COMMANDS:
            words = line.replace("URL", url).split()
            monkeypatch.setattr(sys, "argv", ["rankwise", *words])
            result = CliRunner().invoke(app, words)
            wrong = "absent" in line or line.split()[0] in ("serve", "recommend", "clicks") or "predict URL" in line
            wrong = wrong or any(option in line for option in ("--fold", "--download", "--query"))
            assert result.exit_code == 2 * wrong, (line, result.output)
            assert "SECRET" not in result.output, line
            assert "rows.parquet" in result.output or not wrong or "absent" in line, result.output
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in kept if "SECRET" in str(path) or b"SECRET" in path.read_bytes()]
    for name in ("model/README.md", "results/experiment.json"):
        assert "/rows.parquet" in (tmp_path / name).read_text()
