"""A changed plan gets state from what topics and Delta tables had, up to where the old job has read them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stateplan.common.errors import CheckpointError
from stateplan.session.environment import TableEnvironment
from stateplan.session.restart import OUTPUT
from tests.support.delta import append
from tests.support.kafka import Kafka

pytestmark = pytest.mark.spark

COUNTED = "SELECT v, COUNT(*) FROM source GROUP BY v"
SUMMED = "SELECT v, SUM(k) FROM source GROUP BY v"


class Jobs:
    """Jobs over a table ``source`` of keys ``k`` and values ``v``.

    Args:
        folder: for sinks and checkpoints.
        table: options of the table.
        columns: its columns besides these.
        more: the declaration of another table.
    """

    def __init__(self, folder: Path, table: str, columns: str = "", more: str | None = None) -> None:
        self.folder, self.table, self.columns, self.more = folder, table, columns, more

    def run(self, query: str, name: str, origin: str | None = None, **options: str) -> None:
        """Runs a query into a sink, with a checkpoint of the same name, until its input ends.

        Args:
            query: of two columns.
            name: of both.
            origin: the name of the checkpoint that this one is made from.
            options: of the session.
        """
        place = str(self.folder / "checkpoints" / name)
        env = TableEnvironment.create({"parallelism.default": "2", "execution.checkpointing.dir": place, **options})
        env.execute_sql(f"CREATE TABLE source (k BIGINT, v STRING{self.columns}) WITH ({self.table})")
        if self.more is not None:
            env.execute_sql(self.more)
        env.execute_sql(
            f"CREATE TABLE {name} (v STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = "
            f"'{self.folder / name}', 'format' = 'debezium-json')"
        )
        plan = env.compile_plan_sql(f"INSERT INTO {name} {query}")
        if origin is not None:
            plan.evolve(self.folder / "checkpoints" / origin)
        plan.execute().wait()

    def results(self, *names: str) -> Counter[tuple[Any, ...]]:
        """The rows of sinks, with all changes applied."""
        rows: Counter[tuple[Any, ...]] = Counter()
        for name in names:
            for path in (self.folder / name).glob("part-*"):
                for change in map(json.loads, path.read_text().splitlines()):
                    for side, sign in (("before", -1), ("after", 1)):
                        if change[side] is not None:
                            rows[tuple(change[side].values())] += sign
        return Counter({row: n for row, n in rows.items() if n})


def counted(before: int, after: int) -> Counter[tuple[Any, ...]]:
    """The changes of sums when the keys from ``before`` to before ``after`` come."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for last, sign in ((before, -1), (after, 1)):
        for rest in range(3):
            rows["abc"[rest], sum(range(rest, last, 3))] += sign
    return Counter({row: n for row, n in rows.items() if n})


def test_state_is_made_from_the_messages_that_were_read(spark: object, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(2)
    jobs = Jobs(
        tmp_path,
        f"'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.servers}', 'format' = "
        "'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'",
    )

    def arrive(keys: range) -> None:
        for partition in (0, 1):
            messages = [json.dumps({"k": k, "v": "abc"[k % 3]}) for k in keys if k % 2 == partition]
            kafka.produce(topic, messages, partition=partition)

    arrive(range(40))
    jobs.run(COUNTED, "counts")
    later = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
    arrive(range(40, 50))
    jobs.run(SUMMED, "sums", "counts", **{"table.exec.state.ttl": "1 h"})
    assert jobs.results("sums") == counted(40, 50)
    kafka.cut(topic, 1, 3)
    with pytest.raises(CheckpointError) as error:
        jobs.run(COUNTED, "counts_again", "sums")
    assert error.value.code == "CKPT054"
    assert "begins with offset 3 now" in error.value.message
    jobs.table += f", 'backfill.from' = '{later}'"
    arrive(range(50, 60))
    jobs.run(COUNTED, "counts_of_some", "sums")
    sizes = [Counter("abc"[k % 3] for k in range(40, last)) for last in (50, 60)]
    changes = Counter({(v, sizes[1][v]): 1 for v in "abc"})
    changes.subtract({(v, sizes[0][v]): 1 for v in "abc"})
    assert jobs.results("counts_of_some") == changes, "only the rows since then count"


def test_state_is_made_from_a_table_of_messages_that_are_gone(
    spark: object, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, keys = kafka.topic(2), "came TIMESTAMP_LTZ(3) {}, part INT {}, place BIGINT {}"
    held = keys.format("", "", "")
    jobs = Jobs(
        tmp_path,
        f"'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.servers}', 'format' = "
        "'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'backfill.table' = "
        "'past'",
        ", " + keys.format(*(f"METADATA FROM '{key}' VIRTUAL" for key in ("timestamp", "partition", "offset"))),
        f"CREATE TABLE past (v STRING, k BIGINT, {held}) WITH ('connector' = 'filesystem', 'format' = 'parquet', "
        f"'path' = '{tmp_path / 'past'}')",
    )

    def arrive(keys: range) -> None:
        for k in keys:
            kafka.produce(topic, [json.dumps({"k": k, "v": "abc"[k % 3]})], partition=k % 2)

    def keep(name: str, *offsets: int) -> None:
        """Rows of the table, by offset in both partitions."""
        rows = [
            {"v": "abc"[k % 3], "k": k, "part": k % 2, "place": k // 2} for o in offsets for k in (2 * o, 2 * o + 1)
        ]
        came = pl.lit(datetime.now(UTC)).dt.cast_time_unit("ms").alias("came")
        frame = pl.DataFrame(rows, {"v": pl.String, "k": pl.Int64, "part": pl.Int32, "place": pl.Int64})
        (tmp_path / "past").mkdir(exist_ok=True)
        frame.with_columns(came).write_parquet(tmp_path / "past" / f"{name}.parquet")

    arrive(range(40))
    jobs.run(COUNTED, "counts")
    arrive(range(40, 50))
    keep("1", *range(0, 12, 2))
    keep("2", 11, 9, 7, 5, 3, 1)
    kafka.cut(topic, 0, 13)
    with pytest.raises(CheckpointError, match=f"lacks row 12 of {topic}/0") as error:
        jobs.run(SUMMED, "sums", "counts")
    assert error.value.code == "CKPT054"
    assert not list((tmp_path / "checkpoints" / "sums").glob("backfill*")), "nothing has been written"
    keep("3", 12, 20)  # and one that the job has not read yet
    with monkeypatch.context() as patch:
        patch.setattr("stateplan.evolution.evolve._Evolution._backfill", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            jobs.run(SUMMED, "sums", "counts", **{"table.exec.state.ttl": "1 h"})
    assert list((tmp_path / "checkpoints" / "sums").glob("backfill-*/copies.json"))
    keep("4", 13, 14)
    jobs.run(SUMMED, "sums", "counts", **{"table.exec.state.ttl": "1 h"})
    assert jobs.results("sums") == counted(40, 50)
    assert not list((tmp_path / "checkpoints" / "sums").glob("backfill*"))
    jobs.run(COUNTED, "all_counts", "sums", **{OUTPUT: "corrections"})
    assert jobs.results("all_counts") == Counter(Counter("abc"[k % 3] for k in range(50)).items())


def test_state_is_made_from_versions_that_were_read(spark: object, tmp_path: Path) -> None:
    table = tmp_path / "table"
    jobs = Jobs(
        tmp_path,
        f"'connector' = 'delta', 'table-path' = '{table}', 'mode' = 'batch', 'readChangeFeed' = 'true', "
        "'startingVersion' = '0'",
    )
    feed = {"delta.enableChangeDataFeed": "true"}
    append(table, *((k, "abc"[k % 3]) for k in range(20)), configuration=feed)
    append(table, *((k, "abc"[k % 3]) for k in range(20, 30)))
    jobs.run(COUNTED, "counts")
    append(table, *((k, "abc"[k % 3]) for k in range(30, 36)))
    jobs.run(SUMMED, "sums", "counts")
    assert jobs.results("sums") == counted(30, 36)
