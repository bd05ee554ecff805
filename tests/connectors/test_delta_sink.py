"""Sinks of the connector ``delta``: rows that are appended, merged and replaced, exactly once."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError, OptionError, RunError, StateplanError
from stateplan.common.options import Option, OptionType
from stateplan.common.types import STRING
from stateplan.connectors.delta.properties import PROPERTIES
from stateplan.connectors.delta.rows import statistics
from stateplan.connectors.registry import sink_changelog_mode, source_changelog_mode
from stateplan.connectors.sink_epochs import input_digest
from stateplan.session.environment import TableEnvironment
from tests.connectors.connector_tables import fields
from tests.support.delta import append, contents, drained, frame, log, options, sink_of, source_of, write

INS, UB, UA, DEL = (int(kind) for kind in RowKind)

ALL = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c STRING, x BYTES, e DATE, "
    "n DECIMAL(38, 10), w TIMESTAMP(6), w3 TIMESTAMP(3), z TIMESTAMP_LTZ(6), a ARRAY<INT>, "
    "m MAP<STRING NOT NULL, BIGINT>, r ROW<p INT, q ARRAY<STRING>>, vc VARCHAR(5)"
)
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999999)
FULL = (
    *(True, -128, 32767, -(2**31), 2**63 - 1, 1.5, -2.5e300, "ü'\"\n", b"\x00\xff", date(1582, 10, 4)),
    *(Decimal("-1234567890123456789012345678.0123456789"), MOMENT, MOMENT.replace(microsecond=123000)),
    *(MOMENT.replace(tzinfo=UTC), [1, None, 3], [{"key": "k", "value": None}], {"p": None, "q": ["a", None]}, "vc"),
)


def test_every_type_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "t"
    empty = (None,) * len(FULL)
    rows = [FULL, empty, (*empty[:14], [], [], {"p": 1, "q": []}, "")]
    write(sink_of(path, ALL), 0, frame(*rows, columns=ALL))
    assert drained(source_of(path, ALL))[0] == rows
    found = pa.table(DeltaTable(str(path)).scan())
    assert found.schema.field("z").type.tz == "UTC"
    assert found.schema.field("w").type.tz is None
    assert [row["n"] for row in found.to_pylist()] == [rows[0][10], None, None]
    merged = tmp_path / "merged"
    for epoch in range(2):
        write(sink_of(merged, ALL.replace("c STRING", "c STRING NOT NULL"), ["c"]), epoch, frame(FULL, columns=ALL))
    assert drained(source_of(merged, ALL))[0] == [FULL]


def test_a_table_is_created_as_it_is_declared(tmp_path: Path) -> None:
    sink = sink_of(
        tmp_path / "t",
        "k BIGINT NOT NULL, v STRING, p DATE",
        partitions=["p"],
        **{"delta.enableChangeDataFeed": "true"},
    )
    sink.prepare(0)
    table = DeltaTable(str(tmp_path / "t"))
    assert table.version() == 0
    assert [(f.name, f.type.type, f.nullable) for f in table.schema().fields] == [
        ("k", "long", False),
        ("v", "string", True),
        ("p", "date", True),
    ]
    assert table.metadata().partition_columns == ["p"]
    assert table.metadata().configuration == {"delta.enableChangeDataFeed": "true"}
    sink.prepare(0)
    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_an_epoch_is_committed_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = sink_of(path)
    for _ in range(2):  # the second time as after a kill behind the commit, with other parts
        write(sink, 0, frame((1, "a"), (2, "b")), frame((3, "c")))
    write(sink_of(path), 0, frame((1, "a"), (2, "b"), (3, "c")))
    write(sink, 1)  # an empty micro-batch makes no version
    assert DeltaTable(str(path)).version() == 1
    write(sink, 2, frame((4, "d")), frame())
    assert contents(path) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert len(list(path.glob("*.parquet"))) == 3, "files that no commit names are removed"
    write(sink_of(path, uid="another job"), 0, frame((5, "e")))
    assert len(contents(path)) == 5


def test_an_older_checkpoint_is_refused(tmp_path: Path) -> None:
    write(sink_of(tmp_path / "t"), 7, frame((1, "a")))
    for call in (lambda s: s.prepare(6), lambda s: s.commit([s.write(frame((2, "b")), 6, "p")], 6)):
        with pytest.raises(RunError) as raised:
            call(sink_of(tmp_path / "t"))
        assert raised.value.code == "RUN176"
        assert "has micro-batch 7" in raised.value.message


@pytest.mark.parametrize(("keys", "word"), [((), "twice"), (("k",), "stay")])
def test_rows_of_a_checkpoint_that_is_gone_are_told_of(tmp_path: Path, keys: tuple[str, ...], word: str) -> None:
    def run(uid: str, read: str, epoch: int = 0, **more: bool) -> str:
        target = sink_of(tmp_path / "t", keys=keys, uid=uid, **more)
        target.ledger.input = input_digest(read.encode()) if read else ""
        write(target, epoch, frame((epoch, uid)))
        return " ".join(target.ledger.take_sentences())

    assert run("sink-one", "a") == ""
    assert run("other-two", "b") == "", "another statement"
    assert word in run("sink-two", "c")
    assert run("sink-two", "c") == "", "again, after a failure"
    assert run("sink-two", "d", 1) == ""
    assert run("sink-three", "f", 5) == "", "it goes on from a savepoint"
    assert run("sink-four", "") == "", "without a checkpoint"
    assert run("sink-five", "g", overwrite=True) == "", "the rows are replaced"


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_micro_batch_that_has_read_something_else_is_refused(tmp_path: Path, keys: tuple[str, ...]) -> None:
    def run(epoch: int, read: str, *values: tuple[int, str]) -> None:
        target = sink_of(tmp_path / "t", keys=keys)
        target.ledger.input = input_digest(read.encode())
        write(target, epoch, frame(*values))

    run(0, "a", (1, "a"))
    run(0, "a", (1, "a"))
    with pytest.raises(RunError) as raised:
        run(0, "b", (1, "b"))
    assert raised.value.code == "RUN176" and "other input" in raised.value.message
    run(1, "b", (2, "b"))
    assert contents(tmp_path / "t") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_table_that_is_made_anew_under_a_job(tmp_path: Path, keys: tuple[str, ...]) -> None:
    target = sink_of(tmp_path / "t", keys=keys)
    write(target, 0, frame((1, "a")))
    shutil.copytree(tmp_path / "t", tmp_path / "older")
    write(target, 1, frame((2, "b")))
    assert target.ledger.last_epoch is not None and target.ledger.last_epoch.epoch == 1
    part = target.write(frame((3, "c")), 2, "p")
    shutil.rmtree(tmp_path / "t")
    for attempt in (lambda: target.prepare(2), lambda: target.commit([part], 2)):
        with pytest.raises(RunError) as gone:
            attempt()
        assert gone.value.code == "RUN176" and "sinks.json" in (gone.value.hint or "")
    assert not (tmp_path / "t" / "_delta_log").exists()
    shutil.copytree(tmp_path / "older", tmp_path / "t", dirs_exist_ok=True)
    with pytest.raises(RunError) as behind:
        target.prepare(2)
    assert "its last micro-batch is 0, and the job has written 1" in behind.value.message
    target.ledger.last_epoch = None
    write(target, 2, frame((3, "c")))
    assert contents(tmp_path / "t") == [(1, "a"), (3, "c")]


def test_a_merge_that_changes_nothing_notes_no_micro_batch(tmp_path: Path) -> None:
    target = sink_of(tmp_path / "t", keys=["k"])
    write(target, 0, frame((1, "a")))
    write(target, 1, frame((9, "z"), kinds=[3]))
    assert target.ledger.last_epoch is not None and target.ledger.last_epoch.epoch == 0
    again = pickle.loads(pickle.dumps(target))
    write(again, 2, frame((2, "b")))
    assert contents(tmp_path / "t") == [(1, "a"), (2, "b")]


def test_rows_are_invisible_until_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = sink_of(path)
    sink.prepare(0)
    part = sink.write(frame((1, "a")), 0, "p")
    assert contents(path) == []
    sink.commit([part], 0)
    assert contents(path) == [(1, "a")]


def test_of_two_drivers_one_commits(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink_of(path).prepare(0)
    for epoch in range(5):
        barrier = threading.Barrier(4)

        def run(number: int, epoch: int = epoch, barrier: threading.Barrier = barrier) -> None:
            zombie = sink_of(path)
            part = zombie.write(frame((epoch, str(number))), epoch, "p")
            barrier.wait()
            zombie.commit([part], epoch)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [k for k, _ in contents(path)] == [0, 1, 2, 3, 4]


def test_jobs_append_and_merge_at_the_same_time(tmp_path: Path) -> None:
    plain, keyed = tmp_path / "plain", tmp_path / "keyed"
    columns = "k BIGINT NOT NULL, v STRING"
    sink_of(plain).prepare(0)
    sink_of(keyed, columns, ["k"]).prepare(0)
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for epoch in range(4):
                write(sink_of(plain, uid=str(number)), epoch, frame((10 * number + epoch, "v")))
                rows = [(epoch, str(number)), (100 + number, str(epoch))]
                write(sink_of(keyed, columns, ["k"], uid=str(number)), epoch, frame(*rows))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(k for k, _ in contents(plain)) == [10 * n + e for n in range(3) for e in range(4)]
    assert {k for k, _ in contents(keyed)} == {0, 1, 2, 3, 100, 101, 102}
    assert len(contents(keyed)) == 7


def test_changes_are_merged_by_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    columns = "k BIGINT NOT NULL, `Mixed Case`".replace(" Case", "") + " STRING"
    sink = sink_of(path, columns, ["k"])
    write(sink, 0, frame((1, "a"), (2, "b"), (3, "c"), kinds=[INS, INS, INS]))
    changes = frame(
        *((1, "A"), (2, "b"), (4, "d"), (4, "d"), (5, "e"), (5, "E"), (6, None)),
        kinds=[UA, DEL, INS, DEL, INS, UA, INS],
    )
    for _ in range(2):
        write(sink, 1, changes)
    assert contents(path) == [(1, "A"), (3, "c"), (5, "E"), (6, None)]
    write(sink, 2, frame((3, "c"), (3, "again"), (1, "A"), (9, "moved"), kinds=[UB, UA, UB, UA]))
    assert contents(path) == [(3, "again"), (5, "E"), (6, None), (9, "moved")]
    assert log(path, 2)[-1]["txn"]["version"] == 1


@settings(max_examples=15)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.booleans()), max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_merging_is_what_a_dictionary_does(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, str, bool]]]
) -> None:
    path = tmp_path_factory.mktemp("merge") / "t"
    columns = "k BIGINT NOT NULL, p STRING NOT NULL, v STRING"
    sink, expected = sink_of(path, columns, ["p", "k"], ["p"]), {}
    sink.prepare(0)
    for epoch, batch in enumerate(batches):
        for k, p, gone in batch:
            if gone:
                expected.pop((k, p), None)
            else:
                expected[k, p] = str(epoch)
        rows = [(k, p, str(epoch)) for k, p, _ in batch]
        write(sink, epoch, frame(*rows, columns=columns, kinds=[DEL if gone else INS for _, _, gone in batch]))
    assert contents(path) == sorted([(k, p, v) for (k, p), v in expected.items()], key=repr)


def test_a_row_moves_to_another_partition(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k BIGINT NOT NULL, p STRING"
    sink = sink_of(path, columns, ["k"], ["p"])
    write(sink, 0, frame((1, "x"), (2, "y")))
    write(sink, 1, frame((1, "y"), (2, "y"), kinds=[UA, DEL]))
    assert contents(path) == [(1, "y")]


def test_overwriting_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, (1, "old"), (2, "old"))
    for _ in range(2):
        write(sink_of(path, overwrite=True), 0, frame((1, "new")))
    write(sink_of(path, overwrite=True), 1, frame((3, "new")))
    assert contents(path) == [(1, "new"), (3, "new")]
    write(sink_of(path, overwrite=True, uid="of no rows"), 0)
    assert contents(path) == []
    assert sorted(k for k, _ in drained(source_of(path, versionAsOf="0"))[0]) == [1, 2]
    keyed = tmp_path / "keyed"
    columns = "k BIGINT NOT NULL, v STRING"
    write(sink_of(keyed, columns, ["k"]), 0, frame((1, "old"), (2, "old")))
    write(sink_of(keyed, columns, ["k"], uid="new", overwrite=True), 0, frame((1, "a"), (1, "new"), (4, "x")))
    write(sink_of(keyed, columns, ["k"], uid="new", overwrite=True), 1, frame((4, "new"), kinds=[UA]))
    assert contents(keyed) == [(1, "new"), (4, "new")]
    write(sink_of(keyed, columns, ["k"], uid="none", overwrite=True), 0)
    assert contents(keyed) == []


def test_overwriting_partitions(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k BIGINT, p STRING"
    write(sink_of(path, columns, partitions=["p"]), 0, frame((1, "a"), (2, "b"), (3, None)))
    sink = sink_of(path, columns, partitions=["p"], uid="new", overwrite=True)
    write(sink, 0, frame((10, "a"), (11, None)))
    DeltaTable(str(path)).optimize.compact()
    write(sink, 1, frame((12, "a"), (13, "b")))
    assert contents(path) == [(10, "a"), (11, None), (12, "a"), (13, "b")]


PARTITIONED = (
    "k BIGINT, s STRING, d DATE, b BOOLEAN, n DECIMAL(10, 2), w TIMESTAMP(6), z TIMESTAMP_LTZ(6), f DOUBLE, i INT"
)


def test_partitions_of_any_type(tmp_path: Path) -> None:
    path = tmp_path / "t"
    keys = [name for name, _ in fields(PARTITIONED)[1:]]
    moment = datetime(2024, 2, 29, 1, 2, 3, 4)
    rows = [
        (1, "a/b c=%20'ü\"", date(1, 1, 1), True, Decimal("-1.50"), moment, moment.replace(tzinfo=UTC), 1.5e300, -3),
        (
            2,
            "x",
            date(2024, 2, 29),
            False,
            Decimal("0.00"),
            datetime(999, 1, 1),
            datetime(1969, 1, 1, tzinfo=UTC),
            -0.25,
            0,
        ),
        (3, *[None] * 8),
    ]
    write(sink_of(path, PARTITIONED, partitions=keys), 0, frame(*rows, columns=PARTITIONED))
    assert sorted(drained(source_of(path, PARTITIONED))[0]) == sorted(rows)
    stream = source_of(path, PARTITIONED, mode="streaming", startingVersion="0")
    assert sorted(drained(stream)[0]) == sorted(rows)
    assert contents(path) == sorted(rows, key=repr)


def test_partitions_are_pruned_and_empty_texts_refused(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k BIGINT, p STRING"
    sink = sink_of(path, columns, partitions=["p"])
    write(sink, 0, frame((1, "a"), (2, "b"), (3, None)))
    from stateplan.connectors.registry import partitions_of

    found = partitions_of(options(path), ["p"])
    assert found == [{"p": None}, {"p": "a"}, {"p": "b"}]
    assert partitions_of(options(path, mode="streaming"), ["p"]) is None
    assert partitions_of(options(tmp_path / "nothing"), ["p"]) is None
    source = source_of(path, columns, more={"partitions": found[:2], "partition_keys": ("p",)})
    start = source.initial_offset()
    assert len(source.plan(start, source.latest_offset(start))) == 2
    assert sorted(k for k, _ in drained(source)[0]) == [1, 3]
    for target in (sink, sink_of(path, columns, keys=["k", "p"], partitions=["p"])):
        with pytest.raises(DataError) as raised:
            target.write(frame((4, "")), 1, "p")
        assert raised.value.code == "DATA459"


BASE = "k BIGINT, v STRING"


@pytest.mark.parametrize(
    ("columns", "partitions", "given_", "code", "words"),
    [
        ("k BIGINT, v STRING, w INT", (), {}, "RUN172", "has no column 'w'"),
        ("k BIGINT", (), {}, "RUN172", "not declared: v"),
        ("k INT, v STRING", (), {}, "RUN172", "declared as INT"),
        ("k BIGINT, v STRING", ("v",), {}, "RUN172", "partitioned by none"),
        (BASE, (), {"delta.appendOnly": "true"}, "RUN173", "'delta.appendOnly' of the Delta table t is 'false'"),
        (BASE, (), {"delta.enableChangeDataFeed": "true"}, "RUN173", "is not set"),
    ],
)
def test_a_sink_that_does_not_fit_its_table(
    tmp_path: Path, columns: str, partitions: Sequence[str], given_: dict[str, str], code: str, words: str
) -> None:
    append(tmp_path / "t", (1, "a"), configuration={"delta.appendOnly": "false"})
    with pytest.raises(RunError) as raised:
        sink_of(tmp_path / "t", columns, partitions=partitions, **given_).prepare(0)
    assert raised.value.code == code
    assert words in raised.value.message
    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_more_columns_in_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, (1, "a"))
    write(sink_of(path, "k BIGINT", **{"schema_evolution.mode": "newcolumn"}), 0, frame((2,), columns="k BIGINT"))
    assert contents(path) == [(1, "a"), (2, None)]


def test_columns_that_the_table_lacks(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k BIGINT, v STRING, w INT, x ARRAY<INT>"
    append(path, (1, "a"))
    evolving = {"schema_evolution.mode": "newcolumn"}
    with pytest.raises(RunError) as raised:
        sink_of(path, "k BIGINT, v STRING, w INT NOT NULL", **evolving).begin()
    assert raised.value.code == "RUN172"
    sink = sink_of(path, columns, **evolving)
    sink.begin()
    assert contents(path) == [(1, "a", None, None)]
    write(sink, 0, frame((2, "b", 3, [4]), columns=columns))
    sink.target = replace(sink.target, fields=(*sink.target.fields, ("y", STRING)))
    write(sink, 1, frame((3, "c", 4, [5], "z"), columns=f"{columns}, y STRING"))  # the table has had a micro-batch
    assert contents(path) == [(1, "a", None, None, None), (2, "b", 3, [4], None), (3, "c", 4, [5], "z")]


def test_a_job_that_starts_creates_its_table(tmp_path: Path) -> None:
    sink_of(tmp_path / "t", BASE).begin()
    assert contents(tmp_path / "t") == []


def test_a_column_that_may_not_be_null(tmp_path: Path) -> None:
    sink_of(tmp_path / "t", "k BIGINT NOT NULL, a ARRAY<INT NOT NULL>").prepare(0)
    for columns in ("k BIGINT, a ARRAY<INT NOT NULL>", "k BIGINT NOT NULL, a ARRAY<INT>"):
        with pytest.raises(RunError) as raised:
            sink_of(tmp_path / "t", columns).prepare(0)
        assert raised.value.code == "RUN172"


def test_tables_that_ask_more_of_writers(tmp_path: Path) -> None:
    append(tmp_path / "t", (1, "a"))
    DeltaTable(str(tmp_path / "t")).alter.add_constraint({"positive": "k > 0"})
    with pytest.raises(RunError) as raised:
        sink_of(tmp_path / "t").prepare(0)
    assert raised.value.code == "RUN171"
    assert "the constraint 'positive'" in raised.value.message
    append(tmp_path / "grows", (1, "a"), configuration={"delta.appendOnly": "true"})
    write(sink_of(tmp_path / "grows"), 0, frame((2, "b")))
    for sink in (sink_of(tmp_path / "grows", keys=["k"]), sink_of(tmp_path / "grows", overwrite=True)):
        with pytest.raises(RunError) as refused:
            sink.prepare(0)
        assert refused.value.code == "RUN175"


def test_partitions_with_a_key_are_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(RunError) as raised:
        sink_of(tmp_path / "t", "k BIGINT NOT NULL, p STRING", ["k"], ["p"], overwrite=True).prepare(0)
    assert raised.value.code == "RUN178"
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("key", "text", "code"),
    [
        ("delta.enableChangeDataFeeed", "true", "OPT104"),
        ("delta.feature.changeDataFeed", "supported", "OPT104"),
        ("delta.enableChangeDataFeed", "maybe", "OPT105"),
        ("delta.isolationLevel", "Snapshot", "OPT105"),
        ("delta.logRetentionDuration", "30 days", "OPT105"),
        ("delta.logRetentionDuration", "interval 30 parsecs", "OPT105"),
        ("delta.checkpointInterval", "0", "OPT105"),
        ("delta.enableDeletionVectors", "true", "OPT107"),
        ("delta.columnMapping.mode", "name", "OPT107"),
        ("delta.minWriterVersion", "7", "OPT107"),
    ],
)
def test_properties_that_no_table_is_created_with(tmp_path: Path, key: str, text: str, code: str) -> None:
    with pytest.raises(OptionError) as raised:
        sink_of(tmp_path / "t", **{key: text})
    assert raised.value.code == code
    assert not (tmp_path / "t").exists()


VALUES = {
    OptionType.BOOLEAN: "TRUE",
    OptionType.INTEGER: "5",
    OptionType.INTERVAL: "interval 2 weeks",
    OptionType.LONG: "1000000",
    OptionType.STRING: "k",
}


@pytest.mark.parametrize("option", [o for o in PROPERTIES if not o.only_default], ids=lambda option: option.key)
def test_each_property_makes_a_table_that_can_be_written(tmp_path: Path, option: Option) -> None:
    text = option.values[0].upper() if option.values else VALUES[option.type]
    for epoch in range(2):
        write(sink_of(tmp_path / "t", **{option.key: text}), epoch, frame((epoch, "a")))
    assert DeltaTable(str(tmp_path / "t")).metadata().configuration == {
        option.key: option.values[0] if option.values else text.lower()
    }
    assert sorted(drained(source_of(tmp_path / "t"))[0]) == [(0, "a"), (1, "a")]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateplanError) as raised:
        sink_of(tmp_path / "file" / "t").prepare(0)
    assert raised.value.code in ("DATA450", "DATA452", "RUN174")
    path = tmp_path / "t"
    columns = "k BIGINT, p STRING"
    sink = sink_of(path, columns, partitions=["p"])
    sink.prepare(0)
    (path / "p=x").write_text("in the way")
    with pytest.raises(RunError) as unwritten:
        sink.write(frame((1, "x")), 0, "p")
    assert unwritten.value.code == "RUN174"


def test_updates_need_a_primary_key(tmp_path: Path) -> None:
    sink = sink_of(tmp_path / "t")
    with pytest.raises(RunError) as raised:
        sink.write(frame((1, "a"), kinds=[UA]), 0, "p")
    assert raised.value.code == "RUN177"
    environment = TableEnvironment.create({})
    environment.execute_sql("CREATE TABLE src (k BIGINT) WITH ('connector'='datagen', 'number-of-rows'='1')")
    snk = "CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='delta', 'table-path'='/tmp/none')"
    environment.execute_sql(snk)
    with pytest.raises(OptionError) as planned:
        environment.execute_sql("EXPLAIN INSERT INTO snk SELECT k, COUNT(*) FROM src GROUP BY k")
    assert planned.value.code == "OPT152"


def test_modes(tmp_path: Path) -> None:
    assert source_changelog_mode(options(tmp_path)) == {RowKind.INSERT}
    assert source_changelog_mode(options(tmp_path, readChangeFeed="true")) == set(RowKind)
    assert sink_changelog_mode(options(tmp_path)) == {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}


def test_statistics_bound_all_values() -> None:
    columns = "a BIGINT, b DOUBLE, c STRING, d TIMESTAMP(6), e BOOLEAN, f ARRAY<INT>, g DOUBLE"
    rows = [
        (1, -0.5, "b" * 40, datetime(1969, 1, 1, 0, 0, 0, 1), True, [1], float("nan")),
        (None, 2.5, "a" * 40, datetime(2024, 1, 1), None, None, 1.0),
    ]
    declared = [(f"c{i}", name, kind) for i, (name, kind) in enumerate(fields(columns))]
    found = json.loads(statistics(frame(*rows, columns=columns), declared))
    assert found == {
        "numRecords": 2,
        "nullCount": {"a": 1, "b": 0, "c": 0, "d": 0, "e": 1, "g": 0},
        "minValues": {"a": 1, "b": -0.5, "c": "a" * 32, "d": "1969-01-01T00:00:00.000001"},
        "maxValues": {"a": 1, "b": 2.5, "d": "2024-01-01T00:00:00.000000"},
    }


def test_other_readers_prune_by_the_statistics(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k BIGINT, z TIMESTAMP_LTZ(6), s STRING"
    for epoch in range(3):
        rows = [(k, datetime(2024, 1, 1 + k, 12, tzinfo=UTC), f"s{k}") for k in (2 * epoch, 2 * epoch + 1)]
        write(sink_of(path, columns), epoch, frame(*rows, columns=columns))
    table = DeltaTable(str(path))
    for predicate, keys in (("k > 3", [4, 5]), ("s = 's2'", [2]), ("z < '2024-01-02T00:00:00Z'", [0])):
        assert sorted(row["k"] for row in pa.table(table.scan(predicate=predicate)).to_pylist()) == keys
