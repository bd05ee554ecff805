"""A server of OpenLineage events, and the schemas that events must have: those of OpenLineage's own client, whose
classes are generated from OpenLineage's JSON schemas, and those of our facets."""

from __future__ import annotations

import enum
import importlib
import json
import pkgutil
import threading
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attr
import jsonschema
from openlineage.client import generated
from openlineage.client.generated.base import BaseFacet, RunEvent

from stateplan.session.lineage_events import SCHEMAS

FACETS = Path(__file__).resolve().parent.parent.parent / "docs" / "operate" / "lineage"


class LineageServer:
    """A server that keeps the events that it gets.

    Attributes:
        url: of the server.
        events: the events so far.
        seconds: how long each answer takes.
        status: of each answer.
    """

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.status = 201
        self.closing = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/api/v1/lineage"
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.closing.wait(owner.seconds)
                owner.events.append(event)
                self.send_response(owner.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def states(self) -> list[str]:
        """The kinds of the events, in order."""
        return [event["eventType"] for event in self.events]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def lineage_server() -> Iterator[LineageServer]:
    server = LineageServer()
    try:
        yield server
    finally:
        server.close()


def options_for(url: str) -> dict[str, str]:
    """The options of a session that sends its events to a server."""
    return {
        "lineage.openlineage.enabled": "true",
        "lineage.openlineage.transport.type": "http",
        "lineage.openlineage.transport.url": url,
    }


@cache
def _facets() -> Mapping[str, type]:
    """The classes of OpenLineage's facets, by the URL of their schemas."""
    classes: dict[str, type] = {}
    for module in pkgutil.iter_modules(generated.__path__):
        for kind in vars(importlib.import_module(f"{generated.__name__}.{module.name}")).values():
            if isinstance(kind, type) and issubclass(kind, BaseFacet):
                classes[kind._get_schema()] = kind
    return classes


def validate(event: Any) -> None:
    """Raises where an event has a key that its schema does not have, lacks one that is required, or has a value of
    another type."""
    _check(event, RunEvent, "event")


def _check(data: Any, kind: Any, at: str) -> None:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return None
    if origin in (types.UnionType, typing.Union):
        failures = []
        for one in arguments:
            try:
                return _check(data, one, at)
            except AssertionError as failure:
                failures.append(str(failure))
        raise AssertionError(f"{at}: {failures}")
    if origin is list:
        assert isinstance(data, list), at
        for position, item in enumerate(data):
            _check(item, arguments[0], f"{at}[{position}]")
    elif origin is dict:
        assert isinstance(data, dict), at
        for key, item in data.items():
            _check(item, arguments[1], f"{at}.{key}")
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        assert data in {member.value for member in kind}, at
    elif attr.has(kind):
        assert isinstance(data, dict), at
        _check_object(data, kind, at)
    else:
        assert isinstance(data, kind), f"{at}: {data!r} is not of {kind}"
    return None


def _check_object(data: Mapping[str, Any], kind: Any, at: str) -> None:
    if issubclass(kind, BaseFacet):
        url = data["_schemaURL"]
        if url.startswith(SCHEMAS):
            name = url.removeprefix(f"{SCHEMAS}:").partition(":")[0]
            schema = json.loads((FACETS / f"{name}.json").read_text())
            assert schema["$id"] == url
            return jsonschema.Draft202012Validator(schema).validate(data)
        base, kind = kind, _facets()[url]
        assert issubclass(kind, base), f"{at}: {kind} is not a {base}"
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in attr.fields(kind)}
    assert set(data) <= set(fields), f"{at}: {set(data) - set(fields)}"
    required = {name for name, field in fields.items() if field.default is attr.NOTHING}
    assert required <= set(data), f"{at}: {required - set(data)} missing"
    for name, item in data.items():
        _check(item, hints[name], f"{at}.{name}")
        if (validator := fields[name].validator) is not None:
            validator(None, fields[name], item)
    return None
