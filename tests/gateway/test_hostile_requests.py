"""Hostile requests to a gateway that runs: it refuses them in the form of Flink's errors, and goes on."""

from __future__ import annotations

import contextlib
import random
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from stateplan.gateway.rest import guard, server
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.gateway_transcript import TRANSCRIPT, exchanges
from tests.gateway.hostile_requests import Hostile, Hostility
from tests.gateway.in_process_gateway import Answer, GatewayHere, gateway_here, read_answer, request_bytes

SEED, REQUESTS = 7, 2000
SECURITY = ("x-content-type-options", "x-frame-options", "cross-origin-resource-policy", "cache-control")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHere]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "root").mkdir()
    limits = Limits(idle_timeout=0, max_sessions=5000)
    service = SqlGatewayService(limits, folder=folder / "state", roots=[str(folder / "root")], keep_unknown=True)
    with gateway_here(service) as found:
        yield found


class Handles:
    """A session and an operation that there are, until somebody closes them."""

    def __init__(self, gateway: GatewayHere) -> None:
        self._gateway = gateway
        self._left = 0
        self._found = ("", "")

    def __call__(self) -> tuple[str, str]:
        if self._left == 0:
            session = self._gateway.session()
            submitted = self._gateway.http.post(f"/v4/sessions/{session}/statements", json={"statement": "SHOW JOBS"})
            self._found, self._left = (session, str(submitted.json()["operationHandle"])), 20
        self._left -= 1
        return self._found


def test_requests_of_a_client_changed_at_random(gateway: GatewayHere) -> None:
    if TRANSCRIPT is None:
        pytest.skip("no reference material: set STATEPLAN_SHARED to its folder")
    rng = random.Random(SEED)
    recorded = exchanges()
    hostility = Hostility(rng, Handles(gateway), gateway.headers)
    sent = [hostility.of(rng.choice(recorded)) for _ in range(REQUESTS)]
    with ThreadPoolExecutor(8) as several:
        answers = several.map(lambda one: gateway.ask(one.data, 0.2 if one.cut else None), sent)
        for number, (one, answer) in enumerate(zip(sent, answers, strict=True)):
            why = why_wrong(one, answer)
            assert not why, f"request {number}, {one.kinds}: {why}\n{one.data[:3000]!r}\n{answer}"
    assert gateway.complaints() == []
    gateway.assert_well()


def why_wrong(sent: Hostile, answer: Answer) -> str:
    """What is wrong with an answer; empty when nothing is."""
    if answer.status == 0:
        return "" if sent.cut else "no answer"
    for name in SECURITY:
        if len(answer.header(name)) != 1:
            return f"{name}: {answer.header(name)}"
    if sent.method == "HEAD" or answer.status == 304:
        return ""
    if b"Traceback" in answer.body or b'.py"' in answer.body or b"BUG000" in answer.body:
        return "a bug shows"
    if answer.status in (200, 201):
        return ""
    try:
        errors = answer.json()["errors"]
    except (ValueError, KeyError, TypeError):
        return "no error as Flink's gateway gives them"
    if not errors or not all(isinstance(text, str) for text in errors):
        return "no error as Flink's gateway gives them"
    coded = re.search(r"\[[A-Z]+\d{3}\] ", errors[-1])
    if answer.status >= 500:
        return "" if coded and answer.status in (500, 501) else "an error of the gateway without a code"
    return "" if 400 <= answer.status < 500 else f"status {answer.status}"


def test_headers_of_every_answer(gateway: GatewayHere) -> None:
    for path in ("/", "/page/files/page.css", "/page/files/nothing.js", "/page/jobs", "/v4/info", "/v4/nothing"):
        answer = gateway.request("GET", path)
        assert [len(answer.header(name)) for name in SECURITY] == [1] * len(SECURITY), path
    for path in ("/sessions", "/v4/sessions", "/v1/sessions/", "/sessions/"):  # the last one is in Flink's pages
        assert gateway.request("POST", path, body=b"{}").status == 200


# too much, and too slow


def chunked(body: bytes, size: int = 500) -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize("framing", ["Content-Length", "Transfer-Encoding"])
def test_a_body_that_is_too_large(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch, framing: str) -> None:
    monkeypatch.setattr(guard, "MAX_BODY", 1000)
    monkeypatch.setattr(guard, "MAX_PLAN", 2000)
    for method, path, most in (("POST", "/v4/sessions", 1000), ("PUT", "/v4/plans/p", 2000)):
        for size, refused in ((most, False), (most + 1, True), (20_000, True)):
            body = b"{" + b" " * (size - 2) + b"}"
            headers = gateway.headers(body)
            if framing == "Transfer-Encoding":
                del headers["Content-Length"]
                headers[framing], body = "chunked", chunked(body)
            answer = gateway.ask(request_bytes(method, path, headers, body))
            assert (answer.status == 413) == refused, (method, size, answer)
            assert not refused or "[GW021]" in answer.json()["errors"][0]
    gateway.assert_well()


def test_a_body_that_is_not_sent(gateway: GatewayHere) -> None:
    """Its length says too much, so nobody waits for it."""
    headers = {**gateway.headers(), "Content-Length": str(guard.MAX_BODY + 1)}
    assert gateway.ask(request_bytes("POST", "/v4/sessions", headers)).status == 413
    headers = {**gateway.headers(), "Content-Length": "2", "Transfer-Encoding": "chunked"}
    answer = gateway.ask(request_bytes("POST", "/v4/sessions", headers, chunked(b"{}")))
    assert (answer.status, answer.json()["errors"]) == (400, ["[GW023] the request has two lengths"])


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_comes_byte_by_byte(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch, framing: str) -> None:
    """Every byte comes in time, and all of them do not."""
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    head = f"POST /v4/sessions HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode()
    with gateway.connect() as connection:
        connection.sendall(head)
        answer = dribbled(connection, b"{" if "Length" in framing else b"1\r\n \r\n")
    assert (answer.status, answer.json()["errors"]) == (408, ["[GW022] the request did not arrive within 0 seconds"])
    gateway.assert_well()


def dribbled(connection: socket.socket, part: bytes) -> Answer:
    """The answer to somebody who sends a part again and again, ten times a second."""
    for _ in range(300):
        if select.select([connection], [], [], 0.1)[0]:
            return read_answer(connection)
        connection.sendall(part)
    raise AssertionError("nobody ends this")


def test_a_long_body_may_take_longer(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(guard, "BODY_RATE", 1000)
    body = b"{" + b" " * 1998 + b"}"
    with gateway.connect() as connection:
        connection.sendall(request_bytes("POST", "/v4/sessions", gateway.headers(body)))
        for i in range(10):
            connection.sendall(body[200 * i : 200 * (i + 1)])
            time.sleep(0.1)
        assert read_answer(connection).status == 200


@pytest.mark.parametrize("earlier", [0, 2])
def test_a_head_that_comes_byte_by_byte(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch, earlier: int) -> None:
    """On a new connection, and after requests that were in order."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with gateway.connect() as connection:
        for _ in range(earlier):
            connection.sendall(b"GET /v4/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_answer(connection).status == 200
        connection.sendall(b"GET /v4/info HTTP/1.1\r\nX: ")
        answer = dribbled(connection, b"x")
    assert answer.status == 408 and "[GW022]" in answer.json()["errors"][0]
    gateway.assert_well()


def test_answers_that_nobody_reads(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection asks for a large answer a hundred times. It gets no thread, one answer in memory, and an end."""
    monkeypatch.setattr(server, "WRITE_SECONDS", 1.0)
    properties = {f"k{i}": "x" * 1000 for i in range(3000)}
    opened = gateway.http.post("/v4/sessions", json={"properties": properties}).json()["sessionHandle"]
    asked = f"GET /v4/sessions/{opened} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 100
    process = psutil.Process()
    threads, memory = threading.active_count(), process.memory_info().rss
    with gateway.connections(10) as unread:
        for connection in unread:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(asked)
        gateway.assert_well()
        assert threading.active_count() <= threads + 2
        assert process.memory_info().rss - memory < 300 << 20  # 10 * 100 * 3 MB would be 3 GB
        until = time.monotonic() + 20
        while any(map(is_open, unread)):
            assert time.monotonic() < until, "connections are held for ever"
            time.sleep(0.1)
    gateway.http.delete(f"/v4/sessions/{opened}")
    gateway.assert_well()


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has not given the connection up."""
    try:
        connection.send(b"\r\n")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def begun(gateway: GatewayHere, count: int) -> Iterator[list[socket.socket]]:
    """Connections with a request under way: the gateway has asked for its body."""
    head = b"POST /v4/sessions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with contextlib.ExitStack() as opened:
        found = []
        for _ in range(count):
            found.append(opened.enter_context(gateway.connect()))
            found[-1].sendall(head)
            assert found[-1].recv(1000).startswith(b"HTTP/1.1 100")
            found[-1].sendall(b"{")
        yield found


def test_connections_that_do_nothing(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """They give way to others, the oldest first. Those with a request under way do not, nor a client that waits."""
    monkeypatch.setattr(server, "CONNECTIONS", 20)
    gateway.assert_well()
    with begun(gateway, 5) as busy, gateway.connections(200) as idle:
        gateway.assert_well()
        for connection in busy:
            connection.sendall(b"}")
            assert read_answer(connection).status == 200
        closed = [select.select([connection], [], [], 0)[0] != [] for connection in idle]
        assert closed[:150] == [True] * 150 and not closed[-1]
    gateway.assert_well()


def test_too_many_requests_at_a_time(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 5)
    with begun(gateway, 5) as busy:
        answer = gateway.ask(b"")
        assert (answer.status, answer.json()["errors"]) == (503, ["[GW025] there are 5 connections already"])
        for connection in busy:
            connection.sendall(b"}")
            assert read_answer(connection).status == 200
    gateway.assert_well()


def test_the_head_of_a_request_may_be_so_long(gateway: GatewayHere) -> None:
    for size, status in ((50_000, 200), (200_000, 400)):
        assert gateway.request("GET", "/v4/info", {"X": "x" * size}).status == status


@pytest.mark.parametrize("where", ["guard", "application"])
def test_a_bug_has_the_form_of_an_error(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("stateplan.gateway.service.service.SqlGatewayService.named_plans", broken)
    monkeypatch.setattr("stateplan.gateway.rest.guard.Access.check", broken if where == "guard" else lambda *_: None)
    answer = gateway.request("GET", "/v4/plans")
    assert answer.status == 500 and answer.json()["errors"][0].startswith("[BUG000]") and b"secret" not in answer.body
    assert [len(answer.header(name)) for name in SECURITY] == [1] * len(SECURITY)
    until = time.monotonic() + 10
    while len(gateway.complaints()) != 1:  # it is noted when the answer is sent
        assert time.monotonic() < until
        time.sleep(0.01)
    gateway.records.clear()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "connections"), [(1024, 100_000, 4000, 2000), (256, 512, 512, 256), (-1, -1, -1, 2000)]
)
def test_open_files(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int, connections: int) -> None:
    import resource

    limit = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda what: tuple(limit))
    monkeypatch.setattr(resource, "setrlimit", lambda what, new: limit.__setitem__(slice(None), new))
    server.allow_files()
    assert (limit[0], server.connections()) == (allowed, connections)
