"""The connector ``iceberg``: sources and options, over tables on disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from operator import eq, ge, gt, le, lt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StructType, TimeType, UUIDType

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError, OptionError, StateplanError
from stateplan.common.options import Role
from stateplan.common.types import BIGINT, BOOLEAN, STRING, parse_type
from stateplan.connectors.iceberg.layout import order_text, terms_of
from stateplan.connectors.iceberg.rows import read_split
from stateplan.connectors.iceberg.schema import holds, iceberg_type, sql_type
from stateplan.connectors.iceberg.source import IcebergSource
from stateplan.connectors.pace import Pace
from stateplan.connectors.protocol import Offset
from stateplan.connectors.registry import (
    find_connector,
    metadata_columns,
    sink_changelog_mode,
    source_changelog_mode,
    validate_table,
)
from stateplan.functions.rex import Call, InputRef, Literal
from stateplan.session.environment import TableEnvironment
from tests.connectors.connector_tables import fields
from tests.connectors.iceberg_tables import (
    add_deletes,
    append,
    catalog,
    contents,
    drained,
    opened,
    options,
    rows_of,
    sink_of,
    source_of,
)
from tests.support.delta import frame, write


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A warehouse whose table ``t`` has three snapshots of a row each."""
    for k, v in ((1, "a"), (2, "b"), (3, "c")):
        append(tmp_path, (k, v))
    return tmp_path


def ids(folder: Path) -> list[int]:
    return [entry.snapshot_id for entry in opened(folder).history()]


# ---- options and columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({"snapshot-id": "1", "as-of-timestamp": "1"}, "OPT106"),
        ({"branch": "b", "tag": "t"}, "OPT106"),
        ({"snapshot-id": "1", "start-snapshot-id": "1"}, "OPT106"),
        ({"snapshot-id": "1", "streaming": "true"}, "OPT178"),
        ({"starting-strategy": "TABLE_SCAN_THEN_INCREMENTAL"}, "OPT178"),
        ({"start-snapshot-timestamp": "1"}, "OPT178"),
        ({"end-snapshot-id": "1"}, "OPT178"),
        ({"streaming": "true", "starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID"}, "OPT178"),
        ({"streaming": "true", "start-snapshot-id": "1"}, "OPT178"),
        ({"snapshot-id": "newest"}, "OPT105"),
        ({"catalog-type": "hadoop"}, "OPT105"),
        ({"snapshotid": "1"}, "OPT104"),
        ({"catalog-type": "rest"}, "OPT175"),
        ({"uri": "sqlite:///file:/etc/passwd?mode=ro"}, "OPT175"),
        ({"write.py-location-provider.impl": "os.system"}, "OPT175"),
        ({"partitioning": "days(k"}, "OPT174"),
        ({"partitioning": "bucket(k)"}, "OPT174"),
        ({"partitioning": "k DESC"}, "OPT174"),
        ({"sort-order": "x"}, "OPT174"),
    ],
)
def test_options_of_iceberg_that_do_not_go_together(given_: dict[str, str], code: str) -> None:
    with pytest.raises(OptionError) as raised:
        validate_table(options("/t", **given_), Role.SOURCE, schema=fields("k BIGINT"))
    assert raised.value.code == code


def test_a_catalog_needs_a_place() -> None:
    with pytest.raises(OptionError, match="warehouse"):
        validate_table({"connector": "iceberg", "catalog-table": "t"}, Role.SOURCE, schema=fields("k BIGINT"))
    made = {"connector": "iceberg", "catalog-table": "t", "catalog-type": "rest", "uri": "http://h:1"}
    validate_table(made, Role.SOURCE, schema=fields("k BIGINT"))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("t TIME(0)", "TIME(0)"),
        ("t TIMESTAMP(9)", "microseconds"),
        ("t TIMESTAMP_LTZ(7)", "microseconds"),
        ("i INTERVAL DAY TO SECOND", "INTERVAL"),
        ("m MULTISET<INT>", "MULTISET"),
        ("a ARRAY<ROW<t TIME(0)>>", "no such type"),
        ("ab INT, aB INT", "upper case"),
    ],
)
def test_columns_that_iceberg_does_not_have(columns: str, words: str) -> None:
    for role in (Role.SOURCE, Role.SINK):
        with pytest.raises(StateplanError) as raised:
            validate_table(options("/t"), role, schema=fields(columns))
        assert raised.value.code == "CAT102" and words in raised.value.message
        assert "n Iceberg table cannot" in raised.value.message


def test_options_of_iceberg_without_effect_say_so() -> None:
    given_ = {"split-size": "1", "split-lookback": "10"}
    notes = validate_table(options("/t", **given_), Role.SOURCE, schema=fields("k BIGINT"))
    assert len(notes) == 2 and all("has no effect" in note for note in notes)
    assert validate_table(options("/t", streaming="TRUE"), Role.SOURCE) == ()


def test_a_default_of_iceberg_that_is_written_out_is_no_other_position() -> None:
    iceberg = find_connector(options("/t"))
    written = {"catalog-type": "SQL", "catalog-name": "default", "catalog-database": "default"}
    same = [options("/t", **more) for more in ({}, written)]
    other = options("/t", **{"catalog-database": "other"})
    for what in (iceberg.position, iceberg.identity):
        assert what(same[0]) == what(same[1]) != what(other)


def test_modes_of_iceberg() -> None:
    assert source_changelog_mode(options("/t")) == {RowKind.INSERT}
    assert sink_changelog_mode(options("/t")) == {RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}
    assert {k: str(t) for k, t in metadata_columns(options("/t")).items()} == {
        "_snapshot_id": "BIGINT NOT NULL",
        "_snapshot_timestamp": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    }


def test_types_of_iceberg_go_both_ways() -> None:
    texts = ["BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "BINARY(3)", "DATE", "TIMESTAMP(6)"]
    more = ["TIMESTAMP_LTZ(6)", "DECIMAL(38, 18)", "ARRAY<INT NOT NULL>"]
    for text in (*texts, *more, "MAP<STRING NOT NULL, ROW<a INT, b ARRAY<DATE>>>"):
        declared = parse_type(text)
        assert sql_type(iceberg_type(declared)) == declared, text
    assert str(iceberg_type(parse_type("SMALLINT"))) == "int"
    assert sql_type(UUIDType()) == parse_type("BINARY(16)")
    for other in (TimeType(), StructType(NestedField(1, "t", TimeType())), ListType(2, TimeType())):
        assert sql_type(other) is None
    assert holds(BIGINT, IntegerType()) and not holds(parse_type("INT"), LongType())


def test_the_text_of_a_layout() -> None:
    columns = ["at", "id", "name", "two words"]
    terms = terms_of("days(at), BUCKET(16, id), truncate(4,name),`two words`", "partitioning", columns)
    assert [t.text for t in terms] == ["days(at)", "bucket(16, id)", "truncate(4, name)", "`two words`"]
    assert [t.field_name for t in terms] == ["at_day", "id_bucket", "name_trunc", "two words"]
    order = terms_of("id DESC NULLS FIRST, at, name asc nulls last, hours(at) desc", "sort-order", columns)
    assert order_text(order) == "id DESC NULLS FIRST, at, name NULLS LAST, hours(at) DESC"


# ---- reading ---------------------------------------------------------------------------------------------------


def test_a_bounded_source_reads_a_snapshot_as_it_is(lake: Path) -> None:
    source = source_of(lake)
    start = source.initial_offset()
    append(lake, (4, "late"))
    rows, end = drained(source, start)
    assert sorted(rows) == [(1, "a"), (2, "b"), (3, "c")]
    assert source.bounded and (start["whole"], end["file"]) == (True, None)
    assert drained(source_of(lake), end)[0] == [(4, "late")], "a job that goes on from its checkpoint"
    first = source_of(lake, snapshot_id=str(ids(lake)[0]))
    rows, end = drained(first)
    assert rows == [(1, "a")] and drained(first, end)[0] == []


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    sink_of(tmp_path).prepare(0)
    assert drained(source_of(tmp_path))[0] == [] and source_of(tmp_path).size() == 0
    stream = source_of(tmp_path, streaming="true")
    _, end = drained(stream)
    append(tmp_path, (1, "a"))
    assert drained(stream, end)[0] == [(1, "a")]


def test_the_snapshot_of_a_time_and_of_a_name(lake: Path) -> None:
    table = opened(lake)
    stamps = [entry.timestamp_ms for entry in table.history()]
    table.manage_snapshots().create_tag(ids(lake)[0], "first").commit()
    table.manage_snapshots().create_branch(ids(lake)[1], "work").commit()
    for text, keys in ((stamps[0], [1]), (stamps[1], [1, 2]), (stamps[2] + 9, [1, 2, 3])):
        rows, _ = drained(source_of(lake, as_of_timestamp=str(text)))
        assert sorted(k for k, _ in rows) == keys
    assert drained(source_of(lake, tag="first"))[0] == [(1, "a")]
    assert sorted(drained(source_of(lake, branch="work"))[0]) == [(1, "a"), (2, "b")]
    wrong: list[dict[str, str]] = [{"snapshot_id": "7"}, {"as_of_timestamp": str(stamps[0] - 1)}, {"branch": "wrok"}]
    for given_ in wrong:
        with pytest.raises(OptionError) as raised:
            source_of(lake, **given_).initial_offset()
        assert raised.value.code == "OPT179"
    assert "did you mean 'work'?" in str(raised.value)
    for strategy, key, value in (
        ("INCREMENTAL_FROM_SNAPSHOT_ID", "start_snapshot_id", "7"),
        ("INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP", "start_snapshot_timestamp", str(stamps[2] + 1)),
    ):
        with pytest.raises(OptionError) as raised:
            source_of(lake, streaming="true", starting_strategy=strategy, **{key: value}).initial_offset()
        assert raised.value.code == "OPT179"
    with pytest.raises(OptionError) as raised:
        source_of(lake, start_snapshot_id=str(ids(lake)[0]), end_snapshot_id="7").initial_offset()
    assert raised.value.code == "OPT179"


@pytest.mark.parametrize(
    ("strategy", "keys"),
    [
        ("INCREMENTAL_FROM_LATEST_SNAPSHOT", [3]),
        ("INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE", []),
        ("INCREMENTAL_FROM_EARLIEST_SNAPSHOT", [1, 2, 3]),
        ("INCREMENTAL_FROM_SNAPSHOT_ID", [2, 3]),
        ("INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP", [2, 3]),
        ("TABLE_SCAN_THEN_INCREMENTAL", [1, 2, 3]),
    ],
)
def test_where_a_stream_begins(lake: Path, strategy: str, keys: list[int]) -> None:
    second = opened(lake).history()[1]
    more = {
        "INCREMENTAL_FROM_SNAPSHOT_ID": {"start_snapshot_id": str(second.snapshot_id)},
        "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP": {"start_snapshot_timestamp": str(second.timestamp_ms)},
    }.get(strategy, {})
    source = source_of(lake, streaming="true", monitor_interval="70 ms", starting_strategy=strategy, **more)
    assert (source.bounded, source.interval) == (False, 70)
    rows, end = drained(source)
    assert sorted(k for k, _ in rows) == keys
    assert drained(source, end) == ([], end)
    append(lake, (4, "d"))
    append(lake, (5, "e"))
    assert drained(source, end)[0] == [(4, "d"), (5, "e")]


def test_what_was_appended_between_two_snapshots(lake: Path) -> None:
    first, _, third = ids(lake)
    append(lake, (4, "d"))
    assert drained(source_of(lake, start_snapshot_id=str(first)))[0] == [(2, "b"), (3, "c"), (4, "d")]
    between = source_of(lake, start_snapshot_id=str(first), end_snapshot_id=str(third))
    assert drained(between)[0] == [(2, "b"), (3, "c")]


def test_micro_batches_of_iceberg_are_limited_and_the_same_again(tmp_path: Path) -> None:
    write(sink_of(tmp_path), 0, *(frame((k, "v")) for k in range(7)))
    many = {"streaming": "true", "streaming_max_files_per_micro_batch": "3"}
    for strategy in ("TABLE_SCAN_THEN_INCREMENTAL", "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"):
        source = source_of(tmp_path, starting_strategy=strategy, **many)
        edges = [source.initial_offset()]
        while (end := source.latest_offset(edges[-1])) != edges[-1]:
            edges.append(end)
        assert [edge["file"] for edge in edges] == [0, 3, 6, None]
        parts = [rows_of(source, a, b) for a, b in pairwise(edges)]
        assert [len(part) for part in parts] == [3, 3, 1]
        assert sorted(k for part in parts for k, _ in part) == list(range(7))
    for k in range(7, 10):
        append(tmp_path, (k, "v"))
    bounded = source_of(
        tmp_path,
        streaming="true",
        starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
        max_planning_snapshot_count="2",
    )
    first = bounded.latest_offset(bounded.initial_offset())
    assert len(rows_of(bounded, bounded.initial_offset(), first)) == 8


def test_a_source_of_iceberg_follows_the_pace_of_the_job(tmp_path: Path) -> None:
    write(sink_of(tmp_path), 0, *(frame(*((10 * part + i, "v") for i in range(10))) for part in range(6)))
    source = source_of(tmp_path, streaming="true")
    source.pace = Pace(tmp_path / "rows")
    position, counts = source.initial_offset(), []
    for rows_allowed in (1, 15, 30):
        source.pace.decide(rows_allowed)
        end = source.latest_offset(position)
        counts.append(len(rows_of(source, position, end)))
        position = end
    assert counts == [10, 20, 30], "whole files"


def test_snapshots_that_remove_rows(lake: Path) -> None:
    source = source_of(lake, streaming="true")
    _, end = drained(source)
    append(lake, (4, "d"))
    opened(lake).delete("k = 4")
    append(lake, (5, "e"))
    rows = rows_of(source, end, middle := source.latest_offset(end))
    assert rows == [(4, "d")], "what is before it is read first"
    with pytest.raises(DataError) as raised:
        source.latest_offset(middle)
    assert raised.value.code == "DATA479" and "streaming-skip-delete-snapshots" in (raised.value.hint or "")
    skips = source_of(lake, streaming="true", streaming_skip_delete_snapshots="true")
    rows, end = drained(skips, middle)
    assert rows == [(5, "e")]
    write(sink_of(lake, "k BIGINT, v STRING", ["k"]), 0, frame((5, "E")))
    with pytest.raises(DataError, match="changes existing rows"):
        skips.latest_offset(end)
    assert drained(source_of(lake, streaming="true", streaming_skip_overwrite_snapshots="true"), end)[0] == []


def test_snapshots_that_are_gone(lake: Path) -> None:
    source = source_of(lake, streaming="true", starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT")
    start, (first, second, third) = source.initial_offset(), ids(lake)
    opened(lake).maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(DataError) as raised:
        source.latest_offset(start)
    assert raised.value.code == "DATA477"
    after_first = {**start, "file": None}
    assert drained(source, after_first)[0] == [(2, "b"), (3, "c")], "what was read may be gone"
    opened(lake).manage_snapshots().set_current_snapshot(second).commit()
    with pytest.raises(DataError, match=f"no way from snapshot {third}"):
        source.latest_offset({**after_first, "snapshot": third, "sequence": 3})
    catalog(lake).drop_table("default.t")
    append(lake, (9, "z"))
    with pytest.raises(DataError, match="another one"):
        source.latest_offset(after_first)
    shutil.rmtree(lake / "default" / "t" / "data")
    with pytest.raises(DataError, match="a file of"):
        drained(source_of(lake))


def test_columns_are_found_by_their_ids(tmp_path: Path) -> None:
    append(tmp_path, (1, "a"))
    before = source_of(tmp_path, "v STRING, k BIGINT", streaming="true")
    start = before.initial_offset()
    with opened(tmp_path).update_schema() as update:
        update.rename_column("v", "w")
    with opened(tmp_path).update_schema() as update:
        update.add_column("v", LongType())
    append(tmp_path, (2, "b", 7), columns="k w v")
    columns = "w STRING, v BIGINT, k BIGINT"
    assert sorted(drained(source_of(tmp_path, columns))[0], key=repr) == [("a", None, 1), ("b", 7, 2)]
    first = ids(tmp_path)[0]
    assert drained(source_of(tmp_path, "v STRING", snapshot_id=str(first)))[0] == [("a",)], "names of the snapshot"
    with opened(tmp_path).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("w").delete_column("v")
    assert len(drained(source_of(tmp_path, "k BIGINT"), start)[0]) == 2
    wrong = {"x STRING": "DATA478", "k STRING": "DATA478"}
    for columns, code in wrong.items():
        with pytest.raises(DataError) as raised:
            source_of(tmp_path, columns).initial_offset()
        assert raised.value.code == code


def test_metadata_and_no_columns_at_all(lake: Path) -> None:
    rows, _ = drained(source_of(lake, "k BIGINT", ["_snapshot_id", "_snapshot_timestamp"]))
    assert {row[1] for row in rows} == {ids(lake)[-1]} and len(rows) == 3
    stream = source_of(
        lake, "k BIGINT", ["_snapshot_id"], streaming="true", starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT"
    )
    assert drained(stream)[0] == list(zip([1, 2, 3], ids(lake), strict=True))
    split = replace(stream.plan(*ends(stream))[0], ids=())
    assert [part.rows() for part in read_split(stream.table, (), (), split)] == [[(0,)]]


def ends(source: IcebergSource) -> tuple[Offset, Offset]:
    start = source.initial_offset()
    return start, source.latest_offset(start)


def condition(name: str, column: int, kind: Any, value: object) -> Call:
    return Call(BOOLEAN, (InputRef(kind, column), Literal(kind, value)), f"${name}$1")


def test_files_are_pruned_by_statistics_and_partitions(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, partitioning="bucket(4, v)")
    write(sink, 0, *(frame((k, f"v{k}")) for k in range(8)))
    whole = source_of(tmp_path, streaming="true", starting_strategy="TABLE_SCAN_THEN_INCREMENTAL")
    start = whole.initial_offset()
    end = whole.latest_offset(start)

    def planned(*conditions: Call) -> list[int]:
        source = source_of(tmp_path, more={"filters": conditions})
        return sorted(k for split in source.plan(start, end) for f in source.read(split) for k, _ in f.rows())

    less = condition("<", 0, BIGINT, 3)
    assert planned() == list(range(8)) and planned(less) == [0, 1, 2]
    assert planned(less, condition(">=", 0, BIGINT, 2)) == [2]
    assert planned(Call(BOOLEAN, (less, condition("=", 0, BIGINT, 7)), "$OR$1")) == [0, 1, 2, 7]
    assert planned(Call(BOOLEAN, (InputRef(STRING, 1),), "$IS NULL$1")) == []
    assert planned(condition("=", 1, STRING, "v5")) == [5]
    unknown = Call(BOOLEAN, (less,), "$NOT$1")
    assert planned(unknown) == list(range(8))
    stream = source_of(tmp_path, streaming="true", more={"filters": (less,)})
    assert len(drained(stream)[0]) == 3


@given(
    st.lists(st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=3), min_size=1, max_size=3),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.integers(-4, 4),
    st.sampled_from("ksdw"),
    st.sampled_from(["", "k", "truncate(2, k)", "truncate(1, s)", "days(d), hours(w)", "bucket(2, s)"]),
)
@settings(max_examples=15)
def test_no_file_of_iceberg_with_a_matching_row_is_left_out(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[int | None]],
    operator: str,
    bound: int,
    name: str,
    layout: str,
) -> None:
    columns = "k INT, s STRING, d DATE, w TIMESTAMP(6)"
    folder = tmp_path_factory.mktemp("pruned")
    day, moment = date(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 999)

    def row(k: int | None) -> tuple[Any, ...]:
        if k is None:
            return (None,) * 4
        return (k, f"s{k + 9:02d}", day + timedelta(days=k), moment + timedelta(hours=k, microseconds=k))

    for epoch, keys in enumerate(files):
        more = {"partitioning": layout} if layout else {}
        write(sink_of(folder, columns, **more), epoch, frame(*map(row, keys), columns=columns))
    position = "ksdw".index(name)
    value = row(bound)[position]
    text = value if isinstance(value, (int, str)) else value.isoformat(*([" "] if name == "w" else []))
    kind = fields(columns)[position][1]
    constant = Literal(kind.not_null(), text)
    filters = (Call(BOOLEAN, (InputRef(kind, position), constant), f"${operator}$1", syntax="BINARY"),)
    compared = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}[operator]

    def matching(found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return sorted(r for r in found if r[position] is not None and compared(r[position], value))

    expected = matching(row(k) for keys in files for k in keys)
    strategy = {"streaming": "true", "starting_strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
    for given_ in ({}, strategy):
        found, _ = drained(source_of(folder, columns, more={"filters": filters}, **given_))
        assert matching(found) == expected


def test_position_deletes_are_applied_and_equality_deletes_refused(lake: Path) -> None:
    victim = next(t.file for t in opened(lake).scan(row_filter="k = 2").plan_files())
    add_deletes(lake, pa.table({"file_path": [victim.file_path], "pos": pa.array([0], pa.int64())}))
    assert sorted(drained(source_of(lake))[0]) == [(1, "a"), (3, "c")]
    write(sink_of(lake, keys=["k"], columns="k BIGINT NOT NULL, v STRING"), 0, frame((2, "new"), (3, "C")))
    assert contents(lake) == [(1, "a"), (2, "new"), (3, "C")]
    add_deletes(lake, pa.table({"k": pa.array([1], pa.int64())}), equality=[1])
    with pytest.raises(DataError) as raised:
        drained(source_of(lake))
    assert raised.value.code == "DATA476"


def test_a_query_over_iceberg_without_spark(lake: Path) -> None:
    env = TableEnvironment.create()
    env.execute_sql(
        "CREATE TABLE t (k BIGINT, v STRING, s BIGINT METADATA FROM '_snapshot_id') "
        f"WITH ('connector' = 'iceberg', 'warehouse' = '{lake}', 'catalog-table' = 't')"
    )
    query = "SELECT COUNT(*), MAX(v), MIN(s) = MAX(s) FROM t WHERE k > 1"
    assert [tuple(row) for row in env.execute_sql(query).collect()] == [(2, "c", True)]
