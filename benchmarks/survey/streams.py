"""The first row of a stream, the latency of its rows, and the memory of an idle one; :mod:`.peers` has the query.

A row's latency is the time from the rename that makes its file visible to the moment its line is read from the engine's
standard output. Files come every 100 ms.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.survey.peers import Peer, Program

TICK = 0.1
"""Seconds between two files."""

WARM_UP = 10.0
"""Seconds of rows that are not counted."""

PATIENCE = 180.0
"""Seconds after which a first row is no longer waited for."""

RATES = (10, 100, 1_000, 10_000)
"""Rows a second."""


class Arrivals:
    """A folder that rows arrive in."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._files = itertools.count()
        self._ids = itertools.count(1)

    def send(self, count: int) -> None:
        """Rows with new ids, in a file that appears whole."""
        hidden = self.folder.with_name("hidden.json")
        sent = int(time.time() * 1000)
        hidden.write_text("".join(json.dumps({"order_id": next(self._ids), "sent": sent}) + "\n" for _ in range(count)))
        hidden.rename(self.folder / f"part-{next(self._files):06}.json")


def first_row(peer: Peer, work: Path) -> dict[str, float]:
    """From the start of the process to its first row, whose file is there."""
    arrivals = Arrivals(work / "arrivals")
    arrivals.send(10)
    with peer.start(arrivals.folder, work) as program:
        return {"first row s": program.wait_for_row(PATIENCE) - program.began}


def warm_first_row(work: Path) -> dict[str, float]:
    """From the statement to its first row, in a process that has run the same query over other files."""
    folders = [Arrivals(work / name) for name in ("first", "second")]
    for arrivals in folders:
        arrivals.send(10)
    command = [sys.executable, "-m", "benchmarks.survey.warm_stream", *(str(one.folder) for one in folders)]
    with Program(command) as program:
        until = time.monotonic() + PATIENCE
        while len(begins := [n for n, (_, line) in enumerate(program.lines) if line.startswith("BEGIN")]) < 2 or not (
            came := next((row[0] for row in program.rows(begins[1])), None)
        ):
            if time.monotonic() > until:
                raise RuntimeError(f"no row within {PATIENCE:.0f} s: {program.lines[-3:]}"[:300])
            time.sleep(0.01)
        return {"first row s": came - float(program.lines[begins[1]][1].split()[1])}


def idle_memory(peer: Peer, work: Path, seconds: float = 90.0) -> dict[str, float]:
    """Of all processes, when no row has come for a while."""
    arrivals = Arrivals(work / "arrivals")
    arrivals.send(10)
    with peer.start(arrivals.folder, work) as program:
        program.wait_for_row(PATIENCE)
        time.sleep(seconds)
        return {"idle MiB": program.memory() / 2**20}


def latency(peer: Peer, work: Path, rate: int, seconds: float = 60.0) -> dict[str, float]:
    """Median and 99th percentile of rows that come at a rate."""
    arrivals = Arrivals(work / "arrivals")
    arrivals.send(10)
    with peer.start(arrivals.folder, work) as program:
        program.wait_for_row(PATIENCE)
        return latency_of(program, arrivals.send, rate, seconds, TICK)


def latency_of(
    program: Program, send: Callable[[int], object], rate: int, seconds: float, tick: float
) -> dict[str, float]:
    """Median and 99th percentile of rows that come at a rate, some with each ``tick`` in seconds."""
    _send(send, rate, WARM_UP, tick)
    warm = int(time.time() * 1000)
    _send(send, rate, seconds, tick)
    waits = _waits(program, warm, round(rate * seconds))
    cuts = statistics.quantiles(waits, n=100)
    return {"p50 ms": cuts[49], "p99 ms": cuts[98], "rows": len(waits)}


def _send(send: Callable[[int], object], rate: int, seconds: float, tick: float) -> None:
    began, due = time.monotonic(), 0.0
    for number in range(1, round(seconds / tick) + 1):
        before, due = due, number * tick * rate
        send(int(due) - int(before))
        time.sleep(max(0.0, began + number * tick - time.monotonic()))


def _waits(program: Program, since: int, expected: int) -> list[float]:
    """The latencies in ms of rows that were sent since a time in ms, when all have come. Raises RuntimeError: they do
    not."""
    until = time.monotonic() + 60
    while True:
        waits = list(_latencies(program.rows(), since))
        if len(waits) >= expected:
            return waits
        if time.monotonic() > until:
            raise RuntimeError(f"{len(waits)} of {expected} rows came within a minute after the last was sent")
        time.sleep(1)


def _latencies(rows: Iterable[tuple[float, int, int]], since: int) -> Iterable[float]:
    for came, _, sent in rows:
        if sent >= since:
            yield came * 1000 - sent
