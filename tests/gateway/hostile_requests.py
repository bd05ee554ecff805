"""Requests that no client sends: those of a recorded exchange, changed at random."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from tests.gateway.gateway_transcript import UUID, Exchange

_SEGMENTS = (
    *("..", ".", "", "%2e%2e", "%2E%2E%2f", "..%2f..%2f..%2fetc%2fpasswd", "%252e%252e%252f", "%252e%252e", "..;"),
    *("%00", "a%00b", "%c0%ae%c0%ae", "%ff%fe", "%u002e", "%", "%zz", "*", "{session_handle}", "~", "a%0d%0aX:%20y"),
    *("%5c..%5c", "con", "%F0%9F%92%A9", "x" * 5000, "%41" * 2000, "..." * 20, "%2f" * 30, "null", "-1", "[]", "'"),
    *("00000000-0000-0000-0000-000000000000", "0" * 36, "/" * 40, "v4", "v9", "plans", "page", "jobs", "sessions"),
)
_TOKENS = (
    *("-1", "-0", "00", "1", "2", "7", "9" * 18, "9" * 19, "9" * 5000, "1e3", "0x10", "1.0", "+1", "%201", "١", "NaN"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "1_0", "", "0;1", "0%00", "null"),
)
_QUERIES = (
    *("rowFormat=", "rowFormat=XML", "rowFormat=json", "rowFormat=JSON&rowFormat=PLAIN_TEXT", "rowFormat", "=", "&&&"),
    *("rowFormat=%00", "rowFormat=%ff", "rowFormat=%EF%AC%80", "a=" + "b" * 20_000),
    *("&".join(f"k{i}=1" for i in range(999)), "rowFormat=PLAIN_TEXT%0d%0aX:y", "rowFormat[]=JSON"),
    *("%72owFormat=JSON", "?rowFormat=JSON", "rowFormat=" + "9" * 999),
)
_VALUES: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, 10**40, -(10**40), 1.5, 1e308, "", "\x00", "a\x00b"),
    *("💩", [], {}, [[]], [None], {"": ""}, {"a": None}, {"a": []}, {"a": {"b": 1}}, "x" * 100_000, "\ud800"),
    *("a\udc80", "\ufeff", "NaN", "-0", "'", '"', "\\", "\r\n", "../../etc/passwd", "${jndi:ldap://x}", "%s%n", "{0}"),
    *("\u202e", ["SHOW TABLES"]),
)
_TEXTS = (
    *(b"", b"{", b"[", b'"', b"nul", b"{}{}", b"{},", b"[]", b"1", b'"x"', b"null", b"\x00", b"\xff\xfe"),
    *(b"\xef\xbb\xbf{}", b'{"statement": NaN}', b'{"executionTimeout": Infinity}', b'{"executionTimeout": 1e999}'),
    *(b'{"a": "\xff"}', b'{"executionTimeout": ' + b"9" * 5000 + b"}", b"[" * 100_000, b'{"a":' * 50_000),
    *(b"[" * 900 + b"]" * 900, b'{"statement": "SHOW TABLES", "statement": 5}'),
    *(b'{"statement": "a", "statement": "SHOW TABLES"}', b'{"statement": "\\ud800"}'),
    *(b'{"sessionName": "\\udfff\\ud800"}', b'{"properties": {"\\ud800": "\\udc00"}}', b"statement=SHOW+TABLES"),
    *(b"<a/>", b"--x\r\nContent-Disposition: form-data\r\n\r\n1", b"{'statement': 'x'}"),
    *('{"statement": "SHOW TABLES"}'.encode("utf-16"), '{"statement": "SHOW TABLES"}'.encode("utf-32-le")),
)
_STATEMENTS = (
    *("(" * 5000, "SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT 1" + " + 1" * 3000),
    *("SELECT '" + "\x00" * 9 + "'", "SELECT U&'\\D800'", "SELECT U&'\\+110000'", "SELECT '\ud800'", "/*" * 999, "--"),
    *(";" * 999, "`" * 999, "\\", "\x1b[2J", "SHOW JOBS", "STOP JOB '../..'", "DESCRIBE JOB '" + "a" * 9999 + "'"),
    *("SHOW CREATE TABLE `..`", "USE `..`", "SET", "SET 'a' = '\x00'", "SET '' = ''"),
    *("SET 'table.local-time-zone' = '../../etc/passwd'", "RESET '../x'", "HELP", "QUIT", "EXECUTE PLAN '\x00'"),
    *("EXECUTE PLAN 'plan://../x'", "EXPLAIN PLAN '/proc/self/environ'", "ADD JAR '/x.jar'", "🙂"),
    *("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '/etc', 'format' = 'csv')", "LOAD MODULE x"),
    *("CREATE FUNCTION f AS 'os.system' LANGUAGE PYTHON",),
    *("CREATE TABLE t (" + ",".join(f"c{i} INT" for i in range(999)) + ")", "SELECT " + ",".join(["1"] * 3000)),
    *("WITH " + ",".join(f"t{i} AS (SELECT 1)" for i in range(99)) + " SELECT 1",),
)
_METHODS = (
    *("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "X", "PROPFIND"),
    *("G" * 9000, "PRI", "GET\x00", "GE T", "", "()", "POST\t"),
)
_HOSTS = (
    *("evil.example", "127.0.0.1.evil.example", "", "[::1", "[::1]", "localhost:1", "a@127.0.0.1", "127.0.0.1, evil"),
    *("127.1", "2130706433", "LOCALHOST", "localhost.", "\x7f", "127.0.0.1:99999", "é", "127.0.0.1#@evil"),
)
_ORIGINS = (
    *("null", "http://evil.example", "https://127.0.0.1", "http://localhost:1", "file://", "", "*"),
    *("http://127.0.0.1",),
)
_SITES = ("cross-site", "same-site", "none", "same-origin", "", "x" * 999, "CROSS-SITE")
_TYPES = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "a/b" * 999),
    *("application/json; charset=utf-7", "application/json; charset=" + "x" * 99, "application/xml"),
)
_LENGTHS = (
    *("-1", "0", "1", "99999999999999999999", "9" * 5000, "1e3", "0x10", "+5", "5, 5", "5, 6", "", " ", "4194305"),
    *("١",),
)
_ENCODINGS = ("chunked", "identity", "gzip, chunked", "chunked, chunked", "xchunked", "", "CHUNKED", "chunked\x0b")


@dataclass(frozen=True)
class Hostile:
    """A request, ready to be sent.

    Attributes:
        kinds: the changes, by name.
        cut: whether it may end before it is whole, so that no answer need come.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    kinds: tuple[str, ...] = ()
    cut: bool = False
    raw: bytes | None = field(default=None, repr=False)

    @property
    def data(self) -> bytes:
        if self.raw is not None:
            return self.raw
        head = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        return f"{self.method} {self.target} HTTP/1.1\r\n{head}\r\n".encode("utf-8", "surrogateescape") + self.body


class Hostility:
    """Changes requests.

    Args:
        rng: decides on everything.
        handles: gives a session and an operation that there are, for the recorded ones.
        headers: of an ordinary request with a body of so many bytes.
    """

    def __init__(
        self,
        rng: random.Random,
        handles: Callable[[], tuple[str, str]],
        headers: Callable[[bytes], Mapping[str, str]],
    ) -> None:
        self._rng = rng
        self._handles = handles
        self._headers = headers
        self._changes: Sequence[Callable[[Hostile], Hostile]] = (
            *(self._path, self._path, self._handle, self._token, self._query, self._method, self._body, self._body),
            *(self._value, self._value, self._statement, self._statement, self._bytes, self._host, self._origin),
            *(self._type, self._length, self._encoding, self._header, self._raw),
        )

    def of(self, exchange: Exchange) -> Hostile:
        """A recorded request with one to three changes."""
        session, operation = self._handles()
        path = re.sub(rf"/operations/{UUID.pattern}", f"/operations/{operation}", exchange.path)
        path = re.sub(rf"/sessions/{UUID.pattern}", f"/sessions/{session}", path)
        body = (exchange.body or "").encode()
        made = Hostile(exchange.method, path, (), body)
        for change in self._rng.sample(self._changes, self._rng.choice((1, 1, 2, 3))):
            made = change(made)
            made = replace(made, kinds=(*made.kinds, change.__name__))
        return self._finished(made)

    def _finished(self, made: Hostile) -> Hostile:
        """With the ordinary headers where it has none of its own."""
        given = {name.lower() for name, _ in made.headers}
        ordinary = [(n, v) for n, v in self._headers(made.body).items() if n.lower() not in given]
        if "transfer-encoding" in given and "content-length" not in given:
            ordinary = [(n, v) for n, v in ordinary if n != "Content-Length"]
        return replace(made, headers=(*ordinary, *made.headers))

    def _one(self, among: Sequence[str]) -> str:
        return self._rng.choice(among)

    # the target

    def _path(self, made: Hostile) -> Hostile:
        path, mark, query = made.target.partition("?")
        parts = path.split("/")
        for _ in range(self._rng.choice((1, 1, 2))):
            place = self._rng.randrange(1, len(parts) + 1)
            parts[place : place + self._rng.randrange(2)] = [self._one(_SEGMENTS)]
        return replace(made, target="/".join(parts) + mark + query)

    def _handle(self, made: Hostile) -> Hostile:
        found = UUID.findall(made.target)
        if not found:
            return replace(made, target=f"/v4/plans/{self._one(_SEGMENTS)}", method=self._one(("GET", "PUT", "DELETE")))
        old = self._rng.choice(found)
        new = self._one(
            (
                old.upper(),
                old[:-1],
                old + "0",
                old.replace("-", ""),
                f"{{{old}}}",
                f"%20{old}",
                old[::-1],
                quote(old, safe="").replace("-", "%2d"),
                *_SEGMENTS,
            )
        )
        return replace(made, target=made.target.replace(old, new))

    def _token(self, made: Hostile) -> Hostile:
        if "/result/" in made.target:
            return replace(made, target=re.sub(r"/result/\d+", lambda _: f"/result/{self._one(_TOKENS)}", made.target))
        return replace(made, target=f"/v{self._one(_TOKENS)}{made.target}")

    def _query(self, made: Hostile) -> Hostile:
        return replace(made, target=f"{made.target.partition('?')[0]}?{self._one(_QUERIES)}")

    def _method(self, made: Hostile) -> Hostile:
        return replace(made, method=self._one(_METHODS), cut=True)

    # the body

    def _body(self, made: Hostile) -> Hostile:
        return replace(made, body=self._rng.choice(_TEXTS))

    def _value(self, made: Hostile) -> Hostile:
        try:
            found = json.loads(made.body or b"{}")
        except (ValueError, RecursionError):
            return made
        if not isinstance(found, dict):
            return made
        names = ("statement", "executionTimeout", "executionConfig", "sessionName", "properties", "position", "odd")
        for _ in range(self._rng.choice((1, 2))):
            found[self._one(names)] = self._rng.choice(_VALUES)
        return replace(made, body=json.dumps(found).encode())

    def _statement(self, made: Hostile) -> Hostile:
        """Another statement, and where to complete it."""
        text = self._one(_STATEMENTS)
        try:
            recorded = json.loads(made.body or b"{}").get("statement")
        except (ValueError, AttributeError, RecursionError):
            recorded = None
        if isinstance(recorded, str) and self._rng.random() < 0.5:
            text = self._garbled(recorded)
        position = self._rng.choice((0, 1, len(text), len(text) // 2, len(text) + 1, 2**40, -1))
        body = json.dumps(
            {"statement": text, "position": position, "executionTimeout": self._rng.choice((0, 1, 2**52))}
        )
        session = self._handles()[0]
        path, method = self._rng.choice(
            (("statements", "POST"), ("complete-statement", "GET"), ("configure-session", "POST"))
        )
        return replace(made, method=method, target=f"/v4/sessions/{session}/{path}", body=body.encode())

    def _garbled(self, text: str) -> str:
        chars = list(text)
        for _ in range(self._rng.randrange(1, 6)):
            place = self._rng.randrange(len(chars) + 1)
            chars[place : place + self._rng.randrange(4)] = self._one(
                ("'", "(", ")", "`", ";", "\x00", "é", "--", ",", "")
            )
        return "".join(chars)

    def _bytes(self, made: Hostile) -> Hostile:
        """Bytes of the body changed, or its end missing."""
        data = bytearray(made.body or b'{"statement": "SHOW TABLES"}')
        if self._rng.random() < 0.4:
            return replace(made, body=bytes(data[: self._rng.randrange(len(data))]))
        for _ in range(self._rng.randrange(1, 9)):
            data[self._rng.randrange(len(data))] = self._rng.randrange(256)
        return replace(made, body=bytes(data))

    # headers

    def _with(self, made: Hostile, name: str, *values: str, cut: bool = False) -> Hostile:
        kept = tuple((n, v) for n, v in made.headers if n.lower() != name.lower())
        return replace(made, headers=(*kept, *((name, value) for value in values)), cut=made.cut or cut)

    def _host(self, made: Hostile) -> Hostile:
        hosts = [self._one(_HOSTS) for _ in range(self._rng.choice((1, 1, 2)))]
        return self._with(made, "Host", *hosts)

    def _origin(self, made: Hostile) -> Hostile:
        if self._rng.random() < 0.5:
            return self._with(made, "Origin", self._one(_ORIGINS))
        return self._with(made, "Sec-Fetch-Site", *[self._one(_SITES) for _ in range(self._rng.choice((1, 2)))])

    def _type(self, made: Hostile) -> Hostile:
        return self._with(made, "Content-Type", self._one(_TYPES))

    def _length(self, made: Hostile) -> Hostile:
        values = [self._one(_LENGTHS) for _ in range(self._rng.choice((1, 1, 2)))]
        return self._with(made, "Content-Length", *values, cut=True)

    def _encoding(self, made: Hostile) -> Hostile:
        """A chunked body, well-formed or not, perhaps with a length as well."""
        size = self._one((f"{len(made.body):x}", "0", "-1", "ffffffffffffffff", "zz", "1;x=" + "y" * 999, "", "1_0"))
        body = (
            f"{size}\r\n".encode()
            + made.body
            + self._rng.choice((b"\r\n0\r\n\r\n", b"\r\n", b"", b"0\r\nX: y\r\n\r\n"))
        )
        made = self._with(replace(made, body=body), "Transfer-Encoding", self._one(_ENCODINGS), cut=True)
        if self._rng.random() < 0.4:
            made = self._with(made, "Content-Length", self._one((*_LENGTHS, str(len(body)))), cut=True)
        return made

    def _header(self, made: Hostile) -> Hostile:
        name, value = self._rng.choice(
            (
                *(("Authorization", "Bearer " + "x" * 9999), ("Authorization", "\xff"), ("Cookie", "a=b")),
                *(("Upgrade", "h2c"), ("Expect", "100-continue"), ("Range", "bytes=0-1")),
                *(("X-Forwarded-For", "1.2.3.4"), ("Accept", "x" * 999), ("Connection", "Upgrade")),
                *(("Forwarded", "host=evil"), ("X" * 9000, "y"), ("X", "y" * 70_000), ("", "y")),
                *(("X-HTTP-Method-Override", "DELETE"), ("If-None-Match", "*"), ("X y", "z"), ("X", "a\r\n b")),
                *(("X", "\x00"),),
            )
        )
        return self._with(made, name, value)

    def _raw(self, made: Hostile) -> Hostile:
        """Bytes of the whole request changed."""
        data = bytearray(self._finished(made).data)
        for _ in range(self._rng.randrange(1, 5)):
            data[self._rng.randrange(len(data))] = self._rng.randrange(256)
        return replace(made, raw=bytes(data), cut=True)
