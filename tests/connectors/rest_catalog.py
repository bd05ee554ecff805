"""A REST catalog of Iceberg for tests: ``lakana-server``, with an embedded database, in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

_SERVER = """
import uvicorn
from lakana_core import migrate
from lakana_server.app import create_app
from lakana_server.settings import Settings

settings = Settings()
migrate.upgrade(settings.database.url)
uvicorn.run(create_app(settings), host=settings.host, port=settings.port, log_level="warning")
"""
_KEY, _SECRET = "tests", "s3cr3t-of-the-catalog"

DATABASE = "silver"
"""A namespace that exists. The server has tables below three namespaces only."""


@dataclass(frozen=True)
class RestServer:
    """A server that is running.

    Attributes:
        uri: its address.
        token: of its administrator.
    """

    uri: str
    token: str

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A request to the interface of the server itself; the answer."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.uri}{path}", data, headers, method=method)) as answer:
            return json.loads(answer.read())

    def warehouse(self, name: str, root: str, **options: str) -> dict[str, str]:
        """Makes a warehouse; the options of a catalog that lead there.

        Args:
            name: of lower-case letters.
            root: the URL of its folder.
            options: of its store, by the names of ``pyiceberg``.
        """
        storage = {"scheme": root.partition(":")[0], "root": root, "options": options}
        self.request("POST", "/api/v1/environments", {"name": name, "storage": storage})
        return {"catalog-type": "rest", "uri": self.uri, "prefix": name, "token": self.token}


@contextmanager
def rest_server(folder: Path) -> Iterator[RestServer]:
    """A server whose database is in a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "LAKANA_DATABASE__URL": f"sqlite:///{folder}/server.db",
        "LAKANA_PORT": str(port),
        "LAKANA_BOOTSTRAP_PAT_KEY_ID": _KEY,
        "LAKANA_BOOTSTRAP_PAT_SECRET": _SECRET,
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], cwd=folder, env={**os.environ, **settings}, stdout=log, stderr=log
        )
    server = RestServer(f"http://127.0.0.1:{port}", f"lakana_pat_{_KEY}_{_SECRET}")
    try:
        until = time.monotonic() + 120
        while True:
            try:
                server.request("GET", "/v1/config")
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()[-4000:]
                time.sleep(0.1)
        yield server
    finally:
        process.kill()
        process.wait()
