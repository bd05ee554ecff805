"""Spark's log of source files keeps what the retained micro-batches need, and no file more for ten minutes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateplan.session.environment import TableEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEW = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.fileSource.log.compactInterval": "2",
}


@pytest.mark.spark
def test_it_is_cleaned_at_once(spark: SparkSession, tmp_path: Path) -> None:
    for n in range(9):
        file = tmp_path / "input" / f"{n}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'{{"k": {n}}}\n')
        os.utime(file, (1_700_000_000 + n, 1_700_000_000 + n))
    environment = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "checkpoint")})
    environment.execute_sql(f"""CREATE TABLE src (k INT) WITH ('connector'='filesystem', 'path'='{tmp_path / "input"}',
        'format'='json', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql("CREATE TABLE snk (k INT) WITH ('connector'='blackhole')")
    for key, value in _FEW.items():
        spark.conf.set(key, value)
    try:
        environment.execute_sql("INSERT INTO snk SELECT k FROM src").wait()
    finally:
        for key in _FEW:
            spark.conf.unset(key)
    (log,) = (tmp_path / "checkpoint").glob("**/sources/0")
    assert sorted(p.name for p in log.iterdir() if not p.name.startswith(".")) == ["5.compact", "6", "7.compact", "8"]
