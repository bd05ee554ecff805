"""A gateway with a root and files beside it, and jobs that want out of the root: what they write, and what of the files
beside it appears anywhere."""

from __future__ import annotations

import contextlib
import ctypes
import http.server
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.gateway.gateway_server import FailedError, GatewayServer
from tests.support.waiting import until

CANARY = "C4NARY"
"""In the content and the names of all files that must not be read."""

OPTIONS = {
    "parallelism.default": "1",
    "pipeline.max-parallelism": "1",
    "table.exec.local.max-input-size": "0",
    "restart-strategy.type": "none",
}
"""Of sessions: small jobs that run in Spark."""
INSIDE = "inside"
"""Begins each row of the files below the root."""


def fill(folder: Path, word: str) -> None:
    """A file of each format."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = CANARY if word == CANARY else "f"
    (folder / f"{stem}.json").write_text(json.dumps({"a": word}) + "\n")
    if word == CANARY:  # what attempts call by name
        (folder / "known.json").write_text(json.dumps({"a": word}) + "\n")
        pq.write_table(pa.table({"a": [word]}), folder / "known.parquet", write_statistics=False)


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """All that is in a folder, with the time of its last change and its size."""
    facts = ((path, path.lstat()) for path in sorted(folder.rglob("*")))
    return {str(path): (stat.st_mtime_ns, 0 if path.is_dir() else stat.st_size) for path, stat in facts}


def code_of(text: str) -> str:
    """The first code of an error in a text."""
    match = re.search(r"\[([A-Z]+[0-9]{3})\]", text)
    return match[1] if match else ""


def exchange(one: Path, other: Path) -> None:
    """Exchanges two names at once. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, bytes(one), -100, bytes(other), 2) != 0:  # AT_FDCWD, RENAME_EXCHANGE
        raise OSError(ctypes.get_errno(), f"{one} and {other} are not exchanged")


class Requests(http.server.BaseHTTPRequestHandler):
    """A server elsewhere, which counts its requests."""

    count = 0

    def do_GET(self) -> None:
        type(self).count += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"a": CANARY}).encode())

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class Place:
    """A gateway with a root, and files beside the root.

    Attributes:
        folder: of the root, the files elsewhere and the gateway.
        server: the gateway.
        port: of a server elsewhere.
        answers: all that the gateway has answered.
    """

    folder: Path
    server: GatewayServer
    port: int
    answers: list[str] = field(default_factory=list)

    def elsewhere(self) -> dict[str, tuple[int, int]]:
        """The files and folders beside the root."""
        return tree(self.outside) | tree(self.folder / "root-evil")

    def leaks(self) -> Iterator[str]:
        """Answers with the text or the names of files elsewhere, and files that contain them."""
        yield from (answer for answer in self.answers if CANARY in answer)
        for top in (self.root, self.folder / "gateway"):
            for folder, folders, files in os.walk(top):
                yield from (os.path.join(folder, name) for name in (*folders, *files) if CANARY in name)
                for path in (os.path.join(folder, name) for name in files):
                    with contextlib.suppress(FileNotFoundError):
                        if not os.path.islink(path) and CANARY.encode() in Path(path).read_bytes():
                            yield path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"


WATCHED = ", 'source.monitor-interval' = '200 ms'"


class Attempt:
    """One job that wants out.

    Args:
        place: where.
        name: of its folders below the root.
    """

    def __init__(self, place: Place, name: str) -> None:
        self.place, self.name = place, name
        self.root, self.outside = place.root, place.outside
        self.mine = place.root / "attempts" / name
        self.out = self.mine / "out"
        self.mine.mkdir(parents=True)
        self.session = place.server.session(OPTIONS)
        self.job: str | None = None

    def run(self, statement: str) -> str:
        """What comes of a statement, as text."""
        return self._said(lambda: json.dumps(self.session.run(statement)))

    def _said(self, call: Callable[[], str]) -> str:
        try:
            answer = call()
        except FailedError as error:
            answer = str(error)
        self.place.answers.append(answer)
        return answer

    def table(
        self, name: str, path: object, more: str = "", columns: str = "a STRING", fmt: str = "json", clause: str = ""
    ) -> str:
        text = str(path).replace("'", "''")
        return self.run(
            f"CREATE TABLE {name} ({columns}) {clause} WITH ("
            f"'connector' = 'filesystem', 'format' = '{fmt}', 'path' = '{text}'{more})"
        )

    def sink(self) -> None:
        self.table("snk", self.out)

    def start(self, statement: str = "INSERT INTO snk SELECT a FROM src") -> str:
        """Starts a job; its id, or the error."""
        return self._said(lambda: self._started(statement))

    def _started(self, statement: str) -> str:
        self.job = self.session.start(statement)
        return self.job

    def status(self) -> str:
        return self.session.jobs().get(str(self.job), "GONE")

    def rows(self, folder: Path | None = None) -> list[str]:
        """The rows of the sink."""
        parts = (folder or self.out).rglob("part-*") if (folder or self.out).exists() else ()
        return sorted(json.loads(line)["a"] for path in parts for line in path.read_text().splitlines())

    def watch(self, path: object, fmt: str = "json") -> str:
        """Declares the source, and starts a job that watches it."""
        self.sink()
        said = self.table("src", path, ", 'source.monitor-interval' = '200 ms'", fmt=fmt)
        return said if code_of(said) else self.start()

    def settle(self, seconds: float = 60) -> None:
        """Waits until the job has rows, or has failed."""
        if self.job is not None:
            until(lambda: bool(self.rows()) or self.status() != "RUNNING", seconds)

    def end(self) -> str:
        """Stops the job; what it has written, or what was said of it."""
        text = ""
        if self.job is not None:
            text = self.run(f"DESCRIBE JOB '{self.job}'")
            for path in (f"/jobs/{self.job}", f"/jobs/{self.job}/exceptions", f"/jobs/{self.job}/config"):
                self.place.answers.append(self.place.server.http.get(path).text)
            if self.status() in ("RUNNING", "RESTARTING"):
                self.run(f"STOP JOB '{self.job}'")
        self.session.close()
        return text
