"""A job that counts the rows of files by windows."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

WINDOWS = (
    "INSERT INTO windows SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE arriving, DESCRIPTOR(ts), "
    "INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
)


class Work:
    """A table of files, one to a micro-batch, and the windows of its rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = 0
        (folder / "in").mkdir(parents=True, exist_ok=True)

    def session(self, **source: str) -> TableEnvironment:
        place = str(self.folder / "checkpoint")
        env = TableEnvironment.create(
            {"table.local-time-zone": "UTC", "execution.checkpointing.dir": place, "parallelism.default": "1"},
            jobs=Jobs(),
        )
        options = {
            "connector": "filesystem",
            "path": str(self.folder / "in"),
            "format": "json",
            "source.max-files-per-trigger": "1",
            **{key.replace("_", "-").replace("source-", "source."): text for key, text in source.items()},
        }
        written = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
        env.execute_sql(
            f"CREATE TABLE arriving (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' HOUR) WITH ({written})"
        )
        env.execute_sql(
            "CREATE TABLE windows (w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem', "
            f"'path' = '{self.folder / 'windows'}', 'format' = 'json')"
        )
        return env

    def add(self, *hours: int, damaged: bool = False) -> Path:
        """A file with a row at each of these hours, later than all before it."""
        name = f"{self.files}.json"
        self.files += 1
        hidden = self.folder / f".{name}"
        rows = [json.dumps({"ts": f"2026-01-01 {hour:02}:30:00"}) for hour in hours]
        hidden.write_text("\n".join(["{", *rows] if damaged else rows) + "\n")
        os.utime(hidden, (1_700_000_000 + self.files,) * 2)
        return hidden.rename(self.folder / "in" / name)

    def mend(self, file: Path) -> None:
        rows = file.read_text().removeprefix("{\n")
        facts = file.stat()
        file.write_text(rows)
        os.utime(file, (facts.st_atime, facts.st_mtime))

    def start(self, env: TableEnvironment) -> Job:
        job = env.execute_sql(WINDOWS).job
        assert job is not None
        return job

    def run(self, **source: str) -> Job:
        job = self.start(self.session(**source))
        job.wait()
        return job

    def fail(self) -> None:
        with pytest.raises(StateplanError) as error:
            self.run()
        assert error.value.code.startswith("DATA")

    def holds(self) -> Counter[tuple[str, int]]:
        rows: Counter[tuple[str, int]] = Counter()
        for path in (self.folder / "windows").glob("part-*"):
            rows.update((row["w"][11:13], row["n"]) for row in map(json.loads, path.read_text().splitlines()))
        return rows
