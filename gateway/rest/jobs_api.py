"""The page of jobs over HTTP: its files, what it shows, and what it asks of jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stateplan.common.errors import StateplanError
from stateplan.gateway.page.job_snapshot import error_json
from stateplan.gateway.page.service import JobsPage
from stateplan.plans.render.svg import STYLE

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The page loads nothing but its own files, and nobody frames it."""

HEADER = "x-stateplan-page"
"""Requests that change something carry this header: a page of another origin cannot send it unasked."""

MAX_BODY = 4096
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_ACTIONS = ("stop", "inspection", "what-if", "ttl")
_NOT_FOUND = frozenset({"RUN060", "RUN056"})


class RefusedError(Exception):
    """A request that is not one of the page's: its status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def routes(page: JobsPage, who: Callable[[Request], str]) -> list[Route]:
    """The routes of the page.

    Args:
        page: the jobs.
        who: the user behind a request, for the record.
    """

    async def index(request: Request) -> Response:
        return _file(request, "index.html")

    async def file(request: Request) -> Response:
        return _file(request, request.path_params["name"])

    async def look(request: Request) -> Response:
        job_id = request.path_params.get("job")
        return await _answer(request, page.overview) if job_id is None else await _answer(request, page.job, job_id)

    async def draw_plan(request: Request) -> Response:
        return await _answer(request, page.drawing, request.path_params["job"])

    async def diff(request: Request) -> Response:
        return await _answer(request, page.diff, request.path_params["job"])

    async def act(request: Request) -> Response:
        job_id, action = request.path_params["job"], request.url.path.rpartition("/")[2]
        try:
            body = await _body(request)
            if action == "stop":
                return await _answer(request, page.stop, job_id, who(request), body.get("savepoint") is True)
            if action == "inspection":
                return await _answer(request, page.inspect, job_id)
            state, ttl = _text(body, "state"), _text(body, "ttl")
        except RefusedError as refusal:
            return _problem(str(refusal), refusal.status)
        if action == "what-if":
            return await _answer(request, page.what_if, job_id, state, ttl)
        return await _answer(request, page.set_ttl, job_id, state, ttl, who(request), body.get("dryRun") is True)

    return [
        Route("/", index),
        Route("/page/files/{name}", file),
        Route("/page/jobs", look),
        Route("/page/jobs/{job}", look),
        Route("/page/jobs/{job}/plan", draw_plan),
        Route("/page/jobs/{job}/diff", diff),
        *(Route(f"/page/jobs/{{job}}/{name}", act, methods=["POST"], name=name) for name in _ACTIONS),
    ]


async def _answer(request: Request, work: Callable[..., Any], *arguments: Any) -> Response:
    """What ``work`` gives, in a thread, with a tag by which it is not sent again; an error with its remedy."""
    try:
        answer_data = await run_in_threadpool(work, *arguments)
    except StateplanError as error:
        return _problem(str(error), 404 if error.code in _NOT_FOUND else 400)
    data = json.dumps(answer_data, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return _with_tag(request, data, "application/json")


def _problem(text: str, status: int) -> Response:
    """An error, as the REST API has them, and as the page shows it."""
    return JSONResponse({"errors": [text], "error": error_json(text)}, status)


def _with_tag(request: Request, data: bytes, kind: str) -> Response:
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    headers = {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=kind)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON of a request that changes something. Raises RefusedError."""
    if HEADER not in request.headers:
        raise RefusedError(403, f"the header {HEADER} is missing")
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            raise RefusedError(413, f"the body has more than {MAX_BODY} bytes")
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError) as cause:
        raise RefusedError(400, "the body is not JSON") from cause
    if not isinstance(body, dict):
        raise RefusedError(400, "the body is not a JSON object")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RefusedError(400, f"'{name}' is missing")
    return value


# ---- files -----------------------------------------------------------------------------------------------------


@cache
def _files() -> dict[str, bytes]:
    """The files of the page by name; the style and the script of the graph are those of ``plan explain``."""
    contents = {
        entry.name: entry.read_bytes() for entry in files("stateplan.gateway.page").joinpath("assets").iterdir()
    }
    render = files("stateplan.plans.render")
    contents["graph.js"] = render.joinpath("graph.js").read_bytes()
    contents["graph.css"] = (STYLE + render.joinpath("graph.css").read_text("utf-8")).encode()
    return contents


def _file(request: Request, name: str) -> Response:
    data = _files().get(name)
    if data is None:
        return _problem("there is no such file", 404)
    response = _with_tag(request, data, _TYPES[name.rpartition(".")[2]])
    response.headers["content-security-policy"] = POLICY
    response.headers["referrer-policy"] = "no-referrer"
    return response
