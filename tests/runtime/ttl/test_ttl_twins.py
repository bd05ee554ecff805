"""Every kind of kernel in every way to age, on the two keyed states, dictionaries and sorted runs, and audited."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.execnodes.specs import JoinSpec
from stateplan.runtime.kernel import ACCESS_TIME, NO_WATERMARK, Kernel, Watermark
from stateplan.runtime.kernels.changelog_normalize import ChangelogNormalizeKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.kernels.multi_join import MultiJoinKernel
from stateplan.runtime.kernels.sink_materializer import SinkMaterializerKernel
from stateplan.runtime.kernels.temporal_join import ProcessingTimeJoinKernel, TemporalJoinKernel
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.lost_rows import AuditedKeys
from stateplan.runtime.state.run_cache import RunCache
from stateplan.runtime.state.ttl_access import InputFields
from tests.runtime.kernels.reference import INSERT
from tests.runtime.kernels.state_kernels import KERNELS as TWINS
from tests.runtime.kernels.state_kernels import ROW, ROWS, SPEC
from tests.runtime.kernels.support import changes_of, frame, inserting, retracting, row_of
from tests.runtime.memory_state import MemoryState, ttls
from tests.runtime.ttl.flip25 import CONFIGS, config

KERNELS: dict[str, tuple[Kernel, bool]] = {
    **TWINS,
    "normalize": (ChangelogNormalizeKernel(ROW, (0,), True), True),
    "materializer": (SinkMaterializerKernel(ROW, (0,)), True),
    "multi": (
        MultiJoinKernel((ROW, ROW), ("INNER", "LEFT"), (None, None), ((), ((0, 0, 0),)), ((0,), (0,)), ((), ())),
        True,
    ),
    "versions": (ProcessingTimeJoinKernel(ROW, ROW, SPEC), False),
}


@pytest.mark.parametrize("words", CONFIGS.values(), ids=CONFIGS)
@settings(max_examples=15)
@given(data=st.data())
def test_same_output(words: tuple[str, str, str], data: st.DataObject) -> None:
    kernel, retract = KERNELS[data.draw(st.sampled_from(sorted(KERNELS)))]
    inputs = 2 if isinstance(kernel, (JoinKernel, MultiJoinKernel, ProcessingTimeJoinKernel)) else 1
    lifetime = config(7, *words)
    streams = [data.draw(retracting(ROWS, 15) if retract else inserting(ROWS, 25)) for _ in range(inputs)]
    memory, store, cache = MemoryState(kernel), MemoryRunStore(), RunCache(None)
    keys = AuditedKeys(data.draw(st.sampled_from([0.5, 1.0])), data.draw(st.sampled_from([0, 9])))
    audited_store = MemoryRunStore()
    fields = InputFields((("c0",),) * inputs, ("c2",) * inputs)
    now, mark, cleaned = 1, NO_WATERMARK, False
    while any(streams) and not cleaned:
        now += data.draw(st.integers(1, 4))
        before, mark = mark, max(mark, data.draw(st.integers(0, 12)))
        size = data.draw(st.integers(1, 9))
        batch = [frame(ROW, s[:size], kind=retract) for s in streams]
        streams = [s[size:] for s in streams]
        time = Watermark(before, mark)
        runs = KeyedState(store, cache, kernel.tables, "test")
        mine = memory.step(batch, now, [lifetime] * 2, time, fields)
        theirs = runs.step(kernel, batch, now, ttls([lifetime] * 2), time, fields)
        assert sorted(map(repr, changes_of(mine))) == sorted(map(repr, changes_of(theirs)))
        state = KeyedState(audited_store, cache, kernel.tables, "test", audited=keys)
        audited = state.step(kernel, batch, now, ttls([lifetime] * 2), time, fields)
        assert sorted(map(repr, changes_of(audited))) == sorted(map(repr, changes_of(theirs)))
        ages = [(miss.at - miss.ttl) - miss.rows[ACCESS_TIME].to_numpy() for miss in state.misses]
        assert all((of >= 0).all() for of in ages), "only rows that have expired"
        # Once merges have removed expired rows, runs find fewer of them.
        cleaned = lifetime.finds_expired and runs.stats.expired_rows.total() > 0


def test_rows_that_wait_outlive_those_that_came_after_them() -> None:
    """Rows of a temporal join are numbered; rows that come late do not make the numbers start again."""
    row = row_of("iil")
    kernel = TemporalJoinKernel(
        row, row, JoinSpec(join_type="LEFT", left_keys=(0,), right_keys=(0,), filter_nulls=(True,)), 2, 2
    )
    lifetimes = [config(10, "OnCreateAndWrite", "NeverReturnExpired", "EventTime")] * 2
    state, fields, none = MemoryState(kernel), InputFields((("c0",), ("c0",)), ("c2", "c2")), frame(row, [])
    out = []
    for before, after, lefts in (
        (NO_WATERMARK, 0, [(1, 1, 30), (1, 2, 5)]),
        (0, 20, []),
        (20, 21, [(1, 3, 25)]),
        (21, 29, []),
    ):
        rows = frame(row, [(INSERT, r) for r in lefts])
        out += changes_of(state.step([rows, none], 1, lifetimes, Watermark(before, after), fields))
    out += changes_of(state.step([none, none], 1, lifetimes, Watermark(29, 30), fields))
    assert [r[:3] for _, r in out] == [(1, 2, 5), (1, 3, 25), (1, 1, 30)]
