"""Who may use a gateway, and how much of it at once.

A page of another site can send requests to a gateway on the machine of whoever looks at it, and with a name of its own
that resolves to the gateway's address it could read the answers. So a request must call the gateway by one of its
names, and must not come from another origin.

Codes: GW015, GW021 to GW024; BUG000.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stateplan.common.errors import GatewayError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.gateway.rest.app import answer
from stateplan.gateway.rest.memory_room import Holding, Room
from stateplan.gateway.rest.wire import problem
from stateplan.gateway.service.limits import Limits
from stateplan.runtime.failures import as_error

_log = logging.getLogger("stateplan.gateway")

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
MAX_BODY = 4 << 20
MAX_PLAN = 64 << 20
"""Bytes of the body of a request; of one with a plan."""
BODY_SECONDS = 30.0
BODY_RATE = 16 << 10
"""So long a body may take: this time, and one second more for this number of bytes of it."""
PIECE = 64 << 10
"""An answer is handed to the network in pieces of this number of bytes, each when the other side has read those
before."""


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@dataclass(frozen=True)
class Access:
    """Who may use a gateway.

    Attributes:
        names: what the header Host may call it, without the port.
        token: of those who may; None if nobody needs one.
        remote: whether other machines reach it; then every IP address may be its name.
    """

    names: tuple[str, ...] = LOCAL_NAMES
    token: str | None = None
    remote: bool = False

    @staticmethod
    def of(
        address: str,
        token: str | None = None,
        certificates: bool = False,
        names: Sequence[str] = (),
        is_confined: bool = False,
    ) -> Access:
        """The access to a gateway at ``address``.

        Args:
            address: the address that it binds.
            token: see the class.
            certificates: whether TLS lets only those in who have a certificate.
            names: more names that it has.
            is_confined: whether statements use the files of certain folders only.

        Raises:
            GatewayError: GW015, others reach the address and could do anything.
        """
        remote = not is_loopback(address)
        if remote:
            if token is None and not certificates:
                raise GatewayError("GW015", address=address, missing="who may use the gateway")
            if not is_confined:
                raise GatewayError("GW015", address=address, missing="which files statements may use")
        return Access((*LOCAL_NAMES, address, *(name.lower() for name in names)), token, remote)

    def check(self, scope: Scope) -> None:
        """Raises _RefusedError when a request must not be answered."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value.decode("latin-1"))
        if b"content-length" in headers and b"transfer-encoding" in headers:  # a proxy may go by the other one
            raise _RefusedError(400, GatewayError("GW023", what="two lengths"))
        hosts = headers.get(b"host", [])
        if len(hosts) != 1:
            raise _RefusedError(400, GatewayError("GW023", what="no header Host, or several"))
        host = _name(hosts[0])
        if host not in self.names and not (self.remote and _is_address(host)):
            raise _RefusedError(421, GatewayError("GW023.host", host=hosts[0][:200], names=", ".join(self.names)))
        for origin in headers.get(b"origin", []):
            if origin.lower() != f"{scope['scheme']}://{hosts[0]}".lower():
                raise _RefusedError(403, GatewayError("GW023.origin", origin=origin[:200]))
        for site in headers.get(b"sec-fetch-site", []):
            if site not in ("none", "same-origin") and not _is_visit(scope, headers):
                raise _RefusedError(403, GatewayError("GW023.origin", origin=site[:200]))
        if self.token is not None and not _is_page(scope) and not self._has_token(headers.get(b"authorization", [])):
            raise _RefusedError(401, GatewayError("GW024"))

    def _has_token(self, headers: Sequence[str]) -> bool:
        if len(headers) != 1:
            return False
        scheme, _, token = headers[0].partition(" ")
        if scheme.lower() != "bearer":
            return False
        mine, theirs = (hashlib.sha256(text.encode()).digest() for text in (self.token or "", token.strip()))
        return hmac.compare_digest(mine, theirs)


def _name(host: str) -> str:
    """The name in a header Host, without its port and the brackets of IPv6."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """Whether it is an IP address, which no other site can have as its name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_page(scope: Scope) -> bool:
    """Whether it is for the page itself, which asks its user for the token and shows nothing without it."""
    path = str(scope["path"])
    return scope["method"] == "GET" and (path == "/" or path.startswith("/page/files/"))


def _is_visit(scope: Scope, headers: dict[bytes, list[str]]) -> bool:
    """Whether somebody follows a link to a page of the gateway."""
    return scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == ["navigate"]


class _RefusedError(Exception):
    """A request that is not answered, with the status and the error that say so."""

    def __init__(self, status: int, error: StateplanError) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error


class Guard:
    """Lets requests through to an application, or not; and nothing but JSON back.

    Args:
        app: the application.
        access: who may use it.
        memory_limit: bytes that requests and answers may have in memory; by default that of :class:`Limits`.
    """

    def __init__(self, app: ASGIApp, access: Access, memory_limit: int = Limits.unread) -> None:
        self._app = app
        self._access = access
        self._room = Room(memory_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        holding = self._room.holding(scope.get("state", {}).get("abort", lambda: None))
        scope = {**scope, "state": {**scope.get("state", {}), "holding": holding}}
        exchange = _Exchange(scope, receive, send, holding)
        try:
            self._access.check(scope)
            exchange.check_length()
            await self._app(scope, exchange.receive, exchange.send)
        except _RefusedError as early:
            exchange.refusal = early
        except ClientDisconnect:
            pass
        except Exception as bug:
            _log.exception("a request failed in a way that nobody expected")
            exchange.refusal = _RefusedError(500, as_error(bug, brief=True))
        finally:
            holding.release()
        await exchange.finish()


class _Exchange:
    """A request and its answer, as the application has them.

    Args:
        scope, receive, send: of the server.
        holding: the memory that both take.

    Attributes:
        refusal: why the request is not answered; None while it is.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, holding: Holding) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._holding = holding
        self._limit = MAX_PLAN if scope["method"] == "PUT" else MAX_BODY
        self._since = asyncio.get_running_loop().time()
        self._received = 0
        self._is_complete = False
        self._begun = False
        self._has_swallowed = False
        self.refusal: _RefusedError | None = None

    def check_length(self) -> None:
        """Raises _RefusedError for a request whose head announces a body that is too long."""
        if _length(self._scope) > self._limit:
            raise _RefusedError(413, GatewayError("GW021", most=self._limit))

    async def receive(self) -> Message:
        """The next part of the body. To the application, one that is refused is a client that is gone."""
        if self._is_complete or self.refusal is not None:
            return await self._receive() if self.refusal is None else _DISCONNECT
        until = self._since + BODY_SECONDS + self._received / BODY_RATE
        try:
            message = await asyncio.wait_for(self._receive(), until - asyncio.get_running_loop().time())
        except TimeoutError:
            return self._refuse(408, GatewayError("GW022", seconds=round(BODY_SECONDS)))
        self._received += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._received > self._limit:
            return self._refuse(413, GatewayError("GW021", most=self._limit))
        if not await self._holding.take(self._received):
            return self._refuse(503, GatewayError("GW010"))
        return message

    def _refuse(self, status: int, error: GatewayError) -> Message:
        self.refusal = _RefusedError(status, error)
        return _DISCONNECT

    async def send(self, message: Message) -> None:
        """Sends a part of the answer, in pieces; instead of one that there is no room for an error."""
        if self.refusal is not None or self._has_swallowed:
            return
        if message["type"] == "http.response.start":
            self._begun = True
            if not await self._holding.take(_length(message)):
                self._has_swallowed = True
                await self._answer(_RefusedError(503, GatewayError("GW010")))
                return
        body = message.get("body", b"")
        for start in range(0, len(body) - PIECE, PIECE):
            await self._send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
            self._holding.move()
            await asyncio.sleep(0)  # a connection that is gone is noticed
        if len(body) > PIECE:
            message = {**message, "body": body[(len(body) - 1) // PIECE * PIECE :]}
        await self._send(message)
        self._holding.move()

    async def finish(self) -> None:
        """Answers a request that was refused before its answer had begun."""
        if self.refusal is not None and not self._begun:
            await self._answer(self.refusal)

    async def _answer(self, refusal: _RefusedError) -> None:
        await _refusal(refusal)(self._scope, self._receive, self._send)


_DISCONNECT: Message = {"type": "http.disconnect"}


def _length(message: Scope | Message) -> int:
    """The length in the head of a request or an answer; 0 if it is missing."""
    return int(next((value for name, value in message["headers"] if name == b"content-length"), b"0"))


def _refusal(refusal: _RefusedError) -> Response:
    response = answer(problem(str(refusal.error)), refusal.status)
    if refusal.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if refusal.status == 503:
        response.headers["retry-after"] = "1"
    response.headers["connection"] = "close"
    return response


def security_headers() -> list[tuple[str, str]]:
    """Headers of every answer: it is what it says it is, and no other site shows or reads it."""
    return [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ]
