"""State tables in SQL, of all operators with state: equal to what ``state read`` shows and to a slow reference; without
Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stateplan.execnodes.nodes.base import StatefulNode
from stateplan.execnodes.registry import node_classes
from stateplan.plans.state import StateOf
from stateplan.plans.state.state_catalog import LOST_ROWS
from stateplan.runtime.inspect.inspection import TableState
from stateplan.runtime.inspect.state_figures import cut_of
from stateplan.runtime.inspect.state_rows import table_rows
from stateplan.runtime.inspect.state_scan import Slots, StateScan
from stateplan.runtime.kernel import ACCESS_TIME
from stateplan.runtime.spark.state_store import StorePartition
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.state.runs import TOMBSTONE
from tests.plans.shown_state import GROUPS, Query, Shown
from tests.runtime.ttl.ttl_plays import KINDS, ROW, TWO, compiled
from tests.support.long_runs import LONG, share

TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
SESSION = "TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND))"
WINDOWED = "k INT, v INT, window_end TIMESTAMP(3)"
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "5",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}


QUERIES = {
    **{name: Query(kind.query, kind.sink, kind.options) for name, kind in KINDS.items()},
    "distinct aggregates": Query(
        "SELECT k, CAST(COUNT(DISTINCT v) AS INT), CAST(AVG(d) AS INT), MAX(ts) FROM a GROUP BY k",
        "k INT, v INT, w INT, ts TIMESTAMP(3)", {},
    ),
    "global aggregate": Query("SELECT CAST(COUNT(*) AS INT), MAX(v) FROM a", "k INT, v INT", {}),
    "keys of texts": Query(
        "SELECT t, COUNT(*) FROM (SELECT CAST(k AS STRING) AS t, v FROM a) GROUP BY t", "t STRING, n BIGINT", {}
    ),
    "over": Query("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY pt), ts FROM a", ROW, {}),
    "over by event time": Query("SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts), ts FROM a", ROW, {}, True),
    "over rows": Query(
        "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY pt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), ts FROM a", ROW
    ),
    "interval join": Query(
        "SELECT a.k, v, w, a.ts, b.ts FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '9' SECOND",
        TWO, {}, True,
    ),
    "temporal join": Query(
        "SELECT a.k, v, w, a.ts, vs.ts FROM a JOIN vs FOR SYSTEM_TIME AS OF a.ts ON a.k = vs.k", TWO, {}, True
    ),
    "window aggregate": Query(
        f"SELECT k, SUM(v), window_end FROM {TUMBLE.format('a')} GROUP BY k, window_start, window_end",
        WINDOWED, {}, True,
    ),
    "window aggregate of one phase": Query(
        f"SELECT k, SUM(v), window_end FROM {TUMBLE.format('a')} GROUP BY k, window_start, window_end",
        WINDOWED, ONE_PHASE, True,
    ),
    "session windows": Query(
        f"SELECT k, SUM(v), window_end FROM {SESSION} GROUP BY k, window_start, window_end", WINDOWED, {}, True
    ),
    "rows of session windows": Query(f"SELECT k, v, window_end FROM {SESSION}", WINDOWED, {}, True),
    "group windows": Query(
        "SELECT k, SUM(v), TUMBLE_END(ts, INTERVAL '5' SECOND) FROM a GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)",
        WINDOWED, {}, True,
    ),
    "window join": Query(
        f"SELECT x.k, v, x.window_end FROM {TUMBLE.format('a')} x JOIN {TUMBLE.format('b')} y ON x.k = y.k "
        "AND x.window_start = y.window_start AND x.window_end = y.window_end", WINDOWED, {}, True,
    ),
    "window rank": Query(
        "SELECT k, v, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        f"ORDER BY v DESC) AS n FROM {TUMBLE.format('a')}) WHERE n <= 2", WINDOWED, {}, True,
    ),
    "window deduplicate": Query(
        "SELECT k, v, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        f"ORDER BY ts DESC) AS n FROM {TUMBLE.format('a')}) WHERE n = 1", WINDOWED, {}, True,
    ),
    "match": Query(
        "SELECT k, v, t FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES x.v AS v, y.ts AS t "
        "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (x z* y) DEFINE x AS x.v < 5, y AS y.v > 100)",
        WINDOWED, {}, True,
    ),
    "incremental aggregate": Query(
        "SELECT k, CAST(COUNT(DISTINCT v) AS INT), MAX(ts) FROM a GROUP BY k", ROW, MINI_BATCH
    ),
    "sort of rows": Query(
        "SELECT k, v, ts FROM a ORDER BY v", ROW, {"__table.exec.sort.non-temporal.enabled__": "true"}
    ),
    "temporal sort": Query("SELECT k, v, ts FROM a ORDER BY ts", ROW, {}, True),
}  # fmt: skip


def slow_rows(states: Iterator[KeyedState], table: TableState, state: StateOf, now: int) -> list[tuple[Any, ...]]:
    """The rows of a state table, row by row."""
    out = []
    for keyed in states:
        newest: dict[str, dict[str, Any]] = {}
        for _, run in keyed.runs(table.table):
            for row in run.iter_rows(named=True):
                newest[repr([row[name] for name in table.table.identity])] = row
        for row in newest.values():
            cut = cut_of(state.config, now, keyed.time.watermark)
            if not row[TOMBSTONE] and (cut is None or row[ACCESS_TIME] > cut):
                out.append(tuple(row[name] for name in table.labels))
    return sorted(out, key=repr)


def texts(frame: pl.DataFrame, names: list[str]) -> list[str]:
    """The values of some columns of each row, as sorted texts."""
    return sorted(map(repr, frame.select(names).iter_rows()))


@pytest.mark.parametrize("name", share(QUERIES, 2))
def test_a_state_table_has_the_rows_of_the_state(name: str, tmp_path: Path) -> None:
    shown = Shown(tmp_path, QUERIES[name], batches=9 if LONG else 6)
    reader = shown.open()
    tables = [row[0] for row in shown.environment.execute_sql("SHOW TABLES FROM s.job").collect()]
    assert sorted(tables) == sorted((LOST_ROWS, *(label for label, _, _ in shown.tables(reader))))
    heights = []
    for label, state, table in shown.tables(reader):
        rows = shown.sql(f"SELECT * FROM s.job.`{label}`")
        slow = slow_rows(shown.states(table, state), table, state, reader.snapshot.now)
        assert texts(rows, list(table.labels.values())) == sorted(map(repr, slow))
        request = reader.request(state, table.name)
        frames = [
            table_rows(
                request,
                [frame for _, frame in keyed.runs(table.table)],
                cut_of(state.config, reader.snapshot.now, keyed.time.watermark),
            )
            for keyed in shown.states(table, state)
        ]
        if rows.height:
            assert texts(rows, ["access_time", "expires_at"]) == texts(pl.concat(frames), list(request.extra[:2]))
        assert shown.sql(f"SELECT COUNT(*) AS n FROM s.job.`{label}`")["n"].sum() == rows.height
        groups = shown.sql(f"SELECT key_group AS g FROM s.job.`{label}`")
        assert sorted(groups["g"]) == sorted(rows["key_group"]), "a column that is the same in all rows, alone"
        heights.append(rows.height)
        check_keys(shown, label, table, rows)
    assert sum(heights) > 0


def check_keys(shown: Shown, label: str, table: TableState, rows: pl.DataFrame) -> None:
    """A condition on the first column of the key has the rows of a filter afterwards."""
    names = list(table.labels.values())
    key = next((table.labels[c] for c in table.table.lookup if c in table.labels), None)
    if key is None or not rows.height or rows[key].dtype not in (pl.Int32, pl.String):
        return
    for value in rows[key].unique().to_list()[: 3 if LONG else 1]:
        text = f"'{value}'" if isinstance(value, str) else str(value)
        some = shown.sql(f"SELECT * FROM s.job.`{label}` WHERE `{key}` = {text}")
        assert texts(some, names) == texts(rows.filter(pl.col(key) == value), names)
    assert shown.sql(f"SELECT * FROM s.job.`{label}` WHERE `{key}` IS NULL").height == 0


WITHOUT_SQL = {
    "group-table-aggregate": "needs a function of Python",
    "lookup-join": "needs a table of another system",
    "process-table-function": "needs a function of Python",
    "python-group-aggregate": "is the same operator",
    "python-over-aggregate": "is the same operator",
}
"""Operators with state that no query here has, with the reason."""


def test_every_operator_with_state_is_shown(tmp_path: Path) -> None:
    covered = set()
    for query in QUERIES.values():
        plan = compiled(query.query, query.sink, tuple(query.options.items()), str(tmp_path))
        covered |= {node.title for node in plan.graph.nodes}
    stateful = {cls for cls in node_classes().values() if issubclass(cls, StatefulNode) or cls.KEEPS_STATE}
    titles = {cls.NAME.removeprefix("stream-exec-") for cls in stateful}
    assert not titles - covered - set(WITHOUT_SQL)


# ---- which key groups are read ---------------------------------------------------------------------------------


def reads(shown: Shown, monkeypatch: pytest.MonkeyPatch, query: str) -> tuple[int, int]:
    """How many rows a query returns, and how many slots it reads."""
    slots: list[int] = []
    original = StorePartition.runs

    def counted(partition: StorePartition, slot: int, ids: Any = None) -> dict[str, bytes]:
        slots.append(slot)
        return original(partition, slot, ids)

    with monkeypatch.context() as patch:
        patch.setattr(StorePartition, "runs", counted)
        height = shown.sql(query).height
    return height, len(slots)


@pytest.mark.parametrize(
    ("condition", "groups"),
    [
        ("TRUE", GROUPS),
        ("k = 3", 1),
        ("3 = k", 1),
        ("k = 3 AND v = 1", 1),
        ("k IN (3, 3)", 1),
        ("k = 3 OR k IS NULL", 2),
        ("k = CAST(3 AS BIGINT)", 1),
        ("k = 3 AND k = 4", 0),
        ("key_group = 1", 1),
        ("key_group IN (1, 3) AND v = 1", 2),
        ("k > 3", GROUPS),
        ("k = 3 OR v = 1", GROUPS),
        ("v = 3", GROUPS),
        ("k + 1 = 3", GROUPS),
    ],
)
def test_conditions_on_the_key_leave_slots_out(
    condition: str, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(tmp_path, QUERIES["join"], batches=9)
    shown.open()
    everything = shown.sql("SELECT * FROM s.job.`join.left`")
    assert everything["key_group"].n_unique() == GROUPS
    _, slots = reads(shown, monkeypatch, f"SELECT * FROM s.job.`join.left` WHERE {condition}")
    assert slots <= groups
    assert slots == groups or "NULL" in condition


TYPED_KEYS = {
    "DECIMAL(10, 2)": ("CAST(k AS DECIMAL(10, 2))", "{}"),
    "STRING": ("CAST(k AS STRING)", "'{}'"),
    "BIGINT": ("CAST(k AS BIGINT)", "{}"),
    "DATE": ("DATE '2024-01-01' + k * INTERVAL '1' DAY", "DATE '{}'"),
    "TIMESTAMP(3)": ("TIMESTAMP '2024-01-01 00:00:00.000' + k * INTERVAL '1' SECOND", "TIMESTAMP '{}'"),
    "DOUBLE": ("CAST(k AS DOUBLE)", "{}"),
    "BOOLEAN": ("k > 9", "{}"),
}
"""Types of keys: an expression that makes one of an INT, and how a value is written in SQL."""


@pytest.mark.parametrize("key_type", TYPED_KEYS)
def test_keys_of_each_type_find_their_rows(key_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expression, literal = TYPED_KEYS[key_type]
    query = Query(f"SELECT t, COUNT(*) FROM (SELECT {expression} AS t FROM a) GROUP BY t", f"t {key_type}, n BIGINT")
    shown = Shown(tmp_path, query, batches=9)
    shown.open()
    everything = shown.sql("SELECT * FROM s.job.`group-aggregate`")
    for value in everything["t"].to_list()[:4]:
        condition = f"t = {literal.format(value)}"
        rows, slots = reads(shown, monkeypatch, f"SELECT * FROM s.job.`group-aggregate` WHERE {condition}")
        assert rows == 1, condition
        assert slots <= (GROUPS if key_type in ("DOUBLE", "BOOLEAN") else 1), condition
    if key_type in ("DECIMAL(10, 2)", "BIGINT"):
        other = "SELECT * FROM s.job.`group-aggregate` WHERE t = 3.005"
        assert shown.sql(other).height == 0
        whole = shown.sql("SELECT * FROM s.job.`group-aggregate` WHERE t = 3.000")
        assert whole.height == everything.filter(pl.col("t") == 3).height


def test_a_limit_reads_no_more_than_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(tmp_path, QUERIES["join"], batches=9)
    shown.open()
    rows, slots = reads(shown, monkeypatch, "SELECT * FROM s.job.`join.left` LIMIT 1")
    assert (rows, slots) == (1, 1)


def test_what_a_query_reads_decides_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = StateScan.plan

    def counted(scan: StateScan, *arguments: Any) -> list[Slots]:
        slots = original(scan, *arguments)
        sizes.append(sum(some.bytes for some in slots))
        return slots

    monkeypatch.setattr(StateScan, "plan", counted)
    shown = Shown(tmp_path, QUERIES["join"], batches=9)
    shown.open()

    def size(query: str) -> int:
        sizes.clear()
        shown.sql(f"{query} s.job.`join.left`{' WHERE k = 3' if 'key' in query else ''}".replace(" key", ""))
        return sizes[0]

    everything, one_column, one_key = (
        size("SELECT * FROM"),
        size("SELECT COUNT(*) AS n FROM"),
        size("SELECT key * FROM"),
    )
    height = shown.sql("SELECT k FROM s.job.`join.left`").height
    assert one_column == 4 * height
    assert one_key < everything / 2
    assert everything > 6 * one_column
