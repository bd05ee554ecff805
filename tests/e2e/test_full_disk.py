"""A job whose disk is full says so, and goes on from its checkpoint when there is space again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import RunError
from stateplan.session.environment import TableEnvironment
from tests.support.small_disk import SmallDisk, small_disk

ROWS = 40_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of 400 KiB."""
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.mark.spark
def test_a_full_disk_is_named_and_the_job_goes_on_later(spark: object, tmp_path: Path, disk: SmallDisk) -> None:
    source, out = tmp_path / "rows.json", tmp_path / "out"
    source.write_text("".join(json.dumps({"k": f"{n * 2654435761 % 2**32:x}" * 4}) + "\n" for n in range(ROWS)))
    checkpoint = disk.folder / "checkpoint"

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
    disk.grow()
    run()
    written = [line for file in out.rglob("*.json") for line in file.read_text().splitlines()]
    assert len(written) == len(set(written)) == ROWS


@pytest.mark.parametrize("free", [4, 16, 20])
def test_a_job_that_cannot_begin_names_the_full_disk(tmp_path: Path, disk: SmallDisk, free: int) -> None:
    (disk.folder / "other").write_bytes(bytes((400 - free) * 1024))
    env = TableEnvironment.create({"execution.checkpointing.dir": str(disk.folder / "checkpoint")})
    env.execute_sql("CREATE TABLE src (x INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9')")
    env.execute_sql("CREATE TABLE snk (x INT, n BIGINT) WITH ('connector' = 'blackhole')")
    with pytest.raises(RunError) as raised:
        env.execute_sql("INSERT INTO snk SELECT x, COUNT(*) FROM src GROUP BY x")
    assert raised.value.code == "RUN031"
    assert "of 400 KiB are free" in raised.value.message
