"""A folder with a table whose files arrive while a job runs, sessions on it, and what the sinks hold."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

SINKS = {
    "counts": "k INT, n BIGINT, s BIGINT",
    "values_seen": "v BIGINT, n BIGINT",
    "windows": "w TIMESTAMP(3), n BIGINT",
}
"""The columns of each sink."""

COUNTS = "INSERT INTO counts SELECT k, COUNT(*), SUM(v) FROM arriving GROUP BY k"


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Work:
    """A folder with tables, sessions on it, and what its sinks hold. As a context, it stops its jobs at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = Jobs()
        (folder / "in").mkdir(parents=True)

    def __enter__(self) -> Work:
        return self

    def __exit__(self, *error: object) -> None:
        for entry in self.jobs.entries():
            if entry.job is not None:
                entry.job.stop()

    def session(self, checkpoint: str, **options: str) -> TableEnvironment:
        place = str(self.folder / checkpoint)
        settings = {"parallelism.default": "2", "table.local-time-zone": "UTC", "execution.checkpointing.dir": place}
        settings["execution.checkpointing.savepoint-dir"] = str(self.folder / "savepoints")
        settings |= {key.replace("__", "-").replace("_", "."): text for key, text in options.items()}
        env = TableEnvironment.create(settings, jobs=self.jobs)
        self.declare(env)
        return env

    def declare(self, env: TableEnvironment) -> None:
        """The tables, in a session."""
        env.execute_sql(
            "CREATE TABLE arriving (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ("
            f"'connector' = 'filesystem', 'path' = '{self.folder / 'in'}', 'format' = 'json', "
            "'source.monitor-interval' = '200 ms')"
        )
        for name, columns in SINKS.items():
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', "
                f"'path' = '{self.folder / name}', 'format' = 'debezium-json')"
            )

    def add(self, name: str, *rows: tuple[int, int, str]) -> None:
        text = "".join(json.dumps({"k": k, "v": v, "ts": f"2026-01-01 {at}"}) + "\n" for k, v, at in rows)
        (self.folder / f".{name}").write_text(text)
        (self.folder / f".{name}").rename(self.folder / "in" / name)

    def changes(self, name: str) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
        """The rows before and after, of each change that a sink has written."""
        for path in sorted((self.folder / name).glob("part-*")):
            for change in map(json.loads, path.read_text().splitlines()):
                yield change["before"], change["after"]

    def holds(self, name: str = "counts") -> set[tuple[object, ...]]:
        """The rows of a sink, with all changes applied; fails where one is there twice or was never there."""
        rows: Counter[tuple[object, ...]] = Counter()
        for change in self.changes(name):
            for row, sign in zip(change, (-1, 1), strict=True):
                if row is not None:
                    rows[tuple(row.values())] += sign
        assert set(rows.values()) <= {0, 1}, rows
        return {row for row, n in rows.items() if n}

    def start_counting(self, env: TableEnvironment) -> Job:
        """A job that has counted a first row."""
        self.add("a", (1, 2, "00:00:00"))
        job = start(env)
        until(lambda: self.holds() == {(1, 1, 2)}, "the first row")
        return job


def start(env: TableEnvironment, statement: str = COUNTS) -> Job:
    job = env.execute_sql(statement).job
    assert job is not None
    return job
