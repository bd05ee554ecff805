"""The change data feed of Delta tables, and deletion vectors."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError, RunError
from stateplan.session.environment import TableEnvironment
from tests.connectors.delta_vectors import FEED, GONE, with_vector
from tests.support.delta import append, contents, drained, frame, log, sink_of, source_of, write

INS, UB, UA, DEL = (int(kind) for kind in RowKind)


def feed_of(path: object, columns: str = "k BIGINT, v STRING", mode: str = "streaming", **given: str) -> Any:
    return source_of(path, columns, mode=mode, readChangeFeed="true", **given)


def remaining(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows that changes, whose last column is their kind, leave; none takes back what is not there."""
    left: Counter[tuple[Any, ...]] = Counter()
    for *row, kind in changes:
        left[tuple(row)] += -1 if kind in (UB, DEL) else 1
        assert left[tuple(row)] >= 0, f"{RowKind(kind).short}{row}"
    return sorted(left.elements(), key=repr)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Versions 0 to 4: two insertions, an update, a deletion, a merge."""
    path = tmp_path / "t"
    append(path, (1, "a"), (2, "b"), (3, "c"), configuration=FEED)
    append(path, (4, "d"))
    DeltaTable(str(path)).update({"v": "'B'"}, predicate="k = 2")
    DeltaTable(str(path)).delete("k = 3")
    write(sink_of(path, "k BIGINT NOT NULL, v STRING".replace(" NOT NULL", ""), ["k"]), 0, MERGED)
    return path


MERGED = frame((1, "A"), (4, None), (9, "i"), kinds=[UA, DEL, INS])


def test_each_kind_of_change(table: Path) -> None:
    changes, _ = drained(feed_of(table, startingVersion="0"))
    assert sorted(changes[:3]) == [(1, "a", INS), (2, "b", INS), (3, "c", INS)]
    assert changes[3] == (4, "d", INS)
    assert sorted(changes[4:6], key=lambda c: c[2]) == [(2, "b", UB), (2, "B", UA)]
    assert changes[6] == (3, "c", DEL)
    assert sorted(changes[7:], key=repr) == [(1, "A", UA), (1, "a", UB), (4, "d", DEL), (9, "i", INS)]
    assert remaining(changes) == contents(table)


def test_a_feed_begins_with_what_is_there(table: Path) -> None:
    source = feed_of(table)
    changes, end = drained(source)
    assert sorted(changes) == [(1, "A", INS), (2, "B", INS), (9, "i", INS)]
    DeltaTable(str(table)).delete("k = 9")
    assert drained(source, end)[0] == [(9, "i", DEL)]
    bounded = feed_of(table, mode="batch", startingVersion="3")
    assert bounded.bounded
    assert [(k, kind) for k, _, kind in drained(bounded)[0]][:1] == [(3, DEL)]


def test_versions_and_times_of_changes(table: Path) -> None:
    columns = ["_commit_timestamp", "_commit_version"]
    source = source_of(table, "k BIGINT", columns, mode="streaming", readChangeFeed="true", startingVersion="2")
    changes, _ = drained(source)
    assert {version for _, _, version, _ in changes} == {2, 3, 4}
    for _, time, version, _ in changes:
        assert int(time.timestamp() * 1000) == log(table, version)[0]["commitInfo"]["timestamp"]


def test_a_version_of_the_feed_is_read_as_a_whole(table: Path) -> None:
    write_deltalake(str(table), pa.table({"k": [7], "v": ["x"]}), mode="overwrite")
    source = feed_of(table, startingVersion="4", maxFilesPerTrigger="1")
    position, versions = source.initial_offset(), []
    while (end := source.latest_offset(position)) != position:
        assert end["file"] == 0
        versions.append(end["version"])
        position = end
    assert versions == [5, 6]
    changes, _ = drained(feed_of(table, startingVersion="5"))
    assert [kind for _, _, kind in changes] == [DEL, DEL, DEL, INS], "what was replaced goes first"


@pytest.mark.parametrize("partitions", [None, ["v"]])
def test_old_rows_come_before_new_ones(tmp_path: Path, partitions: list[str] | None) -> None:
    """In whatever order a writer has them: ``deltalake`` has either. A sink that merges takes the last one of a key."""
    path, copy = tmp_path / "t", tmp_path / "copy"
    append(path, (1, "a"), (2, "a"), (3, "a"), partition_by=partitions, configuration=FEED)
    DeltaTable(str(path)).update({"v": "'b'"}, predicate="k > 1")
    for file in (path / "_change_data").rglob("*.parquet"):
        rows = pl.read_parquet(file, hive_partitioning=False)
        rows.sort("_change_type", "k").write_parquet(file)  # update_postimage, update_preimage
    commit = path / "_delta_log" / f"{1:020d}.json"
    actions = log(path, 1)
    actions.sort(key=lambda a: a.get("cdc", {}).get("partitionValues", {}).get("v", ""), reverse=True)
    commit.write_text("\n".join(map(json.dumps, actions)))
    changes, _ = drained(feed_of(path, startingVersion="0"))
    assert [kind for *_, kind in changes] == [INS] * 3 + [UB] * 2 + [UA] * 2
    write(sink_of(copy, keys=["k"]), 0, frame(*(row[:-1] for row in changes), kinds=[row[-1] for row in changes]))
    assert contents(copy) == contents(path) == [(1, "a"), (2, "b"), (3, "b")]


def test_versions_without_a_feed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, (1, "a"))
    append(path, (2, "b"))
    DeltaTable(str(path)).alter.set_table_properties(FEED)
    append(path, (3, "c"))
    for start in ("0", "1"):
        source = feed_of(path, startingVersion=start)
        with pytest.raises(DataError) as raised:
            drained(source)
        assert raised.value.code == "DATA458"
        assert f"version {start}" in raised.value.message
    assert drained(feed_of(path, startingVersion="2"))[0] == [(3, "c", INS)]
    assert sorted(drained(feed_of(path))[0]) == [(1, "a", INS), (2, "b", INS), (3, "c", INS)]


@pytest.mark.parametrize("seed", range(4))
def test_a_feed_leads_to_the_table(tmp_path: Path, seed: int) -> None:
    """Random commits of several kinds, in a partitioned table."""
    dice = random.Random(seed)
    path, columns = tmp_path / "t", "k BIGINT NOT NULL, p STRING NOT NULL, v BIGINT"
    sink = sink_of(path, columns, ["k"], ["p"], **FEED)
    source = feed_of(path, columns, startingVersion="0", maxFilesPerTrigger="2")
    sink.prepare(0)
    position, changes = source.initial_offset(), []
    for epoch in range(8):
        rows = [(dice.randrange(6), dice.choice("ab"), epoch) for _ in range(4)]
        write(sink, epoch, frame(*rows, columns=columns, kinds=[dice.choice([INS, UA, DEL]) for _ in rows]))
        match dice.randrange(4):
            case 0:
                DeltaTable(str(path)).delete(f"k = {dice.randrange(6)}")
            case 1:
                DeltaTable(str(path)).update({"v": "-v"}, predicate=f"k > {dice.randrange(6)}")
            case 2:
                DeltaTable(str(path)).optimize.compact()
        more, position = drained(source, position)
        changes += more
        assert remaining(changes) == contents(path)


def test_deletion_vectors(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_vector(path)
    rows, _ = drained(source_of(path))
    assert [k for k, _ in rows] == [k for k in range(40) if k not in GONE]
    assert len(drained(source_of(path, versionAsOf="0"))[0]) == 40
    source = source_of(path, mode="streaming", startingVersion="1", ignoreChanges="true")
    assert [k for k, _ in drained(source)[0]] == [k for k in range(40) if k not in GONE]
    with pytest.raises(DataError, match="version 1 of the Delta table t changes existing rows"):
        drained(source_of(path, mode="streaming", startingVersion="1"))
    append(path, (50, "y"))
    assert len(drained(source_of(path))[0]) == 35


def test_writing_to_a_table_with_deletion_vectors(tmp_path: Path) -> None:
    path, columns = tmp_path / "t", "k BIGINT, v STRING"
    with_vector(path)
    write(sink_of(path), 0, frame((100, "z")))
    write(
        sink_of(path, columns, ["k"], uid="merge"), 0, frame((3, "again"), (5, "new"), (7, "x"), kinds=[INS, UA, DEL])
    )
    rows = {k for k in range(40) if k not in GONE} | {3, 100}
    assert {k for k, _ in contents(path)} == {k for k, _ in drained(source_of(path))[0]} == rows
    with pytest.raises(RunError) as raised:
        sink_of(path, overwrite=True, uid="overwrite").prepare(0)
    assert raised.value.code == "RUN171"


def test_deletion_vectors_in_a_change_feed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_vector(path, feed=True)
    changes, _ = drained(feed_of(path, startingVersion="0"))
    assert {k for k, _, kind in changes if kind == DEL} == GONE
    assert remaining(changes) == contents(path)


@pytest.mark.spark
def test_queries_over_delta_tables(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def session(name: str, **settings: str) -> TableEnvironment:
        options = {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(tmp_path / name), **settings}
        made = TableEnvironment.create(options)
        made.execute_sql(
            "CREATE TABLE t (k BIGINT, v STRING, version BIGINT METADATA FROM '_commit_version') "
            f"WITH ('connector' = 'delta', 'table-path' = '{table}')"
        )
        made.execute_sql(
            "CREATE TABLE parts (k BIGINT, p STRING) PARTITIONED BY (p) "
            f"WITH ('connector' = 'delta', 'table-path' = '{tmp_path}/parts')"
        )
        made.execute_sql("CREATE TABLE shown (k BIGINT, n BIGINT) WITH ('connector' = 'print')")
        return made

    feed = "t /*+ OPTIONS('readChangeFeed' = 'true', 'startingVersion' = '0') */"
    session("sum").execute_sql(f"INSERT INTO shown SELECT MAX(k), COUNT(v) FROM {feed}").wait()
    assert capsys.readouterr().out.splitlines()[-1] == "+I[9, 3]"
    insert = "INSERT INTO parts SELECT k, CASE WHEN k > 1 THEN v END FROM t"
    session("parts").execute_sql(insert).wait()
    session("again").execute_sql("INSERT OVERWRITE parts PARTITION (p = 'B') SELECT k FROM t WHERE k = 9").wait()
    assert contents(tmp_path / "parts") == [(1, None), (9, "B"), (9, "i")]
    reading = session("read")
    query = "INSERT INTO shown SELECT k, 0 FROM parts WHERE p = 'B' AND k < 100"
    assert "partitions=[{p=B}]" in reading.explain_sql(query)
    reading.execute_sql(query).wait()
    assert capsys.readouterr().out.splitlines() == ["+I[9, 0]"]
