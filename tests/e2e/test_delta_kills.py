"""A job from a Delta table to Delta tables, killed in its commits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.delta import append, contents

FILES, ROWS = 5, 40

JOB = """
import os, signal, sys
from stateplan.connectors.delta.sink import AppendSink, DeltaSink, MergeSink
from stateplan.session.environment import TableEnvironment

folder, kill, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
commits = []

def killed(commit):
    def committing(sink, parts, epoch):
        commits.append(epoch)
        if len(commits) == number and kill == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(sink, parts, epoch)
        if len(commits) == number and kill == "after":
            os.kill(os.getpid(), signal.SIGKILL)
    return committing

for kind in (AppendSink, MergeSink):
    kind.commit = killed(kind.commit)
t = TableEnvironment.create({"pipeline.max-parallelism": "2", "execution.checkpointing.dir": f"{folder}/checkpoint"})
delta = "'connector' = 'delta', 'table-path'"
limit = "'maxFilesPerTrigger' = '1'"
t.execute_sql(f"CREATE TABLE events (k BIGINT, v STRING) WITH ({delta} = '{folder}/events', {limit})")
t.execute_sql(f"CREATE TABLE copies (k BIGINT, p BIGINT) PARTITIONED BY (p) WITH ({delta} = '{folder}/copies')")
key = "PRIMARY KEY (v) NOT ENFORCED"
t.execute_sql(f"CREATE TABLE totals (v STRING, n BIGINT, {key}) WITH ({delta} = '{folder}/totals')")
t.execute_sql(
    "EXECUTE STATEMENT SET BEGIN INSERT INTO copies SELECT k, MOD(k, 2) FROM events;"
    "INSERT INTO totals SELECT v, COUNT(*) FROM events GROUP BY v; END"
).wait()
"""


def run(folder: Path, kill: str, number: int = 0) -> int:
    """Runs the job until it has read all, or is killed before or after that commit of the run; its exit code."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(folder), kill, str(number)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return process.wait(300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.spark
@pytest.mark.long
def test_kills_in_commits(tmp_path: Path) -> None:
    for file in range(FILES):
        append(tmp_path / "events", *((file * ROWS + i, f"v{i % 3}") for i in range(ROWS)))
    keys = Counter(range(FILES * ROWS))
    for kill, number in (("before", 4), ("after", 3)):
        assert run(tmp_path, kill, number) == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
        assert Counter(k for k, _ in contents(tmp_path / "copies")) <= keys
    assert run(tmp_path, "") == 0, (tmp_path / "log").read_text()[-3000:]
    assert contents(tmp_path / "copies") == sorted(((k, k % 2) for k in keys), key=repr)
    counts = Counter(f"v{i % 3}" for i in range(ROWS))
    assert contents(tmp_path / "totals") == [(v, n * FILES) for v, n in sorted(counts.items())]
