"""Clients that do not read: what they have not taken is bounded in bytes, and everybody else is served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from stateplan.connectors import results
from stateplan.connectors.results import ResultChannel
from stateplan.gateway.rest import guard, memory_room
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import GatewayHere, gateway_here
from tests.support.waiting import until

MIB = 1 << 20
ROWS, WIDTH = 500, 2000
"""Of a result: a page of 1 MB."""
MOST = 4 * MIB


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHere]:
    folder = tmp_path_factory.mktemp("slow")
    (folder / "in").mkdir()
    rows = (json.dumps({"id": i, "s": f"{i:x<{WIDTH}}"}) for i in range(ROWS))
    (folder / "in" / "rows.json").write_text("\n".join(rows) + "\n")
    limits = Limits(idle_timeout=0, unread=MOST, results=50 * MIB)
    service = SqlGatewayService(limits, folder=folder / "state", keep_unknown=True)
    with gateway_here(service, send_buffer=64 << 10) as found:
        yield found


def results_of(gateway: GatewayHere, count: int) -> list[str]:
    """Paths of the first pages of so many queries, with 20 in a session."""
    found = []
    for number in range(count):
        if number % 20 == 0:
            session = gateway.session()
            path = gateway.service._store.folder.parent / "in"  # type: ignore[union-attr]
            gateway.run(
                session,
                f"CREATE TABLE t (id BIGINT, s STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', "
                "'format' = 'json')",
            )
        answer = gateway.http.post(f"/v4/sessions/{session}/statements", json={"statement": "SELECT * FROM t"})
        found.append(f"/v4/sessions/{session}/operations/{answer.json()['operationHandle']}/result/0")
    for path in found:
        status = path.replace("/result/0", "/status")
        until(lambda status=status: gateway.http.get(status).json()["status"] in ("FINISHED", "ERROR"), 60)  # type: ignore[misc]
    return found


def close(gateway: GatewayHere) -> None:
    for session in gateway.service.sessions():
        gateway.service.close_session(session.handle)


@contextlib.contextmanager
def asking(gateway: GatewayHere, paths: list[str]) -> Iterator[list[socket.socket]]:
    """Connections that have asked for a page each, and read nothing."""
    with gateway.connections(len(paths)) as connections:
        for connection, path in zip(connections, paths, strict=True):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield connections


def test_answers_that_nobody_reads_are_bounded_in_bytes(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_room, "STILL_SECONDS", 30.0)
    paths = results_of(gateway, 40)
    process = psutil.Process()
    gateway.http.get(paths[0])  # what the first page loads
    memory = process.memory_info().rss
    with asking(gateway, paths) as connections:
        peak = 0
        for _ in range(10):
            peak = max(peak, process.memory_info().rss - memory)
            begun = time.monotonic()
            assert gateway.http.get("/v4/info").status_code == 200
            assert time.monotonic() - begun < 2
            time.sleep(0.1)
        assert peak < 6 * MOST, "40 pages as text are 40 MB"
        gateway.assert_well()
        answers = [connection.recv(12_000) for connection in connections]
        waiting = [a for a in answers if b"NOT_READY" in a]
        assert len(waiting) >= 30
        assert all(b"/result/0" in a for a in waiting), "they may ask again for the same page"
    close(gateway)
    gateway.assert_well()


def test_who_reads_gets_all_rows_while_others_do_not_read(
    gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that are still give way; what they have not read can be fetched again."""
    monkeypatch.setattr(memory_room, "STILL_SECONDS", 0.5)
    paths = results_of(gateway, 12)
    with asking(gateway, paths[:8]):
        time.sleep(0.3)

        def read(path: str) -> list[int]:
            page = gateway.http.get(path).json()
            tries = 0
            while page["resultType"] == "NOT_READY" and tries < 40:
                page, tries = gateway.http.get(page["nextResultUri"]).json(), tries + 1
            return [row["fields"][0] for row in page["results"]["data"]]

        with ThreadPoolExecutor(4) as readers:
            assert all(found == list(range(ROWS)) for found in readers.map(read, paths[8:]))
    assert read(paths[0]) == list(range(ROWS))
    close(gateway)
    gateway.assert_well()


def test_an_answer_in_pieces_is_whole(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = results_of(gateway, 1)
    whole = gateway.http.get(path).content
    assert len(whole) > ROWS * WIDTH
    for piece in (50_000, len(whole) - 1, len(whole), len(whole) + 1):
        monkeypatch.setattr(guard, "PIECE", piece)
        assert gateway.http.get(path).content == whole
    close(gateway)


def test_an_answer_without_a_page_is_refused_with_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing like NOT_READY for it. Later it is given."""
    monkeypatch.setattr(memory_room, "WAIT_SECONDS", 0.05)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"x" * 3 * MIB)(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def played() -> None:
        guarded = guard.Guard(app, guard.Access(), 5 * MIB)
        read, sent = asyncio.Event(), list[Message]()

        async def slow(message: Message) -> None:
            await read.wait()

        async def quick(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "headers": [(b"host", b"localhost")]}
        first = asyncio.create_task(guarded(scope, receive, slow))
        await asyncio.sleep(0.01)
        await guarded(scope, receive, quick)
        assert sent[0]["status"] == 503
        assert dict(sent[0]["headers"])[b"retry-after"] == b"1"
        assert b"[GW010]" in sent[1]["body"]
        assert len(sent) == 2
        read.set()
        await first
        sent.clear()
        await guarded(scope, receive, quick)
        assert b"".join(m.get("body", b"") for m in sent) == b"x" * 3 * MIB
        assert len(sent) > 40

    asyncio.run(played())


def test_bodies_that_do_not_end(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_room, "STILL_SECONDS", 30.0)
    head = "POST /v4/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n"
    with gateway.connections(20) as connections:
        for connection in connections:
            with contextlib.suppress(OSError):  # it is refused already
                connection.sendall(head.encode() + b" " * 2_000_000)
        time.sleep(1)
        answers = []
        for connection in connections:
            connection.settimeout(0.1)
            with contextlib.suppress(TimeoutError, ConnectionError):
                answers.append(connection.recv(4000))
        assert sum(b"GW010" in answer for answer in answers) >= 8
        gateway.assert_well()
    gateway.assert_well()


def test_results_that_nobody_fetches_keep_further_queries_out(gateway: GatewayHere) -> None:
    paths = results_of(gateway, 60)
    session = gateway.session()
    refused = gateway.run(session, "SELECT 1")
    assert refused.status_code == 500
    assert "[GW011]" in refused.text
    assert gateway.run(session, "SHOW TABLES").status_code == 200
    for path in paths[:40]:
        gateway.http.delete(path[: path.rindex("/result")] + "/close")
    until(lambda: gateway.run(session, "SELECT 1").status_code == 200, 10)
    close(gateway)
    gateway.assert_well()


def test_a_job_waits_while_its_rows_take_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    import polars as pl

    monkeypatch.setattr(results, "BUFFERED_BYTES", 1 * MIB)
    channel = ResultChannel()
    frame = pl.DataFrame({"c0": ["x" * 1000] * 600})
    put = []

    def write() -> None:
        for _ in range(4):
            channel.put(frame)
            put.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: len(put) == 2, 5)
    time.sleep(0.1)
    assert len(put) == 2
    taken = 0
    while taken < 4 * 600:
        rows = channel.take(5, 250)
        assert rows is not None
        taken += rows.height
    writer.join(5)
    assert channel.waiting_bytes == 0
    assert not writer.is_alive()
