"""A folder with a table whose files arrive while a job runs, sessions on it, and what the sinks hold."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

COUNTS = "INSERT INTO counts SELECT k, COUNT(*), SUM(v) FROM arriving GROUP BY k"


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Work:
    """A folder with tables, sessions on it, and what its sinks hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = Jobs()
        (folder / "in").mkdir(parents=True)

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
        for name, columns in (("counts", "k INT, n BIGINT, s BIGINT"), ("windows", "w TIMESTAMP(3), n BIGINT")):
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', "
                f"'path' = '{self.folder / name}', 'format' = 'debezium-json')"
            )

    def add(self, name: str, *rows: tuple[int, int, str]) -> None:
        text = "".join(json.dumps({"k": k, "v": v, "ts": f"2026-01-01 {at}"}) + "\n" for k, v, at in rows)
        (self.folder / f".{name}").write_text(text)
        (self.folder / f".{name}").rename(self.folder / "in" / name)

    def holds(self, name: str = "counts") -> set[tuple[object, ...]]:
        """The rows of a sink, with all changes applied; fails where one is there twice or was never there."""
        rows: Counter[tuple[object, ...]] = Counter()
        for path in (self.folder / name).glob("part-*") if (self.folder / name).is_dir() else ():
            for line in path.read_text().splitlines():
                change = json.loads(line)
                for side, sign in (("before", -1), ("after", 1)):
                    if change[side] is not None:
                        rows[tuple(change[side].values())] += sign
        assert set(rows.values()) <= {0, 1}, rows
        return {row for row, n in rows.items() if n}


def start(env: TableEnvironment, statement: str = COUNTS) -> Job:
    job = env.execute_sql(statement).job
    assert job is not None
    return job
