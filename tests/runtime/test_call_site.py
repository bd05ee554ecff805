"""Spark's name for what the thread of a job does, without which it writes down stacks while it plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateplan.runtime.spark_run import Run
from stateplan.session.environment import TableEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("connector", ["blackhole", "print"])
def test_it_is_there_after_a_micro_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connector: str
) -> None:
    seen: list[str | None] = []
    run = Run.on_batch

    def on_batch(self: Run, frame: DataFrame, batch_id: int) -> None:
        run(self, frame, batch_id)
        seen.append(spark.sparkContext.getLocalProperty("callSite.short"))

    monkeypatch.setattr(Run, "on_batch", on_batch)
    (tmp_path / "a.json").write_text('{"k": 1}\n')
    environment = TableEnvironment.create({"pipeline.name": "named"})
    environment.execute_sql(
        f"CREATE TABLE src (k INT) WITH ('connector'='filesystem', 'path'='{tmp_path}', 'format'='json')"
    )
    environment.execute_sql(f"CREATE TABLE snk (k INT) WITH ('connector'='{connector}')")
    environment.execute_sql("INSERT INTO snk SELECT k FROM src").wait()
    assert seen == ["named"]
