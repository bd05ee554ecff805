"""The engines of the survey as programs that run one streaming query.

All run the same query: the first row of each order, from the JSON files of a folder that is watched, to lines on
standard output that contain ``+I[order_id, sent]``. stateplan and Flink get the same SQL.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from benchmarks import engines
from benchmarks.harness import PeakMemory, memory_of, process_tree
from tests.conftest import ROOT

STREAM = """CREATE TABLE arrivals (order_id BIGINT, sent BIGINT, pt AS PROCTIME()) WITH ({source})
----
CREATE TABLE results (order_id BIGINT, sent BIGINT) WITH ('connector' = 'print')
----
INSERT INTO results
SELECT order_id, sent
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY pt) AS n FROM arrivals) WHERE n = 1"""

INTERVAL = 50
"""Milliseconds between two looks at the folder, where the engine lets us say."""

_FILES = (
    "'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json', 'source.monitor-interval' = '{interval} ms'"
)

ROW = re.compile(r"\+I\[(\d+), (\d+)\]")

PEER_FOLDER = Path(__file__).parent.parent / "data" / ".pathway"
"""The virtual environment of Pathway, ignored by git."""


class Program:
    """A process whose lines are read as they come, with the time at which each came."""

    def __init__(self, command: list[str], stdin: str = "") -> None:
        self.began = time.time()
        self.lines: list[tuple[float, str]] = []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "PATHWAY_TELEMETRY_SERVER": "", "PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdin is not None
        self._process.stdin.write(stdin)
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.time(), line))

    def rows(self, start: int = 0) -> Iterator[tuple[float, int, int]]:
        """(time at which it came, order, sent) of each row from line ``start`` on."""
        for came, line in self.lines[start:]:
            for match in ROW.finditer(line):
                yield came, int(match[1]), int(match[2])

    def wait_for_row(self, patience: float) -> float:
        """The time at which the first row came. Raises RuntimeError: none came, or the process has ended."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            first = next(self.rows(), None)
            if first is not None:
                return first[0]
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        tail = " / ".join(line.strip() for _, line in self.lines[-4:])
        raise RuntimeError(f"no row within {patience:.0f} s: {tail}"[:300])

    def memory(self) -> int:
        """Bytes that all its processes hold."""
        return sum(memory_of(process) for process in process_tree(self._process.pid))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(process_tree(self._process.pid)):
            with contextlib.suppress(Exception):
                process.send_signal(signal.SIGKILL)
        self._process.wait()


def python_figures(
    module: str, *arguments: str, start: Callable[..., subprocess.Popen[str]] = subprocess.Popen
) -> dict[str, float]:
    """The figures that a module of the survey prints as its last line, and the peak memory of its processes.

    Args:
        start: starts a process of its own, from a command and the arguments of :class:`subprocess.Popen`.

    Raises:
        RuntimeError: it fails.
    """
    command = [sys.executable, "-m", f"benchmarks.survey.{module}", *arguments]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
        with PeakMemory(process.pid) as memory:
            lines = [line for line in process.stdout or () if line.strip()]
        if process.wait():
            raise RuntimeError(" / ".join(lines[-3:]).strip())
    figures: dict[str, float] = json.loads(lines[-1])
    return figures | {"peak GiB": memory.bytes / 2**30, "private GiB": memory.private_bytes / 2**30}


@dataclass(frozen=True)
class Peer:
    """An engine.

    Attributes:
        name: in tables.
        start: starts the streaming query over a folder.
        setup: installs it; the reason when it cannot be.
    """

    name: str
    start: Callable[[Path, Path], Program]
    setup: Callable[[], str | None] = lambda: None


def stream_of(folder: Path) -> str:
    """The statements of the query over a folder."""
    return STREAM.format(source=_FILES.format(folder=folder, interval=INTERVAL))


def _sql(folder: Path, work: Path) -> str:
    script = work / "stream.sql"
    script.write_text(stream_of(folder))
    return str(script)


def _stateplan(folder: Path, work: Path, in_spark: bool) -> Program:
    return stateplan(stream_of(folder), work, in_spark)


def stateplan(statements: str, work: Path, in_spark: bool) -> Program:
    """stateplan with statements that ``----`` separates."""
    (work / "script.sql").write_text(statements.replace("----", ";"))
    command = [str(Path(sys.executable).with_name("stateplan")), "sql", "--no-config", "-D", "parallelism.default=2"]
    streams = f"table.exec.local.streams={'false' if in_spark else 'true'}"
    return Program([*command, "-D", streams, "-f", str(work / "script.sql"), "-q"])


def _flink(folder: Path, work: Path) -> Program:
    return Program(engines.flink_command("rocksdb", mini_batch=False), _sql(folder, work) + "\n")


def _spark(folder: Path, work: Path) -> Program:
    return Program([sys.executable, "-m", "benchmarks.survey.spark_stream", str(folder), str(work / "checkpoint")])


def _pathway(folder: Path, work: Path) -> Program:
    return Program(
        [str(PEER_FOLDER / "bin" / "python"), str(Path(__file__).with_name("pathway_stream.py")), str(folder)]
    )


def pathway_setup() -> str | None:
    """Installs Pathway into an environment of its own. The reason when it cannot be."""
    python = PEER_FOLDER / "bin" / "python"
    if python.exists():
        return None
    done = subprocess.run([sys.executable, "-m", "venv", str(PEER_FOLDER)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        command = [str(python), "-m", "pip", "install", "--quiet", "pathway==0.33.0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    shutil.rmtree(PEER_FOLDER, ignore_errors=True)
    return f"Pathway could not be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}"


PEERS = (
    Peer("stateplan", partial(_stateplan, in_spark=True)),
    Peer("stateplan, without Spark", partial(_stateplan, in_spark=False)),
    Peer("Flink", _flink, engines.flink_setup),
    Peer("Spark", _spark),
    Peer("Pathway", _pathway, pathway_setup),
)
