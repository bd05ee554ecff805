"""The connector ``delta``: sources, sinks and options, over tables on disk."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from operator import eq, ge, gt, le, lt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.common.errors import DataError, OptionError, RunError, StateplanError
from stateplan.common.options import Role, parse_instant
from stateplan.common.types import BOOLEAN, parse_type
from stateplan.connectors.delta.schema import delta_type, sql_type
from stateplan.connectors.delta.source import DeltaSource
from stateplan.connectors.pace import Pace
from stateplan.connectors.registry import find_connector, metadata_columns, validate_table
from stateplan.functions.rex import Call, InputRef, Literal
from stateplan.runtime.spark import split_source
from stateplan.session.environment import TableEnvironment
from tests.connectors.connector_tables import fields, source_table
from tests.support.delta import append, drained, frame, log, options, rows_of, sink_of, source_of, write


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with three versions of a row each."""
    path = tmp_path / "t"
    for k, v in ((1, "a"), (2, "b"), (3, "c")):
        append(path, (k, v))
    return path


# ---- options and columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({"versionAsOf": "1", "timestampAsOf": "2024-01-01"}, "OPT106"),
        ({"versionAsOf": "1", "mode": "streaming"}, "OPT170"),
        ({"timestampAsOf": "2024-01-01", "mode": "streaming"}, "OPT170"),
        ({"startingVersion": "1"}, "OPT170"),
        ({"startingTimestamp": "2024-01-01"}, "OPT170"),
        ({"startingVersion": "1", "startingTimestamp": "2024-01-01", "mode": "streaming"}, "OPT106"),
        ({"versionAsOf": "1", "startingVersion": "1", "readChangeFeed": "true"}, "OPT106"),
        ({"ignoreDeletes": "true", "readChangeFeed": "true"}, "OPT106"),
        ({"startingVersion": "-1", "mode": "streaming"}, "OPT171"),
        ({"startingVersion": "newest", "mode": "streaming"}, "OPT171"),
        ({"timestampAsOf": "yesterday"}, "OPT171"),
        ({"timestampAsOf": "2024-13-01"}, "OPT171"),
        ({"versionAsOf": "-1"}, "OPT105"),
        ({"versionAsof": "1"}, "OPT104"),
        ({"mode": "continuous"}, "OPT105"),
    ],
)
def test_options_that_do_not_go_together(given_: dict[str, str], code: str) -> None:
    with pytest.raises(OptionError) as raised:
        validate_table(options("/t", **given_), Role.SOURCE, schema=fields("k BIGINT"))
    assert raised.value.code == code


def test_options_without_effect_say_so() -> None:
    given_ = {"updateCheckDelayMillis": "1", "parquetBatchSize": "10"}
    notes = validate_table(options("/t", **given_), Role.SOURCE, schema=fields("k BIGINT"))
    assert len(notes) == 2
    assert all("has no effect" in note for note in notes)
    assert validate_table(options("/t", mode="STREAMING", startingVersion="LATEST"), Role.SOURCE) == ()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("t TIME(0)", "TIME(0)"),
        ("t TIMESTAMP(9)", "microseconds"),
        ("t TIMESTAMP_LTZ(7)", "microseconds"),
        ("i INTERVAL DAY TO SECOND", "INTERVAL"),
        ("m MULTISET<INT>", "MULTISET"),
        ("a ARRAY<ROW<t TIME(0)>>", "no such type"),
        ("`a b` INT", "'a b'"),
        ("r ROW<`x;y` INT>", "'x;y'"),
        ("ab INT, aB INT", "upper case"),
    ],
)
def test_columns_that_delta_does_not_have(columns: str, words: str) -> None:
    for role in (Role.SOURCE, Role.SINK):
        with pytest.raises(StateplanError) as raised:
            validate_table(options("/t"), role, schema=fields(columns))
        assert raised.value.code == "CAT102"
        assert words in raised.value.message


def test_types_go_both_ways() -> None:
    texts = [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "STRING",
        "BYTES",
        "DATE",
        "TIMESTAMP(6)",
        "TIMESTAMP_LTZ(6)",
    ]
    more = ["DECIMAL(38, 18)", "ARRAY<INT NOT NULL>", "MAP<STRING NOT NULL, ROW<a INT, b ARRAY<DATE>>>"]
    for text in (*texts, *more):
        declared = parse_type(text)
        assert sql_type(delta_type(declared)) == declared, text
    assert sql_type("variant") is None
    assert sql_type({"type": "struct", "fields": [{"name": "x", "type": "void"}]}) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01 00:01", 60_000),
    ],
)
def test_times_in_options(text: str, found: int) -> None:
    assert parse_instant(text) == found


# ---- reading ---------------------------------------------------------------------------------------------------


def test_a_bounded_source_reads_a_version_as_it_is(table: Path) -> None:
    source = source_of(table)
    start = source.initial_offset()
    append(table, (4, "late"))
    rows, end = drained(source, start)
    assert sorted(rows) == [(1, "a"), (2, "b"), (3, "c")]
    assert (start["version"], start["snapshot"], end["version"]) == (2, True, 3)
    assert source.bounded
    again, _ = drained(source_of(table), end)  # a job that goes on from its checkpoint
    assert again == [(4, "late")]
    assert sorted(drained(source_of(table, versionAsOf="1"))[0]) == [(1, "a"), (2, "b")]
    assert drained(source_of(table, versionAsOf="1"), drained(source_of(table, versionAsOf="1"))[1])[0] == []


def test_the_version_of_a_time(table: Path) -> None:
    for version, second in enumerate((100, 200, 300)):
        os.utime(table / "_delta_log" / f"{version:020d}.json", (second, second))
    at = "1970-01-01 00:0{}"
    for text, keys in (("3:20", [1, 2]), ("3:20.001", [1, 2]), ("4:59.999", [1, 2]), ("1:40", [1])):
        rows, _ = drained(source_of(table, timestampAsOf=at.format(text)))
        assert sorted(k for k, _ in rows) == keys
    for text, keys in (("3:20", [2, 3]), ("3:20.001", [3]), ("0:00", [1, 2, 3])):
        rows, _ = drained(source_of(table, mode="streaming", startingTimestamp=at.format(text)))
        assert sorted(k for k, _ in rows) == keys
    for given_ in ({"timestampAsOf": at.format("1:39")}, {"timestampAsOf": at.format("5:00.001")}):
        with pytest.raises(OptionError, match=r"as (old|new) as"):
            source_of(table, **given_).initial_offset()
    with pytest.raises(OptionError) as raised:
        source_of(table, mode="streaming", startingTimestamp="2999-01-01").initial_offset()
    assert raised.value.code == "OPT172"


def test_a_version_that_there_is_not(table: Path) -> None:
    for given_ in ({"versionAsOf": "3"}, {"mode": "streaming", "startingVersion": "3"}):
        with pytest.raises(OptionError) as raised:
            source_of(table, **given_).initial_offset()
        assert raised.value.code == "OPT172"
        assert "at most 2" in str(raised.value)


def test_a_stream_reads_what_is_there_and_then_what_comes(table: Path) -> None:
    source = source_of(table, mode="streaming", updateCheckIntervalMillis="70")
    assert (source.bounded, source.interval) == (False, 70)
    rows, end = drained(source)
    assert sorted(k for k, _ in rows) == [1, 2, 3]
    assert drained(source, end) == ([], end)
    append(table, (4, "d"))
    append(table, (5, "e"))
    more, end = drained(source, end)
    assert more == [(4, "d"), (5, "e")]
    DeltaTable(str(table)).optimize.compact()  # moves rows, and adds none
    assert drained(source, end)[0] == []


def test_a_stream_begins_with_the_changes_of_a_version(table: Path) -> None:
    for given_, keys in (("0", [1, 2, 3]), ("2", [3]), ("latest", [3])):
        rows, _ = drained(source_of(table, mode="streaming", startingVersion=given_))
        assert [k for k, _ in rows] == keys


def test_micro_batches_are_limited_and_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for k in range(7):
        append(path, (k, "x" * 50))
    source = source_of(path, mode="streaming", maxFilesPerTrigger="3")
    start = source.initial_offset()
    edges = [start]
    while (end := source.latest_offset(edges[-1])) != edges[-1]:
        edges.append(end)
    assert [(e["version"], e["file"], e["snapshot"]) for e in edges] == [
        (6, 0, True),
        (6, 3, True),
        (6, 6, True),
        (7, 0, False),
    ]
    sizes = [len(rows_of(source, a, b)) for a, b in pairwise(edges)]
    assert sizes == [3, 3, 1]
    many = source_of(path, mode="streaming", startingVersion="1", maxBytesPerTrigger="1 b")
    first = many.latest_offset(many.initial_offset())
    assert (first["version"], first["file"]) == (2, 0)  # one file at least


def test_a_micro_batch_follows_the_pace_of_the_job(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(sink_of(path), 0, *(frame(*((10 * part + i, "v") for i in range(10))) for part in range(6)))
    source = source_of(path, mode="streaming")
    source.pace = Pace(tmp_path / "rows")
    position, counts = source.initial_offset(), []
    for rows_allowed in (1, 15, 30):
        source.pace.decide(rows_allowed)
        end = source.latest_offset(position)
        counts.append(len(rows_of(source, position, end)))
        position = end
    assert counts == [10, 20, 30], "whole files"


def test_a_version_of_several_files_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "t"
    columns = "k BIGINT, v STRING"
    write(sink_of(path), 0, *(frame((k, "v")) for k in range(5)))
    source = source_of(path, columns, mode="streaming", startingVersion="1", maxFilesPerTrigger="2")
    position, parts = source.initial_offset(), []
    while (end := source.latest_offset(position)) != position:
        parts.append([k for k, _ in rows_of(source, position, end)])
        position = end
    assert [len(part) for part in parts] == [2, 2, 1]
    assert sorted(k for part in parts for k in part) == [0, 1, 2, 3, 4]


def test_a_limit_cuts_each_file(tmp_path: Path) -> None:
    append(tmp_path / "t", *((k, "v") for k in range(10)))
    source = source_of(tmp_path / "t", more={"limit": 4})
    assert len(drained(source)[0]) == 4


def test_only_the_columns_that_are_asked_for(table: Path) -> None:
    declared = fields("k BIGINT, v STRING")
    made = source_table(options(table), declared, [1], ["_commit_version", "_commit_timestamp"])
    source = find_connector(made.options).source(made)
    assert isinstance(source, DeltaSource)
    rows, _ = drained(source)
    stamp = datetime.fromtimestamp(log(table, 2)[0]["commitInfo"]["timestamp"] / 1000, UTC)
    assert sorted(rows) == [(v, 2, stamp) for v in "abc"]
    changes = source_of(table, "v STRING", ["_commit_version"], mode="streaming", startingVersion="0")
    assert drained(changes)[0] == [("a", 0), ("b", 1), ("c", 2)]
    assert {k: str(t) for k, t in metadata_columns(options(table)).items()} == {
        "_commit_version": "BIGINT NOT NULL",
        "_commit_timestamp": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    }
    none = find_connector(options(table)).source(source_table(options(table), declared, []))
    assert isinstance(none, DeltaSource)
    assert len(drained(none)[0]) == 3


def test_deletions_and_changes_are_refused_or_passed_over(table: Path) -> None:
    def stream(**given_: str) -> list[int]:
        return [k for k, _ in drained(source_of(table, mode="streaming", startingVersion="0", **given_))[0]]

    DeltaTable(str(table)).delete("k = 2")  # version 3, a file as a whole
    append(table, (4, "d"))
    source = source_of(table, mode="streaming", startingVersion="0")
    start = source.initial_offset()
    end = source.latest_offset(start)
    assert end["version"] == 3, "what is before the deletion is read"
    with pytest.raises(DataError) as raised:
        source.latest_offset(end)
    assert raised.value.code == "DATA456"
    assert "version 3" in raised.value.message
    assert stream(ignoreDeletes="true") == [1, 2, 3, 4]
    DeltaTable(str(table)).update({"v": "'z'"}, predicate="k = 4")  # version 5
    append(table, (5, "e"))
    with pytest.raises(DataError, match="version 5 of the Delta table t changes existing rows"):
        stream(ignoreDeletes="true")
    assert stream(ignoreChanges="true") == [1, 2, 3, 4, 4, 5]
    assert stream(skipChangeCommits="true") == [1, 2, 3, 4, 5]


def test_columns_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, (1, "a"))
    source = source_of(path, mode="streaming", startingVersion="0")
    _, end = drained(source)
    DeltaTable(str(path)).alter.add_columns([Field("w", PrimitiveType("integer"))])
    data = pa.table({"k": [2], "v": ["b"], "w": pa.array([7], pa.int32())})
    write_deltalake(str(path), data, mode="append")
    assert drained(source, end)[0] == [(2, "b")]
    wide = source_of(path, "k BIGINT, v STRING, w INT")
    assert sorted(drained(wide)[0], key=repr) == [(1, "a", None), (2, "b", 7)]
    _, end = drained(source, end)
    write_deltalake(str(path), pa.table({"k": ["text"], "v": ["c"]}), mode="overwrite", schema_mode="overwrite")
    later = source_of(path, mode="streaming", startingVersion="0", ignoreChanges="true")
    later._has_read = True
    with pytest.raises(DataError) as raised:
        later.latest_offset(end)
    assert raised.value.code == "DATA455"
    assert "in version 3" in raised.value.message
    assert "string" in raised.value.message
    with pytest.raises(DataError, match="has no column 'w'"):
        source_of(path, "w INT").check("t")


def test_a_column_that_is_younger_than_the_versions_to_be_read(table: Path) -> None:
    """A job that is declared anew with it goes on in the versions before."""
    _, end = drained(source_of(table, mode="streaming"))
    append(table, (4, "d"))
    data = pa.table({"k": [5], "v": ["e"], "w": pa.array([7], pa.int32())})
    write_deltalake(str(table), data, mode="append", schema_mode="merge")
    wide = {"columns": "k BIGINT, v STRING, w INT", "mode": "streaming"}
    source = source_of(table, **wide)
    rows, end = drained(source, end)
    assert rows == [(4, "d", None), (5, "e", 7)]
    everything = [(1, "a", None), (2, "b", None), (3, "c", None), *rows]
    assert drained(source_of(table, **wide, startingVersion="0"))[0] == everything
    write_deltalake(str(table), pa.table({"k": [6], "v": ["f"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(DataError, match="has no column 'w' in version 5"):
        drained(source, end)


@pytest.mark.parametrize(
    ("columns", "code", "hint"),
    [
        ("kk BIGINT", "DATA455", "did you mean 'k'?"),
        ("k INT", "DATA455", "declare it as BIGINT"),
        ("k DECIMAL(10, 0)", "DATA455", "declare it as BIGINT"),
        ("v BYTES", "DATA455", "declare it as STRING"),
    ],
)
def test_a_declaration_that_does_not_fit(table: Path, columns: str, code: str, hint: str) -> None:
    for call in (source_of(table, columns).initial_offset, lambda: source_of(table, columns).check("t")):
        with pytest.raises(DataError) as raised:
            call()
        assert (raised.value.code, raised.value.hint) == (code, hint)


# ---- what goes wrong -------------------------------------------------------------------------------------------


def test_there_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "file"):
        with pytest.raises(DataError) as raised:
            source_of(path).check("t")
        assert raised.value.code == "DATA450"
    with pytest.raises(DataError) as raised:
        source_of("nowhere://bucket/t").check("t")
    assert raised.value.code == "DATA450"
    with pytest.raises(OptionError) as refused:
        source_of(tmp_path / "a%20b").check("t")
    assert refused.value.code == "OPT173"


@pytest.mark.parametrize("name", ["with space", "ha#sh", "qu?estion", "ünï"])
def test_folders_of_any_name(tmp_path: Path, name: str) -> None:
    write(sink_of(tmp_path / name), 0, frame((1, "a")))
    assert drained(source_of(tmp_path / name))[0] == [(1, "a")]
    assert os.listdir(tmp_path) == [name]


def test_a_file_that_vacuum_has_removed(table: Path) -> None:
    source = source_of(table)
    start = source.initial_offset()
    DeltaTable(str(table)).optimize.compact()
    DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    (split, *_) = source.plan(start, source.latest_offset(start))
    with pytest.raises(DataError) as raised:
        list(source.read(split))
    assert raised.value.code == "DATA453"
    assert "VACUUM" in str(raised.value)


def test_versions_that_are_gone_from_the_log(table: Path) -> None:
    source = source_of(table, mode="streaming")
    _, end = drained(source)
    for k in range(4, 7):
        append(table, (k, "x"))
    DeltaTable(str(table)).create_checkpoint()
    for version in range(5):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(DataError) as raised:
        source_of(table, mode="streaming").latest_offset(end)
    assert raised.value.code == "DATA454"
    assert "versions 3 to 4 are gone" in raised.value.message
    for given_ in ({"startingVersion": "1", "mode": "streaming"}, {"versionAsOf": "1"}):
        with pytest.raises(DataError) as raised:
            source_of(table, **given_).initial_offset()
        assert raised.value.code == "DATA454", given_


def test_a_table_that_was_made_anew(table: Path) -> None:
    _, end = drained(source_of(table, mode="streaming"))
    shutil.rmtree(table)
    for k in range(9):
        append(table, (k, "x"))
    with pytest.raises(DataError, match="another one"):
        source_of(table, mode="streaming").latest_offset(end)


@pytest.mark.parametrize("versions", [1, 3, 9])
def test_a_table_that_is_made_anew_while_it_is_read(table: Path, versions: int) -> None:
    source = source_of(table, mode="streaming")
    _, end = drained(source)
    assert source.latest_offset(end) == end
    shutil.rmtree(table)
    for k in range(versions):
        append(table, (k, "another table"))
    with pytest.raises(DataError, match="another one") as raised:
        drained(source, end)
    assert raised.value.code == "DATA454"


def test_a_table_that_is_replaced_in_its_own_log(table: Path) -> None:
    """A job that was down meanwhile goes on as one that was not."""
    more = {"mode": "streaming", "skipChangeCommits": "true"}
    running = source_of(table, **more)
    _, end = drained(running)
    DeltaTable.create(str(table), DeltaTable(str(table)).schema(), mode="overwrite")
    append(table, (9, "x"))
    found = drained(running, end)
    assert found[0] == [(9, "x")]
    assert drained(source_of(table, **more), end) == found
    assert drained(source_of(table, **more), found[1])[0] == []


def test_a_default_that_is_written_out_is_no_other_position(table: Path) -> None:
    delta = find_connector(options(table))
    same = [options(table, **more) for more in ({}, {"readChangeFeed": "false"}, {"readChangeFeed": "FALSE"})]
    feed = options(table, readChangeFeed="true")
    for said in (delta.position, delta.identity):
        assert said(same[0]) == said(same[1]) == said(same[2]) != said(feed)


def test_a_damaged_log(table: Path) -> None:
    source = source_of(table, mode="streaming", startingVersion="0")
    start = source.initial_offset()
    file = table / "_delta_log" / f"{1:020d}.json"
    file.write_text(file.read_text().rstrip() + "\n{broken\n")
    end = source.latest_offset(start)
    assert end["version"] == 1
    with pytest.raises(DataError) as raised:
        source.latest_offset(end)
    assert raised.value.code == "DATA457"
    assert raised.value.place is not None
    assert raised.value.place.line == 3


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        ({"minReaderVersion": 9, "minWriterVersion": 9}, "DATA451"),
        ({"minReaderVersion": 3, "minWriterVersion": 7}, "DATA457"),
    ],
)
def test_a_protocol_that_is_unknown_or_damaged(table: Path, protocol: dict[str, int], code: str) -> None:
    file = table / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("\n".join(json.dumps({"protocol": protocol} if "protocol" in line else line) for line in lines))
    with pytest.raises(DataError) as raised:
        source_of(table).check("t")
    assert raised.value.code == code


def test_column_mapping_is_refused(table: Path) -> None:
    file = table / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for action in lines:
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DataError) as raised:
        source_of(table).check("t")
    assert raised.value.code == "DATA451"
    assert "columnMapping" in raised.value.message
    with pytest.raises(RunError) as unwritable:
        sink_of(table).prepare(0)
    assert unwritable.value.code == "RUN171"


# ---- files that are not read ---------------------------------------------------------------------------------


def comparison(name: str, operator: str, value: Any, columns: str) -> Call:
    """A condition on a column."""
    declared = fields(columns)
    index = [n for n, _ in declared].index(name)
    constant = Literal(declared[index][1].not_null(), value)
    return Call(
        BOOLEAN, (InputRef(declared[index][1], index), constant), internal_name=f"${operator}$1", syntax="BINARY"
    )


@given(
    st.lists(st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=3), min_size=1, max_size=4),
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.integers(-4, 4),
    st.sampled_from(["k", "s", "d", "w"]),
)
@settings(max_examples=25)
def test_no_file_with_a_matching_row_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int | None]], operator: str, bound: int, name: str
) -> None:
    columns = "k INT, s STRING, d DATE, w TIMESTAMP(6), p STRING"
    path = tmp_path_factory.mktemp("pruned") / "t"
    day, moment = date(2024, 1, 10), datetime(2024, 1, 10, 12, 0, 0, 999)

    def row(k: int | None) -> tuple[Any, ...]:
        if k is None:
            return (None, None, None, None, None)
        return (k, f"s{k + 9:02d}", day + timedelta(days=k), moment + timedelta(microseconds=k), f"s{k + 9:02d}")

    for epoch, keys in enumerate(files):
        write(sink_of(path, columns), epoch, frame(*map(row, keys), columns=columns))
    position = "ksdw".index(name)
    value = row(bound)[position]
    text = value if isinstance(value, (int, str)) else value.isoformat(*([" "] if name == "w" else []))
    condition = comparison(name, operator, text, columns)
    compared = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}[operator]
    matching = sorted(
        r for keys in files for r in map(row, keys) if r[position] is not None and compared(r[position], value)
    )
    for given_ in ({}, {"mode": "streaming", "startingVersion": "0"}):
        rows, _ = drained(source_of(path, columns, more={"filters": (condition,)}, **given_))
        assert sorted(r for r in rows if r[position] is not None and compared(r[position], value)) == matching


def test_files_are_left_out_by_statistics_and_partitions(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k INT, p STRING"
    for epoch in range(4):
        write(sink_of(path, columns, partitions=["p"]), epoch, frame((epoch, "ab"[epoch % 2]), columns=columns))
    for condition, keys in (
        (comparison("k", ">", 1, columns), [2, 3]),
        (comparison("p", "=", "a", columns), [0, 2]),
        (comparison("k", "=", 9, columns), []),
    ):
        for given_ in ({}, {"mode": "streaming", "startingVersion": "0"}):
            source = source_of(path, columns, more={"filters": (condition,)}, **given_)
            assert sorted(k for k, _ in drained(source)[0]) == keys


class Deadly:
    """Who unpickles it ends at once."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (1,)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_worker_that_dies_while_the_job_starts(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "checkpoint")})
    env.execute_sql(f"CREATE TABLE t (k BIGINT, v STRING) WITH ('connector' = 'delta', 'table-path' = '{table}')")
    env.execute_sql("CREATE TABLE snk (k BIGINT, v STRING) WITH ('connector' = 'blackhole')")
    monkeypatch.setattr(split_source, "SCHEMA", Deadly())
    with pytest.raises(RunError, match="a Python worker died") as caught:
        env.execute_sql("INSERT INTO snk SELECT * FROM t").wait()
    assert caught.value.code == "RUN001"
    monkeypatch.undo()
    env.execute_sql("INSERT INTO snk SELECT * FROM t").wait()
