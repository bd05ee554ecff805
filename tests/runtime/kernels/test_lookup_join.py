"""Lookup joins: the transform against nested loops, and the kernel with a memory against Flink's operator."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND
from stateplan.common.types import BOOLEAN, INT, STRING, row_type
from stateplan.connectors.protocol import Lookup
from stateplan.execnodes.specs import DynamicTableSource, LookupKey
from stateplan.functions.rex import Call, InputRef, Literal
from stateplan.runtime.kernels.lookup_join import LookupJoinKernel
from stateplan.runtime.lookup import LookupTable, LookupTransform, lookup_table
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tests.runtime.kernels.support import CLOCK, changes_of, fewer, frame, split
from tests.runtime.memory_state import MemoryState, ttls

LEFT = row_type([("id", INT), ("k", INT), ("v", INT)])
TABLE = row_type([("k", INT), ("n", STRING), ("w", INT)])
KEYS = {0: LookupKey(type="FieldRef", index=1)}
VALUES = st.sampled_from([None, 0, 1, 2])
TABLES = st.lists(st.tuples(VALUES, st.sampled_from(["a", "b"]), VALUES), max_size=6)


def compare(op: str, a, b) -> Call:
    return Call(BOOLEAN, (a, b), f"${op}$1", "BINARY")


class Fixed(Lookup):
    """A table of given rows; as a function of the time of the micro-batch."""

    def __init__(self, *rows) -> None:
        self.versions = rows

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        return frame(TABLE, [(0, r) for r in self.versions[now % len(self.versions)]])


def transform(*tables, outer=False, before=None, rest=None, condition=None, keys=KEYS) -> LookupTransform:
    return LookupTransform(
        LookupTable("t", Fixed(*tables)), LEFT, TABLE, TABLE, keys, outer, None, condition, before, rest
    )


def found(row, table, outer, before, rest, condition):
    """The nested loop."""
    out = []
    if not before or (row[2] is not None and row[2] > 0):
        for other in table:
            if row[1] is None or other[0] != row[1] or (condition and not (other[2] is not None and other[2] > 0)):
                continue
            if not rest or (row[2] is not None and other[2] is not None and row[2] >= other[2]):
                out.append((*row, *other))
    return out or ([(*row, None, None, None)] if outer else [])


def test_rows_find_theirs_in_the_table() -> None:
    """``LEFT JOIN t FOR SYSTEM_TIME AS OF pt ON l.k = t.k``: the state has what each row found, for its retraction."""
    table = [(1, "a", 10), (1, "b", 20), (2, "c", 30)]
    state = MemoryState(LookupJoinKernel(LEFT, TABLE, (0,), transform(table, outer=True)))
    arriving = [(INSERT, (100, 1, 0)), (INSERT, (101, 9, 0))]
    assert changes_of(state.step([frame(LEFT, arriving, True)], now=0, ttl=[0])) == [
        (INSERT, (100, 1, 0, 1, "a", 10)),
        (INSERT, (100, 1, 0, 1, "b", 20)),
        (INSERT, (101, 9, 0, None, None, None)),
    ]
    assert sorted((row["c0"], row["c3"], row["c4"], row["c5"]) for row in state.tables[0].values()) == [
        (100, 1, "a", 10),
        (100, 1, "b", 20),
        (101, None, None, None),
    ]
    assert changes_of(state.step([frame(LEFT, [(DELETE, (101, 9, 0))], True)], now=1, ttl=[0])) == [
        (DELETE, (101, 9, 0, None, None, None)),
    ]


@fewer(0.5)
@given(
    st.lists(st.tuples(st.integers(0, 3), VALUES, VALUES), max_size=8),
    TABLES,
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_nested_loops(rows, table, flags) -> None:
    outer, before, rest, condition = flags
    zero = Literal(INT.not_null(), 0)
    step = transform(
        table,
        outer=outer,
        before=compare(">", InputRef(INT, 2), zero) if before else None,
        rest=compare(">=", InputRef(INT, 2), InputRef(INT, 5)) if rest else None,
        condition=compare(">", InputRef(INT, 2), zero) if condition else None,
    )
    out = step(frame(LEFT, [(0, r) for r in rows]), 0)
    assert KIND not in out.columns
    assert out.rows() == [f for r in rows for f in found(r, table, outer, before, rest, condition)]


def test_kinds_stay_and_constants_are_keys() -> None:
    keys = {**KEYS, 1: LookupKey(type="Constant", literal=Literal(STRING.not_null(), "b"))}
    table = [(1, "a", 1), (1, "b", 2)]
    out = transform(table, keys=keys)(frame(LEFT, [(DELETE, (1, 1, 1)), (INSERT, (2, 1, 1))]), 0)
    assert changes_of(out) == [(DELETE, (1, 1, 1, 1, "b", 2)), (INSERT, (2, 1, 1, 1, "b", 2))]


class KeyedLookupJoin:
    """Flink's operator: what an insertion found is kept by upsert key."""

    def __init__(self, outer):
        self.outer, self.cells = outer, {}

    def add(self, change, table, now, ttl):
        kind, row = change
        kept, at = self.cells.get(row[0], (None, 0))
        if ttl and at + ttl <= now:
            kept = None
        if kind in (INSERT, UPDATE_AFTER):
            rows = [f[3:] for f in found(row, table, self.outer, False, False, False)]
            self.cells[row[0]] = (rows, now)
            return [(kind, (*row, *r)) for r in rows]
        self.cells.pop(row[0], None)
        return [(kind, (*row, *r)) for r in kept or []]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from([INSERT, UPDATE_AFTER, UPDATE_BEFORE, DELETE]),
        st.tuples(st.sampled_from([None, 1, 2]), VALUES, st.integers(0, 2)),
    ),
    max_size=15,
)


@fewer(0.5)
@given(
    CHANGES, TABLES, TABLES, st.booleans(), st.sampled_from([0, 10]), CLOCK, st.lists(st.integers(0, 50), max_size=3)
)
def test_what_was_found_is_taken_back(changes, one, other, outer, ttl, clock, cuts) -> None:
    kernel = LookupJoinKernel(LEFT, TABLE, (0,), transform(one, other, outer=outer))
    state, flink = MemoryState(kernel), KeyedLookupJoin(outer)
    store, cache = MemoryRunStore(), RunCache(None)
    now = 1000
    for n, part in enumerate(split(changes, cuts)):
        now += clock[n % len(clock)]
        expected = [o for c in part for o in flink.add(c, (one, other)[now % 2], now, ttl)]
        assert changes_of(state.step([frame(LEFT, part, True)], now, [ttl])) == expected
        runs = KeyedState(store, cache, kernel.tables, "here")
        assert changes_of(runs.step(kernel, [frame(LEFT, part, True)], now, ttls([ttl]))) == expected


def source(path: Path, **options: str) -> DynamicTableSource:
    columns = [{"name": f.name, "dataType": str(f.type)} for f in TABLE.fields]
    table = {
        "schema": {"columns": columns},
        "options": {"connector": "filesystem", "path": str(path), "format": "json"},
    }
    table["options"] |= options
    return DynamicTableSource.model_validate({"table": {"identifier": "`c`.`d`.`t`", "resolvedTable": table}})


def write(path: Path, rows, stamp: int) -> None:
    path.write_text("".join(json.dumps(dict(zip("knw", r, strict=True))) + "\n" for r in rows))
    os.utime(path, (stamp, stamp))


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    fresh = pickle.loads(pickle.dumps(lookup_table(source(tmp_path), {})))
    full = lookup_table(source(tmp_path, **{"lookup.cache": "FULL"}), {})
    hourly = {"lookup.cache": "FULL", "lookup.full-cache.periodic-reload.interval": "1 h"}
    timed = lookup_table(source(tmp_path, **hourly), {})
    write(tmp_path / "a.json", [(1, "a", 1)], 1)
    assert [t.rows(0, "UTC").height for t in (fresh, full, timed)] == [1, 1, 1]
    write(tmp_path / "b.json", [(2, "b", 1)], 2)
    assert [t.rows(1000, "UTC").height for t in (fresh, full, timed)] == [2, 1, 1]
    assert timed.rows(3_600_000, "UTC").height == 2
