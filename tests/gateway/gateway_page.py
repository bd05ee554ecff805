"""The page of a gateway, served on a port of this machine, and asked over HTTP."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp

HEAD = {"x-stateplan-page": "1"}
ENDED = 1_039_500


@contextlib.contextmanager
def served(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serves an application, and gives its address."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


@dataclass
class Asked:
    """A page, and what its jobs were asked for."""

    address: str
    notes: list[dict[str, Any]] = field(default_factory=list)

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        answer = httpx.get(self.address + path, headers=headers, timeout=60)
        return answer.status_code, answer.json()

    def post(self, path: str, **body: object) -> tuple[int, Any]:
        answer = httpx.post(self.address + path, headers=HEAD, json=body, timeout=120)
        return answer.status_code, answer.json()
