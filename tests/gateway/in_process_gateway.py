"""A gateway in this process, on a port of this machine: asked byte by byte, and its log read."""

from __future__ import annotations

import contextlib
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any

import httpx

from stateplan.gateway.rest.app import application
from stateplan.gateway.rest.guard import Access, Guard
from stateplan.gateway.rest.server import bind, server
from stateplan.gateway.service.service import SqlGatewayService

LOGGERS = ("stateplan.gateway", "uvicorn.error", "asyncio")
EXPECTED = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library detected")
"""What the log says of requests that are none."""


@dataclass
class Answer:
    """What came back; ``status`` 0 stands for a connection that was closed without an answer."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> list[str]:
        """All values of a header."""
        return [value for key, value in self.headers if key.lower() == name]


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@dataclass
class GatewayHere:
    """A gateway that serves.

    Attributes:
        port: on 127.0.0.1.
        http: a client of it.
    """

    service: SqlGatewayService
    port: int
    http: httpx.Client
    records: list[logging.LogRecord]

    def connect(self, seconds: float = 20) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    @contextlib.contextmanager
    def connections(self, count: int) -> Iterator[list[socket.socket]]:
        """So many new connections, one after the other."""
        with contextlib.ExitStack() as opened:
            yield [opened.enter_context(self.connect()) for _ in range(count)]

    def ask(self, raw: bytes, patience: float | None = None, seconds: float = 20) -> Answer:
        """The answer to these bytes, on a connection of their own.

        Args:
            raw: of the request.
            patience: seconds after which the other side is told that nothing more is sent; None to go on waiting.
            seconds: to wait at most.
        """
        with self.connect(seconds) as connection:
            with contextlib.suppress(OSError):  # it may have refused already, and be gone
                connection.sendall(raw)
                if patience is not None and not select.select([connection], [], [], patience)[0]:
                    connection.shutdown(socket.SHUT_WR)
            return read_answer(connection, raw.partition(b" ")[0].decode("latin-1"))

    def request(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        """The answer to a request in its usual form."""
        return self.ask(request_bytes(method, path, {**self.headers(body), **(headers or {})}, body))

    def headers(self, body: bytes = b"") -> dict[str, str]:
        """Those of an ordinary request."""
        return {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }

    def session(self) -> str:
        """The handle of a new session."""
        answer = self.http.post("/v4/sessions", json={})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["sessionHandle"])

    def run(self, session: str, statement: str, **more: Any) -> httpx.Response:
        """The first page of a statement that has rows or is the last, or its error."""
        path = f"/v4/sessions/{session}"
        answer = self.http.post(f"{path}/statements", json={"statement": statement, **more})
        assert answer.status_code == 200, answer.text
        until, at = time.monotonic() + 60, f"{path}/operations/{answer.json()['operationHandle']}/result/0"
        while time.monotonic() < until:
            page = self.http.get(at)
            if page.status_code != 200 or (content := page.json())["resultType"] == "EOS":
                return page
            if content["resultType"] == "PAYLOAD" and content["results"]["data"]:
                return page
            at = content["nextResultUri"]
        raise AssertionError(f"{statement} takes too long")

    def complaints(self) -> list[str]:
        """What the log says that nobody expects."""
        return [
            f"{record.name}: {record.getMessage()} {record.exc_info or ''}"
            for record in self.records
            if record.exc_info or (record.levelno >= logging.WARNING and not record.getMessage().startswith(EXPECTED))
        ]

    def assert_well(self) -> None:
        """It serves, and its log has no surprise."""
        session = self.session()
        assert self.run(session, "SHOW CATALOGS").json()["results"]["data"]
        assert self.http.delete(f"/v4/sessions/{session}").status_code == 200
        assert self.complaints() == []


def request_bytes(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A request as it is sent."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def read_answer(connection: socket.socket, method: str = "GET") -> Answer:
    """The next answer on a connection."""
    response = HTTPResponse(connection, method=method)
    try:
        response.begin()
        return Answer(response.status, response.getheaders(), response.read())
    except (HTTPException, ConnectionError):  # closed in the middle, or with bytes of ours unread
        return Answer(0)
    finally:
        response.close()


@contextlib.contextmanager
def gateway_here(
    service: SqlGatewayService,
    access: Access | None = None,
    tls: dict[str, Any] | None = None,
    send_buffer: int | None = None,
    **guard: Any,
) -> Iterator[GatewayHere]:
    """Serves a service, which ends with it.

    Args:
        service: what is served.
        access: who may use it.
        tls: arguments of uvicorn.
        send_buffer: bytes that the operating system takes of an answer that nobody reads; None for its own choice.
        guard: more arguments of :class:`Guard`.
    """
    records = _Records()
    for name in LOGGERS:
        logging.getLogger(name).addHandler(records)
    listener = bind("127.0.0.1", 0)
    if send_buffer is not None:  # connections have what their listener has
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    port = listener.getsockname()[1]
    served = server(
        Guard(application(service), access or Access(), **{"memory_limit": service.limits.unread, **guard}), tls
    )
    thread = threading.Thread(target=served.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
    try:
        until = time.monotonic() + 20
        while not served.started:
            assert thread.is_alive() and time.monotonic() < until, "the gateway does not start"
            time.sleep(0.01)
        yield GatewayHere(service, port, http, records.found)
    finally:
        http.close()
        served.should_exit = True
        thread.join(30)
        listener.close()
        service.stop()
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(records)
