"""The kernels on the two keyed states: dictionaries, and sorted runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateplan.runtime.kernel import StateTable, fetch_state
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.runtime.kernels.reference import INSERT, Change, Row
from tests.runtime.kernels.state_kernels import KERNELS, ROW, ROWS
from tests.runtime.kernels.support import changes_of, frame, inserting, retracting
from tests.runtime.memory_state import MemoryState, ttls
from tests.support.long_runs import LONG


def test_both_states_keep_the_first_row_until_its_ttl_ends(tmp_path: Path) -> None:
    """The first row of each key, the first two fields; the TTL is 7 ms."""
    kernel, _ = KERNELS["first"]
    memory, store = MemoryState(kernel), MemoryRunStore()

    def step(now: int, *rows: Row) -> list[Change]:
        batch = [frame(ROW, [(INSERT, row) for row in rows])]
        runs = KeyedState(store, RunCache(tmp_path), kernel.tables, "test")
        mine, theirs = memory.step(batch, now, [7]), runs.step(kernel, batch, now, ttls([7]))
        assert changes_of(mine) == changes_of(theirs)
        return changes_of(mine)

    assert step(1, (1, "a", 0), (1, "a", 1)) == [(INSERT, (1, "a", 0))]
    assert step(5, (1, "a", 2), (1, "b", 3)) == [(INSERT, (1, "b", 3))]
    assert step(8, (1, "a", 4), (1, "b", 5)) == [(INSERT, (1, "a", 4))], "the first row of a expired at 8"


@pytest.mark.parametrize("name", KERNELS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25 if LONG else 12)
@given(data=st.data())
def test_same_output(name: str, tmp_path: Path, data: st.DataObject) -> None:
    kernel, retract = KERNELS[name]
    inputs = 2 if isinstance(kernel, JoinKernel) else 1
    ttl = data.draw(st.sampled_from([0, 7])) if inputs == 1 else 0
    streams = [data.draw(retracting(ROWS, 25) if retract else inserting(ROWS, 40)) for _ in range(inputs)]
    memory = MemoryState(kernel)
    store = MemoryRunStore()
    now = 1
    while any(streams):
        now += data.draw(st.integers(1, 4))
        size = data.draw(st.integers(1, 9))
        batch = [frame(ROW, s[:size], kind=retract) for s in streams]
        streams = [s[size:] for s in streams]
        runs = KeyedState(store, RunCache(tmp_path), kernel.tables, "test")
        mine, theirs = memory.step(batch, now, [ttl, ttl]), runs.step(kernel, batch, now, ttls([ttl, ttl]))
        if inputs == 1:
            assert changes_of(mine) == changes_of(theirs)
        else:
            assert sorted(map(repr, changes_of(mine))) == sorted(map(repr, changes_of(theirs)))


def test_memory_state_checks_the_step() -> None:
    state = MemoryState(DeduplicateKernel(ROW, (0,), False, True))
    table = state.kernel.tables[0]
    row = pl.DataFrame({"c0": [1], "@t": [5]})
    with pytest.raises(ValueError, match="two upserts"):
        state.write(table, pl.concat([row, row]), None)
    with pytest.raises(ValueError, match="both written and deleted"):
        state.write(table, row, row.select("c0"))
    with pytest.raises(ValueError, match="columns"):
        state.write(table, row.cast(pl.Int32), None)
    with pytest.raises(ValueError, match="no time of access"):
        state.write(table, row.with_columns(pl.lit(None, dtype=pl.Int64).alias("@t")), None)
    state.write(table, row, None)
    assert state.lookup(table, row, 14, 10).height == 1 and state.lookup(table, row, 15, 10).height == 0
    assert state.lookup(table, row, 10**9, 0).height == 1 and state.lookup(table, None, 5, 0).height == 0
    state.expire(14, [10])
    assert len(state.tables[0]) == 1
    state.expire(15, [10])
    assert state.tables[0] == {}


def test_fetch_state_asks_in_steps() -> None:
    kernel = KERNELS["group"][0]
    asked: list[tuple[str, int | None]] = []

    def lookup(table: StateTable, keys: pl.DataFrame | None) -> pl.DataFrame:
        asked.append((table.name, None if keys is None else keys.height))
        return pl.DataFrame(schema={**table.schema, "@t": pl.Int64()})

    found = fetch_state(kernel, [frame(ROW, [(INSERT, (1, "a", 1))])], lookup)
    assert [name for name, _ in asked] == [t.name for t in kernel.tables] and len(found) == len(kernel.tables)
    assert {name: n for name, n in asked if name.endswith(".order")} == {
        t.name: None for t in kernel.tables if t.name.endswith(".order")
    }
