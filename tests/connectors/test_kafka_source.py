"""Kafka sources against a real broker: where they begin and end, what they read, and what they refuse."""

from __future__ import annotations

import json
import pickle
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, RunError
from stateplan.common.types import parse_type
from stateplan.connectors.alignment import Alignment, PartWatermarks
from stateplan.connectors.kafka.client import close_consumers
from stateplan.connectors.kafka.planning import offsets_of, shares, splits_between
from stateplan.connectors.kafka.splits import merge_splits
from stateplan.connectors.kafka.tables import Limits
from stateplan.connectors.pace import Pace
from stateplan.connectors.protocol import Offset
from stateplan.connectors.registry import find_connector
from stateplan.connectors.splits import AssignedSplit
from stateplan.runtime.watermarks import EventTime, PartWatermark
from tests.connectors.kafka_sources import Job, frames, made, numbers, rows, source, table
from tests.support.kafka import Kafka, running

HOUR = 3_600_000
NOON = int(time.time()) * 1000 - 12 * HOUR
"""Some hours ago: the broker removes old messages."""


def upserts(kafka: Kafka, topic: str, columns: str = "a INT, b STRING", **how: Any) -> Any:
    options = {"connector": "upsert-kafka", "topic": topic, "properties.bootstrap.servers": kafka.servers}
    return made(table({**options, "key.format": "json", "value.format": "json"}, columns, key=("a",), **how))


# ---- where a source begins and ends ----------------------------------------------------------------------------


def test_the_start_is_what_the_options_say(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(0, 1, 2), timestamps=[NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR])
    kafka.produce(topic, numbers(10, 11), timestamps=[NOON + HOUR, NOON + HOUR], partition=1)

    def begins(mode: str, **more: str) -> list[int]:
        options = {"scan.startup.mode": mode, **{f"scan.startup.{k.replace('_', '-')}": v for k, v in more.items()}}
        return list(offsets_of(source(kafka, topic, more=options).initial_offset()).values())

    assert begins("earliest-offset") == [0, 0]
    assert begins("latest-offset") == [3, 2]
    assert begins("timestamp", timestamp_millis=str(NOON + 2 * HOUR)) == [1, 2]
    assert begins("specific-offsets", specific_offsets="partition:0,offset:2;partition:1,offset:1") == [2, 1]
    assert begins("specific-offsets", specific_offsets="partition:1,offset:1") == [0, 1]


def test_a_group_says_where_to_begin(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(0, 1, 2))
    kafka.produce(topic, numbers(9), partition=1)
    group = {"scan.startup.mode": "-", "properties.group.id": f"group-{topic}"}
    with pytest.raises(RunError, match=r"RUN116.*has no offset for topic .*, partition 0") as caught:
        source(kafka, topic, more=group).initial_offset()
    assert "auto.offset.reset" in str(caught.value)
    job = Job(source(kafka, topic, more={**group, "properties.auto.offset.reset": "earliest"}))
    assert sorted(job.next()) == [0, 1, 2, 9]
    assert job.at is not None
    job.reader.committed(job.at)
    kafka.produce(topic, numbers(3))
    assert wait_for(lambda: Job(source(kafka, topic, more=group)).next()) == [3]


def wait_for(call: Any) -> Any:
    """What ``call`` gives as soon as it gives anything."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with suppress(RunError):
            if found := call():
                return found
        time.sleep(0.02)
    return None


def test_offsets_are_committed_unless_the_table_says_no(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(1, 2))
    ends = {}
    for word in ("false", "true"):
        group = {"properties.group.id": f"{word}-{topic}", "properties.commit.offsets.on.checkpoint": word}
        job = Job(source(kafka, topic, more=group))
        assert job.next() == [1, 2]
        assert job.at is not None
        job.reader.committed(job.at)
        ends[word] = job.reader
    place = [(topic, 0)]
    last = Job(source(kafka, topic, more={"properties.group.id": f"last-{topic}"}))
    assert (last.next(), last.next()) == ([1, 2], []), "where nothing follows, what has been read has been processed"
    assert wait_for(lambda: last.reader.planner.committed_offsets(place)) == {(topic, 0): 2}
    assert wait_for(lambda: ends["true"].planner.committed_offsets(place)) == {(topic, 0): 2}
    assert ends["false"].planner.committed_offsets(place) == {}


def test_a_bounded_source_ends_where_the_options_say(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(0, 1, 2), timestamps=[NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR])
    kafka.produce(topic, numbers(10, 11), timestamps=[NOON + HOUR, NOON + HOUR], partition=1)
    group = f"bounds-{topic}"
    with_group = {"properties.group.id": group}
    writer = source(kafka, topic, more=with_group)
    writer.committed({"offsets": {topic: {"0": 1, "1": 2}}})
    assert wait_for(lambda: writer.planner.committed_offsets([(topic, 0)]))
    for mode, more, expected in (
        ("latest-offset", {}, [0, 1, 2, 10, 11]),
        ("timestamp", {"scan.bounded.timestamp-millis": str(NOON + 2 * HOUR)}, [0, 10, 11]),
        ("specific-offsets", {"scan.bounded.specific-offsets": "partition:0,offset:2"}, [0, 1]),
        ("group-offsets", with_group, [0, 10, 11]),
    ):
        job = Job(source(kafka, topic, more={"scan.bounded.mode": mode, **more}))
        assert job.reader.bounded
        assert sorted(job.next()) == expected, mode
        start = job.at
        assert start is not None
        assert job.reader.latest_offset(start) == start, mode


def test_a_bounded_source_leaves_what_comes_later(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(0, 1))
    bounds = {"scan.bounded.mode": "latest-offset", "scan.max-rows-per-batch": "1"}
    job = Job(source(kafka, topic, more=bounds))
    assert job.next() == [0]
    kafka.produce(topic, numbers(2))
    assert job.next() == [1]
    assert job.next() == []
    assert Job(source(kafka, topic, more=bounds), job.at).next() == [2], "started again, it reads what has come"


# ---- what is read ----------------------------------------------------------------------------------------------


def test_a_micro_batch_that_runs_again_reads_the_same(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(*range(100)))
    kafka.produce(topic, numbers(*range(100, 130)), partition=1)
    reader = source(kafka, topic)
    start = reader.initial_offset()
    end = reader.latest_offset(start)
    first = rows(reader, start, end)
    assert sorted(first) == list(range(130))
    kafka.produce(topic, numbers(1000))
    kafka.add_partitions(topic, 3)
    again = source(kafka, topic)
    assert again.plan(start, end) == reader.plan(start, end)
    assert rows(again, start, end) == first


def test_metadata_of_messages(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(1), timestamps=[NOON], headers=[("h", b"1"), ("n", None), ("h", b"2")])
    kafka.produce(topic, numbers(2), timestamps=[NOON + 1])
    keys = ("topic", "partition", "headers", "leader-epoch", "offset", "timestamp", "timestamp-type")
    reader = source(kafka, topic, metadata=keys)
    start = reader.initial_offset()
    (frame,) = frames(reader, start, reader.latest_offset(start))
    assert frame.columns == [f"c{i}" for i in range(8)]
    types = dict(find_connector({"connector": "kafka"}).metadata)
    assert frame.dtypes[1:] == [parse_type(types[key]).polars() for key in keys]
    headers = [[{"key": "h", "value": b"2"}, {"key": "n", "value": None}], []]
    assert frame["c3"].to_list() == headers
    assert frame.select("c0", "c1", "c2", "c5", "c7").rows() == [
        (1, topic, 0, 0, "CreateTime"),
        (2, topic, 0, 1, "CreateTime"),
    ]
    assert frame["c6"].dt.epoch("ms").to_list() == [NOON, NOON + 1]


def test_only_metadata_and_nothing_at_all(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [*numbers(1, 2), None, *numbers(3)])
    assert Job(source(kafka, topic, read=(), metadata=("offset",))).next() == [0, 1, 3]
    assert Job(source(kafka, topic, read=())).next() == [0, 0, 0], "kinds, so that rows can be counted"


def test_columns_of_the_key(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, ['{"a": 1, "b": "v"}', '{"b": "w"}', '{"b": "x"}'], keys=['{"a": 7}', '{"a": 8}', None])
    keyed = {"key.format": "json", "key.fields": "a"}
    both = "a INT, b STRING"
    assert Job(source(kafka, topic, both, more=keyed)).next() == [(1, "v"), (None, "w")]
    only = {**keyed, "value.fields-include": "EXCEPT_KEY"}
    assert Job(source(kafka, topic, both, more=only)).next() == [(7, "v"), (8, "w")]
    assert Job(source(kafka, topic, both, more=only, read=(1,))).next() == ["v", "w"]
    assert Job(source(kafka, topic, both, more=only, read=(0,), metadata=("offset",))).next() == [(7, 0), (8, 1)]
    prefixed = {**only, "key.fields": "k_a", "key.fields-prefix": "k_"}
    columns = "b STRING, k_a INT, a INT"
    assert Job(source(kafka, topic, columns, more=prefixed)).next() == [("v", 7, 1), ("w", 8, None)]


def test_formats_of_values_and_keys_have_options_of_their_own(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, ['{"a": 1}', "{", '{"a": 2}'])
    skip = {"format": "-", "value.format": "json", "value.json.ignore-parse-errors": "true"}
    assert Job(source(kafka, topic, more=skip)).next() == [1, 2]


def test_changes_of_a_format_and_its_metadata(kafka: Kafka) -> None:
    topic = kafka.topic()
    events: list[dict[str, Any]] = [
        {"database": "d", "table": "t", "type": "insert", "ts": 5, "data": {"a": 1}},
        {"database": "d", "table": "t", "type": "update", "ts": 6, "data": {"a": 2}, "old": {"a": 1}},
    ]
    kafka.produce(topic, [json.dumps(event) for event in events])
    reader = source(kafka, topic, more={"format": "maxwell-json"}, metadata=("value.database", "offset"))
    assert Job(reader).next() == [(1, "d", 0, 0), (1, "d", 1, 1), (2, "d", 1, 2)]


def test_a_message_without_a_value_deletes_the_row_of_its_key(kafka: Kafka) -> None:
    topic = kafka.topic()
    values = ['{"a": 1, "b": "x"}', None, '{"a": 2, "b": "y"}', '{"a": 9, "b": "z"}', None]
    kafka.produce(topic, values, keys=['{"a": 1}', '{"a": 1}', '{"a": 2}', '{"a": 1}', None])
    assert Job(upserts(kafka, topic)).next() == [(1, "x", 0), (1, None, 3), (2, "y", 0), (9, "z", 0)]
    reader = upserts(kafka, topic, read=(1,), metadata=("offset",))
    assert Job(reader).next() == [("x", 0, 0), (None, 1, 3), ("y", 2, 0), ("z", 3, 0)]


def test_topics_by_pattern_and_topics_that_appear_later(kafka: Kafka) -> None:
    base = kafka.topic()
    for name in (f"{base}-a", f"{base}-b"):
        kafka.topic(name=name)
        kafka.produce(name, numbers(len(name)))
    options = {"topic": "-", "topic-pattern": f"{base}-.*", "scan.topic-partition-discovery.interval": "1 ms"}
    job = Job(source(kafka, "", more=options))
    assert len(job.next()) == 2
    kafka.topic(name=f"{base}-c")
    kafka.produce(f"{base}-c", numbers(5))
    assert wait_for(job.next) == [5]
    with pytest.raises(RunError, match=r"RUN112.*no topic matches 'nothing\.\*'"):
        source(kafka, "", more={"topic": "-", "topic-pattern": "nothing.*"}).check("t")


def test_new_partitions_are_read_from_their_beginning(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(1))
    often = {"scan.topic-partition-discovery.interval": "1 ms", "scan.startup.mode": "latest-offset"}
    job, never = (
        Job(source(kafka, topic, more=often)),
        Job(source(kafka, topic, more={**often, "scan.topic-partition-discovery.interval": "0"})),
    )
    assert job.next() == never.next() == []
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, numbers(2, 3), partition=1)
    start = job.at
    assert wait_for(job.next) == [2, 3]
    assert start is not None and job.at is not None
    assert rows(source(kafka, topic), start, job.at) == [2, 3], "the checkpoint knows where the new partition begins"
    assert never.next() == []
    assert never.reader.latest_offset(json.loads(json.dumps(never.at))) == never.at


# ---- transactions ----------------------------------------------------------------------------------------------


def test_gaps_in_a_partition(kafka: Kafka) -> None:
    topic = kafka.topic()
    with kafka.transaction() as producer:
        producer.produce(topic, numbers(1)[0])
    with kafka.transaction(commit=False) as producer:
        producer.produce(topic, numbers(2)[0])
    with kafka.transaction() as producer:
        producer.produce(topic, numbers(3)[0])
    committed = {"properties.isolation.level": "read_committed"}
    began = time.monotonic()
    assert Job(source(kafka, topic, more=committed)).next() == [1, 3]
    assert Job(source(kafka, topic)).next() == [1, 2, 3], "as Java's client, unless told otherwise"
    reader = source(kafka, topic, more=committed)
    for start in range(6):  # also where a range has nothing but gaps
        begin, end = ({"offsets": {topic: {"0": at}}} for at in (start, start + 1))
        assert rows(reader, begin, end) == {0: [1], 4: [3]}.get(start, [])
    assert time.monotonic() - began < 5


def test_read_committed_ends_before_open_transactions(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(1))
    job = Job(source(kafka, topic, more={"properties.isolation.level": "read_committed"}))
    with kafka.transaction() as producer:
        producer.produce(topic, numbers(2)[0])
        producer.flush(10)
        kafka.produce(topic, numbers(3))
        assert job.next() == [1]
        assert job.next() == []
    assert wait_for(job.next) == [2, 3]


# ---- limits ----------------------------------------------------------------------------------------------------


def test_a_micro_batch_has_at_most_so_many_rows(kafka: Kafka) -> None:
    topic = kafka.topic(3)
    for partition, count in enumerate((50, 7, 3)):
        kafka.produce(topic, numbers(*range(count)), partition=partition)
    job = Job(source(kafka, topic, more={"scan.max-rows-per-batch": "20"}))
    counts = [len(job.next()) for _ in range(4)]
    assert counts == [20, 20, 20, 0]


def test_a_micro_batch_follows_the_pace_of_the_job(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(*range(100)))
    reader = source(kafka, topic, more={"scan.max-rows-per-batch": "40"})
    reader.pace = Pace(tmp_path / "rows")
    job = Job(pickle.loads(pickle.dumps(reader.for_planning())))
    job.reader.rows = reader.rows
    counts = []
    for rows_allowed in (10, 25, 1000):
        reader.pace.decide(rows_allowed)
        counts.append(len(job.next()))
    assert counts == [10, 25, 40]


def test_a_micro_batch_has_about_so_many_bytes(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [json.dumps({"a": i, "x": "y" * 985}) for i in range(3000)])
    job = Job(source(kafka, topic, more={"scan.max-bytes-per-batch": "1 mb"}))
    counts = [len(job.next()) for _ in range(4)]
    assert sum(counts) == 3000 and counts[3] == 0
    assert all(900 < count < 1100 for count in counts[:2]), counts


def test_a_micro_batch_waits_for_rows_but_not_for_ever(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(1))
    least = {"scan.min-rows-per-batch": "3"}
    job = Job(source(kafka, topic, more={**least, "scan.max-batch-delay": "1 h"}))
    assert job.next() == [1], "the first one does not wait"
    kafka.produce(topic, numbers(2, 3))
    at = job.at
    assert job.next() == [] and job.at == at
    kafka.produce(topic, numbers(4))
    assert job.next() == [2, 3, 4]
    kafka.produce(topic, numbers(5))
    assert job.next() == []
    kafka.add_partitions(topic, 2)
    soon = Job(source(kafka, topic, more={**least, "scan.max-batch-delay": "300 ms"}), job.at)
    assert soon.next() == [5], "the first one after a restart"
    kafka.produce(topic, numbers(6))
    assert wait_for(soon.next) == [6]
    bounded = Job(source(kafka, topic, more={**least, "scan.bounded.mode": "latest-offset"}))
    assert [len(bounded.next()) for _ in range(2)] == [6, 0], "which would have ended"


def test_a_delay_is_shorter_than_the_idle_timeout() -> None:
    limits = Limits(None, 1, 10, 60.0)
    assert limits.waits(9, 59.0, 0) and not limits.waits(9, 60.0, 0) and not limits.waits(10, 1.0, 0)
    assert limits.waits(9, 4.9, 10.0) and not limits.waits(9, 5.0, 10.0)


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 1000), min_size=1), st.integers(1, 2000))
def test_shares_are_in_proportion(counts: dict[int, int], limit: int) -> None:
    behind = {("t", number): count for number, count in counts.items()}
    taken = shares(behind, limit)
    total = sum(behind.values())
    assert sum(taken.values()) == min(limit, total)
    assert all(0 <= taken[place] <= count for place, count in behind.items())
    assert all(abs(taken[place] - count * min(limit, total) / total) <= 1 for place, count in behind.items())


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 9), st.integers(0, 200_000)), min_size=1))
def test_splits_cover_the_offsets_of_each_partition_in_order(ranges: dict[int, tuple[int, int]]) -> None:
    start = {"offsets": {"t": {str(p): at for p, (at, _) in ranges.items()}}}
    end = {"offsets": {"t": {str(p): at + count for p, (at, count) in ranges.items()}}}
    splits = splits_between(start, end)
    assert {s.part for s in splits} == {f"t/{p}" for p in ranges}, "also of partitions without rows"
    for p, (at, count) in ranges.items():
        edges = [(s.start, s.stop) for s in splits if s.partition == p]
        assert [edges[0][0], edges[-1][1]] == [at, at + count]
        assert all(a[1] == b[0] and a[0] < a[1] for a, b in pairwise(edges))
    assert len(merge_splits([AssignedSplit(s, f"{n}", 0) for n, s in enumerate(splits)])) == len(ranges)


# ---- what is refused -------------------------------------------------------------------------------------------


def test_offsets_that_expired(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.produce(topic, numbers(*range(10)))
    job = Job(source(kafka, topic, more={"properties.auto.offset.reset": "latest"}))
    job.at = job.reader.initial_offset()
    end = job.reader.latest_offset(job.at)
    kafka.cut(topic, 0, 4)
    for read in (job.next, lambda: rows(job.reader, {"offsets": {topic: {"0": 0}}}, end)):
        with pytest.raises(RunError, match=r"RUN114.*begins at offset 4, and the job is at 0: 4 messages are lost"):
            read()
    with pytest.raises(RunError, match=r"the job is at 3: 1 message is lost"):
        rows(job.reader, {"offsets": {topic: {"0": 3}}}, end)


def test_a_topic_that_does_not_exist(kafka: Kafka) -> None:
    topic = kafka.topic(name="measurements")
    with pytest.raises(RunError, match=r"RUN112.*the topic 'measurement' of table t does not exist") as caught:
        source(kafka, "measurement").check("t")
    assert "did you mean 'measurements'" in str(caught.value)
    specific = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:3,offset:0"}
    with pytest.raises(RunError, match=r"RUN112.*has no partition 3"):
        source(kafka, topic, more=specific).initial_offset()


def test_a_message_that_cannot_be_read(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, [*numbers(1), None, '{"a": ', *numbers(2)], partition=1)
    with pytest.raises(DataError, match="DATA111") as caught:
        Job(source(kafka, topic)).next()
    assert f"topic {topic}, partition 1, offset 2" in str(caught.value)
    assert "'json.ignore-parse-errors' = 'true' skips" in str(caught.value)


def test_brokers_that_go_and_come_back() -> None:
    with running() as broker:
        topic = broker.topic()
        broker.produce(topic, numbers(1, 2))
        job = Job(source(broker, topic, more={"properties.request.timeout.ms": "1500"}))
        assert job.next() == [1, 2]
        assert job.at is not None
        broker.stop()
        began = time.monotonic()
        with pytest.raises(RunError, match=rf"RUN110.*the brokers of table t at {broker.servers} cannot be reached"):
            job.reader.latest_offset(job.at)
        begin, end = ({"offsets": {topic: {"0": at}}} for at in (0, 2))
        with pytest.raises(RunError, match=r"RUN110.*partition 0 of table t cannot be read from offset 0"):
            rows(job.reader, begin, end)
        assert time.monotonic() - began < 10
        broker.start()
        broker.produce(topic, numbers(3))
        assert wait_for(job.next) == [3], "the job goes on when they are back"
        assert wait_for(lambda: rows(job.reader, begin, end)) == [1, 2]
        close_consumers()


def test_no_broker_at_all() -> None:
    lost = Kafka.__new__(Kafka)
    lost.port = 1
    began = time.monotonic()
    with pytest.raises(RunError, match=r"RUN110.*127.0.0.1:1 cannot be reached: .*refused"):
        source(lost, "t", more={"properties.request.timeout.ms": "1000"}).check("t")
    assert time.monotonic() - began < 5
    close_consumers()


# ---- event time ------------------------------------------------------------------------------------------------


def test_a_partition_that_is_ahead_waits(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(2)
    kafka.produce(topic, numbers(0, 1, 2, 3, 4))
    kafka.produce(topic, numbers(10, 11, 12, 13, 14), partition=1)

    def aligned(idle_timeout: int, at: Offset | None = None, **more: str) -> Job:
        reader = source(kafka, topic, more={"scan.max-rows-per-batch": "4", **more})
        reader.idle_timeout, reader.alignment = idle_timeout, Alignment("g", 60_000, "s", tmp_path)
        return Job(pickle.loads(pickle.dumps(reader)), at)

    marks = PartWatermarks(tmp_path, ["s"])
    job = aligned(0)
    assert sorted(job.next()) == [0, 1, 10, 11]
    marks.advance({"s": {f"{topic}/0": 100_000, f"{topic}/1": 39_999}})
    start = job.at
    assert job.next() == [12, 13, 14]
    assert start is not None and job.at is not None
    splits = job.reader.plan(start, job.at)
    assert [s.waits for s in splits] == [True, False]
    assert job.next() == [], "the other one has no more, and holds it back"
    at = job.at
    assert job.reader.latest_offset(at) is at, "no micro-batch for nothing"

    job = aligned(400, at)
    assert job.next() == []
    assert job.at != at, "a micro-batch that says that it waits, and is not idle"
    assert [s.waits for s in job.reader.plan(at, job.at)] == [True, False]
    assert wait_for(job.next) == [2, 3, 4], "the other one is idle"

    job = aligned(0, at, **{"scan.bounded.mode": "latest-offset"})
    assert job.next() == [2, 3, 4], "the other one has ended"


def test_a_source_may_have_an_idle_timeout_of_its_own() -> None:
    event_time = EventTime()
    marks = [(0, PartWatermark(0, 100, "t/0")), (0, PartWatermark(0, 900, "t/1"))]
    assert event_time.advance(marks, [1], 0, 0, {(0, 0): 50}).now == 100
    later = [(0, PartWatermark(0, 100, "t/0", rows=False)), (0, PartWatermark(0, 950, "t/1"))]
    assert event_time.advance(later, [1], 40, 0, {(0, 0): 50}).now == 100
    assert event_time.advance(later, [1], 60, 0, {(0, 0): 50}).now == 950
