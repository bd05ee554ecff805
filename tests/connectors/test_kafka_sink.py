"""What a Kafka sink writes: messages, partitions, transactions, and what it says when it cannot."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from stateplan import TableEnvironment
from stateplan.common.changelog import RowKind
from stateplan.common.errors import CatalogError, DataError, OptionError, RunError
from stateplan.connectors.kafka import producer, transactions
from stateplan.connectors.kafka.client import Brokers
from stateplan.connectors.kafka.partitioner import Partitioner
from stateplan.connectors.kafka.sink import TransactionalSink
from stateplan.connectors.protocol import Sink
from tests.connectors.kafka_sinks import EXACT, PART, make, rows, shown, write
from tests.support.kafka import Kafka, running

NEW, U, D = RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE


# ---- messages --------------------------------------------------------------------------------------------------


def test_rows_are_messages(kafka: Kafka) -> None:
    topic = kafka.topic()
    write(make(kafka.servers, topic), rows(("a", 1), ("b", None)))
    assert shown(kafka, topic) == [(None, b'{"k":"a","v":1}'), (None, b'{"k":"b","v":null}')]


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"key.fields": "v"}, b'{"v":1}', b'{"k":"a","v":1}'),
        ({"key.fields": "v;k"}, b'{"v":1,"k":"a"}', b'{"k":"a","v":1}'),
        ({"key.fields": "k", "value.fields-include": "EXCEPT_KEY"}, b'{"k":"a"}', b'{"v":1}'),
        (
            {"key.fields": "k", "key.fields-prefix": "k", "value.fields-include": "EXCEPT_KEY"},
            b'{"":"a"}',
            b'{"v":1}',
        ),
    ],
)
def test_columns_are_in_the_key_the_value_or_both(
    kafka: Kafka, options: dict[str, str], key: bytes, value: bytes
) -> None:
    topic = kafka.topic()
    write(make(kafka.servers, topic, **{"key.format": "json", **options}), rows(("a", 1)))
    assert shown(kafka, topic) == [(key, value)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"key.fields": "v"}, "OPT140"),
        ({"key.format": "json"}, "OPT140"),
        ({"key.format": "json", "key.fields": "w"}, "OPT140"),
        ({"key.format": "json", "key.fields": "v", "key.fields-prefix": "k_"}, "OPT140"),
        ({"key.format": "json", "key.fields": "k", "key.fields-prefix": "k"}, "OPT140"),
        ({"sink.delivery-guarantee": "exactly-once"}, "OPT141"),
        ({"sink.partitioner": "round-robin", "key.format": "json", "key.fields": "k"}, "OPT142"),
        ({**EXACT, "properties.acks": "1"}, "OPT143"),
        ({**EXACT, "properties.enable.idempotence": "false"}, "OPT143"),
        ({"topic": "a;b"}, "OPT144"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, str], code: str) -> None:
    with pytest.raises(OptionError) as caught:
        make("nowhere:1", **{"topic": "t", **options})
    assert caught.value.code == code


def test_a_format_of_changes_has_the_kind_in_the_value(kafka: Kafka) -> None:
    topic = kafka.topic()
    sink = make(kafka.servers, topic, format="debezium-json")
    write(sink, rows(("a", 1), ("a", 1), ("a", 2), kinds=[NEW, RowKind.UPDATE_BEFORE, U]))
    events = [json.loads(value or b"") for _, value in shown(kafka, topic)]
    old, new = {"k": "a", "v": 1}, {"k": "a", "v": 2}
    assert [(e["op"], e["before"], e["after"]) for e in events] == [
        ("c", None, old),
        ("d", old, None),
        ("c", None, new),
    ]


def test_only_the_last_change_of_each_key_is_written(kafka: Kafka) -> None:
    topic = kafka.topic()
    sink = make(kafka.servers, topic, connector="upsert-kafka", key=["k"])
    write(sink, rows(("a", 1), ("b", 1), ("a", 2), ("b", 1), ("c", 1), ("d", None), kinds=[NEW, NEW, U, D, U, D]))
    assert shown(kafka, topic) == [
        (b'{"k":"a"}', b'{"k":"a","v":2}'),
        (b'{"k":"b"}', None),
        (b'{"k":"c"}', b'{"k":"c","v":1}'),
        (b'{"k":"d"}', None),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from([NEW, U, D, RowKind.UPDATE_BEFORE])),
        min_size=1,
        max_size=12,
    )
)
def test_the_messages_of_a_micro_batch_give_the_rows_of_its_changes(changes: list[tuple[str, int, RowKind]]) -> None:
    sink: Any = make("nowhere:1", "t", connector="upsert-kafka", key=["k"])
    frame = rows(*((k, v) for k, v, _ in changes), kinds=[kind for *_, kind in changes])
    made = sink.rows.messages(frame)
    expected: dict[str, int | None] = {}
    for k, v, kind in changes:
        expected[k] = v if kind in (NEW, U) else None
    table = dict(zip(made["key"], made["value"], strict=True))
    assert len(table) == made.height
    assert table == {
        b'{"k":"%s"}' % k.encode(): None if v is None else b'{"k":"%s","v":%d}' % (k.encode(), v)
        for k, v in expected.items()
    }


def test_metadata_is_written(kafka: Kafka) -> None:
    topic = kafka.topic()
    metadata = [("headers", "MAP<STRING, BYTES>"), ("timestamp", "TIMESTAMP_LTZ(3)")]
    sink = make(kafka.servers, topic, columns="v INT", metadata=metadata)
    heads = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": None, "value": b"2"}], None]
    frame = pl.DataFrame(
        {"c0": [1, 2], "c1": heads, "c2": [1_700_000_000_123, None]},
        schema={
            "c0": pl.Int32,
            "c1": pl.List(pl.Struct({"key": pl.String, "value": pl.Binary})),
            "c2": pl.Datetime("ms", "UTC"),
        },
    )
    before = int(time.time() * 1000)
    write(sink, frame)
    one, other = kafka.consume(topic)
    assert (one.value(), one.headers(), one.timestamp()[1]) == (b'{"v":1}', [("a", b"1")], 1_700_000_000_123)
    assert (other.value(), other.headers()) == (b'{"v":2}', None)
    assert other.timestamp()[1] >= before


@pytest.mark.parametrize(
    ("millis", "shown"),
    [
        (-1, r"'timestamp' of a row is 1969-12-31 23:59:59\.999.* UTC \(-1 ms since 1970\), and times of Kafka begin"),
        (0, r"1970-01-01 00:00:00.* UTC \(0 ms since 1970\), and times of Kafka begin at 1 ms"),
    ],
)
def test_times_that_messages_cannot_have(kafka: Kafka, millis: int, shown: str) -> None:
    topic = kafka.topic()
    sink = make(kafka.servers, topic, columns="v INT", metadata=[("timestamp", "TIMESTAMP_LTZ(3)")])
    frame = pl.DataFrame({"c0": [1, 2, 3], "c1": [None, 5, millis]}, {"c0": pl.Int32, "c1": pl.Datetime("ms", "UTC")})
    with pytest.raises(DataError, match=f"DATA423.*{shown}") as caught:
        write(sink, frame)
    assert "or NULL for the time at which the message is sent" in (caught.value.expected or "")
    write(sink, frame[:2])
    assert kafka.consume(topic)[1].timestamp()[1] == 5


def test_rows_choose_their_topic(kafka: Kafka) -> None:
    one, other = kafka.topic(), kafka.topic()
    metadata = [("topic", "STRING NOT NULL")]
    frame = pl.DataFrame({"c0": [1, 2, 3], "c1": [one, other, one]}, schema_overrides={"c0": pl.Int32})
    for number, options in enumerate([{}, EXACT]):
        write(make(kafka.servers, f"{one};{other}", columns="v INT", metadata=metadata, **options), frame)
        assert [v for _, v in shown(kafka, one)] == [b'{"v":1}', b'{"v":3}'] * (number + 1)
        assert [v for _, v in shown(kafka, other)] == [b'{"v":2}'] * (number + 1)
    sink = make(kafka.servers, f"{one};{other}", columns="v INT", metadata=metadata)
    for wrong in ("elsewhere", None):
        with pytest.raises(DataError) as caught:
            sink.write(pl.DataFrame({"c0": [1], "c1": [wrong]}, {"c0": pl.Int32, "c1": pl.String}), 0, PART)
        assert caught.value.code == "DATA420"


# ---- partitions ------------------------------------------------------------------------------------------------


def murmur2(data: bytes) -> int:
    """The hash of Kafka's Java client, as its ``Utils.murmur2`` is specified: for 32 bits, with the seed 0x9747b28c."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    for i in range(0, len(data) - 3, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ (k >> 24)) * m & mask)
    if rest := data[len(data) & ~3 :]:
        h = ((h ^ int.from_bytes(rest, "little")) * m) & mask
    h = ((h ^ (h >> 13)) * m) & mask
    return h ^ (h >> 15)


# Pairs of key and hash from the tests of Kafka's Java client (UtilsTest.testMurmur2).
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_the_hash_of_these_tests_is_that_of_java() -> None:
    assert {key: murmur2(key) - (1 << 32) * (murmur2(key) >> 31) for key in JAVA} == JAVA


@pytest.mark.parametrize("options", [{}, EXACT])
def test_keys_go_where_the_java_client_puts_them(kafka: Kafka, options: dict[str, str]) -> None:
    topic = kafka.topic(7)
    sink = make(kafka.servers, topic, **{"key.format": "json", "key.fields": "k", **options})
    write(sink, rows(*((f"key {i}", i) for i in range(300))))
    found = {m.key(): m.partition() for m in kafka.consume(topic)}
    assert len(found) == 300
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in found}


@pytest.mark.parametrize("options", [{}, EXACT])
def test_fixed_and_round_robin(kafka: Kafka, options: dict[str, str]) -> None:
    topic = kafka.topic(3)
    write(
        make(kafka.servers, topic, **{"sink.partitioner": "round-robin", **options}),
        rows(*(("a", i) for i in range(9))),
    )
    assert [m.partition() for m in kafka.consume(topic)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    topic = kafka.topic(3)
    for number in range(2):  # the writer is the task, in each micro-batch
        write(
            make(kafka.servers, topic, **{"sink.partitioner": "fixed", **options}, uid=topic),
            rows(("a", 1), ("b", 2)),
            number,
            PART[number:],
        )
    assert [m.partition() for m in kafka.consume(topic)] == [0] * 4


# ---- exactly once ----------------------------------------------------------------------------------------------


def test_a_micro_batch_is_visible_at_once(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    sink = make(kafka.servers, topic, **EXACT)
    sink.prepare(0)
    parts = [sink.write(rows((f"a{n}", n)), 0, PART) for n in range(5)]
    assert shown(kafka, topic, "read_uncommitted") == []
    sink.commit(parts, 0)
    assert len(shown(kafka, topic)) == 5
    sink.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_an_epoch_is_committed_once(kafka: Kafka, restarted: bool) -> None:
    topic = kafka.topic(2)
    sink = make(kafka.servers, topic, **EXACT, uid=topic)
    for epoch in (0, 1, 1, 0, 2):  # as after a kill between the commit and Spark's note of it
        if restarted:
            sink = make(kafka.servers, topic, **EXACT, uid=topic)
        write(sink, rows(("a", epoch)), epoch)
    assert sorted(v for _, v in shown(kafka, topic) if v) == [b'{"k":"a","v":%d}' % n for n in range(3)]
    write(make(kafka.servers, topic, **EXACT, uid=f"{topic}-other"), rows(("b", 0)), 0)
    assert len(shown(kafka, topic)) == 4


def test_an_older_checkpoint_is_refused(kafka: Kafka) -> None:
    """As is one that has cut the input otherwise, and a topic that was set back."""
    topic = kafka.topic()

    def run(epoch: int, read: str, expected: int | None = None) -> str:
        sink = make(kafka.servers, topic, **EXACT, uid=topic)
        sink.ledger.input = read
        if expected is not None:
            sink.ledger.note(f"p-{topic}", expected)
        try:
            write(sink, rows((read, epoch)), epoch)
        except RunError as error:
            return error.code
        finally:
            sink.close()
        return ""

    assert [run(0, "a"), run(1, "b"), run(1, "b")] == ["", "", ""]
    assert [run(1, "c"), run(0, "a"), run(3, "d", expected=2)] == ["RUN002"] * 3
    assert run(2, "d", expected=1) == ""
    assert [v for _, v in shown(kafka, topic)] == [b'{"k":"a","v":0}', b'{"k":"b","v":1}', b'{"k":"d","v":2}']


def test_what_a_killed_run_has_left_open_stays_invisible(kafka: Kafka) -> None:
    topic = kafka.topic()
    left: Any = make(kafka.servers, topic, **EXACT, uid=topic)
    left.prepare(0)
    outbox = left._transactions().ready()
    outbox.client.begin_transaction()
    outbox.send(left.rows.messages(rows(("left", 0))), topic, left.partitioner)
    outbox.flush()
    write(make(kafka.servers, topic, **EXACT, uid=topic), rows(("a", 0)))
    assert [v for _, v in shown(kafka, topic)] == [b'{"k":"a","v":0}']
    assert len(shown(kafka, topic, "read_uncommitted")) == 2


def test_a_second_writer_is_refused(kafka: Kafka) -> None:
    topic = kafka.topic()
    first, second = (make(kafka.servers, topic, **EXACT, uid=topic) for _ in range(2))
    write(first, rows(("a", 0)), 0)
    write(second, rows(("a", 1)), 1)
    with pytest.raises(RunError) as caught:
        first.commit([first.write(rows(("a", 2)), 2, PART)], 2)
    assert caught.value.code == "RUN131"
    assert f"p-{topic}" in caught.value.message
    write(second, rows(("a", 2)), 2)
    assert [v for _, v in shown(kafka, topic)] == [b'{"k":"a","v":%d}' % n for n in range(3)]


def test_an_abortable_error_is_tried_again(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka import KafkaError, KafkaException

    topic, fails = kafka.topic(), [1, 2]
    sink: Any = make(kafka.servers, topic, **EXACT, uid=topic)
    real = transactions.Transactions._transaction

    def sometimes(self: Any, outbox: Any, parts: Any, epoch: int) -> None:
        if not fails:
            return real(self, outbox, parts, epoch)
        outbox.client.begin_transaction()
        outbox.send(next(iter(parts))[1], topic, self.partitioner)
        if fails.pop() == 2:
            raise KafkaException(KafkaError(KafkaError._INCONSISTENT, "abort", txn_requires_abort=True))
        outbox.flush()
        raise KafkaException(KafkaError(KafkaError._FATAL, "gone", fatal=True))

    monkeypatch.setattr(transactions.Transactions, "_transaction", sometimes)
    write(sink, rows(("a", 0)))
    assert not fails
    assert [v for _, v in shown(kafka, topic)] == [b'{"k":"a","v":0}']


@pytest.mark.parametrize(
    ("name", "taken", "code"),
    [
        ("_FENCED", 0, "RUN131"),
        ("INVALID_PRODUCER_EPOCH", 1000, "RUN132"),
        ("INVALID_TRANSACTION_TIMEOUT", 0, "RUN133"),
        ("_UNSUPPORTED_FEATURE", 0, "RUN133"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 0, "RUN113"),
        ("_TIMED_OUT", 0, "RUN110"),
        ("_TIMED_OUT, of a message", 0, "RUN130"),
        ("CONCURRENT_TRANSACTIONS", 0, "RUN134"),
    ],
)
def test_errors_of_transactions_have_codes(kafka: Kafka, name: str, taken: int, code: str) -> None:
    from confluent_kafka import KafkaError

    brokers = Brokers("t", "kafka", {"bootstrap.servers": kafka.servers})
    outbox = producer.Outbox.of(brokers, {"transactional.id": "errors", "transaction.timeout.ms": 900_000})
    made = transactions.Transactions(brokers, "errors", "t", ("t",), None, Partitioner())
    made._begun = time.monotonic() - taken
    name, _, message = name.partition(",")
    found = made._coded(outbox, KafkaError(getattr(KafkaError, name), "why", txn_requires_abort=bool(message)))
    assert found.code == code
    outbox.close()


def test_a_time_out_that_the_broker_does_not_allow(kafka: Kafka) -> None:
    topic = kafka.topic()
    sink = make(kafka.servers, topic, **EXACT, **{"properties.transaction.timeout.ms": "100000000"}, uid=topic)
    with pytest.raises(RunError) as caught:
        write(sink, rows(("a", 0)))
    assert caught.value.code == "RUN133"
    assert "100000000" in caught.value.message


# ---- errors ----------------------------------------------------------------------------------------------------


def test_a_topic_that_is_deleted_while_a_producer_writes() -> None:
    """The text is that of librdkafka 2.16. Brokers that create topics may answer in time, so there is no such run."""
    text = (
        "ProduceRequest for orders [0] with 1 message(s) failed due to sequence desynchronization with broker 1 "
        "(PID{Id:1000,Epoch:0}, base seq 1, idemp state change 118ms ago, last partition error UNKNOWN_TOPIC_OR_PART "
        "(actions Refresh,MsgNotPersisted, base seq 1..1, base msgid 2, 115ms ago)"
    )
    brokers = Brokers("t", "kafka", {"bootstrap.servers": "broker:9092"})
    found = brokers.error(KafkaError(KafkaError._FATAL, text))
    assert found.code == "RUN112"
    assert found.message == "the topic 'orders' of table t does not exist"
    other = text.replace("UNKNOWN_TOPIC_OR_PART", "NOT_LEADER_FOR_PARTITION")
    assert brokers.error(KafkaError(KafkaError._FATAL, other)).code == "RUN118"


def test_a_broker_that_is_away() -> None:
    short = {"properties.request.timeout.ms": "1000", "properties.delivery.timeout.ms": "1500"}
    with running() as broker:
        topic = broker.topic()
        plain, exact = (make(broker.servers, topic, **short, **more, uid=topic) for more in ({}, EXACT))
        for sink in (plain, exact):
            write(sink, rows(("a", 0)))
        seven = rows(*(("a", n) for n in range(1, 8)))
        made = exact.write(seven, 1, PART)
        broker.stop()
        for call in (lambda: plain.write(seven, 1, PART), lambda: exact.commit([made], 1)):
            started = time.monotonic()
            with pytest.raises(RunError) as caught:
                call()
            assert caught.value.code == "RUN130"
            assert "7 messages of table t" in caught.value.message
            assert time.monotonic() - started < 15
        with pytest.raises(RunError) as caught:
            plain.prepare(1)
        assert caught.value.code == "RUN110"
        broker.start()
        write(exact, rows(("a", 1)), 1)
        assert sorted(v for _, v in shown(broker, topic) if v) == [b'{"k":"a","v":0}'] * 2 + [b'{"k":"a","v":1}']
        exact.close()
        producer.give_up(plain.brokers)  # type: ignore[attr-defined]


def test_a_broker_that_comes_back_in_time() -> None:
    def again(sink: Sink) -> None:
        made = sink.write(rows(("a", 1)), 1, PART)
        sink.commit([made] if made else [], 1)

    with running() as broker:
        topic = broker.topic()
        sinks = [make(broker.servers, topic, **more, uid=topic) for more in ({}, EXACT)]
        for sink in sinks:
            write(sink, rows(("a", 0)))
        broker.stop()
        waiting = [threading.Thread(target=again, args=(sink,)) for sink in sinks]
        for thread in waiting:
            thread.start()
        time.sleep(1)
        broker.start()
        for thread in waiting:
            thread.join(30)
        assert len(shown(broker, topic)) == 4
        sinks[1].close()
        producer.give_up(sinks[0].brokers)  # type: ignore[attr-defined]


def test_a_job_that_is_stopped_does_not_wait() -> None:
    with running() as broker:
        topic = broker.topic()
        sink = make(broker.servers, topic, **EXACT, uid=topic)
        write(sink, rows(("a", 0)))
        broker.stop()
        made = sink.write(rows(("a", 1)), 1, PART)
        threading.Timer(0.5, sink.release).start()
        started = time.monotonic()
        with pytest.raises(RunError):
            sink.commit([made], 1)
        assert time.monotonic() - started < 15
        sink.close()


def test_secrets_are_not_shown(kafka: Kafka) -> None:
    sink = make(kafka.servers, kafka.topic(), **{"properties.sasl.password": "hidden", **EXACT})
    assert isinstance(sink, TransactionalSink)
    assert "hidden" not in repr(sink)


# ---- in SQL ----------------------------------------------------------------------------------------------------


def declare(session: TableEnvironment, servers: str, topic: str, more: str = "", columns: str = "k STRING") -> None:
    session.execute_sql(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json', "
        f"'properties.bootstrap.servers' = '{servers}'{more})"
    )


@pytest.mark.spark
def test_rows_of_a_statement_are_written(spark: object, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    session = TableEnvironment.create({})
    exact = ", " + ", ".join(f"'{key}' = '{text}'" for key, text in EXACT.items())
    declare(session, kafka.servers, topic, exact, "k STRING, made TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'")
    (tmp_path / "rows.csv").write_text("a\nb\n")
    session.execute_sql(
        f"CREATE TABLE letters (k STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    for _ in range(2):
        job = session.execute_sql("INSERT INTO t SELECT k, TO_TIMESTAMP_LTZ(1000, 3) FROM letters").job
        assert job is not None and job.wait(60)
    for isolation in ("read_uncommitted", "read_committed"):
        assert [(m.value(), m.timestamp()[1]) for m in kafka.consume(topic, isolation)] == [
            (b'{"k":"a"}', 1000),
            (b'{"k":"b"}', 1000),
        ] * 2


def test_the_options_of_a_sink_are_checked_when_it_is_planned() -> None:
    session = TableEnvironment.create({})
    declare(session, "nowhere:1", "a", ", 'sink.delivery-guarantee' = 'exactly-once'")
    session.execute_sql("EXPLAIN SELECT * FROM t /*+ OPTIONS('scan.startup.mode' = 'earliest-offset') */")
    with pytest.raises(OptionError) as caught:
        session.execute_sql("EXPLAIN INSERT INTO t VALUES ('a')")
    assert caught.value.code == "OPT141"


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("o BIGINT METADATA FROM 'offset'", "reads, and cannot write, the metadata 'offset'"),
        ("o BIGINT METADATA FROM 'timestamp'", r"takes TIMESTAMP_LTZ\(3\) for the metadata 'timestamp'"),
        ("o BIGINT METADATA FROM 'ofset'", "has no metadata 'ofset'"),
    ],
)
def test_metadata_that_cannot_be_written(column: str, text: str) -> None:
    session = TableEnvironment.create({})
    declare(session, "nowhere:1", "a", columns=f"k STRING, {column}")
    with pytest.raises(CatalogError, match=rf"CAT106\] the connector 'kafka' {text}") as caught:
        session.execute_sql("EXPLAIN INSERT INTO t VALUES ('a', 5)")
    assert caught.value.expected == "headers MAP<STRING, BYTES>, timestamp TIMESTAMP_LTZ(3)"
    assert ("VIRTUAL" in (caught.value.hint or "")) == ("reads" in text)


@pytest.mark.parametrize(
    ("topic", "keys"), [("a", ["headers", "timestamp"]), ("a;b", ["topic", "headers", "timestamp"])]
)
def test_the_plan_names_the_metadata_that_is_written(tmp_path: Path, topic: str, keys: list[str]) -> None:
    types = {"timestamp": "TIMESTAMP_LTZ(3)", "headers": "MAP<STRING, BYTES>", "topic": "STRING NOT NULL"}
    columns = ", ".join(f"`{key}` {text} METADATA" for key, text in types.items() if key in keys)
    session = TableEnvironment.create({})
    declare(session, "nowhere:1", topic, columns=f"k STRING, {columns}")
    values = {"timestamp": "CURRENT_TIMESTAMP", "headers": "CAST(NULL AS MAP<STRING, BYTES>)", "topic": "'a'"}
    select = ", ".join(value for key, value in values.items() if key in keys)
    session.execute_sql(f"COMPILE PLAN '{tmp_path}/plan.json' FOR INSERT INTO t SELECT 'x', {select}")
    plan = json.loads((tmp_path / "plan.json").read_text())
    (ability,) = plan["nodes"][-1]["dynamicTableSink"]["abilities"]
    headers = "MAP<VARCHAR(2147483647), VARBINARY(2147483647)>"
    flink = {
        "topic": "VARCHAR(2147483647) NOT NULL",
        "headers": headers,
        "timestamp": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    }
    assert ability == {
        "type": "WritingMetadata",
        "metadataKeys": keys,
        "consumedType": f"ROW<`k` VARCHAR(2147483647), {', '.join(f'`{key}` {flink[key]}' for key in keys)}> NOT NULL",
    }
