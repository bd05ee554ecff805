"""The HTTP server: uvicorn, with a time limit for everything that the other side does.

Codes: GW017, GW022, GW023, GW025.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from stateplan.common.errors import GatewayError
from stateplan.gateway.rest.guard import security_headers
from stateplan.gateway.rest.wire import JSON, dumps, problem

HEADER_SECONDS = 30.0
"""So long the head of a request may take; that of the first one from the connection on."""
WRITE_SECONDS = 60.0
"""So long the other side may leave an answer unread."""
KEEP_ALIVE_SECONDS = 75
CONNECTIONS = 2000
_OTHER_FILES = 1000
"""How many open files are reserved for everything else."""
MAX_HEADER = 64 << 10
MIN_TOKEN = 16
_GRACE_SECONDS = 10


class GatewayProtocol(H11Protocol):
    """A connection that ends when the other side does not continue. Where there are too many, one without a request
    gives way, and first one that has never had any.

    Attributes:
        last_use: when a request was last awaited or begun, by the clock of the loop.
    """

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    last_use = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn asks for less
        super().connection_made(transport)
        self.last_use = self.loop.time()
        self._await_head()
        subject = (transport.get_extra_info("peercert") or {}).get("subject", ())
        names = [value for part in subject for key, value in part if key == "commonName"]
        self.app_state = {**self.app_state, "abort": transport.abort}
        if names and self.client:
            self.app_state = {**self.app_state, "who": f"{names[0]} {self.client[0]}"}
        if len(self.connections) > connections():
            self._make_room(connections())

    def _make_room(self, most: int) -> None:
        open_connections = [
            c for c in self.connections if isinstance(c, GatewayProtocol) and not c.transport.is_closing()
        ]
        if len(open_connections) <= most:
            return
        idle = (other for other in open_connections if other.idle and other is not self)
        least = min(idle, key=lambda other: (other.cycle is not None, other.last_use), default=None)
        if least is None:
            self._refuse(503, GatewayError("GW025", most=most))
        else:
            least.transport.abort()

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head = self.loop.call_later(HEADER_SECONDS, self._no_head)

    def _no_head(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408, GatewayError("GW022", seconds=round(HEADER_SECONDS)))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.last_use = self.loop.time()
        if self.conn.their_state is not h11.IDLE:
            if self._head is not None:
                self._head.cancel()
                self._head = None
        elif self._head is None:
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_to_its_end()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._read_to_its_end()

    def _read_to_its_end(self) -> None:
        """The time for an answer, which is written in pieces, ends with its last one."""
        if self._unread is not None and self.idle and not self.flow.write_paused:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Answers a request that is not HTTP, in JSON like all others."""
        self._refuse(400, GatewayError("GW023", what="a form that is not HTTP"))

    def _refuse(self, status: int, error: GatewayError) -> None:
        """Answers without the application, unless that has begun to, and ends the connection."""
        if self.idle or not self.cycle.response_started:
            body = dumps(problem(str(error))).encode("utf-8", "replace")
            headers = {"content-type": JSON, "content-length": str(len(body)), "connection": "close"}
            lines = "".join(f"{name}: {value}\r\n" for name, value in (*headers.items(), *security_headers()))
            self.transport.write(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode() + body)
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def connections() -> int:
    """How many connections there may be: :data:`CONNECTIONS`, or fewer where the process may open few files."""
    if os.name != "posix":
        return CONNECTIONS
    import resource

    file_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if file_limit == resource.RLIM_INFINITY:
        return CONNECTIONS
    return min(CONNECTIONS, max(file_limit - _OTHER_FILES, file_limit // 2))


def allow_files() -> None:
    """Lets the process open as many files as it may need. Systems allow it, and do not do so by themselves."""
    if os.name != "posix":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed_files = CONNECTIONS + 2 * _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        needed_files = min(needed_files, hard)
    if soft != resource.RLIM_INFINITY and soft < needed_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed_files, hard))


def read_token(path: str) -> str:
    """The token in a file that only its owner can read.

    Raises:
        GatewayError: GW017.
    """
    try:
        mode = os.stat(path).st_mode
        token = Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is no text"
        raise GatewayError("GW017", what=f"the token file '{path}'", reason=reason) from cause
    if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        raise GatewayError("GW017.token", path=path, problem="can be read by other users")
    if len(token) < MIN_TOKEN:
        raise GatewayError("GW017.token", path=path, least=MIN_TOKEN, problem="is too short")
    return token


def tls_options(certificate: str | None, key: str | None, client_ca: str | None) -> dict[str, Any]:
    """Arguments of uvicorn for TLS; none without a certificate.

    Raises:
        GatewayError: GW017, one of the files is missing or cannot be used.
    """
    paths = {"--tls-cert": certificate, "--tls-key": key}
    missing_names = [name for name, path in paths.items() if path is None]
    if len(missing_names) == 1 or (missing_names and client_ca is not None):
        first_option = next((name for name, path in paths.items() if path is not None), "--tls-client-ca")
        raise GatewayError("GW017.incomplete_tls", given=first_option, missing=missing_names[0])
    if certificate is None or key is None:
        return {}
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
    except (OSError, ValueError) as cause:
        raise GatewayError("GW017", what="a file for TLS", reason=str(cause)) from cause
    options: dict[str, Any] = {"ssl_certfile": certificate, "ssl_keyfile": key}
    if client_ca is not None:
        options |= {"ssl_ca_certs": client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def bind(address: str, port: int) -> socket.socket:
    """A listening socket; port 0 for any that is free. Raises GatewayError GW017."""
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)  # asyncio sends at once only on sockets that say TCP
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket_address)
        listener.listen(1024)
    except OSError as cause:
        raise GatewayError("GW017", what=f"the address {address}:{port}", reason=cause.strerror or cause) from cause
    return listener


def server(app: ASGIApp, tls: dict[str, Any] | None = None) -> uvicorn.Server:
    """A server of an application; its ``run`` takes the sockets of :func:`bind`."""
    config = uvicorn.Config(
        app,
        http=GatewayProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=security_headers(),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER,
        **(tls or {}),
    )
    return uvicorn.Server(config)
