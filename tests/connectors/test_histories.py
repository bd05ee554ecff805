"""Sources that read again what a job has read: the same rows, no others, and at the times when they came."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from stateplan.common.errors import DataError, RunError
from stateplan.connectors.history import HistoryLost, PastSplit
from stateplan.connectors.protocol import Offset
from tests.connectors.kafka_sources import numbers, source
from tests.support.delta import append, drained, log, rows_of, source_of
from tests.support.kafka import Kafka

LARGE = 1 << 20
NOON = int(time.time()) * 1000 - 6 * 3_600_000


def past(
    reader: Any, begin: Offset, end: Offset, step: int | None = None, size: int = LARGE, since: int | None = None
) -> list[PastSplit[Any]]:
    return list(reader.history(begin, end, step, size, since))


def values(reader: Any, splits: list[PastSplit[Any]]) -> list[Any]:
    """The values of the first column, split by split."""
    worker = pickle.loads(pickle.dumps(reader))
    return [row[0] for past_split in splits for frame in worker.read(past_split.split) for row in frame.rows()]


# ---- Kafka -----------------------------------------------------------------------------------------------------


def test_a_topic_is_read_again_up_to_where_the_job_stands(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(-1, 0, 1, 2))
    start = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1"}
    reader = source(kafka, topic, more=start)
    begin = reader.initial_offset()
    kafka.produce(topic, numbers(10, 11), partition=1)
    end = reader.latest_offset(begin)
    kafka.produce(topic, numbers(99))
    splits = past(reader, begin, end)
    assert sorted(values(reader, splits)) == [0, 1, 2, 10, 11]
    assert {s.split.part for s in splits if s.rest is not None} == {f"{topic}/0", f"{topic}/1"}


def test_splits_end_where_they_are_large_or_take_long(kafka: Kafka) -> None:
    topic = kafka.topic()
    times = [NOON + after for after in (0, 10, 900, 1000, 1001, 5000)]
    kafka.produce(topic, numbers(*range(6)), timestamps=times)
    reader = source(kafka, topic)
    begin = reader.initial_offset()
    end = reader.latest_offset(begin)
    by_time = [s for s in past(reader, begin, end, step=100) if s.rest is None]
    assert [(s.split.start, s.split.stop, s.at) for s in by_time] == [
        (0, 2, NOON),
        (2, 4, NOON + 900),
        (4, 5, NOON + 1001),
        (5, 6, NOON + 5000),
    ]
    by_size = [s for s in past(reader, begin, end, size=18) if s.rest is None]
    assert [(s.split.start, s.split.stop) for s in by_size] == [(0, 2), (2, 4), (4, 6)]


def test_aborted_transactions_are_left_out(kafka: Kafka) -> None:
    topic = kafka.topic()
    for commit in (True, False, True):
        with kafka.transaction(commit) as producer:
            producer.produce(topic, json.dumps({"a": int(commit)}), partition=0)
    reader = source(kafka, topic, more={"properties.isolation.level": "read_committed"})
    begin = reader.initial_offset()
    end = reader.latest_offset(begin)
    assert values(reader, past(reader, begin, end, size=1)) == [1, 1]


def test_a_partition_that_came_later_is_read_from_its_first_message(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(1))
    kafka.produce(topic, numbers(2, 3), partition=1)
    reader = source(kafka, topic)
    begin = reader.initial_offset()
    end = reader.latest_offset(begin)
    del begin["offsets"][topic]["1"]
    assert sorted(values(reader, past(reader, begin, end))) == [1, 2, 3]
    kafka.cut(topic, 1, 1)
    with pytest.raises(HistoryLost, match=r"partition 1 .* begins with offset 1 now, and was read from 0 on"):
        past(reader, begin, end)


def test_messages_that_retention_removed_are_missed(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(0, 1, 2, 3))
    reader = source(kafka, topic)
    begin = reader.initial_offset()
    end = reader.latest_offset(begin)
    kafka.cut(topic, 0, 2)
    with pytest.raises(HistoryLost, match=r"partition 0 of topic .* begins with offset 2 now, and was read from 0 on"):
        past(reader, begin, end)
    later = source(kafka, topic)
    begin = later.initial_offset()
    assert values(later, past(later, begin, end)) == [2, 3], "a job that began behind them does not miss them"


def test_messages_that_are_gone_are_not_missed_before_the_begin_of_the_history(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(0, 1, 2, 3), timestamps=[NOON, NOON + 10, NOON + 20, NOON + 30])
    kafka.produce(topic, numbers(7, 8), timestamps=[NOON, NOON + 19], partition=1)
    reader = source(kafka, topic)
    begin = reader.initial_offset()
    end = reader.latest_offset(begin)
    kafka.produce(topic, numbers(9), timestamps=[NOON + 40], partition=1)
    kafka.cut(topic, 0, 2)
    assert values(reader, past(reader, begin, end, since=NOON + 21)) == [3]
    assert values(reader, past(reader, begin, end, since=NOON + 40)) == []
    for since in (NOON + 1, NOON + 20):  # message 1 is gone, and nothing says when it arrived
        with pytest.raises(HistoryLost, match=r"begins with offset 2 now, and was read from 0 on"):
            past(reader, begin, end, since=since)


def test_a_compacted_topic_may_have_lost_messages(kafka: Kafka) -> None:
    topic = kafka.topic(config={"cleanup.policy": "compact"})
    kafka.produce(topic, numbers(0), keys=["a"])
    reader = source(kafka, topic)
    begin = reader.initial_offset()
    with pytest.raises(HistoryLost, match="is compacted"):
        past(reader, begin, reader.latest_offset(begin))


def test_another_topic_of_the_same_name_is_no_history(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(0, 1))
    reader = source(kafka, topic)
    begin = reader.initial_offset()
    end = reader.latest_offset(begin)
    kafka.delete(topic)
    kafka.topic(name=topic)
    with pytest.raises(RunError, match="RUN115"):
        past(source(kafka, topic), begin, end)


# ---- Delta -----------------------------------------------------------------------------------------------------


def delta_history(path: Path, begin: Offset, end: Offset, **options: Any) -> list[Any]:
    reader = source_of(path, mode="streaming", **options)
    return sorted(values(reader, past(reader, begin, end)))


def test_versions_of_a_delta_table_are_read_again_with_their_times(tmp_path: Path) -> None:
    table = tmp_path / "t"
    append(table, (1, "a"), (2, "b"))
    append(table, (3, "c"))
    reader = source_of(table, mode="streaming")
    begin = reader.initial_offset()
    append(table, (4, "d"))
    append(table, (5, "e"))
    _, end = drained(reader, begin)
    append(table, (6, "f"))
    again = source_of(table, mode="streaming")
    splits = past(again, begin, end)
    assert sorted(values(again, splits)) == [1, 2, 3, 4, 5]
    stamps = dict(again.log.versions())
    assert [s.at for s in splits] == [stamps[1], stamps[1], stamps[2], stamps[3]]
    crowded = past(again, begin, end, size=1)
    assert [s.at for s in crowded] == [stamps[1], stamps[1] + 1, max(stamps[2], stamps[1] + 1), stamps[3]]


@pytest.mark.parametrize("files", range(1, 6))
def test_a_part_of_a_version_is_read_again_as_far_as_it_was_read(files: int, tmp_path: Path) -> None:
    table = tmp_path / "t"
    for k in range(3):
        append(table, (k, "x"))
    reader = source_of(table, mode="streaming", maxFilesPerTrigger=str(files))
    begin = reader.initial_offset()
    for k in range(3, 6):
        append(table, (k, "x"))
    end = reader.latest_offset(begin)
    read = sorted(row[0] for row in rows_of(reader, begin, end))
    assert len(read) == files
    assert delta_history(table, begin, end) == read


def test_changes_of_a_version_are_read_at_one_time(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(
        str(table), pa.table({"k": [1, 2], "v": ["a", "b"]}), configuration={"delta.enableChangeDataFeed": "true"}
    )
    DeltaTable(str(table)).update(updates={"v": "'z'"}, predicate="k = 1")
    feed = {"readChangeFeed": "true", "startingVersion": "0"}
    reader = source_of(table, mode="streaming", **feed)
    begin = reader.initial_offset()
    rows, end = drained(reader, begin)
    splits = past(reader, begin, end, size=1)
    again = [row for s in splits for frame in reader.read(s.split) for row in frame.rows()]
    assert again == rows
    assert len({s.at for s in splits if s.split.file.version == 1}) == 1


@pytest.mark.parametrize("loss", ["a file", "a version", "the table"])
def test_what_a_delta_table_has_lost_is_missed(loss: str, tmp_path: Path) -> None:
    table = tmp_path / "t"
    for k in range(3):
        append(table, (k, "x"))
    reader = source_of(table, mode="streaming", startingVersion="0")
    begin = reader.initial_offset()
    _, end = drained(reader, begin)
    if loss == "a file":
        (path,) = (action["add"]["path"] for action in log(table, 1) if "add" in action)
        (table / path).unlink()
    elif loss == "a version":
        DeltaTable(str(table)).create_checkpoint()
        (table / "_delta_log" / f"{0:020d}.json").unlink()
    else:
        shutil.rmtree(table)
        append(table, (7, "y"))
    with pytest.raises((HistoryLost, DataError), match=r"was removed|DATA454"):
        delta_history(table, begin, end, startingVersion="0")


def test_versions_that_are_gone_are_not_missed_before_the_begin_of_the_history(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for k in range(4):
        append(table, (k, "x"))
        time.sleep(0.01)
    reader = source_of(table, mode="streaming", startingVersion="0")
    begin = reader.initial_offset()
    _, end = drained(reader, begin)
    stamps = dict(reader.log.versions())
    DeltaTable(str(table)).create_checkpoint()
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    reader = source_of(table, mode="streaming", startingVersion="0")
    assert sorted(values(reader, past(reader, begin, end, since=stamps[3]))) == [3]
    assert sorted(values(reader, past(reader, begin, end, since=stamps[2] + 1))) == [3]
    with pytest.raises(DataError, match="DATA454"):
        past(reader, begin, end, since=stamps[2])
