"""A gateway in a process of its own, for tests: started, asked, killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

START_SECONDS = 60.0


class GatewayServer:
    """``stateplan gateway`` on a free port.

    Args:
        folder: what it keeps, and where its output goes: ``gateway.log``.
        arguments: more of the command line.
        environment: more variables.
    """

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "gateway.log"
        command = [sys.executable, "-m", "stateplan", "gateway", "--port", "0", "--dir", str(folder / "state")]
        self._out = self.log.open("ab")
        begun = self.log.stat().st_size
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdout=self._out,
            stderr=self._out,
            env={**os.environ, "TZ": "UTC", **(environment or {})},
            start_new_session=True,
        )
        try:
            self.url = self._address(begun)
            self.http = httpx.Client(base_url=self.url, timeout=60)
        except BaseException:
            self._kill()
            raise

    def _address(self, begun: int) -> str:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            said = self.log.read_bytes()[begun:].decode(errors="replace")
            found = re.search(r"SQL gateway at (\S+)", said)
            if found:
                return found[1]
            assert self.process.poll() is None, f"the gateway ended with {self.process.returncode}:\n{said}"
            time.sleep(0.05)
        raise AssertionError(f"the gateway does not start:\n{self.log.read_text(errors='replace')}")

    def session(self, properties: Mapping[str, str] | None = None) -> GatewayClient:
        """A new session."""
        answer = self.http.post("/v4/sessions", json={"properties": dict(properties or {})})
        assert answer.status_code == 200, answer.text
        return GatewayClient(self.http, str(answer.json()["sessionHandle"]))

    def kill(self) -> None:
        """Ends the process with SIGKILL."""
        self.http.close()
        self._kill()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Ends the process as a user does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        self.http.close()
        self._out.close()
        return self.process.wait()

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._out.close()


class FailedError(Exception):
    """A statement failed; the text is the error's."""


class GatewayClient:
    """A session at a gateway.

    Attributes:
        handle: its UUID.
    """

    def __init__(self, http: httpx.Client, handle: str) -> None:
        self._http = http
        self.handle = handle

    def submit(self, statement: str, **more: Any) -> str:
        """The handle of an operation."""
        body = {"statement": statement, **more}
        answer = self._http.post(f"/v4/sessions/{self.handle}/statements", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["operationHandle"])

    def fetch(self, operation: str, token: int, row_format: str = "JSON") -> dict[str, Any]:
        """The page of a token. Raises FailedError."""
        path = f"/v4/sessions/{self.handle}/operations/{operation}/result/{token}"
        answer = self._http.get(path, params={"rowFormat": row_format})
        if answer.status_code != 200:
            raise FailedError(answer.json()["errors"][-1])
        found: dict[str, Any] = answer.json()
        return found

    def first(self, operation: str, seconds: float = 120) -> dict[str, Any]:
        """The first page, when there is one. Raises FailedError."""
        until = time.monotonic() + seconds
        while (page := self.fetch(operation, 0))["resultType"] == "NOT_READY":
            assert time.monotonic() < until, "the statement takes too long"
        return page

    def run(self, statement: str, rows: int | None = None, **more: Any) -> list[list[Any]]:
        """The rows of a statement: all, or the first ones. Raises FailedError."""
        operation = self.submit(statement, **more)
        page, found, token = self.first(operation), list[list[Any]](), 0
        while True:
            found += [row["fields"] for row in page["results"]["data"]]
            if page["resultType"] == "EOS" or (rows is not None and len(found) >= rows):
                return found
            token += 1
            page = self.fetch(operation, token)

    def start(self, statement: str) -> str:
        """The id of the job that a statement starts. Raises FailedError."""
        return str(self.first(self.submit(statement))["jobID"])

    def jobs(self) -> dict[str, str]:
        """The jobs' ids, and where they stand."""
        return {row[0]: row[2] for row in self.run("SHOW JOBS")}

    def close(self) -> None:
        """Ends the session."""
        self._http.delete(f"/v4/sessions/{self.handle}")
