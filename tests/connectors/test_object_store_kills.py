"""A job from an object store to an object store, whose processes are killed in the middle of commits."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stateplan.connectors.listing import epoch_of, table_files
from tests.conftest import ROOT
from tests.connectors.object_store import served

PARTITIONS, FILES = 6, 6

JOB = """
import sys
from stateplan.session.environment import TableEnvironment
t = TableEnvironment.create({"pipeline.max-parallelism": "2", "execution.checkpointing.dir": sys.argv[1]})
t.execute_sql("CREATE TABLE src (k INT, p INT) WITH ('connector'='filesystem', 'format'='json', 'path'='s3://bkt/in',"
              "'source.monitor-interval'='100ms', 'source.max-files-per-trigger'='1')")
t.execute_sql("CREATE TABLE snk (k INT, p INT) PARTITIONED BY (p) "
              "WITH ('connector'='filesystem', 'format'='json', 'path'='s3://bkt/out')")
t.execute_sql("INSERT INTO snk SELECT k, p FROM src").wait()
"""


class Out:
    """The sink's folder."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def rows(self) -> Counter[int]:
        """The keys that readers see; of each micro-batch all of them."""
        rows: Counter[int] = Counter()
        per_epoch: Counter[str] = Counter()
        files = [file.path[5:] for file in table_files("s3://bkt/out")]
        for name, data in (self.store.cat(files) if len(files) > 1 else {}).items():
            keys = [json.loads(line)["k"] for line in data.splitlines()]
            rows.update(keys)
            per_epoch[name.split("-")[-2]] += len(keys)
        assert set(per_epoch.values()) <= {PARTITIONS}, per_epoch
        return rows

    def step(self) -> tuple[str, int]:
        """How far the micro-batch in hand is: nothing, ``staged``, ``decided``, ``copied`` or ``noted``; and the last
        one that is noted."""
        names = self.store.find("bkt/out")
        hidden = [name for name in names if ".staged-" in name]
        numbers = [int(m[1]) for name in hidden if (m := re.search(r"/(\d+)\.committed$", name))]
        staged = [int(m[1]) for name in hidden if (m := re.search(r"/(\d+)/", name))]
        noted = self._noted([name for name in names if "/_committed/" in name])
        if numbers and max(numbers) > noted:
            copied = [name for name in names if f"-{max(numbers)}-" in name and "/.staged" not in name]
            return "copied" if copied else "decided", noted
        if staged and max(staged) > noted:
            return "staged", noted
        return "noted" if staged else "", noted

    def _noted(self, notes: list[str]) -> int:
        if not notes:
            return -1
        try:
            return epoch_of(self.store.cat_file(notes[0]))
        except FileNotFoundError:  # moto replaces an object in two steps
            return self._noted(notes)


@pytest.mark.spark
@pytest.mark.long
def test_kills_in_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as environment:
        for name in environment:
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, environment[name])
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        store = s3fs.S3FileSystem(use_listings_cache=False)
        deadline = time.monotonic() + 60
        while True:
            try:
                store.mkdir("bkt")
                break
            except Exception:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        for n in range(FILES):
            rows = [json.dumps({"k": n * PARTITIONS + p, "p": p}) for p in range(PARTITIONS)]
            store.pipe_file(f"bkt/in/{n}.json", "\n".join(rows).encode())
        out = Out(store)
        expected = Counter(range(FILES * PARTITIONS))
        caught = []
        last = -1
        for wanted in ({"staged"}, {"decided", "copied"}, None):
            with (tmp_path / "log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-c", JOB, str(tmp_path / "ck")],
                    cwd=ROOT,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            try:
                deadline = time.monotonic() + 120
                while process.poll() is None and time.monotonic() < deadline:
                    if wanted is None:
                        time.sleep(0.3)
                        if out.rows() == expected:
                            break
                        continue
                    step, noted = out.step()
                    if step in wanted or noted > last + 2:
                        break
                assert process.poll() is None, (tmp_path / "log").read_text()[-4000:]
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            step, last = out.step()
            caught.append(step)
            assert out.rows() <= expected
        assert out.rows() == expected
        assert set(caught) & {"staged", "decided", "copied"}, caught
        s3fs.S3FileSystem.clear_instance_cache()
