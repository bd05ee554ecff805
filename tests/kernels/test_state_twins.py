"""The kernels on the two keyed states: dictionaries, and sorted runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateplan.common.types import BIGINT, INT
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    RetractStrategy,
    SortField,
    SortSpec,
    UpdateFastStrategy,
    VariableRange,
)
from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.kernel import Kernel, StateTable, fetch_state
from stateplan.runtime.kernels.common.over_frames import Frame
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.group_table_aggregate import GroupTableAggregateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.kernels.over_aggregate import ProctimeOverKernel
from stateplan.runtime.kernels.rank import rank_kernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache
from tests.kernels.reference import INSERT, Row
from tests.kernels.support import call, changes_of, frame, inserting, retracting, row_of
from tests.kernels.test_group_table_aggregate import BEST
from tests.kernels.test_user_aggregates import user
from tests.support.memory_state import MemoryState, ttls

ROW = row_of("lsi")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2**40]), st.sampled_from([None, "a", "é"]), st.integers(0, 3)
)
CALLS = (call("COUNT", 2, BIGINT, True), call("MIN", 2, INT), call("MAX", 1, ROW.fields[1].type), call("SUM", 2, INT))
SPEC = JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
FULL = JoinSpec(join_type="FULL", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
ORDER = SortSpec(fields=(SortField(index=2, is_ascending=False, null_is_last=True),))
RANGE = ConstantRange(start=1, end=2)

KERNELS: dict[str, tuple[Kernel, bool]] = {
    "first": (DeduplicateKernel(ROW, (0, 1), False, True), False),
    "last": (DeduplicateKernel(ROW, (0,), True, True), False),
    "group": (GroupAggregateKernel(ROW, (0,), CALLS, (True,) * 4, True, True), True),
    "append": (GroupAggregateKernel(ROW, (0,), CALLS, (False,) * 4, True, False), False),
    "global": (GroupAggregateKernel(ROW, (), CALLS, (True,) * 4, True, True), True),
    "table": (GroupTableAggregateKernel(ROW, (0,), (user(BEST, 2, 1),), (True,), True, True), True),
    "join": (JoinKernel(ROW, ROW, SPEC), True),
    "unique": (JoinKernel(ROW, ROW, SPEC, ((2,),), ((0,),)), True),
    "full": (JoinKernel(ROW, ROW, FULL), True),
    "full unique": (JoinKernel(ROW, ROW, FULL, ((2,),), ((0,),)), True),
    "top append": (rank_kernel(ROW, (0,), ORDER, RANGE, AppendFastStrategy(), True, True), False),
    "top update": (rank_kernel(ROW, (), ORDER, RANGE, UpdateFastStrategy(primary_keys=(0, 1)), False, True), False),
    "top retract": (rank_kernel(ROW, (0,), ORDER, RANGE, RetractStrategy(), False, True), True),
    "top variable": (
        rank_kernel(ROW, (1,), ORDER, VariableRange(end_index=2), AppendFastStrategy(), False, True),
        False,
    ),
    "over": (ProctimeOverKernel(ROW, (0,), CALLS, Frame(True)), False),
    "over rows": (ProctimeOverKernel(ROW, (0, 1), CALLS, Frame(True, 2)), False),
    "over time": (ProctimeOverKernel(ROW, (), CALLS, Frame(False, 2)), False),
    "first rows": (rank_kernel(ROW, (0,), SortSpec(fields=()), RANGE, AppendFastStrategy(), True, False), False),
}


@pytest.mark.parametrize("name", KERNELS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
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
