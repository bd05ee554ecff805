"""What the benchmarks share: their command line, a folder to work in, input by micro-batches, a session over it."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import typer

from stateplan.planner.session.environment import TableEnvironment


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
    environment = TableEnvironment.create({"table.exec.state.ttl": "1 d", **options})
    environment.execute_sql(f"""CREATE TABLE src ({columns}, pt AS PROCTIME()) WITH (
        'connector'='filesystem', 'path'='{data}', 'format'='{form}', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql(f"CREATE TABLE snk ({sink}) WITH ('connector'='blackhole')")
    return environment
