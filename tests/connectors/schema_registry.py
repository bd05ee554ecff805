"""A schema registry in the test process: the REST calls of Confluent's that its clients make, over HTTP.

It keeps schemas by id and by subject, refuses a version of a subject whose readers could not read the last one, and
asks for credentials where it has some. Its answers have the codes and texts of Confluent's.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import unquote

_numbers = count(1)


@dataclass
class SchemaRegistry:
    """What it knows, and how it behaves.

    Attributes:
        url: where it is.
        login: ``user:password`` that it asks for; None for none.
        token: that it asks for; None for none.
        asked: method and path of each request.
        failing: how many requests to answer with status 500 before the next good answer.
        delay: seconds before each answer.
        answer: what to answer instead, as status and text; None for the usual.
    """

    url: str = ""
    login: str | None = None
    token: str | None = None
    asked: list[str] = field(default_factory=list)
    failing: int = 0
    delay: float = 0
    answer: tuple[int, str] | None = None
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def add(self, subject: str, schema: Any, **more: Any) -> int:
        """Registers a schema without checks; its id."""
        entry = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        number = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def handle(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if method == "GET" and parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if 1 <= number <= len(self.schemas):
                return 200, self.schemas[number - 1]
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        if parts[0] != "subjects":
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        subject, versions = parts[1], self.subjects.get(parts[1], [])
        if method == "GET" and parts[2:3] == ["versions"] and 1 <= int(parts[3]) <= len(versions):
            number = versions[int(parts[3]) - 1]
            return 200, {"subject": subject, "version": int(parts[3]), "id": number, **self.schemas[number - 1]}
        if method == "POST" and parts[2:] == ["versions"]:
            return self._register(subject, versions, body["schema"])
        if method == "POST" and len(parts) == 2:
            known = [n for n in versions if json.loads(self.schemas[n - 1]["schema"]) == json.loads(body["schema"])]
            if known:
                return 200, {"subject": subject, "id": known[0], "version": versions.index(known[0]) + 1}
            if not versions:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}

    def _register(self, subject: str, versions: list[int], text: str) -> tuple[int, Any]:
        new = json.loads(text)
        if versions:
            old = json.loads(self.schemas[versions[-1] - 1]["schema"])
            lacks = unreadable(old, new)
            if lacks:
                message = (
                    "Schema being registered is incompatible with an earlier schema for subject "
                    f'"{subject}", details: READER_FIELD_MISSING_DEFAULT_VALUE {lacks}'
                )
                return 409, {"error_code": 409, "message": message}
        return 200, {"id": self.add(subject, text)}


def unreadable(old: Any, new: Any) -> list[str]:
    """Fields of a new schema that no value of an old one has, and that have no default."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return []
    known = {f["name"] for f in old["fields"]}
    return [f["name"] for f in new["fields"] if f["name"] not in known and "default" not in f]


def _handler(registry: SchemaRegistry, prefix: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._do("GET", None)

        def do_POST(self) -> None:
            self._do("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _do(self, method: str, body: Any) -> None:
            path = self.path.removeprefix(prefix)
            registry.asked.append(f"{method} {path}")
            time.sleep(registry.delay)
            if registry.failing:
                registry.failing -= 1
                self._answer(500, {"error_code": 50001, "message": "Error in the backend data store"})
            elif registry.answer is not None:
                self._send(registry.answer[0], registry.answer[1].encode())
            elif not self._allowed():
                self._answer(401, {"error_code": 401, "message": "Unauthorized"})
            else:
                self._answer(*registry.handle(method, path, body))

        def _allowed(self) -> bool:
            given = self.headers.get("Authorization", "")
            if registry.login is not None:
                return given == "Basic " + base64.b64encode(registry.login.encode()).decode()
            return registry.token is None or given == f"Bearer {registry.token}"

        def _answer(self, status: int, value: Any) -> None:
            self._send(status, json.dumps(value).encode())

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
            """Says nothing."""

    return Handler


@contextmanager
def running(port: int = 0, tls: tuple[str, str] | None = None) -> Iterator[SchemaRegistry]:
    """A registry at a free port, or at a given one.

    Its URL has a path of its own: processes keep the schemas of a URL, and another registry may get the same port.

    Args:
        port: to listen at; 0 for a free one.
        tls: files with a certificate and its key, for HTTPS.
    """
    registry, prefix = SchemaRegistry(), f"/{os.getpid()}-{next(_numbers)}"
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(registry, prefix))
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}{prefix}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
