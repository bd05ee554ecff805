"""The JVM of Spark is killed: its jobs fail with a code, and the next job starts another one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# The suite kills the JVM of a gateway: tests/gateway/test_restarts.py.
pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = """
import json, sys, time, psutil
from pathlib import Path
from stateplan import TableEnvironment
folder = sys.argv[1]
said = []
options = {"parallelism.default": "2", "execution.checkpointing.dir": f"{folder}/ck"}
env = TableEnvironment.create(options, console=said.append)
env.execute_sql(f"CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'json', "
                "'source.monitor-interval' = '200 ms')")
env.execute_sql("CREATE TABLE o (k INT, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'debezium-json', "
                f"'path' = '{folder}/out')")
found = []
for number in range(2):
    job = env.execute_sql("INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k").job
    wanted = json.dumps({"k": 1, "n": number + 1}, separators=(",", ":"))
    while not any(wanted in path.read_text() for path in Path(folder, "out").glob("part-*")):
        assert job.is_active, job.error
        time.sleep(0.1)
    if number == 0:
        for below in psutil.Process().children(recursive=True):
            if "java" in below.name():
                below.kill()
        while job.is_active:
            time.sleep(0.1)
        found.append([job.status.value, job.error.code])
        with open(f"{folder}/in/b.json", "w") as out:
            out.write('{"k": 1}\\n')
    else:
        job.stop()
        found.append([job.status.value, None])
print("FOUND", json.dumps([found, [line for line in said if "tweak" in line]]))
"""


def test_the_next_job_starts_another_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"k": 1}\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert json.loads(line[6:]) == [[["FAILED", "RUN019"], ["CANCELED", None]], []]
    changes = [json.loads(line) for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    assert sorted(change["after"]["n"] for change in changes if change["op"] == "c") == [1, 2]
