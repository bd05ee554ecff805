"""A job with a target for its latency reads a backlog in micro-batches of the size that fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.runtime.file_lists import FIRST_BYTES
from stateplan.session.environment import TableEnvironment
from tests.support.waiting import until

FILES, ROWS = 30, 4000


@pytest.mark.spark
def test_a_backlog_of_files_is_read_in_parts(spark: object, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        keys = range(number * ROWS, (number + 1) * ROWS)
        text = "".join(json.dumps({"k": k, "v": "x" * 100}) + "\n" for k in keys)
        (folder / f"{number:03d}.json").write_text(text)
    size = sum(path.stat().st_size for path in folder.iterdir())
    options = {"execution.micro-batch.target-latency": "2 s", "execution.checkpointing.dir": str(tmp_path / "c")}
    session = TableEnvironment.create(options)
    session.execute_sql(
        "CREATE TABLE arriving (k BIGINT, v STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{folder}', 'source.monitor-interval' = '100 ms')"
    )
    session.execute_sql(
        "CREATE TABLE counts (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'op-json', "
        f"'path' = '{tmp_path}/out')"
    )
    job = session.execute_sql("INSERT INTO counts SELECT COUNT(*) FROM arriving").job
    assert job is not None
    try:
        until(lambda: sum(b.total("bytes_read") for b in job.metrics) >= size or job.has_ended, 120)
    finally:
        job.stop()
    read = [b.total("bytes_read") for b in job.metrics if b.total("rows_in")]
    assert sum(read) == size
    assert 0 < read[0] < FIRST_BYTES + size / FILES, "one file may pass the limit"
    assert len(read) > 1
    changes = [line for path in sorted((tmp_path / "out").glob("[!.]*")) for line in path.read_text().splitlines()]
    assert json.loads(changes[-1])["n"] == FILES * ROWS
