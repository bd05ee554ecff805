"""A job whose disk is full says so, and goes on from its checkpoint when there is space again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.execnodes.errors import RunError
from stateplan.planner.session.environment import TableEnvironment

ROWS = 40_000


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 KiB."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mount(folder, "size=400k")
    except (OSError, subprocess.CalledProcessError) as cause:
        pytest.skip(f"a small file system cannot be mounted here: {cause}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.spark
def test_a_full_disk_is_named_and_the_job_goes_on_later(spark: object, tmp_path: Path, small_disk: Path) -> None:
    source, out = tmp_path / "rows.json", tmp_path / "out"
    source.write_text("".join(json.dumps({"k": f"{n * 2654435761 % 2**32:x}" * 4}) + "\n" for n in range(ROWS)))
    checkpoint = small_disk / "checkpoint"

    def run() -> None:
        env = TableEnvironment.create({"execution.checkpointing.dir": str(checkpoint), "pipeline.max-parallelism": "2"})
        for table, columns, path in (("src", "k STRING, pt AS PROCTIME()", source), ("snk", "k STRING", out)):
            env.execute_sql(
                f"CREATE TABLE {table} ({columns}) WITH "
                f"('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')"
            )
        env.execute_sql(
            "INSERT INTO snk SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM src) "
            "WHERE n = 1"
        ).wait()

    with pytest.raises(RunError) as raised:
        run()
    error = raised.value
    assert error.code == "RUN031", error
    assert error.message.startswith(f"the job failed, because the disk of {checkpoint}")
    assert "of 400 KiB are free" in error.message
    mount(small_disk, "remount,size=64m")
    run()
    written = [line for file in out.rglob("*.json") for line in file.read_text().splitlines()]
    assert len(written) == len(set(written)) == ROWS


@pytest.mark.parametrize("free", [4, 16, 20])
def test_a_job_that_cannot_begin_names_the_full_disk(tmp_path: Path, small_disk: Path, free: int) -> None:
    (small_disk / "other").write_bytes(bytes((400 - free) * 1024))
    env = TableEnvironment.create({"execution.checkpointing.dir": str(small_disk / "checkpoint")})
    env.execute_sql("CREATE TABLE src (x INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9')")
    env.execute_sql("CREATE TABLE snk (x INT, n BIGINT) WITH ('connector' = 'blackhole')")
    with pytest.raises(RunError) as raised:
        env.execute_sql("INSERT INTO snk SELECT x, COUNT(*) FROM src GROUP BY x")
    assert raised.value.code == "RUN031"
    assert "of 400 KiB are free" in raised.value.message
