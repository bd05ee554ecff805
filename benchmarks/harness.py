"""What the benchmarks share: their command line, a folder to work in, input by micro-batches, a session over it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import polars as pl
import psutil
import typer

from stateplan.session.environment import TableEnvironment


def run(main: Callable[..., int | None], about: str | None) -> None:
    """Runs ``main``, whose parameters are the options of the command line, and exits with the code that it returns."""

    @functools.wraps(main)
    def command(*args: object, **options: object) -> None:
        sys.exit(main(*args, **options))

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=f"\b\n{about}")(command)
    app()


def work_folder(name: str) -> AbstractContextManager[str]:
    """A temporary folder, removed at the end whatever a job that was killed has left in it."""
    return tempfile.TemporaryDirectory(prefix=f"stateplan-{name}-", ignore_cleanup_errors=True)


def write_files(folder: Path, frames: Iterable[pl.DataFrame], form: str = "parquet") -> int:
    """A file for each micro-batch, Parquet or JSON, in their order; how many."""
    folder.mkdir(parents=True)
    count = 0
    for frame in frames:
        path = folder / f"part-{count:05d}.{form}"
        (frame.write_parquet if form == "parquet" else frame.write_ndjson)(path)
        os.utime(path, (1_700_000_000 + count, 1_700_000_000 + count))
        count += 1
    return count


def session(data: Path, columns: str, sink: str, options: Mapping[str, str], form: str = "parquet") -> TableEnvironment:
    """A session with the table ``src`` over the files of ``data``, one in each micro-batch, and a sink ``snk``."""
    environment = TableEnvironment.create(
        {"table.exec.state.ttl": "1 d", "table.exec.local.max-input-size": "0", **options}
    )
    environment.execute_sql(f"""CREATE TABLE src ({columns}, pt AS PROCTIME()) WITH (
        'connector'='filesystem', 'path'='{data}', 'format'='{form}', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql(f"CREATE TABLE snk ({sink}) WITH ('connector'='blackhole')")
    return environment


def process_tree(root: int) -> list[psutil.Process]:
    """``root`` and its descendants that are alive."""
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory_of(process: psutil.Process) -> int:
    """Bytes a process holds: its proportional set size, where pages shared by n processes count 1/n; where the
    system does not tell, its resident set size. 0 for one that has ended."""
    try:
        found = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(found, "pss", found.rss))


def _private_memory_of(process: psutil.Process) -> int:
    """Bytes a process holds that are of no file, counted as :func:`memory_of` does; 0 where Linux does not tell."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss_Anon:")), 0)


def cpu_seconds(root: int) -> dict[int, float]:
    """Processor time that each process of a tree has taken, with its children that have ended, by its id."""
    found = {}
    for process in process_tree(root):
        with contextlib.suppress(psutil.Error):
            found[process.pid] = sum(process.cpu_times()[:4])
    return found


class Sampler:
    """Takes samples at an interval while it is used as a context."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def sample(self) -> None:
        """Takes a sample."""
        raise NotImplementedError

    def _watch(self) -> None:
        self.sample()
        while not self._stop.wait(self._interval):
            self.sample()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class PeakMemory(Sampler):
    """Samples a process tree twice a second. ``bytes`` is the largest sum seen, and ``private_bytes`` that without
    mapped files, whose pages the system can take back."""

    def __init__(self, root: int) -> None:
        super().__init__(0.5)
        self.bytes = self.private_bytes = 0
        self._root = root

    def sample(self) -> None:
        processes = process_tree(self._root)
        self.bytes = max(self.bytes, sum(map(memory_of, processes)))
        self.private_bytes = max(self.private_bytes, sum(map(_private_memory_of, processes)))
