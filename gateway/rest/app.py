"""The paths of the REST API.

A path begins with the version, ``/v1`` to ``/v4``; without it, the newest is meant. GET and DELETE may have a body.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stateplan.common.errors import GatewayError, StateplanError
from stateplan.common.redaction import redacted_options
from stateplan.common.release import installed_version
from stateplan.gateway.page.service import JobsPage
from stateplan.gateway.protocol import PageKind
from stateplan.gateway.rest import job_manager, jobs_api
from stateplan.gateway.rest.wire import (
    JSON,
    RowFormat,
    columns_json,
    dumps,
    failure,
    not_ready_json,
    page_json,
    problem,
    refusal,
)
from stateplan.gateway.service.fetcher import Page, ResultFetcher
from stateplan.gateway.service.operations import Operation
from stateplan.gateway.service.service import HOLD_SECONDS, SqlGatewayService
from stateplan.runtime.failures import as_error

VERSIONS = ("V1", "V2", "V3", "V4")
_PREFIX = re.compile(r"/v([1-4])(/.*)", re.I)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TOKEN = re.compile(r"[0-9]{1,18}")
_INLINE_ROWS = 100
"""A page of more rows is written in another thread, so that other requests do not wait."""

_TIMES = 3
"""While a page is written, its rows are in memory so often: as a frame, as text, and as the bytes of the answer."""

Handler = Callable[[Request], Awaitable[Response]]


class BadRequestError(Exception):
    """A request that cannot be read; the text is for the user."""


def answer(value: object, status: int = 200) -> Response:
    """A JSON answer; ``value`` is a text where it is JSON already."""
    text = value if isinstance(value, str) else dumps(value)
    return Response(text.encode("utf-8", "replace"), status, media_type=JSON)


class RestApi:
    """The handlers, over a service."""

    def __init__(self, service: SqlGatewayService) -> None:
        self._service = service
        self._columns: WeakKeyDictionary[ResultFetcher, str] = WeakKeyDictionary()

    def routes(self) -> list[BaseRoute]:
        """The paths, without their version."""
        session, operation = "/sessions/{session_handle}", "/sessions/{session_handle}/operations/{operation_handle}"
        paths: list[tuple[str, str, Handler, str]] = [
            ("GET", "/api_versions", self.versions, ""),
            ("GET", "/info", self.info, ""),
            ("POST", "/sessions", self.open_session, ""),
            ("GET", session, self.session_config, "getSessionConfig"),
            ("DELETE", session, self.close_session, "closeSession"),
            ("POST", f"{session}/heartbeat", self.heartbeat, "triggerSessionHeartbeat"),
            ("POST", f"{session}/configure-session", self.configure_session, ""),
            ("GET", f"{session}/complete-statement", self.complete_statement, ""),
            ("POST", f"{session}/statements", self.execute_statement, ""),
            ("GET", f"{operation}/status", self.operation_status, "getOperationInfo"),
            ("POST", f"{operation}/cancel", self.cancel_operation, "cancelOperation"),
            ("DELETE", f"{operation}/close", self.close_operation, "closeOperation"),
            ("GET", f"{operation}/result/{{token}}", self.fetch_results, ""),
            ("POST", f"{session}/scripts", self.unsupported, ""),
            ("POST", f"{session}/materialized-tables/{{identifier}}/refresh", self.unsupported, ""),
            ("GET", "/plans", self.list_plans, ""),
            ("GET", "/plans/{name}", self.get_plan, ""),
            ("PUT", "/plans/{name}", self.put_plan, ""),
            ("DELETE", "/plans/{name}", self.delete_plan, ""),
        ]
        routes = [
            Route(path, partial(self._run_handler, run, subject), methods=[verb]) for verb, path, run, subject in paths
        ]
        for route in routes:
            (route.methods or set()).discard("HEAD")  # which would fetch a page
        return list(routes)

    async def _run_handler(self, handler: Handler, subject: str, request: Request) -> Response:
        """Runs a handler; ``subject`` is the method of Flink's service where the request is about a session or an
        operation, whose errors have another form."""
        try:
            return await handler(request)
        except BadRequestError as bad:
            return answer(problem(f"Bad request, {bad}"), 400)
        except StateplanError as error:
            message = self._service.public_error(error)
            return answer(refusal(subject, message) if subject else failure(message), 500)

    # the gateway

    async def versions(self, request: Request) -> Response:
        return answer({"versions": VERSIONS})

    async def info(self, request: Request) -> Response:
        return answer({"productName": "stateplan", "version": installed_version()})

    async def unsupported(self, request: Request) -> Response:
        """Scripts as applications, and materialized tables."""
        error = GatewayError("GW020", path=request.url.path)
        return answer(problem(self._service.public_error(error)), 501)

    # sessions

    async def open_session(self, request: Request) -> Response:
        body = await _body(request)
        name = body.get("sessionName")
        properties = _texts(body, "properties")
        session = self._service.open(None if name is None else str(name)[:200], properties, who(request))
        return answer({"sessionHandle": session.handle})

    async def session_config(self, request: Request) -> Response:
        handle = _handle(request, "session_handle")
        return answer({"properties": redacted_options(self._service.session(handle).properties)})

    async def close_session(self, request: Request) -> Response:
        handle = _handle(request, "session_handle")
        self._service.close_session(handle, who(request))
        return answer({"status": "CLOSED"})

    async def heartbeat(self, request: Request) -> Response:
        handle = _handle(request, "session_handle")
        self._service.session(handle)
        return answer({})

    async def configure_session(self, request: Request) -> Response:
        handle, body = _handle(request, "session_handle"), await _body(request)
        statement, timeout = _text(body, "statement"), _number(body, "executionTimeout")
        await run_in_threadpool(self._service.configure, handle, statement, timeout, who(request))
        return answer({})

    async def complete_statement(self, request: Request) -> Response:
        handle, body = _handle(request, "session_handle"), await _body(request)
        statement, position = _text(body, "statement"), _number(body, "position")
        candidates = await run_in_threadpool(self._service.complete, handle, statement, position)
        return answer({"candidates": candidates})

    # operations

    async def execute_statement(self, request: Request) -> Response:
        handle, body = _handle(request, "session_handle"), await _body(request)
        statement, timeout = _text(body, "statement"), _number(body, "executionTimeout")
        options = _texts(body, "executionConfig")
        operation = self._service.submit(handle, statement, options, timeout, who(request))
        return answer({"operationHandle": operation.handle})

    async def operation_status(self, request: Request) -> Response:
        return answer({"status": self._operation(request).status.value})

    async def cancel_operation(self, request: Request) -> Response:
        operation = self._operation(request)
        operation.cancel()
        return answer({"status": operation.status.value})

    async def close_operation(self, request: Request) -> Response:
        session, operation = _handle(request, "session_handle"), _handle(request, "operation_handle")
        self._service.session(session).operations.close_operation(operation)
        return answer({"status": "CLOSED"})

    async def fetch_results(self, request: Request) -> Response:
        token = request.path_params["token"]
        if not _TOKEN.fullmatch(token):
            raise _unresolved("path", "token", token)
        row_format, operation = _row_format(request), self._operation(request)
        await _ready(operation, int(token))
        rows = self._service.limits.page_rows
        has_room = await request.scope["state"]["holding"].take(_TIMES * operation.size(int(token), rows))
        page = operation.fetch(int(token), rows) if has_room else operation.later(int(token))
        version = request.scope["state"]["version"]
        form = "" if version == 1 else f"?rowFormat={row_format.value}"
        base = f"{request.scope['state']['prefix']}/sessions/{request.path_params['session_handle']}"
        base += f"/operations/{operation.handle}/result"
        next_uri = None if page.next_token is None else f"{base}/{page.next_token}{form}"
        fetcher = operation.fetcher
        if page.kind is PageKind.NOT_READY or fetcher is None:
            return answer(not_ready_json(next_uri or ""))
        return answer(await self._page_text(fetcher, page, row_format, next_uri))

    async def _page_text(self, fetcher: ResultFetcher, page: Page, row_format: RowFormat, next_uri: str | None) -> str:
        columns = self._columns.get(fetcher)
        if columns is None:
            columns = self._columns[fetcher] = columns_json(fetcher.columns)
        frame = page.rows.frame
        rows = len(page.rows.values) if frame is None else frame.height
        if rows <= _INLINE_ROWS:
            return page_json(fetcher, columns, page, row_format, next_uri)
        return await run_in_threadpool(page_json, fetcher, columns, page, row_format, next_uri)

    def _operation(self, request: Request) -> Operation:
        session, operation = _handle(request, "session_handle"), _handle(request, "operation_handle")
        return self._service.session(session).operations.find(operation)

    # plans

    async def list_plans(self, request: Request) -> Response:
        plans = self._service.named_plans()
        return answer({"plans": await run_in_threadpool(plans.names)})

    async def get_plan(self, request: Request) -> Response:
        plans, name = self._service.named_plans(), request.path_params["name"]
        try:
            return answer(await run_in_threadpool(plans.read, name))
        except GatewayError as error:
            return answer(problem(self._service.public_error(error)), 404)

    async def put_plan(self, request: Request) -> Response:
        plans, name = self._service.named_plans(), request.path_params["name"]
        try:
            text = (await request.body()).decode("utf-8")
            new = await run_in_threadpool(plans.write, name, text)
        except UnicodeDecodeError:
            raise BadRequestError("the body is no text in UTF-8") from None
        except StateplanError as error:
            return answer(problem(self._service.public_error(error)), 400)
        self._service.audit.record("put plan", who(request), plan=name)
        return answer({"name": name}, 201 if new else 200)

    async def delete_plan(self, request: Request) -> Response:
        plans, name = self._service.named_plans(), request.path_params["name"]
        try:
            await run_in_threadpool(plans.remove, name)
        except GatewayError as error:
            return answer(problem(self._service.public_error(error)), 404)
        self._service.audit.record("delete plan", who(request), plan=name)
        return answer({"status": "DELETED"})


def who(request: Request) -> str:
    """Who asks: the name in a certificate, and the address."""
    name = request.scope["state"].get("who")
    return str(name) if name else (request.client.host if request.client else "unknown")


async def _ready(operation: Operation, token: int) -> None:
    """Waits for something to fetch, at most :data:`HOLD_SECONDS`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + HOLD_SECONDS
    while not operation.is_ready(token):
        has_changed = asyncio.Event()

        def tell(has_changed: asyncio.Event = has_changed) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(has_changed.set)

        forget = operation.listen(tell)
        try:
            if operation.is_ready(token):
                return
            await asyncio.wait_for(has_changed.wait(), until - loop.time())
        except TimeoutError:
            return
        finally:
            forget()


# parts of requests


def _unresolved(location: str, name: str, value: str) -> BadRequestError:
    parameter = f'({name}) from value "{value[:200]}"'
    return BadRequestError(f"could not parse parameters: Cannot resolve {location} parameter {parameter}.")


def _handle(request: Request, name: str) -> str:
    value = str(request.path_params[name])
    if not _UUID.fullmatch(value):
        raise _unresolved("path", name, value)
    return value.lower()


def _row_format(request: Request) -> RowFormat:
    value = request.query_params.get("rowFormat", "JSON")
    if request.scope["state"]["version"] == 1:
        return RowFormat.JSON
    try:
        return RowFormat(value.upper())
    except ValueError:
        raise _unresolved("query", "rowFormat", value) from None


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON object of a request; an empty one without a body."""
    data = await request.body()
    if not data.strip():
        return {}
    try:
        body = json.loads(data, parse_constant=_no_constant)
        if b"\\u" in data:
            dumps(body).encode()  # raises for half a surrogate pair
    except (ValueError, RecursionError):
        raise BadRequestError("the body is not JSON.") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body is not a JSON object.")
    return body


def _no_constant(name: str) -> None:
    """Raises ValueError for ``NaN`` and the like, which JSON does not have."""
    raise ValueError(name)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"'{name}' is not a text.")
    return value or ""


def _number(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | None) or not 0 <= (value or 0) < 1 << 53:
        raise BadRequestError(f"'{name}' is not a number from 0 on.")
    return value or 0


def _texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(v, str | int | float) for v in value.values()):
        raise BadRequestError(f"'{name}' is not an object of texts.")
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in value.items()}


# the application


class _Versioned:
    """Takes the version off the path of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            match = _PREFIX.fullmatch(scope["path"])
            version, path = (4, scope["path"]) if match is None else (int(match[1]), match[2])
            path = path.rstrip("/") or "/"  # Flink's gateway takes both, and its documentation has both
            state = {**scope.get("state", {}), "version": version, "prefix": "" if match is None else f"/v{version}"}
            scope = {**scope, "state": state, "full_path": scope["path"], "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


async def _bug(request: Request, error: Exception) -> Response:
    return answer(problem(str(as_error(error, brief=True))), 500)


async def _not_found(request: Request, error: Exception) -> Response:
    return answer(problem(f"Not found: {request.scope.get('full_path', request.url.path)}"), 404)


def application(service: SqlGatewayService) -> ASGIApp:
    """The application that serves a service, and the page of its jobs."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.stop)

    app = Starlette(
        routes=[
            *RestApi(service).routes(),
            *job_manager.routes(service.jobs),
            *jobs_api.routes(JobsPage(service.jobs, service.audit.record), who),
        ],
        exception_handlers={HTTPException: _not_found, Exception: _bug},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return _Versioned(app)
