"""A session at a gateway, over HTTP.

    >>> session = connect("http://localhost:8083", {"table.exec.state.ttl": "1 h"})  # doctest: +SKIP
    >>> session.submit("SHOW TABLES")  # doctest: +SKIP
    '6f6b3b0e-...'

Source: FLIP-91, Flink's SQL gateway REST API, versions 1 to 4.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.failure_reasons import reason_of
from stateplan.gateway.client.wire import error_of, page_of
from stateplan.gateway.protocol import ResultPage

VERSIONS = ("V1", "V2", "V3", "V4")
"""Of the REST API that this client speaks."""

HEARTBEAT_SECONDS = 60.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def connect(
    endpoint: str,
    options: Mapping[str, str] | None = None,
    *,
    token: str | None = None,
    name: str | None = None,
    ca_file: str | None = None,
    certificate: str | None = None,
    heartbeat: float = HEARTBEAT_SECONDS,
    reopens: bool = False,
) -> HttpSession:
    """Opens a session.

    Args:
        endpoint: address of the gateway, such as ``http://localhost:8083``; without a scheme it is http.
        options: set in the session.
        token: sent as ``Authorization: Bearer``.
        name: the name of the session.
        ca_file: certificates (PEM) to trust instead of those of the system.
        certificate: certificate and key of the client (PEM), for mutual TLS.
        heartbeat: seconds between signs of life.
        reopens: whether a statement opens another session where the gateway does not know this one any more (RUN167).

    Raises:
        RunError: RUN161, it cannot be reached; RUN162, it refuses; RUN163, it is not an SQL gateway; RUN164, its error.
    """
    gateway = _Address(endpoint, token, ca_file, certificate)
    try:
        return HttpSession(gateway, dict(options or {}), name, heartbeat, reopens)
    except BaseException:
        gateway.close()
        raise


class _Address:
    """The address, and how it is asked."""

    def __init__(self, endpoint: str, token: str | None, ca_file: str | None, certificate: str | None) -> None:
        self.endpoint = endpoint if "://" in endpoint else f"http://{endpoint}"
        try:
            parts = urlsplit(self.endpoint)
            is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise RunError("RUN161", endpoint=endpoint, reason="this is not an address")
        verify: ssl.SSLContext | bool = True
        if parts.scheme == "https":
            try:
                verify = ssl.create_default_context(cafile=ca_file)
                if certificate is not None:
                    verify.load_cert_chain(certificate)
            except (OSError, ssl.SSLError) as cause:
                raise RunError("RUN161", endpoint=self.endpoint, reason=_reason(cause)) from cause
        try:
            self._http = httpx.Client(
                base_url=self.endpoint.rstrip("/"),
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=httpx.Timeout(60.0, connect=10.0),
                verify=verify,
                trust_env=parts.hostname not in _LOOPBACK,
            )
        except httpx.InvalidURL as cause:
            raise RunError("RUN161", endpoint=endpoint, reason="this is not an address") from cause
        except UnicodeError as cause:
            raise RunError("RUN161", endpoint=self.endpoint, reason="a header can only be ASCII") from cause
        self._version: str | None = None

    def version(self) -> str:
        """The part of a path for the highest version that both sides speak, such as ``v4``."""
        if self._version is None:
            versions = self.ask("GET", "/v1/api_versions").get("versions")
            spoken = [v for v in VERSIONS if isinstance(versions, list) and v in versions]
            if not spoken:
                raise RunError("RUN163", endpoint=self.endpoint, what=f"it speaks the versions {versions!r}")
            self._version = spoken[-1].lower()
        return self._version

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        fraction: Callable[[str], object] = float,
    ) -> dict[str, Any]:
        """The answer to a request; ``fraction`` reads numbers with a fraction or an exponent.

        Raises:
            StateplanError: what the gateway answers instead.
            RunError: RUN161 to RUN164.
        """
        try:
            http_response = self._http.request(method, path, json=dict(body or {}))
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            OSError,
            UnicodeError,
            RuntimeError,
        ) as cause:  # RuntimeError: closed
            raise RunError("RUN161", endpoint=self.endpoint, reason=_reason(cause)) from cause
        if http_response.status_code in (401, 403):
            raise RunError("RUN162", endpoint=self.endpoint)
        try:
            answer = http_response.json(parse_float=fraction)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            problem = f"status {http_response.status_code}, and no JSON object"
            raise RunError("RUN163", endpoint=self.endpoint, what=problem)
        if http_response.status_code != 200:
            raise error_of(answer)
        return answer

    def text(self, answer: Mapping[str, Any], key: str) -> str:
        """A text in an answer. Raises RunError RUN163, when it has none."""
        value = answer.get(key)
        if not isinstance(value, str):
            raise RunError("RUN163", endpoint=self.endpoint, what=f"an answer has no '{key}'")
        return value

    def close(self) -> None:
        self._http.close()


class HttpSession:
    """A :class:`gateway.protocol.GatewaySession` at a gateway. A thread sends heartbeats to the gateway.

    A gateway that was started again has no sessions. Where that is wanted, the next statement then opens another one
    with the same options, and says so (RUN167).
    """

    def __init__(
        self, at: _Address, options: Mapping[str, str], name: str | None, heartbeat: float, reopens: bool
    ) -> None:
        self._at = at
        self._name = name
        self._reopens = reopens
        self._properties: Mapping[str, str] = options
        self._open(options)
        self._closed = threading.Event()
        threading.Thread(target=self._live, args=(heartbeat,), name="gateway heartbeat", daemon=True).start()

    @property
    def handle(self) -> str:
        return self._handle

    def _open(self, options: Mapping[str, str]) -> None:
        body = {"properties": dict(options)} | ({"sessionName": self._name} if self._name else {})
        answer = self._at.ask("POST", f"/{self._at.version()}/sessions", body)
        self._handle = self._at.text(answer, "sessionHandle")
        self._path = f"/{self._at.version()}/sessions/{self._handle}"

    @property
    def endpoint(self) -> str:
        """The address of the gateway."""
        return self._at.endpoint

    def properties(self) -> Mapping[str, str]:
        properties = self._at.ask("GET", self._path).get("properties")
        self._properties = {str(k): str(v) for k, v in properties.items()} if isinstance(properties, dict) else {}
        return self._properties

    def configure(self, statement: str) -> None:
        if self._at.version() == "v1":  # it has no such path
            operation = self.submit(statement)
            token: int | None = 0
            while token is not None:
                token = self.fetch(operation, token).next_token
            self.close_operation(operation)
            return
        self._at.ask("POST", f"{self._path}/configure-session", {"statement": statement, "executionTimeout": 0})

    def submit(self, statement: str) -> str:
        body = {"statement": statement, "executionTimeout": 0}
        try:
            return self._at.text(self._at.ask("POST", f"{self._path}/statements", body), "operationHandle")
        except StateplanError as error:
            if not self._reopens or not _is_unknown_session(error, self._handle):
                raise
            self._open(self._properties)
            raise RunError("RUN167", endpoint=self.endpoint) from None

    def fetch(self, operation: str, token: int, limit: int | None = None) -> ResultPage:
        return self._page(operation, token, "PLAIN_TEXT")

    def fetch_values(self, operation: str, token: int) -> ResultPage:
        """As :meth:`fetch`, with :attr:`ResultPage.values` instead of texts; numbers with a fraction or an exponent
        are texts. Source: Flink's ``RowFormat.JSON``, as its JDBC driver asks for it."""
        return self._page(operation, token, "JSON")

    def _page(self, operation: str, token: int, row_format: str) -> ResultPage:
        as_values = row_format == "JSON"
        path = f"{self._operation(operation)}/result/{token}"
        form = "" if self._at.version() == "v1" else f"?rowFormat={row_format}"
        answer = self._at.ask("GET", path + form, fraction=str if as_values else float)
        try:
            return page_of(answer, token, as_values)
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            problem = f"a page of a result has another form ({type(cause).__name__}: {cause})"
            raise RunError("RUN163", endpoint=self.endpoint, what=problem) from cause

    def cancel(self, operation: str) -> None:
        self._at.ask("POST", f"{self._operation(operation)}/cancel")

    def close_operation(self, operation: str) -> None:
        self._at.ask("DELETE", f"{self._operation(operation)}/close")

    def complete(self, statement: str, position: int) -> list[str]:
        body = {"statement": statement, "position": position}
        candidates = self._at.ask("GET", f"{self._path}/complete-statement", body).get("candidates")
        return [str(candidate) for candidate in candidates] if isinstance(candidates, list) else []

    def heartbeat(self) -> None:
        self._at.ask("POST", f"{self._path}/heartbeat")

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            self._at.ask("DELETE", self._path)
        finally:
            self._at.close()

    def _operation(self, operation: str) -> str:
        return f"{self._path}/operations/{operation}"

    def _live(self, seconds: float) -> None:
        while not self._closed.wait(seconds):
            with contextlib.suppress(StateplanError):  # the next statement says so
                self.heartbeat()


def _is_unknown_session(error: StateplanError, handle: str) -> bool:
    """Whether a gateway, ours or Flink's, does not know the session."""
    return error.code == "GW001" or (handle in error.message and "does not exist" in error.message)


def _reason(cause: Exception) -> str:
    return reason_of(cause) or type(cause).__name__
