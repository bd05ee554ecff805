"""State as tables, of checkpoints that Spark and RocksDB have written: the rows are those that Spark's reader has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.plans.state import CheckpointReader
from stateplan.session.environment import TableEnvironment
from tests.e2e.counting_job import start_counting
from tests.support.long_runs import LONG

pytestmark = pytest.mark.spark

BATCHES = 30 if LONG else 14
"""More than the ten after which Spark writes a snapshot, and than the seconds after which rows expire."""
QUERY = """
    SELECT carrier, COUNT(*), COUNT(DISTINCT total) FROM Orders JOIN Shipments ON Orders.order_id = Shipments.order_id
    GROUP BY carrier"""


@pytest.fixture(scope="module")
def checkpoint(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("my shop")
    environment = TableEnvironment.create(
        {
            "pipeline.max-parallelism": "8",
            "execution.checkpointing.dir": str(folder / "checkpoint"),
            "table.exec.state.ttl": "20 s" if LONG else "9 s",
        }
    )
    for name, columns in (
        ("Orders", "order_id INT, total DECIMAL(10, 2)"),
        ("Shipments", "order_id INT, carrier CHAR(2)"),
    ):
        rows = [
            {"@at": 1000 * batch, "order_id": 7 * batch + n, "total": n, "carrier": f"c{n % 4}"}
            for batch in range(BATCHES)
            for n in range(20)
        ]
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        environment.execute_sql(
            f"CREATE TABLE {name} ({columns}, pt AS PROCTIME()) "
            f"WITH ('connector' = 'replay', 'path' = '{folder / name}.json', 'format' = 'json')"
        )
    environment.execute_sql("CREATE TABLE snk (carrier STRING, n BIGINT, d BIGINT) WITH ('connector' = 'blackhole')")
    environment.execute_sql(f"INSERT INTO snk {QUERY}").wait()
    yield folder / "checkpoint"


def session(checkpoint: Path, **options: str) -> TableEnvironment:
    environment = TableEnvironment.create(options)
    environment.execute_sql(f"CREATE CATALOG s WITH ('type' = 'state', 'path' = '{checkpoint}')")
    return environment


def rows(environment: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    return Counter(environment.sql_query(query).to_arrow().to_pandas().itertuples(index=False, name=None))


@pytest.mark.parametrize("batch", [0, 1, 10, 17, 28, 29] if LONG else [10, BATCHES - 1])
def test_rows_are_those_of_sparks_reader(checkpoint: Path, batch: int) -> None:
    reader = CheckpointReader.read(checkpoint, batch=batch)
    environment = session(checkpoint)
    for state in reader.states:
        for table in state.tables:
            names = list(table.labels.values())
            read = reader.read_state(state.selector, table=table.name).select(names).collect()
            label = state.selector if table is state.main else f"{state.selector}${table.name}"
            columns = ", ".join(f"`{name}`" for name in names)
            found = environment.sql_query(f"SELECT {columns} FROM s.job.`{label}` FOR SYSTEM_TIME AS OF {batch}")
            assert Counter(found.to_polars().iter_rows()) == Counter(map(tuple, read))
            assert read or batch == 0


def test_a_query_on_spark_reads_the_same(checkpoint: Path) -> None:
    query = f"SELECT order_id, total, access_time FROM s.job.`join.left` WHERE order_id > {5 * BATCHES}"
    here = session(checkpoint).sql_query(query).to_polars()
    on_spark = session(checkpoint, **{"table.exec.local.max-input-size": "0"}).sql_query(query).to_polars()
    assert here.height > 0
    assert Counter(here.iter_rows()) == Counter(on_spark.iter_rows())


def test_the_types_are_those_of_the_plan(checkpoint: Path) -> None:
    described = session(checkpoint).execute_sql("DESCRIBE s.job.`join.left`").collect()
    assert [tuple(row)[:2] for row in described] == [
        ("order_id", "INT"),
        ("total", "DECIMAL(10, 2)"),
        ("access_time", "TIMESTAMP_LTZ(3)"),
        ("expires_at", "TIMESTAMP_LTZ(3)"),
        ("key_group", "INT"),
    ]


def test_a_running_job_is_asked(spark: object, tmp_path: Path) -> None:
    job = start_counting(tmp_path / "c")
    question = (
        "SELECT (SELECT COUNT(*) FROM s.job.`{}`) AS by_key, (SELECT SUM(`COUNT(*)`) FROM s.job.`{}`) AS by_count"
    )
    try:
        counts: set[int] = set()
        other = None
        while len(counts) < 3:
            assert job.is_active
            try:
                other = other or session(tmp_path / "c")
                names = [s.selector for s in CheckpointReader.read(tmp_path / "c").states]
                row = other.sql_query(question.format(*names)).to_polars().row(-1)
            except StateplanError as early:
                assert early.code in ("CKPT001", "CKPT002", "CKPT041")
                job.wait(0.2)
                continue
            assert row[0] == row[1], "both as they were after the same micro-batch"
            counts.add(row[0])
            job.wait(0.2)
    finally:
        job.stop()
