"""Sinks of the connector ``iceberg``: rows that are appended, merged and replaced, exactly once."""

from __future__ import annotations

import pickle
import shutil
import threading
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import LongType, TimeType

from stateplan.common.changelog import RowKind
from stateplan.common.errors import OptionError, RunError
from stateplan.connectors.iceberg.files import data_file_of
from stateplan.connectors.iceberg.rows import write_rows
from stateplan.connectors.sink_epochs import input_digest
from stateplan.session.environment import TableEnvironment
from tests.connectors.iceberg_tables import append, catalog, contents, drained, opened, sink_of, source_of
from tests.support.delta import frame, write

INS, UB, UA, DEL = (int(kind) for kind in RowKind)

ALL = (
    "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c STRING, x BYTES, y BINARY(2), e DATE, "
    "n DECIMAL(38, 10), w TIMESTAMP(6), w3 TIMESTAMP(3), z TIMESTAMP_LTZ(6), a ARRAY<INT>, "
    "m MAP<STRING NOT NULL, BIGINT>, r ROW<p INT, q ARRAY<STRING>>, vc VARCHAR(5)"
)
READ = ALL.replace("TINYINT", "INT").replace("SMALLINT", "INT")
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999999)
FULL = (
    *(True, -128, 32767, -(2**31), 2**63 - 1, 1.5, -2.5e300, "ü'\"\n", b"\x00\xff", b"\x01\x02", date(1582, 10, 4)),
    *(Decimal("-1234567890123456789012345678.0123456789"), MOMENT, MOMENT.replace(microsecond=123000)),
    *(MOMENT.replace(tzinfo=UTC), [1, None, 3], [{"key": "k", "value": None}], {"p": None, "q": ["a", None]}, "vc"),
)
KEYED = "k BIGINT NOT NULL, v STRING"


def snapshots(folder: Path) -> list[str]:
    return [s.summary.operation.value for s in opened(folder).snapshots() if s.summary is not None]


def test_every_type_of_iceberg_comes_back(tmp_path: Path) -> None:
    empty = (None,) * len(FULL)
    rows = [FULL, empty, (*empty[:15], [], [], {"p": 1, "q": []}, "")]
    write(sink_of(tmp_path / "a", ALL), 0, frame(*rows, columns=ALL))
    assert drained(source_of(tmp_path / "a", READ))[0] == rows
    keyed = ALL.replace("c STRING", "c STRING NOT NULL")
    for epoch in range(2):
        write(sink_of(tmp_path / "b", keyed, ["c"]), epoch, frame(FULL, columns=ALL))
    assert drained(source_of(tmp_path / "b", READ))[0] == [FULL]


def test_a_table_of_iceberg_is_created_as_it_is_declared(tmp_path: Path) -> None:
    sink = sink_of(
        tmp_path,
        "k BIGINT NOT NULL, v STRING, p DATE",
        ["k"],
        ["p"],
        partitioning="bucket(4, k), truncate(2, v)",
        sort_order="v DESC, k",
        format_version="2",
        write__parquet__compression_codec="snappy",
    )
    sink.prepare(0)
    table = opened(tmp_path)
    assert [(f.name, str(f.field_type), f.required) for f in table.schema().fields] == [
        ("k", "long", True),
        ("v", "string", False),
        ("p", "date", False),
    ]
    assert [(f.name, str(f.transform)) for f in table.spec().fields] == [
        ("p", "identity"),
        ("k_bucket", "bucket[4]"),
        ("v_trunc", "truncate[2]"),
    ]
    assert [str(f.direction.name) for f in table.sort_order().fields] == ["DESC", "ASC"]
    assert table.schema().identifier_field_ids == [1] and table.current_snapshot() is None
    assert table.properties["write.parquet.compression-codec"] == "snappy"
    sink.prepare(0)
    with pytest.raises(OptionError, match="truncate"):
        sink_of(tmp_path / "b", "t DATE", partitioning="truncate(2, t)").prepare(0)


def test_an_epoch_is_committed_once(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    for _ in range(2):  # the second time as after a kill behind the commit, with other parts
        write(sink, 0, frame((1, "a"), (2, "b")), frame((3, "c")))
    write(sink_of(tmp_path), 0, frame((1, "a"), (2, "b"), (3, "c")))
    write(sink, 1)  # an empty micro-batch makes no snapshot
    assert snapshots(tmp_path) == ["append"]
    write(sink, 2, frame((4, "d")), frame())
    assert contents(tmp_path) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert len(list(tmp_path.glob("default/t/data/*.parquet"))) == 3, "files that no snapshot has are removed"
    summary = opened(tmp_path).current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None and summary.additional_properties["stateplan.epoch"] == "2"
    write(sink_of(tmp_path, uid="another job"), 0, frame((5, "e")))
    assert len(contents(tmp_path)) == 5


def test_an_older_checkpoint_is_refused(tmp_path: Path) -> None:
    write(sink_of(tmp_path), 7, frame((1, "a")))
    for call in (lambda s: s.prepare(6), lambda s: s.commit([s.write(frame((2, "b")), 6, "p")], 6)):
        with pytest.raises(RunError) as raised:
            call(sink_of(tmp_path))
        assert raised.value.code == "RUN182" and "has micro-batch 7" in raised.value.message


@pytest.mark.parametrize(("keys", "word"), [((), "twice"), (("k",), "stay")])
def test_rows_of_a_checkpoint_that_is_gone_are_told_of(tmp_path: Path, keys: tuple[str, ...], word: str) -> None:
    def run(uid: str, read: str, epoch: int = 0, **more: bool) -> str:
        target = sink_of(tmp_path, KEYED if keys else "k BIGINT, v STRING", keys, uid=uid, **more)  # type: ignore[arg-type]
        target.ledger.input = input_digest(read.encode()) if read else ""
        write(target, epoch, frame((epoch, uid)))
        return " ".join(target.ledger.take_sentences())

    assert run("sink-one", "a") == ""
    assert run("other-two", "b") == "", "another statement"
    assert word in run("sink-two", "c")
    assert run("sink-two", "c") == "", "again, after a failure"
    assert run("sink-two", "d", 1) == ""
    assert run("sink-three", "f", 5) == "", "it goes on from a savepoint"
    assert run("sink-five", "g", overwrite=True) == "", "the rows are replaced"


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_micro_batch_that_has_read_something_else_is_refused(tmp_path: Path, keys: tuple[str, ...]) -> None:
    def run(epoch: int, read: str, *values: tuple[int, str]) -> None:
        target = sink_of(tmp_path, KEYED if keys else "k BIGINT, v STRING", keys)
        target.ledger.input = input_digest(read.encode())
        write(target, epoch, frame(*values))

    run(0, "a", (1, "a"))
    run(0, "a", (1, "a"))
    with pytest.raises(RunError) as raised:
        run(0, "b", (1, "b"))
    assert raised.value.code == "RUN182" and "other input" in raised.value.message
    run(1, "b", (2, "b"))
    assert contents(tmp_path) == [(1, "a"), (2, "b")]


def test_a_table_of_iceberg_that_is_made_anew_or_rolled_back_under_a_job(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    target = sink_of(lake)
    write(target, 0, frame((1, "a")))
    write(target, 1, frame((2, "b")))
    first = opened(lake).history()[0].snapshot_id
    opened(lake).manage_snapshots().set_current_snapshot(first).commit()
    with pytest.raises(RunError) as behind:
        target.prepare(2)
    assert "its last micro-batch is 0, and the job has written 1" in behind.value.message
    part = target.write(frame((3, "c")), 2, "p")
    shutil.rmtree(lake)
    for attempt in (lambda: target.prepare(2), lambda: target.commit([part], 2)):
        with pytest.raises(RunError) as gone:
            attempt()
        assert gone.value.code == "RUN182" and "sinks.json" in (gone.value.hint or "")
    assert not lake.exists()
    target.ledger.last_epoch = None
    write(target, 2, frame((3, "c")))
    assert contents(lake) == [(3, "c")]


def test_an_epoch_outlives_its_snapshot(tmp_path: Path) -> None:
    target = sink_of(tmp_path)
    write(target, 4, frame((1, "a")))
    append(tmp_path, (2, "other"))
    opened(tmp_path).maintenance.expire_snapshots().by_id(opened(tmp_path).history()[0].snapshot_id).commit()
    again = sink_of(tmp_path)
    again.ledger.last_epoch = target.ledger.last_epoch
    write(again, 4, frame((1, "a")))
    with pytest.raises(RunError, match="has micro-batch 4"):
        again.prepare(3)
    write(again, 5, frame((3, "b")))
    assert contents(tmp_path) == [(1, "a"), (2, "other"), (3, "b")]


def test_a_merge_that_changes_nothing_notes_no_micro_batch(tmp_path: Path) -> None:
    target = sink_of(tmp_path, KEYED, ["k"])
    write(target, 0, frame((1, "a")))
    write(target, 1, frame((9, "z"), kinds=[DEL]))
    assert target.ledger.last_epoch is not None and target.ledger.last_epoch.epoch == 0
    again = pickle.loads(pickle.dumps(target))
    write(again, 2, frame((2, "b")))
    assert contents(tmp_path) == [(1, "a"), (2, "b")] and snapshots(tmp_path) == ["append", "append"]


def test_a_job_that_starts_creates_its_table(tmp_path: Path) -> None:
    sink_of(tmp_path).begin()
    assert contents(tmp_path) == [] and snapshots(tmp_path) == []


def test_rows_of_iceberg_are_invisible_until_the_commit(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    sink.prepare(0)
    part = sink.write(frame((1, "a")), 0, "p")
    assert contents(tmp_path) == []
    sink.commit([part], 0)
    assert contents(tmp_path) == [(1, "a")]


def test_of_two_drivers_one_commits(tmp_path: Path) -> None:
    sink_of(tmp_path).prepare(0)
    for epoch in range(4):
        barrier = threading.Barrier(3)

        def run(number: int, epoch: int = epoch, barrier: threading.Barrier = barrier) -> None:
            zombie = sink_of(tmp_path)
            part = zombie.write(frame((epoch, str(number))), epoch, "p")
            barrier.wait()
            zombie.commit([part], epoch)

        together(run, 3)
    assert [k for k, _ in contents(tmp_path)] == [0, 1, 2, 3]


def together(run: Any, count: int) -> None:
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            run(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_jobs_append_and_merge_at_the_same_time(tmp_path: Path) -> None:
    plain, keyed = tmp_path / "plain", tmp_path / "keyed"
    sink_of(plain).prepare(0)
    sink_of(keyed, KEYED, ["k"]).prepare(0)

    def run(number: int) -> None:
        for epoch in range(3):
            write(sink_of(plain, uid=str(number)), epoch, frame((10 * number + epoch, "v")))
            rows = [(epoch, str(number)), (100 + number, str(epoch))]
            write(sink_of(keyed, KEYED, ["k"], uid=str(number)), epoch, frame(*rows))

    together(run, 3)
    assert sorted(k for k, _ in contents(plain)) == [10 * n + e for n in range(3) for e in range(3)]
    assert [k for k, _ in contents(keyed)] == [0, 1, 100, 101, 102, 2]


def test_changes_of_iceberg_are_merged_by_key_in_one_snapshot(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, KEYED, ["k"])
    write(sink, 0, frame((1, "a"), (2, "b"), (3, "c"), kinds=[INS, INS, INS]))
    changes = frame(
        *((1, "A"), (2, "b"), (4, "d"), (4, "d"), (5, "e"), (5, "E"), (6, None)),
        kinds=[UA, DEL, INS, DEL, INS, UA, INS],
    )
    for _ in range(2):
        write(sink, 1, changes)
    assert contents(tmp_path) == [(1, "A"), (3, "c"), (5, "E"), (6, None)]
    write(sink, 2, frame((3, "c"), (3, "again"), (1, "A"), (9, "moved"), kinds=[UB, UA, UB, UA]))
    assert contents(tmp_path) == [(3, "again"), (5, "E"), (6, None), (9, "moved")]
    write(sink, 3, frame((77, "z"), kinds=[DEL]))
    write(sink, 4, frame((78, "new")))
    assert snapshots(tmp_path) == ["append", "overwrite", "overwrite", "append"]
    assert sink.ledger.last_epoch is not None and sink.ledger.last_epoch.epoch == 4
    assert pickle.loads(pickle.dumps(sink)).table == sink.table  # type: ignore[attr-defined]


@settings(max_examples=10)
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
    path = tmp_path_factory.mktemp("merge")
    columns = "k BIGINT NOT NULL, p STRING NOT NULL, v STRING"
    sink, expected = sink_of(path, columns, ["p", "k"], partitioning="bucket(2, k)"), {}
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
    sink = sink_of(tmp_path, KEYED, ["k"], ["v"])
    write(sink, 0, frame((1, "x"), (2, "y")))
    write(sink, 1, frame((1, "y"), (2, "y"), kinds=[UA, DEL]))
    assert contents(tmp_path) == [(1, "y")]


def test_a_merge_writes_only_files_with_the_keys_and_keeps_other_columns(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "k BIGINT NOT NULL, v STRING", ["k"], partitioning="truncate(10, k)")
    write(sink, 0, frame(*((k, "v") for k in range(40))))
    with opened(tmp_path).update_schema() as update:
        update.add_column("t", TimeType())
    late = pa.table({"k": [77, 78], "v": ["x", "y"], "t": [time(1), time(2)]})
    access = sink.table  # type: ignore[attr-defined]
    with (change := opened(tmp_path).transaction()).update_snapshot().fast_append() as snapshot:
        for file in write_rows(access, opened(tmp_path), late):
            snapshot.append_data_file(data_file_of(file, opened(tmp_path).metadata))
    change.commit_transaction()
    before = {t.file.file_path for t in opened(tmp_path).scan().plan_files()}
    write(sink, 1, frame((5, "new"), (6, "gone"), (78, "Y"), kinds=[UA, DEL, UA]))
    after = {t.file.file_path for t in opened(tmp_path).scan().plan_files()}
    assert len(before & after) == len(before) - 2 and len(after) == len(before)
    rows = {row["k"]: (row["v"], row["t"]) for row in opened(tmp_path).scan().to_arrow().to_pylist()}
    assert len(rows) == 41 and rows[5] == ("new", None) and 6 not in rows
    assert rows[77] == ("x", time(1)) and rows[78] == ("Y", None)


def test_overwriting_a_table_of_iceberg(tmp_path: Path) -> None:
    plain, keyed = tmp_path / "plain", tmp_path / "keyed"
    append(plain, (1, "old"), (2, "old"))
    for _ in range(2):
        write(sink_of(plain, overwrite=True), 0, frame((1, "new")))
    write(sink_of(plain, overwrite=True), 1, frame((3, "new")))
    assert contents(plain) == [(1, "new"), (3, "new")]
    write(sink_of(plain, overwrite=True, uid="of no rows"), 0)
    assert contents(plain) == []
    write(sink_of(keyed, KEYED, ["k"]), 0, frame((1, "old"), (2, "old")))
    write(sink_of(keyed, KEYED, ["k"], uid="new", overwrite=True), 0, frame((1, "a"), (1, "new"), (4, "x")))
    write(sink_of(keyed, KEYED, ["k"], uid="new", overwrite=True), 1, frame((4, "new"), kinds=[UA]))
    assert contents(keyed) == [(1, "new"), (4, "new")]
    write(sink_of(keyed, KEYED, ["k"], uid="none", overwrite=True), 0)
    assert contents(keyed) == []


def test_overwriting_hidden_partitions(tmp_path: Path) -> None:
    columns = "k BIGINT, t TIMESTAMP(3)"
    first, second = datetime(2024, 1, 1), datetime(2024, 1, 2)
    made = {"columns": columns, "partitioning": "days(t)"}
    write(sink_of(tmp_path, **made), 0, frame((1, first), (2, second), (3, None), columns=columns))
    sink = sink_of(tmp_path, uid="new", overwrite=True, **made)
    write(sink, 0, frame((10, first.replace(hour=23)), (11, None), columns=columns))
    write(sink, 1, frame((12, first), (13, second), columns=columns))
    assert [k for k, _ in contents(tmp_path)] == [10, 11, 12, 13]
    with pytest.raises(RunError) as raised:
        keyed = "k BIGINT NOT NULL, t TIMESTAMP(3)"
        sink_of(tmp_path / "b", keyed, ["k"], partitioning="days(t)", overwrite=True).prepare(0)
    assert raised.value.code == "RUN185" and not (tmp_path / "b").exists()
    sink_of(tmp_path / "c", keyed, ["k"], partitioning="days(t)").begin()
    with pytest.raises(RunError) as raised:
        sink_of(tmp_path / "c", keyed, ["k"], overwrite=True).begin()
    assert raised.value.code == "RUN185"


PARTITIONED = "k BIGINT, s STRING, d DATE, b BOOLEAN, n DECIMAL(10, 2), w TIMESTAMP(6), z TIMESTAMP_LTZ(6), y BYTES"


def test_partitions_of_any_type_and_transform(tmp_path: Path) -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 5)
    rows = [
        (1, "a/b c=%20'ü\"", date(1, 1, 1), True, Decimal("-1.50"), moment, moment.replace(tzinfo=UTC), b"\x00/"),
        (-2, "", date(2024, 2, 29), False, Decimal("0.00"), datetime(999, 1, 1), moment.replace(tzinfo=UTC), b""),
        (None,) * 8,
    ]
    for name, layout in {
        "identity": "s, d, b, n, w, z, y, k",
        "time": "years(d), months(w), hours(z)",
        "bucket": "bucket(3, k), bucket(4, s), bucket(5, d), bucket(6, n), bucket(7, w), bucket(8, z), bucket(9, y)",
        "truncate": "truncate(10, k), truncate(2, s), truncate(50, n), truncate(1, y)",
    }.items():
        folder = tmp_path / name
        write(sink_of(folder, PARTITIONED, partitioning=layout), 0, frame(*rows, columns=PARTITIONED))
        assert sorted(drained(source_of(folder, PARTITIONED))[0], key=repr) == sorted(rows, key=repr)
        spec, schema = opened(folder).spec(), opened(folder).schema()
        for task in opened(folder).scan().plan_files():
            row = pq.read_table(task.file.file_path).to_pylist()[0]
            for i, field in enumerate(spec.fields):
                column = schema.find_column_name(field.source_id)
                source = schema.find_type(field.source_id)
                value = field.transform.transform(source)(stored(row[column], str(source)))
                assert task.file.partition[i] == value, (name, column)


def stored(value: Any, kind: str) -> Any:
    """A value as transforms of the library take it."""
    if isinstance(value, datetime):
        delta = value.replace(tzinfo=None) - datetime(1970, 1, 1)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def test_files_are_sorted(tmp_path: Path) -> None:
    write(sink_of(tmp_path, sort_order="v DESC NULLS LAST, k"), 0, frame((2, "a"), (1, "a"), (3, None), (4, "b")))
    file = next(iter(opened(tmp_path).scan().plan_files())).file
    assert pq.read_table(file.file_path)["k"].to_pylist() == [4, 1, 2, 3] and file.sort_order_id == 1


@pytest.mark.parametrize(
    ("columns", "given_", "words"),
    [
        ("k STRING, v STRING", {}, "'k' is declared as STRING"),
        ("k BIGINT, x STRING", {}, "no column 'x'"),
        ("k BIGINT, v STRING", {"partitioning": "v"}, "the partitions of the Iceberg table t is 'none'"),
        ("k BIGINT, v STRING", {"sort_order": "v"}, "the order of rows of the Iceberg table t is 'none'"),
    ],
)
def test_a_sink_that_does_not_fit_its_table(tmp_path: Path, columns: str, given_: dict[str, str], words: str) -> None:
    append(tmp_path, (1, "a"))
    with pytest.raises(RunError) as raised:
        sink_of(tmp_path, columns, **given_).prepare(0)
    assert raised.value.code == "RUN181" and words in raised.value.message


def test_a_column_that_may_not_be_null(tmp_path: Path) -> None:
    sink_of(tmp_path, "k BIGINT NOT NULL, a ARRAY<INT NOT NULL>").prepare(0)
    for columns, words in {
        "k BIGINT, a ARRAY<INT NOT NULL>": "'k' is declared as BIGINT",
        "k BIGINT NOT NULL, a ARRAY<INT>": "'a' is declared as ARRAY<INT>",
        "a ARRAY<INT NOT NULL>": "k",
    }.items():
        with pytest.raises(RunError) as raised:
            sink_of(tmp_path, columns).prepare(0)
        assert raised.value.code == "RUN181" and words in raised.value.message


def test_a_column_that_is_added_under_a_job_is_null(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    write(sink, 0, frame((1, "a")))
    with opened(tmp_path).update_schema() as update:
        update.add_column("n", LongType())
    write(sink, 1, frame((2, "b")))
    assert contents(tmp_path) == [(1, "a", None), (2, "b", None)]


def test_partitions_that_change_during_a_micro_batch(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    sink.prepare(0)
    part = sink.write(frame((1, "a")), 0, "p")
    with opened(tmp_path).update_spec() as update:
        update.add_identity("v")
    with pytest.raises(RunError) as raised:
        sink.commit([part], 0)
    assert raised.value.code == "RUN184"
    write(sink, 0, frame((1, "a")))
    assert contents(tmp_path) == [(1, "a")]


def test_changes_need_a_key(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    sink.prepare(0)
    with pytest.raises(RunError) as raised:
        sink.write(frame((1, "a"), kinds=[DEL]), 0, "p")
    assert raised.value.code == "RUN183"
    env = TableEnvironment.create({})
    env.execute_sql("CREATE TABLE src (k BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    where = f"'connector' = 'iceberg', 'warehouse' = '{tmp_path}', 'catalog-table' = 'none'"
    env.execute_sql(f"CREATE TABLE snk (k BIGINT, n BIGINT) WITH ({where})")
    with pytest.raises(OptionError) as planned:
        env.execute_sql("EXPLAIN INSERT INTO snk SELECT k, COUNT(*) FROM src GROUP BY k")
    assert planned.value.code == "OPT152"


def test_many_commits_merge_their_manifests(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, commit__manifest__min_count_to_merge="3")
    for epoch in range(8):
        write(sink, epoch, frame((epoch, "v")))
    snapshot = opened(tmp_path).current_snapshot()
    assert snapshot is not None and len(snapshot.manifests(opened(tmp_path).io)) < 5
    assert len(contents(tmp_path)) == 8
    assert catalog(tmp_path).list_tables("default") == [("default", "t")]


def test_old_snapshots_are_removed_from_the_metadata(tmp_path: Path) -> None:
    aged = {"expire_snapshots": "true", "history__expire__max_snapshot_age_ms": "1"}
    sink = sink_of(tmp_path, history__expire__min_snapshots_to_keep="2", **aged)
    for epoch in range(5):
        write(sink, epoch, frame((epoch, "v")))
        if epoch == 1:
            opened(tmp_path).manage_snapshots().create_tag(opened(tmp_path).history()[-1].snapshot_id, "keep").commit()
    write(sink, 50, frame((50, "v")))
    kept = sorted(s.sequence_number or 0 for s in opened(tmp_path).snapshots())
    assert kept == [2, 5, 6] and len(contents(tmp_path)) == 6
    write(sink_of(tmp_path), 50, frame((50, "again")))
    assert len(contents(tmp_path)) == 6


def test_a_worker_that_does_not_see_the_warehouse(tmp_path: Path) -> None:
    sink = sink_of(tmp_path / "lake")
    sink.announce("token")
    pickle.loads(pickle.dumps(sink)).check("t", "token")
    with pytest.raises(RunError) as raised:
        sink_of(tmp_path / "elsewhere").check("t", "token")
    assert raised.value.code == "RUN153"
    write(sink, 0, frame((1, "a")))
    with pytest.raises(RunError):
        sink.check("t", "token")
