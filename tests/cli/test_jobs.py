"""Whole runs from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.cli.exit_codes import ExitCode
from stateplan.runtime.spark.class_archive import archive_options
from tests.cli.class_logs import loaded_classes, logging_classes
from tests.support.command import Command

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
TABLES = """
CREATE TABLE orders (id INT, num INT, arrived AS PROCTIME())
WITH ('connector' = 'replay', 'path' = 'orders.json', 'format' = 'json');
CREATE TABLE firsts (id INT, num INT) WITH ('connector' = 'print');
"""
KEEP_FIRST = """
INSERT INTO firsts SELECT id, num
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY arrived ASC) AS n FROM orders) WHERE n = 1;
"""
KEEP_LAST = KEEP_FIRST.replace("ASC", "DESC")
HOUR = 3_600_000


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "stateplan", *args]


def process(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*args), capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.usefixtures("spark")
def test_an_edited_plan_and_its_checkpoint(stateplan: Command) -> None:
    rows = [(0, 1, 10), (HOUR // 2, 1, 11), (2 * HOUR, 1, 12)]
    Path("orders.json").write_text("".join(f'{{"@at":{at},"id":{i},"num":{n}}}\n' for at, i, n in rows))
    for name, query in (("first", KEEP_FIRST), ("last", KEEP_LAST)):
        # Processes of the Spark of the tests have another working directory.
        Path(f"{name}.sql").write_text(TABLES.replace("orders.json", str(Path("orders.json").absolute())) + query)
        compiled = stateplan("plan", "compile", "-f", f"{name}.sql", "-o", f"{name}.json")
        assert (compiled.code, compiled.out) == (0, "")
    plan = Path("first.json")
    plan.write_text(plan.read_text().replace('"ttl" : "0 ms"', '"ttl" : "1 h"'))

    checkpoint = ("-D", "execution.checkpointing.dir=checkpoint")
    run = stateplan("plan", "execute", "first.json", *checkpoint)
    assert (run.code, run.out) == (0, "+I[1, 10]\n+I[1, 12]\n"), run.err
    assert run.err.splitlines()[-1].startswith("finished: batch 2 (")

    other = stateplan("plan", "execute", "last.json", "--quiet", *checkpoint)
    assert (other.code, other.out) == (ExitCode.CHECKPOINT, "")
    assert other.err.startswith("error: [CKPT003] ")


def test_malformed_input_names_file_and_line() -> None:
    Path("orders.json").write_text('{"@at":0,"id":1,"num":10}\n{"@at":1,"id":\n')
    Path("script.sql").write_text(TABLES + KEEP_FIRST)
    run = process("sql", "-f", "script.sql", "--quiet")
    assert run.returncode == ExitCode.FAILED
    assert run.stderr.startswith("error: [DATA")
    assert "orders.json, line 2" in run.stderr
    assert "Traceback" not in run.stderr


NUMBERS = """
    CREATE TABLE numbers (x INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
    CREATE TABLE nowhere (x INT) WITH ('connector' = 'blackhole');
    INSERT INTO nowhere SELECT x FROM numbers;
"""


def interrupt_at_work(*options: str) -> None:
    """Control-C ends the job of :data:`NUMBERS` after its first micro-batch."""
    job = subprocess.Popen(
        command("sql", *options, "-e", NUMBERS), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert job.stderr is not None
    try:
        for line in job.stderr:
            if line.startswith("batch"):
                break
        os.killpg(job.pid, signal.SIGINT)  # as a terminal does: to every process of the job
        _, rest = job.communicate(timeout=120)
    finally:
        job.kill()
    assert job.returncode == ExitCode.INTERRUPTED
    assert rest.splitlines()[-1].startswith("stopped: batch")
    assert "Traceback" not in rest


def test_control_c_ends_an_unbounded_job() -> None:
    interrupt_at_work()


def test_control_c_ends_an_unbounded_job_in_spark(in_a_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its JVM takes its classes from the archive, as that of every job does."""
    if not archive_options(os.environ):  # make setup could not write it
        monkeypatch.setenv("XDG_CACHE_HOME", str(in_a_folder))
        done = process("archive-classes")
        assert done.returncode == 0, done.stderr
    log = in_a_folder / "classes.log"
    interrupt_at_work("-Dtable.exec.local.streams=false", logging_classes(log))
    archived, others = loaded_classes(log)
    assert archived > others
