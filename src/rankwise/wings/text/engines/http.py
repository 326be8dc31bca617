"""Engines behind HTTP: requests, and what their servers refuse."""

import base64
import http.client
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack
from urllib.parse import SplitResult, quote, unquote, urlsplit

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.wings.text.engines.engine import Engine, Hits, Ids, Opening


class HttpEngine(Engine):
    """A collection at an address, which is asked by HTTP; redirects are not followed.

    A user and a password in the address, as ``https://user:password@host:9200``, and ``headers``, such as
    ``{"Authorization": "ApiKey …"}``, are sent to it alone and never shown. ``timeout`` are seconds without an answer.
    Tested with answers that we wrote, not with a server.
    """

    modules = ("http",)
    again = "check that the server runs and that the address is right; what was asked can be asked again"
    hints: ClassVar = {
        "http 401": "check user and password, or the key in headers=",
        "http 403": "give this user the right to do it",
        "http 404": "check address and name, or index the documents",
        "http 30": "give the address that the server redirects to",
        "window is too large": "ask for 10,000 documents at most, or raise index.max_result_window",
        "maxhits": "ask for fewer documents, or raise maxHits in a query profile",
        "timed out": "raise timeout=, or ask for fewer documents",
        "certificate": "name the file of the server's certificate in the environment variable SSL_CERT_FILE",
    }

    def __init__(
        self,
        address: str,
        collection: str = "documents",
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        **opening: Unpack[Opening],
    ) -> None:
        self._server = Server(type(self), address, headers, timeout)
        self.collection, self._path = collection, f"/{quote(collection, safe='')}"
        super().__init__(f"{self._server.where}/{collection}", self._described(), **opening)

    def _described(self) -> Json:
        return {}

    def _hits(self, query: Any, fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        try:
            hits, whole = self._found(query, fields, k, among)
        except (AttributeError, IndexError, KeyError, TypeError):
            raise ValueError("an answer of another form") from None
        if not whole:
            raise OSError("the answer has a part of the documents alone, since others timed out")
        return hits

    def _found(self, query: Any, fields: tuple[str, ...], k: int, among: Ids) -> tuple[Hits, bool]:
        """Return hits, and whether all parts of the collection were searched."""
        raise NotImplementedError


class Server:
    """A server by its address, and what is sent with each request; its errors show nothing secret."""

    def __init__(self, engine: type[Engine], address: str, headers: Mapping[str, str] | None, timeout: float) -> None:
        parts, self.engine, self.headers = _parts(address), engine, {**(headers or {})}
        self.timeout = check.number("timeout", timeout, least=0.001)
        if parts is None:
            hint = "write https://host:9200; in a password / is %2F, # is %23 and @ is %40"
            raise check.error(f"{engine.name} needs an address", got=check.address(str(address)), hint=hint)
        for name, value in self.headers.items():  # http.client quotes what it refuses
            if not (isinstance(value, str) and value.isascii() and value.isprintable()):
                hint = "strip() what was read from a file"
                raise check.error("a header must be one line of ASCII", where=f"headers[{name!r}]", hint=hint)
        self.parts, self.where = parts, check.address(address).rstrip("/")
        user, password = (unquote(part or "") for part in (self.parts.username, self.parts.password))
        if user:
            self.headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        secret = [
            password,
            self.parts.password,
            *(word for text in self.headers.values() for word in (text, text.rpartition(" ")[2])),
        ]
        shown = {form for word in secret if word for form in (word, json.dumps(word)[1:-1])}
        self.secret = sorted(shown, key=len, reverse=True)

    def ask(self, method: str, path: str, body: object = None, *, absent: bool = False) -> Any:
        """Return the answer to a request; None of what is ``absent``, if that may be."""
        return self.engine.ask(self.where, self._answer, method, path, body, absent)

    def _answer(self, method: str, path: str, body: object, absent: bool) -> Any:
        kind = http.client.HTTPSConnection if self.parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.parts.hostname or "", self.parts.port, timeout=self.timeout)
        lines = "".join(json.dumps(one) + "\n" for one in body) if isinstance(body, list) else json.dumps(body)
        headers = {"Content-Type": "application/x-ndjson" if isinstance(body, list) else "application/json"}
        try:
            path = self.parts.path.rstrip("/") + path
            connection.request(method, path, None if body is None else lines.encode(), headers | self.headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if absent and response.status == 404:
            return None
        if response.status >= 300:
            text = f"HTTP {response.status} {response.reason}: {answer.decode(errors='replace')}"
            for word in self.secret:
                text = text.replace(word, "…")
            raise OSError(text)
        return json.loads(answer)


def _parts(address: str) -> SplitResult | None:
    """Return the parts of an address, or None; what the library says of a bad one may quote a password."""
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if known else None
