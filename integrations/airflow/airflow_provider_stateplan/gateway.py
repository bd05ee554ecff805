"""The requests that the operators send to a gateway. Imports nothing of Airflow and nothing of stateplan."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx

ACTIVE = ("RUNNING", "RESTARTING")
"""The status of jobs that have not ended."""

_POLL = 0.2
_HEARTBEAT = 60.0
_TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;|\w+", re.S)
_COMMENT = re.compile(r"--[^\n]*|/\*(?!\+).*?\*/", re.S)
_CODE = re.compile(r"\[[A-Z]+\d{3}\] .*", re.S)


class GatewayError(Exception):
    """The gateway refuses a request, or a statement fails. The text begins with a code, if there is one."""


@dataclass(frozen=True)
class Job:
    """A job of a gateway.

    Attributes:
        id: 32 hexadecimal digits.
        name: its ``pipeline.name``.
        status: a status such as RUNNING, FINISHED, CANCELED or FAILED.
    """

    id: str
    name: str
    status: str

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE


class Gateway:
    """A gateway.

    Args:
        url: its address.
        token: sent as ``Authorization: Bearer``.
        ca_file: certificates to trust; by default those of the system.
        timeout: of a request, s.
    """

    def __init__(self, url: str, token: str | None = None, ca_file: str | None = None, timeout: float = 60.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify: Any = ca_file or True
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, verify=verify, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    @contextmanager
    def session(self, options: Mapping[str, str] | None = None) -> Iterator[Session]:
        """A session with options, which ends with the block. Jobs that were started in it continue."""
        handle = self.request("POST", "/v4/sessions", json={"properties": dict(options or {})})["sessionHandle"]
        try:
            yield Session(self, handle)
        finally:
            with suppress(GatewayError):  # the gateway ends it after a while
                self.request("DELETE", f"/v4/sessions/{handle}")

    def jobs(self) -> list[Job]:
        """All jobs that the gateway remembers, the newest first."""
        listed = self.request("GET", "/jobs/overview")["jobs"]
        newest_first = sorted(listed, key=lambda job: -job["start-time"])
        return [Job(job["jid"], job["name"], job["state"]) for job in newest_first]

    def job(self, job_id: str) -> Job:
        """A job. Raises GatewayError, it is not known."""
        digits = job_id.replace("-", "")
        for job in self.jobs():
            if job.id == digits:
                return job
        raise GatewayError(f"the gateway has no job {job_id}")

    def active_job(self, name: str) -> Job | None:
        """The newest job with a name that has not ended; None if there is none."""
        return next((job for job in self.jobs() if job.name == name and job.is_active), None)

    def problem_of(self, job_id: str) -> str:
        """Why a job has failed."""
        entries = self.request("GET", f"/jobs/{job_id}/exceptions").get("exceptionHistory", {}).get("entries", [])
        return _text_of(entries[0].get("stacktrace", "")) if entries else "the gateway has no reason"

    def put_plan(self, name: str, text: str) -> str:
        """Stores a plan; its path for statements."""
        self.request("PUT", f"/v4/plans/{name}", content=text.encode())
        return f"plan://{name}"

    def request(self, method: str, path: str, **more: Any) -> Any:
        """Sends a request; its answer. Raises GatewayError."""
        try:
            response = self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise GatewayError(f"the gateway cannot be reached: {type(error).__name__}: {error}") from error
        if response.is_success:
            return response.json() if response.content else {}
        try:
            errors = response.json()["errors"]
        except (ValueError, KeyError, TypeError):
            errors = [response.text]
        raise GatewayError(_text_of(str(errors[-1])) or f"status {response.status_code}")


class Session:
    """A session at a gateway, from :meth:`Gateway.session`."""

    def __init__(self, gateway: Gateway, handle: str) -> None:
        self._gateway = gateway
        self._path = f"/v4/sessions/{handle}"

    def run(self, statement: str) -> list[list[Any]]:
        """Runs a statement, and waits for it; the rows of its result. Raises GatewayError."""
        return self._run(statement)[0]

    def start(self, statement: str) -> str | None:
        """Runs a statement; the id of the job that it has started, if it has started one. Raises GatewayError."""
        return self._run(statement)[1]

    def _run(self, statement: str) -> tuple[list[list[Any]], str | None]:
        send = self._gateway.request
        operation = send("POST", f"{self._path}/statements", json={"statement": statement})["operationHandle"]
        base = f"{self._path}/operations/{operation}/result"
        rows: list[list[Any]] = []
        job_id, token, last_sign = None, 0, time.monotonic()
        while True:
            page = send("GET", f"{base}/{token}")
            job_id = page.get("jobID") or job_id
            rows += [row["fields"] for row in (page.get("results") or {}).get("data", ())]
            if page["resultType"] == "EOS":
                break
            if page["resultType"] == "NOT_READY":
                time.sleep(_POLL)
            if time.monotonic() > last_sign + _HEARTBEAT:
                send("POST", f"{self._path}/heartbeat")
                last_sign = time.monotonic()
            following = page.get("nextResultUri")
            token = token if following is None else int(following.partition("?")[0].rpartition("/")[2])
        send("DELETE", f"{self._path}/operations/{operation}/close")
        return rows, job_id


def statements_of(scripts: str | Sequence[str]) -> list[str]:
    """The statements of scripts. A semicolon within BEGIN and END does not end a statement."""
    out = []
    for script in [scripts] if isinstance(scripts, str) else scripts:
        begin, depth = 0, 0
        for token in _TOKEN.finditer(script):
            word = token[0].upper()
            depth += (word in ("BEGIN", "CASE")) - (word == "END")
            if word == ";" and depth <= 0:
                out.append(script[begin : token.start()])
                begin, depth = token.end(), 0
        out.append(script[begin:])
    return [text.strip() for text in out if _COMMENT.sub("", text).strip()]


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _text_of(error: str) -> str:
    """An error of the gateway without what is around it."""
    match = _CODE.search(error)
    return (match[0] if match else error).split("\nEnd of exception")[0].strip()
