"""The messages of a topic, first from a table that has them and then from the topic: each once, and in their order."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from stateplan.common.errors import CheckpointError
from stateplan.connectors.history import HistoryLost
from stateplan.connectors.history_table import HistoryTable
from stateplan.connectors.kafka.splits import KafkaSplit
from stateplan.connectors.protocol import Offset
from stateplan.evolution.estimate import history_cost
from stateplan.evolution.history import History, Piece
from stateplan.evolution.history_tables import CopyRows, HistoryTables, JoinedSource
from stateplan.evolution.positions import TableSplit
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.local.levels import LocalLevels
from stateplan.runtime.spark.checkpoint_files import BatchOffsets
from stateplan.session.environment import TableEnvironment
from stateplan.session.evolution_preview import cost_parts
from stateplan.session.history_tables import history_tables
from tests.connectors.connector_tables import fields, source_table
from tests.connectors.kafka_sources import source
from tests.support.evolving import Play
from tests.support.kafka import Kafka

NOON = int(time.time()) * 1000 - 3_600_000
COLUMNS = "came TIMESTAMP_LTZ(6), v ROW<x STRING, a INT>, o BIGINT, p INT"
NODE = 7


class Topic:
    """A topic of two partitions, whose messages ``{"v": {"a": n, "x": "n"}}`` came a second after one another.

    Args:
        kafka: the broker.
        folder: for the table that has them, and for copies.
        rows: of each partition.
    """

    def __init__(self, kafka: Kafka, folder: Path, rows: int = 10) -> None:
        self.kafka, self.folder, self.rows = kafka, folder, rows
        self.topic = kafka.topic(2)
        for partition in (0, 1):
            messages = [json.dumps({"v": {"a": n, "x": f"{partition}"}}) for n in range(rows)]
            times = [NOON + 1000 * n for n in range(rows)]
            kafka.produce(self.topic, messages, partition=partition, timestamps=times)
        self.reader = source(kafka, self.topic, "v ROW<x STRING, a INT>", metadata=("timestamp",))
        self.begin: Offset = self.reader.initial_offset()
        self.end: Offset = self.reader.latest_offset(self.begin)

    def frame(self, *places: tuple[int, int]) -> pl.DataFrame:
        """Rows of the table, by partition and offset."""
        return pl.DataFrame(
            {
                "v": [{"x": f"{p}", "a": o} for p, o in places],
                "p": pl.Series([p for p, _ in places], dtype=pl.Int32),
                "o": [o for _, o in places],
                "came": pl.Series([NOON + 1000 * o for _, o in places])
                .cast(pl.Datetime("ms", "UTC"))
                .dt.cast_time_unit("us"),
            },
            schema_overrides={"v": pl.Struct({"x": pl.String, "a": pl.Int32})},
        )

    def holds(self, *files: Sequence[tuple[int, int]]) -> HistoryTable:
        """A table with these rows, by partition and offset."""
        (self.folder / "h").mkdir(exist_ok=True)
        for number, places in enumerate(files):
            self.frame(*places).write_parquet(self.folder / "h" / f"{number}.parquet")
        options = {"connector": "filesystem", "path": str(self.folder / "h"), "format": "parquet"}
        return self.declared(options)

    def declared(self, options: dict[str, str]) -> HistoryTable:
        keys = {"partition": "p", "offset": "o", "timestamp": "came"}
        return HistoryTable(source_table(options, fields(COLUMNS), range(4)), ("v", "came"), keys)

    def tables(self, table: HistoryTable) -> HistoryTables:
        return HistoryTables({NODE: table}, lambda _: self.folder / "copies")

    def read(self, tables: HistoryTables, step: int | None = None, size: int = 1 << 20) -> list[tuple[int, int, int]]:
        """Partition, offset and time of arrival of the rows that are read again, split by split."""
        some = tables.history(NODE, self.reader, self.begin, self.end, step, size, None)
        splits = sorted(some, key=lambda past: (past.at, past.seq))
        tables.copy((NODE, step), run)
        reader = pickle.loads(pickle.dumps(tables.source(NODE, step, self.reader)))
        rows: list[tuple[int, int, int]] = []
        for past in splits:
            for frame in reader.read(past.split):
                assert frame.columns == ["c0", "c1"]
                assert [str(t) for t in frame.dtypes] == [str(t.polars()) for t in self.reader.row_types]
                for value, came in frame.rows():
                    assert came.timestamp() * 1000 == NOON + 1000 * value["a"]
                    rows.append((int(value["x"]), value["a"], past.at or 0))
        return rows

    def all_rows(self) -> list[tuple[int, int]]:
        return [(p, o) for p in (0, 1) for o in range(self.rows)]


def run(task: CopyRows) -> list[tuple[Any, ...]]:
    """As tasks of a cluster."""
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(task.splits)))})
    return [tuple(row.values()) for batch in pickle.loads(pickle.dumps(task))([numbers]) for row in batch.to_pylist()]


SCATTERED = [[(1, 0), (0, 4), (0, 0), (1, 3)], [(0, 3), (0, 1), (1, 2)], [(0, 2), (1, 1), (0, 12)]]


@pytest.mark.parametrize(("step", "size"), [(None, 1 << 20), (None, 1), (2000, 1 << 20)])
def test_rows_of_the_table_come_first_and_those_of_the_topic_follow(
    kafka: Kafka, tmp_path: Path, step: int | None, size: int
) -> None:
    topic = Topic(kafka, tmp_path)
    tables = topic.tables(topic.holds(*SCATTERED))
    for partition, offset in ((0, 5), (1, 4)):
        kafka.cut(topic.topic, partition, offset)
    rows = topic.read(tables, step, size)
    assert sorted((p, o) for p, o, _ in rows) == topic.all_rows(), "each once"
    for partition in (0, 1):
        assert [o for p, o, _ in rows if p == partition] == list(range(10)), "in their order"
    if step is not None:
        assert all(0 <= NOON + 1000 * o - at <= step for _, o, at in rows)


def test_a_topic_that_has_lost_everything_is_not_read(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    tables = topic.tables(topic.holds(topic.all_rows()))
    kafka.delete(topic.topic)
    assert sorted((p, o) for p, o, _ in topic.read(tables)) == topic.all_rows()


def test_rows_that_neither_has_are_missed(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    table = topic.holds([place for place in topic.all_rows() if place not in ((0, 4), (1, 7), (1, 8))])
    kafka.cut(topic.topic, 0, 5)
    with pytest.raises(HistoryLost) as error:
        topic.read(topic.tables(table))
    name = topic.topic
    assert str(error.value) == (
        f"table 't' lacks row 4 of {name}/0, 7 of {name}/1; and partition 0 of topic '{name}' begins with offset 5 "
        "now, and was read from 4 on"
    )


def test_ends_of_transactions_are_no_rows_that_lack(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path, 4)
    for first in (5, 8, 11):  # an offset after each of them is that of its end
        with kafka.transaction() as producer:
            for n in (first, first + 1):
                value = json.dumps({"v": {"a": n, "x": "0"}})
                producer.produce(topic.topic, value, partition=0, timestamp=NOON + 1000 * n)
    topic.end = topic.reader.latest_offset(topic.begin)
    assert topic.end["offsets"][topic.topic] == {"0": 13, "1": 4}
    table = topic.holds(topic.all_rows())
    transactions = topic.frame(*((0, n) for n in (5, 6, 8, 9))).with_columns(pl.col("o") - 1)
    transactions.write_parquet(tmp_path / "h" / "transactions.parquet")
    kafka.cut(topic.topic, 0, 8)
    with pytest.raises(HistoryLost, match=f"lacks row 6 of {topic.topic}/0"):
        topic.read(topic.tables(table))
    rows = topic.read(topic.tables(replace(table, ignores_gaps=True)), size=1)
    assert [n for p, n, _ in rows if p == 0] == [0, 1, 2, 3, 5, 6, 8, 9, 11, 12]
    kafka.cut(topic.topic, 0, 10)
    with pytest.raises(HistoryLost, match="lacks row 9"):
        shutil.rmtree(tmp_path / "copies")
        topic.read(topic.tables(replace(table, ignores_gaps=True)))


def test_copies_stay_as_they_are_when_the_table_gets_more_rows(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    first_rows = topic.read(topic.tables(topic.holds(*SCATTERED)), size=3)
    table = topic.holds(*SCATTERED, [(0, 5), (0, 6), (0, 7), (1, 4)])
    assert topic.read(topic.tables(table), size=3) == first_rows


def test_a_table_that_changes_meanwhile_is_refused(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    tables = topic.tables(topic.holds(*SCATTERED))
    list(tables.history(NODE, topic.reader, topic.begin, topic.end, None, 1 << 20, None))
    topic.holds(*SCATTERED[:-1], [(0, 2), (1, 8)])
    with pytest.raises(CheckpointError, match="has changed since they were counted") as error:
        topic.read(tables)
    assert error.value.code == "CKPT054"


def test_a_delta_table_is_read_as_it_was(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    path = str(tmp_path / "delta")
    for places in SCATTERED[:2]:
        write_deltalake(path, topic.frame(*places).to_arrow(), mode="append")
    tables = topic.tables(topic.declared({"connector": "delta", "table-path": path}))
    list(tables.history(NODE, topic.reader, topic.begin, topic.end, None, 1 << 20, None))
    write_deltalake(path, topic.frame(*SCATTERED[2]).to_arrow(), mode="append")
    kafka.cut(topic.topic, 0, 2)
    assert sorted((p, o) for p, o, _ in topic.read(tables)) == topic.all_rows()


def test_rows_that_expire_need_their_times(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    table = topic.holds(topic.all_rows())
    timeless = replace(table, keys={key: name for key, name in table.keys.items() if key != "timestamp"})
    assert len(topic.read(topic.tables(timeless))) == 20
    with pytest.raises(HistoryLost, match="no column METADATA FROM 'timestamp' says when rows arrived"):
        topic.read(topic.tables(timeless), step=10)


def test_partitions_of_several_topics_need_a_column_of_the_topic(kafka: Kafka, tmp_path: Path) -> None:
    topic = Topic(kafka, tmp_path)
    topic.end["offsets"]["another"] = {"0": 4}
    with pytest.raises(HistoryLost, match="no column METADATA FROM 'topic' says from where the rows of 't' are"):
        topic.read(topic.tables(topic.holds(*SCATTERED)))


DDL = """
CREATE TABLE topic (v ROW<x STRING, a INT>, pt AS PROCTIME(), came TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL,
  WATERMARK FOR came AS came - INTERVAL '1' SECOND)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'backfill.table' = 'h');
CREATE TABLE h (v ROW<x STRING, a INT>, o BIGINT, p BIGINT, came TIMESTAMP_LTZ(6))
WITH ('connector' = 'filesystem', 'path' = '{folder}/h', 'format' = 'parquet');
CREATE TABLE out1 (x STRING, a BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{folder}/out1', 'format' = 'debezium-json')
"""
NTH_ROW = (
    "SELECT x, a FROM (SELECT v.x AS x, v.a AS a, ROW_NUMBER() OVER (PARTITION BY v.x ORDER BY pt {}) AS n FROM topic) "
    "WHERE n = 1"
)
QUERIES = {
    "the first row": NTH_ROW.format("ASC"),
    "the last row": NTH_ROW.format("DESC"),
    "windows": "SELECT v.x, COUNT(*) FROM TABLE(TUMBLE(TABLE topic, DESCRIPTOR(came), INTERVAL '3' SECOND)) "
    "GROUP BY v.x, window_start, window_end",
    "counts without values": "SELECT 'all', COUNT(*) FROM topic",
    "rows that expire": "SELECT v.x, COUNT(*) FROM topic GROUP BY v.x, v.a / 2",
}


@pytest.mark.parametrize("query", QUERIES)
def test_operators_do_what_they_do_over_the_topic_alone(
    kafka: Kafka, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "look", staticmethod(lambda _: SimpleNamespace(input_ended=lambda _: False)))
    topic = Topic(kafka, tmp_path)
    topic.holds(*SCATTERED)
    env = TableEnvironment.create({"table.exec.state.ttl": "5 s"} if query == "rows that expire" else {})
    for statement in DDL.format(topic=topic.topic, servers=kafka.servers, folder=tmp_path).split(";\n"):
        env.execute_sql(statement)
    document = env.compile_plan_sql(f"INSERT INTO out1 {QUERIES[query]}").document
    (tmp_path / "splits" / "marks").mkdir(parents=True)
    (tmp_path / "splits" / "marks" / "beginning.json").write_text(json.dumps(topic.begin))

    def outcome(tables: HistoryTables, batch_bytes: int) -> dict[str, list[str]]:
        """The rows of states, and those of the sink."""
        play = Play(document)
        ((node, source),) = [(source.node, source) for source in play.job.sources]
        old = SimpleNamespace(
            folder=tmp_path,
            batch=0,
            layout=SimpleNamespace(sources=[SimpleNamespace(node=node, markers="marks")]),
            spark=SimpleNamespace(offsets=lambda _: BatchOffsets({"batchTimestampMs": NOON + 60_000}, (topic.end,))),
        )
        operators = frozenset(spec.node for spec in play.job.operators)
        sinks = {sink.node: sink.writer for sink in play.job.sinks}
        history = History(cast("Any", old), {node: node}, operators, 2, batch_bytes, sinks, tables=tables)
        for reader in (source.reader.reader for source in history.job(play.job).sources):
            if isinstance(reader, JoinedSource):
                tables.copy(reader.key, run)
        play.levels = LocalLevels(history.job(play.job))
        (source,), rows = play.levels.graph.sources, Counter[str]()
        for number, now in enumerate(source.reader.instants()):
            tasks = [{"seq": f"{number:010d}", "now": now, "part": part} for part in (0, 1)]
            play.levels.begin(number, {})
            splits = source.reader.splits(pa.RecordBatch.from_pylist(tasks))
            for change in play._changes(play.levels.play(play.levels.read(0, splits))):
                _, kind, row = change.split(" ", 2)
                rows[row] += 1 if kind.startswith("+") else -1
        return {**play.states(["@t"]), "sink": sorted(rows.elements())}

    sizes = (40, 1 << 20)
    whole = [outcome(HistoryTables({}), size) for size in sizes]
    assert all(len(rows) > 1 for rows in whole)
    for partition, offset in ((0, 5), (1, 4)):
        kafka.cut(topic.topic, partition, offset)
    tables = history_tables(document.graph.nodes, env.catalog, {}, lambda _: None)
    for size, rows in zip(sizes, whole, strict=True):
        assert outcome(HistoryTables(tables, lambda _, size=size: tmp_path / f"copies-{size}"), size) == rows  # type: ignore[misc]


def test_rows_of_tables_count_in_estimates() -> None:
    pieces = [
        Piece(0, 30, TableSplit(0, 3, 30, part="t/0"), ""),
        Piece(0, 0, TableSplit(3, 3, part="t/0"), ""),
        Piece(0, 8, KafkaSplit("t", 0, 3, 5, part="t/0"), ""),
    ]
    cost = history_cost(pieces)
    assert (cost.table_rows, cost.table_bytes, cost.parts, cost.history_bytes) == (3, 30, 1, 8)
    assert " and ".join(cost_parts(cost)) == "3 rows of history in tables (30 B) and 1 part of history"
